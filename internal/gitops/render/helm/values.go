package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/strvals"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// values are those of the Application, merged. Later ones win.
func (r *Request) values() (map[string]any, error) {
	options := r.options()
	found, err := r.valueFiles()
	if err != nil {
		return nil, err
	}
	// The order of the files is that of the Application: a later one wins.
	values := map[string]any{}
	for _, file := range found {
		text, err := file.files.Read(file.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("helm.valueFiles: %s does not exist: add it, or set ignoreMissingValueFiles", file.name)
		}
		if err != nil {
			return nil, err
		}
		if values, err = merge(values, file.name, text); err != nil {
			return nil, err
		}
	}
	switch {
	case len(options.ValuesObject) > 0:
		// Argo CD ignores values when there is a valuesObject.
		text, err := json.Marshal(options.ValuesObject)
		if err != nil {
			return nil, fmt.Errorf("helm.valuesObject: %w", err)
		}
		if values, err = merge(values, "helm.valuesObject", text); err != nil {
			return nil, err
		}
	case options.Values != "":
		if values, err = merge(values, "helm.values", []byte(options.Values)); err != nil {
			return nil, err
		}
	}
	return values, r.parameters(values)
}

// merge adds values of one origin. It parses with Helm's own loader, so that
// numbers keep their types. Maps are merged by key, lists and scalars are
// replaced, as Helm does with several -f.
func merge(values map[string]any, name string, text []byte) (map[string]any, error) {
	loaded, err := loader.LoadValues(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return loader.MergeMaps(values, loaded), nil
}

// parameters sets single values: plain ones, text, and files, in Helm's order.
func (r *Request) parameters(values map[string]any) error {
	options := r.options()
	// Helm applies --set before --set-string, in whichever order they are
	// written.
	for _, parameter := range options.Parameters {
		if !parameter.ForceString {
			if err := strvals.ParseInto(assignment(parameter.Name, parameter.Value), values); err != nil {
				return fmt.Errorf("helm.parameters: %s: %w", parameter.Name, err)
			}
		}
	}
	for _, parameter := range options.Parameters {
		if parameter.ForceString {
			if err := strvals.ParseIntoString(assignment(parameter.Name, parameter.Value), values); err != nil {
				return fmt.Errorf("helm.parameters: %s: %w", parameter.Name, err)
			}
		}
	}
	for _, parameter := range options.FileParameters {
		file, err := r.valueFile(parameter.Path)
		if err != nil {
			return err
		}
		text, err := file.files.Read(file.path)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("helm.fileParameters: %s: %s does not exist", parameter.Name, file.name)
		}
		if err != nil {
			return err
		}
		// strvals passes a file name to this function; the content is read
		// already.
		content := func([]rune) (any, error) { return string(text), nil }
		if err := strvals.ParseIntoFile(parameter.Name+"=content", values, content); err != nil {
			return fmt.Errorf("helm.fileParameters: %s: %w", parameter.Name, err)
		}
	}
	return nil
}

// assignment is a parameter as Helm's --set takes it. A comma would begin the
// next one, so that it is escaped, but for lists in braces. A comma that is
// escaped already stays as it is.
func assignment(name, value string) string {
	if strings.HasPrefix(value, "{") && strings.HasSuffix(value, "}") {
		return name + "=" + value
	}
	var escaped strings.Builder
	for i, char := range value {
		if char == ',' && (i == 0 || value[i-1] != '\\') {
			escaped.WriteByte('\\')
		}
		escaped.WriteRune(char)
	}
	return name + "=" + escaped.String()
}

// valueFile is a file of values, and whose it is.
type valueFile struct {
	files job.Files
	path  string
	// name is how the Application spells it.
	name string
	// source distinguishes equal paths of several sources and addresses.
	source string
}

// valueFile finds out whose file an entry names. It may be a pattern.
func (r *Request) valueFile(entry string) (valueFile, error) {
	file := valueFile{files: r.Files, name: entry}
	switch {
	case strings.HasPrefix(entry, "$"):
		ref, rest, _ := strings.Cut(entry[1:], "/")
		files, ok := r.Refs[ref]
		if !ok {
			return file, fmt.Errorf("%s: no source has the ref %q: add one, or correct the name", entry, ref)
		}
		file.files, file.path, file.source = files, strings.TrimLeft(rest, "/"), ref
	case strings.Contains(entry, "://"):
		return r.fileAt(entry)
	case strings.HasPrefix(entry, "/"):
		file.path = strings.TrimLeft(entry, "/") // from the root of the repository, as in Argo CD
	default:
		file.path = join(r.Source.Path, entry)
	}
	return file, nil
}

// fileAt is a file at an address, which the project has to allow. One that the job
// does not have is a *[job.Incomplete]. The address is in no message if it could
// contain a password.
func (r *Request) fileAt(entry string) (valueFile, error) {
	at, err := url.Parse(entry)
	switch {
	case err != nil || at.User != nil:
		return valueFile{}, refusal.New("helm.valueFiles", refusal.NotAllowed, "a value file has an address that cannot be read or has a password: "+
			"write one such as https://example.com/values.yaml, and a Secret for its credentials")
	case at.Scheme != "https" && at.Scheme != "http" || at.RawQuery != "" || at.Fragment != "":
		return valueFile{}, refusal.New(at.Scheme+"://"+at.Host+at.Path, refusal.NotAllowed, "value files are fetched from https and http addresses without a query only: put it into a repository")
	}
	wanted := job.Dependency{RepoURL: entry, File: true}
	files, found := r.Dependencies[wanted]
	if !found {
		return valueFile{}, &job.Incomplete{Missing: []job.MissingDependency{{Dependency: wanted, By: "helm.valueFiles: " + entry + " is not in the repository"}}}
	}
	return valueFile{files: files, path: job.FileName, name: entry, source: entry}, nil
}
