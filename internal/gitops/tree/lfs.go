package tree

import (
	"bytes"
	"regexp"
	"strconv"

	"slipway.dev/slipway/api/refusal"
)

// maxPointer is the size that a pointer of Git LFS stays below, by its
// specification.
const maxPointer = 1024

// Pointer is the error of a file that is a pointer of Git LFS: a few lines of
// text in the place of the content, which is kept on another server. For those
// that do not fetch that it is a *[refusal.Refusal].
// See https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md.
type Pointer struct {
	// Path is that of the file.
	Path string `json:"path"`
	// OID is the sha256 of the content, and Size its length. OID is empty for a
	// pointer whose content is not simply an object of a server.
	OID  string `json:"oid"`
	Size int64  `json:"size"`
}

// Error is the refusal.
func (p *Pointer) Error() string { return p.Unwrap().Error() }

// Unwrap is the refusal.
func (p *Pointer) Unwrap() error {
	return refusal.New(p.Path, GitLFSPointer, "it is a pointer of Git LFS, and its content is not fetched: %s", PointerAdvice)
}

// PointerAdvice is what to do about a pointer whose content is not fetched.
const PointerAdvice = "store the file in Git itself (git lfs untrack, then git add --renormalize), or exclude it from the render"

// oidPattern is a sha256 in the only spelling that a pointer has.
var oidPattern = regexp.MustCompile("^sha256:([0-9a-f]{64})$")

// parsePointer reads a pointer; nil is for a file that is none.
func parsePointer(path string, content []byte) *Pointer {
	if len(content) >= maxPointer {
		return nil
	}
	first, rest, _ := bytes.Cut(content, []byte("\n"))
	if string(bytes.TrimSuffix(first, []byte("\r"))) != "version https://git-lfs.github.com/spec/v1" {
		return nil
	}
	pointer := &Pointer{Path: path}
	var hasOID, hasSize, plain = false, false, true
	for line := range bytes.Lines(rest) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		switch {
		case string(key) == "oid":
			hasOID = true
			if match := oidPattern.FindSubmatch(value); match != nil {
				pointer.OID = string(match[1])
			}
		case string(key) == "size":
			size, err := strconv.ParseInt(string(value), 10, 64)
			hasSize, plain = true, plain && err == nil && size >= 0
			pointer.Size = size
		case bytes.HasPrefix(key, []byte("ext-")):
			plain = false // the content has to be converted by a program
		}
	}
	if !hasOID || !hasSize {
		return nil
	}
	if !plain {
		pointer.OID, pointer.Size = "", 0
	}
	return pointer
}
