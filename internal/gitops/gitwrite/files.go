package gitwrite

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// Limits of the files that a change reads and writes.
const (
	maxFileBytes = 4 << 20
	maxPathBytes = 1024
	maxListed    = 50_000
)

// Files is the content of a location at one commit, with the changes that were
// made so far. Paths are relative and use slashes. It belongs to one change and
// must not be used after it returns.
type Files struct {
	root   *folder
	prefix string
	// name is what messages call the repository.
	name string
}

// PathError is a path that is refused.
type PathError struct {
	Path   string
	Reason string
	// Repository is what messages call the repository; empty for "the
	// repository".
	Repository string
}

// Error returns the path and the reason.
func (e *PathError) Error() string {
	return fmt.Sprintf("the path %q in %s %s", e.Path, cmp.Or(e.Repository, "the repository"), e.Reason)
}

// refuse returns the error of a path.
func (f Files) refuse(path, reason string) error {
	return &PathError{Path: path, Reason: reason, Repository: f.name}
}

// split checks a path and returns its parts, those of the location first.
func (f Files) split(name string) ([]string, error) {
	refuse := func(reason string) error { return f.refuse(name, reason) }
	switch {
	case name == "" || len(name) > maxPathBytes:
		return nil, refuse("is empty or too long")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || strings.ContainsAny(name, `\`):
		return nil, refuse("has a backslash or a character that cannot be seen")
	case path.IsAbs(name) || path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../"):
		return nil, refuse("has to be inside of it, without .. and double slashes")
	}
	parts := strings.Split(name, "/")
	for _, part := range parts {
		// Git itself refuses these, in upper and lower case.
		if strings.EqualFold(strings.TrimRight(part, ". "), ".git") {
			return nil, refuse("leads into Git's own folder")
		}
	}
	if f.prefix == "" {
		return parts, nil
	}
	return append(strings.Split(f.prefix, "/"), parts...), nil
}

// walk returns the folder that contains the last part of a path. Without create
// it is nil where a folder is missing. Links are never followed, so that a path
// cannot leave the repository.
func (f Files) walk(name string, parts []string, create bool) (*folder, error) {
	at := f.root
	for _, part := range parts[:len(parts)-1] {
		if err := at.load(); err != nil {
			return nil, err
		}
		found := at.entries[part]
		switch {
		case found == nil && !create:
			return nil, nil
		case found == nil:
			found = &entry{mode: filemode.Dir, below: newFolder()}
			at.entries[part] = found
		case found.mode == filemode.Symlink || found.mode == filemode.Submodule:
			return nil, f.refuse(name, "goes through a link or a submodule, which is not followed")
		case found.mode != filemode.Dir && !create:
			return nil, nil
		case found.mode != filemode.Dir:
			return nil, f.refuse(name, "goes through a file: "+part)
		}
		// Every folder on the path gets a new tree, so all of them are marked.
		if create {
			at.changed()
		}
		at = found.folder(at.from)
	}
	return at, at.load()
}

// Read returns the content of a file, and whether it exists.
func (f Files) Read(name string) ([]byte, bool, error) {
	parts, err := f.split(name)
	if err != nil {
		return nil, false, err
	}
	at, err := f.walk(name, parts, false)
	if err != nil || at == nil {
		return nil, false, err
	}
	found := at.entries[parts[len(parts)-1]]
	switch {
	case found == nil || found.mode == filemode.Dir:
		return nil, false, nil
	case found.mode == filemode.Symlink || found.mode == filemode.Submodule:
		return nil, false, f.refuse(name, "is a link or a submodule, which is not followed")
	}
	content, err := found.read(at.from)
	if err != nil {
		return nil, false, fmt.Errorf("read %s of %s: %w", name, f.name, err)
	}
	return content, true, nil
}

// Write creates or replaces a file.
func (f Files) Write(name string, content []byte) error {
	parts, err := f.split(name)
	if err != nil {
		return err
	}
	if len(content) > maxFileBytes {
		return f.refuse(name, fmt.Sprintf("would have %d bytes, the most is %d", len(content), maxFileBytes))
	}
	at, err := f.walk(name, parts, true)
	if err != nil {
		return err
	}
	last := parts[len(parts)-1]
	mode := filemode.Regular
	if found := at.entries[last]; found != nil {
		switch found.mode {
		case filemode.Dir:
			return f.refuse(name, "is a folder")
		case filemode.Symlink, filemode.Submodule:
			return f.refuse(name, "is a link or a submodule, which is not replaced")
		}
		mode = found.mode
	}
	at.entries[last] = &entry{mode: mode, content: slices.Clone(content), written: true}
	at.changed()
	return nil
}

// Remove deletes a file, or a folder with its content. A missing one is no
// error.
func (f Files) Remove(name string) error {
	parts, err := f.split(name)
	if err != nil {
		return err
	}
	at, err := f.walk(name, parts, false)
	if err != nil || at == nil {
		return err
	}
	last := parts[len(parts)-1]
	if at.entries[last] == nil {
		return nil
	}
	// Only now is it known that the folders on the way change.
	if at, err = f.walk(name, parts, true); err != nil {
		return err
	}
	delete(at.entries, last)
	at.changed()
	return nil
}

// List returns the paths of all files below a folder, sorted. Links and
// submodules are left out. A missing folder has no files.
func (f Files) List(name string) ([]string, error) {
	parts, err := f.split(path.Join(name, "x"))
	if err != nil {
		return nil, err
	}
	at, err := f.walk(name, parts, false)
	if err != nil || at == nil {
		return nil, err
	}
	var all []string
	if err := at.list(name, &all); err != nil {
		return nil, err
	}
	slices.Sort(all)
	return all, nil
}
