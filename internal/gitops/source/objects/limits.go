package objects

import (
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
)

// ID is the id of an object.
type ID = plumbing.Hash

// Kind is what an object is.
type Kind = plumbing.ObjectType

// The kinds.
const (
	Commit = plumbing.CommitObject
	Tree   = plumbing.TreeObject
	Blob   = plumbing.BlobObject
	Tag    = plumbing.TagObject
)

// The errors that decide what the caller does next.
var (
	// ErrMissing is for an object that is in no pack.
	ErrMissing = errors.New("the object is not there")
	// ErrCorrupt is for a folder or a pack that is not what it should be: throw
	// it away and fetch again.
	ErrCorrupt = errors.New("the repository's objects are damaged")
	// ErrBase is returned for a thin pack whose bases are missing: fetch again
	// without haves.
	ErrBase = errors.New("the pack has differences to objects that are not there")
)

// TooLarge is the refusal of something beyond a limit.
type TooLarge struct {
	What  string
	Limit int64
}

// Error names the thing and the limit.
func (t *TooLarge) Error() string { return fmt.Sprintf("%s: the limit is %d", t.What, t.Limit) }

// Limits bound a pack that is received.
type Limits struct {
	Bytes       int64 // of the pack
	ObjectBytes int64 // of one object, unpacked
	TotalBytes  int64 // of all objects, unpacked
	MemoryBytes int64 // of what differences are made from and to, at a time
	Objects     int
}

// DefaultLimits fit large repositories. TotalBytes bounds the work of hashing:
// a small pack can contain gigabytes of compressed zeros.
func DefaultLimits() Limits {
	return Limits{Bytes: 2 << 30, ObjectBytes: 1 << 30, TotalBytes: 32 << 30, MemoryBytes: 64 << 20, Objects: 5_000_000}
}

// maxDepth is Git's own limit for differences to differences.
const maxDepth = 4095

// corrupt wraps ErrCorrupt with the detail.
func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}
