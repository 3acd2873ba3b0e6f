package remote

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
)

// ID is the id of an object.
type ID = plumbing.Hash

// Advertisement is the refs of a repository and what its server can do.
type Advertisement struct {
	// Refs is the ids by full names such as refs/heads/main, and HEAD. Where a
	// tag is an object of its own, it is the object that the tag names.
	Refs map[string]ID
	// Tags is the ids of tags that are objects of their own, by the same names.
	Tags map[string]ID
	// Tips is every id that is named, those of tags as well.
	Tips map[ID]bool

	capabilities map[string]bool
	// base is the address of the repository after redirects. Fetches go there,
	// as in Git.
	base string
}

// Can reports whether the server advertised a capability.
func (a *Advertisement) Can(capability string) bool { return a.capabilities[capability] }

// CanFetch reports whether the server allows a want for this commit: the tip of
// a ref, or any commit if it has one of the capabilities for that. Most hosts
// allow any reachable commit; plain Git servers allow tips only by default.
func (a *Advertisement) CanFetch(id ID) bool {
	return a.Tips[id] || a.Can("allow-reachable-sha1-in-want") || a.Can("allow-any-sha1-in-want")
}

// maxRefBytes is the largest list of refs, for each that is allowed.
const maxRefBytes = 400

// readAdvertisement reads the list that a server begins with. Over HTTP a line
// with the name of the service comes first.
func readAdvertisement(r io.Reader, maxRefs int) (*Advertisement, error) {
	lines := pktline.NewScanner(&cappedReader{from: r, left: int64(maxRefs)*maxRefBytes + 1<<20})
	a := &Advertisement{Refs: map[string]ID{}, Tags: map[string]ID{}, Tips: map[ID]bool{}, capabilities: map[string]bool{}}
	// Over HTTP the service line and its flush come before the list.
	flushes := 0
	for number := 0; ; number++ {
		if !lines.Scan() {
			return nil, lineError(lines.Err())
		}
		line := bytes.TrimSuffix(lines.Bytes(), []byte("\n"))
		switch {
		case len(lines.Bytes()) == 0:
			// One flush ends the line of the service, the other the list.
			if flushes++; number != 1 || flushes > 1 || len(a.capabilities) > 0 {
				return a, nil
			}
			continue
		case number == 0 && bytes.HasPrefix(line, []byte("# service=")):
			continue
		}
		if err := a.add(line); err != nil {
			return nil, err
		}
		if len(a.Refs) > maxRefs {
			return nil, failf(TooLarge, "it has more than %d branches, tags and other refs", maxRefs)
		}
	}
}

// add takes a line: an id, a name, and in the first one the capabilities.
func (a *Advertisement) add(line []byte) error {
	line, capabilities, _ := bytes.Cut(line, []byte{0})
	for capability := range strings.FieldsSeq(string(capabilities)) {
		a.capabilities[capability] = true
		if format, found := strings.CutPrefix(capability, "object-format="); found && format != "sha1" {
			return failf(Invalid, "its objects have ids by %s, which is not supported", plainText(format))
		}
	}
	text, name, found := strings.Cut(string(line), " ")
	if text == "shallow" || (found && name == "capabilities^{}") {
		return nil
	}
	// Anything else here, such as an HTML page with status 200, is not a Git
	// server.
	raw, err := hex.DecodeString(text)
	if !found || err != nil || len(raw) != len(ID{}) || name == "" {
		return failf(Unreachable, "its response is not that of a Git server")
	}
	id := ID(raw)
	a.Tips[id] = true
	// The object that a tag names follows the tag, and replaces it.
	name, isPeeled := strings.CutSuffix(name, "^{}")
	if tag, found := a.Refs[name]; found && isPeeled {
		a.Tags[name] = tag
	}
	a.Refs[name] = id
	return nil
}

// lineError explains why there is no next line.
func lineError(err error) error {
	var line *pktline.ErrorLine
	var failure *Failure
	switch {
	case errors.As(err, &failure):
		return failure
	case errors.As(err, &line):
		return serverError(line.Text)
	case err == nil, errors.Is(err, io.ErrUnexpectedEOF):
		return failf(Unreachable, "its response ends too early")
	case errors.Is(err, pktline.ErrInvalidPktLen):
		return failf(Unreachable, "its response is not that of a Git server")
	}
	return err
}

// serverError classifies an error message of a server. Servers have no error
// codes, so that the text decides. Missing is tested first: servers that hide
// private repositories put both into one message. An unknown text is
// Unreachable and is retried.
func serverError(text string) *Failure {
	lower := strings.ToLower(text)
	for _, missing := range []string{
		"not found", "does not exist", "no such repository", "does not appear to be a git repository",
		"could not be found", "not exported",
	} {
		if strings.Contains(lower, missing) {
			return failf(Missing, "there is no such repository, or these credentials may not see it: %s", plainText(text))
		}
	}
	for _, denied := range []string{"access denied", "permission denied", "not authorized", "unauthorized"} {
		if strings.Contains(lower, denied) {
			return failf(Denied, "the server responds: %s", plainText(text))
		}
	}
	if strings.Contains(lower, "not our ref") {
		return failf(Missing, "the server does not give this commit: %s", plainText(text))
	}
	return failf(Unreachable, "the server responds: %s", plainText(text))
}

// cappedReader fails after a number of bytes.
type cappedReader struct {
	from io.Reader
	left int64
}

// Read reads while there is something left.
func (c *cappedReader) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, failf(TooLarge, "its response is too long")
	}
	n, err := c.from.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}
