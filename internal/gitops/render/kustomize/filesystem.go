package kustomize

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
)

// fileSystem is the repository as Kustomize sees it: its root is /. It is read
// only, but for files that were edited in memory.
type fileSystem struct {
	files  job.Files
	edited map[string][]byte
	// dependencies are other repositories that the job has, and mounts those that
	// are used.
	dependencies map[job.Dependency]job.Files
	mounts       []mount
	// refused is the last file that is never read. Kustomize makes text of
	// errors, and what they are would be lost.
	refused error
}

// newFileSystem returns the repository without edits.
func newFileSystem(files job.Files, dependencies map[job.Dependency]job.Files) *fileSystem {
	return &fileSystem{files: files, edited: map[string][]byte{}, dependencies: dependencies}
}

// local is a path of Kustomize's as one of the repository. The leading slash
// makes Clean drop every ".." above the root, so that no path leaves the
// repository.
func local(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// errReadOnly is the error of all writes: a build does not need any.
var errReadOnly = errors.New("files of the repository cannot be changed")

// stat keeps refusals. Files that were made in memory exist.
func (d *fileSystem) stat(name string) (tree.Entry, error) {
	if _, made := d.edited[local(name)]; made {
		return tree.Entry{Name: path.Base(name), Kind: tree.File}, nil
	}
	files, below := d.place(name)
	entry, err := files.Stat(below)
	d.keepRefusal(err)
	return entry, err
}

// keepRefusal remembers a refusal, because Kustomize turns errors into text.
// Render returns the refusal instead of that text, so that the error gets the
// kind Refused, which holds until the files change.
func (d *fileSystem) keepRefusal(err error) {
	var refused *refusal.Refusal
	if errors.As(err, &refused) {
		d.refused = err
	}
}

// ReadFile is the content of a file.
func (d *fileSystem) ReadFile(name string) ([]byte, error) {
	// An edited kustomization replaces the file.
	if text, ok := d.edited[local(name)]; ok {
		return text, nil
	}
	entry, err := d.stat(name)
	if err != nil {
		return nil, err
	}
	if entry.Kind == tree.Folder {
		return nil, fmt.Errorf("%s is a folder", name)
	}
	files, below := d.place(name)
	text, err := files.Read(below)
	d.keepRefusal(err)
	return text, err
}

// CleanedAbs is the folder and the name of a file. Kustomize calls it to check
// that a file is below the root of its kustomization.
func (d *fileSystem) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	entry, err := d.stat(name)
	if err != nil {
		return "", "", err
	}
	clean := "/" + local(name)
	if entry.Kind == tree.Folder {
		return filesys.ConfirmedDir(clean), "", nil
	}
	return filesys.ConfirmedDir(path.Dir(clean)), path.Base(clean), nil
}

// IsDir reports whether there is a folder.
func (d *fileSystem) IsDir(name string) bool {
	entry, err := d.stat(name)
	return err == nil && entry.Kind == tree.Folder
}

// Exists reports whether there is something.
func (d *fileSystem) Exists(name string) bool {
	_, err := d.stat(name)
	return err == nil
}

// ReadDir is the names of what is in a folder.
func (d *fileSystem) ReadDir(name string) ([]string, error) {
	files, below := d.place(name)
	entries, err := files.List(below)
	d.keepRefusal(err)
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name)
	}
	return names, err
}

// Glob matches the last part of a path; patterns in its folders are not
// supported.
func (d *fileSystem) Glob(pattern string) ([]string, error) {
	folder, last := path.Split(path.Clean("/" + pattern))
	names, err := d.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var found []string
	for _, name := range names {
		if ok, err := path.Match(last, name); err != nil {
			return nil, err
		} else if ok {
			found = append(found, folder+name)
		}
	}
	return found, err
}

// What a build never does.

// A build reads with ReadFile and Glob; Kustomize walks folders only to
// localize a kustomization.
func (d *fileSystem) Create(string) (filesys.File, error)      { return nil, errReadOnly }
func (d *fileSystem) Mkdir(string) error                       { return errReadOnly }
func (d *fileSystem) MkdirAll(string) error                    { return errReadOnly }
func (d *fileSystem) RemoveAll(string) error                   { return errReadOnly }
func (d *fileSystem) WriteFile(string, []byte) error           { return errReadOnly }
func (d *fileSystem) Open(string) (filesys.File, error)        { return nil, errReadOnly }
func (d *fileSystem) Walk(_ string, _ filepath.WalkFunc) error { return errReadOnly }
