package tree

import (
	"bytes"

	"slipway.dev/slipway/api/refusal"
)

// maxPointer is the size that a pointer of Git LFS stays below, by its
// specification.
const maxPointer = 1024

// isPointer reports whether a file is a pointer of Git LFS: a few lines of text
// in the place of the content, which is kept on another server.
// See https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md.
func isPointer(content []byte) bool {
	if len(content) >= maxPointer {
		return false
	}
	first, rest, _ := bytes.Cut(content, []byte("\n"))
	if string(bytes.TrimSuffix(first, []byte("\r"))) != "version https://git-lfs.github.com/spec/v1" {
		return false
	}
	var oid, size bool
	for line := range bytes.Lines(rest) {
		oid = oid || bytes.HasPrefix(line, []byte("oid "))
		size = size || bytes.HasPrefix(line, []byte("size "))
	}
	return oid && size
}

// pointerRefusal is the refusal of a pointer.
func pointerRefusal(path string) *refusal.Refusal {
	return refusal.New(path, GitLFSPointer, "it is a pointer of Git LFS, and its content is not fetched: "+
		"store the file in Git itself (git lfs untrack, then git add --renormalize), or exclude it from the render")
}
