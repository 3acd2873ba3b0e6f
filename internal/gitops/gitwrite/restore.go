package gitwrite

import (
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"slipway.dev/slipway/internal/gitops/source/objects"
)

// Restore puts a file or folder of another commit in the place of what is at a path;
// an empty path is the root. The server has the object already, because it has the
// commit, so that it is named by its id and neither fetched nor sent. Nothing can be
// read or written below a restored folder by the same change.
func (f Files) Restore(name string, mode filemode.FileMode, id objects.ID) error {
	if name == "" && f.prefix == "" {
		if mode != filemode.Dir {
			return f.refuse(name, "is the root, which is a folder")
		}
		f.root.replaced = id
		return nil
	}
	parts, err := f.split(name)
	if err != nil {
		return err
	}
	at, err := f.walk(name, parts, true)
	if err != nil {
		return err
	}
	at.entries[parts[len(parts)-1]] = &entry{mode: mode, id: id}
	at.changed()
	return nil
}

// Changes reports whether the files differ from those of the commit. A new branch
// is created also without a difference, so that callers who want none look first.
func (f Files) Changes() bool { return f.root.store(newPackBuilder()) != f.root.id }
