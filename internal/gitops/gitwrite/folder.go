package gitwrite

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"slipway.dev/slipway/internal/gitops/source/objects"
)

// maxTreeBytes bounds the tree object of one folder.
const maxTreeBytes = 16 << 20

// folder is a folder of a commit. It is loaded on first use; one that is not
// loaded keeps its object id.
type folder struct {
	// id is that of the tree object, until the folder is dirty.
	id   objects.ID
	from *objects.Set // nil for a folder that is new
	// entries are nil until the folder is loaded.
	entries map[string]*entry
	dirty   bool
	// replaced is the tree of another commit that comes in place of all of it.
	replaced objects.ID
}

// entry is a name in a folder.
type entry struct {
	// mode, id and content are those of Git. below is a loaded folder, and
	// written a file that the change wrote.
	mode    filemode.FileMode
	id      objects.ID
	below   *folder
	content []byte
	written bool
}

// newFolder returns an empty folder that is not in the repository yet.
func newFolder() *folder { return &folder{entries: map[string]*entry{}, dirty: true} }

// changed marks the folder for a new tree object.
func (f *folder) changed() { f.dirty = true }

// load reads the tree object.
func (f *folder) load() error {
	if f.entries != nil {
		return nil
	}
	kind, content, err := f.from.Read(f.id, maxTreeBytes)
	if err != nil {
		return fmt.Errorf("read a folder of the repository: %w", err)
	}
	if kind != objects.Tree {
		return errTree
	}
	f.entries, err = decodeTree(content)
	return err
}

// folder returns the folder of an entry.
func (e *entry) folder(from *objects.Set) *folder {
	if e.below == nil {
		e.below = &folder{id: e.id, from: from}
	}
	return e.below
}

// read returns the content of a file.
func (e *entry) read(from *objects.Set) ([]byte, error) {
	if e.written {
		return slices.Clone(e.content), nil
	}
	kind, content, err := from.Read(e.id, maxFileBytes)
	if err == nil && kind != objects.Blob {
		err = errors.New("it is no file")
	}
	return content, err
}

// list adds the paths of all files at and below this folder.
func (f *folder) list(at string, all *[]string) error {
	if err := f.load(); err != nil {
		return err
	}
	for name, one := range f.entries {
		below := path.Join(at, name)
		switch one.mode {
		case filemode.Dir:
			if err := one.folder(f.from).list(below, all); err != nil {
				return err
			}
		case filemode.Symlink, filemode.Submodule:
		default:
			if len(*all) >= maxListed {
				return &PathError{Path: at, Reason: fmt.Sprintf("has more than %d files", maxListed)}
			}
			*all = append(*all, below)
		}
	}
	return nil
}

// store adds the changed objects, children before parents, and returns the id
// of the tree. Git has no empty folders: the id of one is zero.
func (f *folder) store(into *packBuilder) objects.ID {
	if f.replaced != plumbing.ZeroHash {
		return f.replaced
	}
	if !f.dirty {
		return f.id
	}
	for _, one := range f.entries {
		switch {
		case one.below != nil:
			one.id = one.below.store(into)
		case one.written:
			one.id = into.add(objects.Blob, one.content)
		}
	}
	content := encodeTree(f.entries)
	if len(content) == 0 {
		return plumbing.ZeroHash
	}
	return into.add(objects.Tree, content)
}
