package diagnosecmd

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/secret"
)

// secretShapes match secrets wherever they stand: our keys, tokens of Git
// providers, JWTs of Kubernetes and identity providers, private keys,
// credentials in headers, and values that their name calls a secret. They
// prefer to remove too much: the archive leaves the machine.
var secretShapes = []*regexp.Regexp{
	regexp.MustCompile(`slw_[A-Za-z0-9]+_[A-Za-z0-9_-]+`),
	regexp.MustCompile(`\b(gh[pousr]_|github_pat_|glpat-|ATBB|ATATT)[A-Za-z0-9_=-]{8,}`),
	regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`),
	regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(-----END [A-Z ]*PRIVATE KEY-----|$)`),
	regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}`),
	regexp.MustCompile(`(?i)\b(password|passwd|token|secret|api[-_]?key|private[-_]?key)\s*[=:]\s*[^\s,;"']+`),
}

// urlPassword matches the user part of a URL with a password. It is apart from
// the shapes because its replacement keeps the scheme and the host, which a
// reader of the archive needs.
var urlPassword = regexp.MustCompile(`(://)[^/\s@:]*:[^/\s@]+@`)

// redactor removes secrets from text: those that were registered with know, and
// text with the shape of one. It is used by one goroutine.
type redactor struct {
	// known are literal values, such as the keys of the contexts.
	known []string
}

// newRedactor returns a redactor without literal values, which redacts by shape
// alone.
func newRedactor() *redactor { return &redactor{} }

// know registers a secret. It must be called before the text that may contain
// it is added: nothing is redacted afterwards.
func (r *redactor) know(value string) {
	// A shorter value would be found everywhere and make the archive
	// unreadable.
	const shortest = 4 // a shorter one would be found everywhere
	if value = strings.TrimSpace(value); len(value) >= shortest {
		r.known = append(r.known, value)
	}
}

// text returns text without secrets. Literal values go first: a shape could cut
// one in half and leave the rest.
func (r *redactor) text(text string) string {
	for _, value := range r.known {
		text = strings.ReplaceAll(text, value, secret.Redacted)
	}
	for _, shape := range secretShapes {
		text = shape.ReplaceAllString(text, secret.Redacted)
	}
	return urlPassword.ReplaceAllString(text, "${1}"+secret.Redacted+"@")
}

// value returns a JSON value without secrets; numbers, booleans and null pass
// unchanged. Keys are redacted too: labels of objects are keys, and their text
// comes from elsewhere.
func (r *redactor) value(value any) any {
	switch typed := value.(type) {
	case string:
		return r.text(typed)
	case []any:
		for i := range typed {
			typed[i] = r.value(typed[i])
		}
		return typed
	case map[string]any:
		// A new map, because redacted keys may differ from the old ones. Keys
		// that become equal collapse into one.
		clean := make(map[string]any, len(typed))
		for key, each := range typed {
			clean[r.text(key)] = r.value(each)
		}
		return clean
	}
	return value
}

// bundle writes the archive: a gzipped tar with one JSON file per part, in the
// order of their names. files.WritePrivate calls it, so an error leaves no
// partial archive.
func (e *diagnosis) bundle(w io.Writer) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	// Sorted, so that two archives can be compared.
	for _, name := range slices.Sorted(maps.Keys(e.parts)) {
		text, err := e.part(e.parts[name])
		if err != nil {
			return err
		}
		header := &tar.Header{Name: "doctor/" + name + ".json", Mode: 0o600, Size: int64(len(text)), ModTime: time.Now()}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), zipped.Close())
}

// part encodes one file. It goes through JSON twice, so that the redactor sees
// every string of any type.
func (e *diagnosis) part(value any) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = printer.WriteJSON(&out, e.hide.value(plain))
	return out.Bytes(), err
}

// kubernetesVersion parses the response of /version. A response without a
// version is an error: another server listens on the port.
func kubernetesVersion(raw []byte) (string, error) {
	var version struct{ GitVersion string }
	if err := json.Unmarshal(raw, &version); err != nil || version.GitVersion == "" {
		return "", errors.New("the server is no API server")
	}
	return printer.Printable(version.GitVersion), nil
}
