package tree

import (
	"io/fs"

	"slipway.dev/slipway/api/refusal"
)

// Kind is what an entry of a folder is.
type Kind string

// The kinds. Special is a device, a pipe or a socket, which only a local folder
// can have.
const (
	File      Kind = "file"
	Folder    Kind = "folder"
	Link      Kind = "link"
	Submodule Kind = "submodule"
	Special   Kind = "special"
)

// Entry is the metadata of a path, which needs no read of its content.
type Entry struct {
	Name string
	Kind Kind
	// Size is that of a file.
	Size int64
	// Executable: the file has the mode of a program. Renders do not see it; it is
	// for config management plugins.
	Executable bool
	// Hash is Git's object id, or a hash that the Store computes from the
	// content. The hash of a folder covers everything below it. It may be
	// empty; then nothing can be concluded about what is below.
	Hash string
}

// Store is the files of one revision as they are stored. It follows no links.
// It is safe for concurrent use. A path that is missing gives an error that is
// [fs.ErrNotExist].
type Store interface {
	// Entry returns the entry at a path. The root is a folder.
	Entry(path string) (Entry, error)
	// Read is the content of a file, or the target of a link. More than limit
	// bytes is a *[refusal.Refusal].
	Read(path string, limit int64) ([]byte, error)
	// List is what is in a folder, sorted by name.
	List(path string) ([]Entry, error)
}

// GitLFSPointer is the reason for a file that is a pointer of Git LFS. A path of
// a repository that is not read is a [refusal.Refusal] with the path as field:
// an error that goes away when the repository changes, and not before.
const GitLFSPointer refusal.Reason = "GitLFSPointer"

// missing is the error for a path that does not exist.
func missing(path string) error {
	return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}

// tooLarge is the refusal of a file with more bytes than the limit.
func tooLarge(path string, limit int64) *refusal.Refusal {
	return refusal.New(path, refusal.TooLarge, "it is larger than %d bytes: remove it, or exclude it from the render", limit)
}
