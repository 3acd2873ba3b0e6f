package source

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitops/tree"
)

// commitStore is the files of a commit, read from Git's objects. It holds the
// open packs, so that it stays readable after the repository was refetched, or
// its folder removed.
type commitStore struct {
	set   *objects.Set
	root  objects.ID
	trees *treeCache
	owner string // keeps what one repository has from others
	// onDamage is called when an object is missing or has the wrong content, so
	// that the next fetch replaces the folder.
	onDamage func()
}

var _ tree.Store = (*commitStore)(nil)

// Entry returns the entry at a path. It walks the trees from the root; decoded
// trees are cached.
func (s *commitStore) Entry(path string) (tree.Entry, error) {
	// The root has no entry in any tree.
	if path == "" {
		return tree.Entry{Kind: tree.Folder, Hash: s.root.String()}, nil
	}
	folder := s.root
	for {
		name, rest, below := strings.Cut(path, "/")
		entries, err := s.entries(folder)
		if err != nil {
			return tree.Entry{}, err
		}
		i, found := slices.BinarySearchFunc(entries, name, func(e tree.Entry, name string) int { return strings.Compare(e.Name, name) })
		if !found {
			return tree.Entry{}, notExist(path)
		}
		if !below {
			return entries[i], nil
		}
		var ok bool
		if folder, ok = remote.ParseID(entries[i].Hash); !ok || entries[i].Kind != tree.Folder {
			return tree.Entry{}, notExist(path)
		}
		path = rest
	}
}

// Read is the content of a file, or the target of a link.
func (s *commitStore) Read(path string, limit int64) ([]byte, error) {
	entry, err := s.Entry(path)
	if err != nil {
		return nil, err
	}
	switch entry.Kind {
	case tree.File, tree.Link:
	// The commit of a submodule is in another repository.
	case tree.Submodule:
		return nil, refusal.New(path, refusal.Unsupported, "it is a submodule, which is not fetched: use its repository as a source of its own")
	default:
		return nil, refusal.New(path, refusal.Invalid, "it is a folder, not a file")
	}
	id, _ := remote.ParseID(entry.Hash)
	kind, content, err := s.set.Read(id, limit)
	if err == nil && kind != objects.Blob {
		err = fmt.Errorf("%w: %s is not a file", objects.ErrCorrupt, id)
	}
	if large, ok := errors.AsType[*objects.TooLarge](err); ok {
		return nil, refusal.New(path, refusal.TooLarge, "it is too large: %s: remove it, or exclude it from the render", large)
	}
	return content, s.reportDamage(err)
}

// List is what is in a folder, sorted by name. It returns a copy, because the
// cached entries are shared between all Stores of the repository.
func (s *commitStore) List(path string) ([]tree.Entry, error) {
	entry, err := s.Entry(path)
	if err != nil {
		return nil, err
	}
	if entry.Kind != tree.Folder {
		return nil, refusal.New(path, refusal.Invalid, "it is not a folder")
	}
	id, _ := remote.ParseID(entry.Hash)
	entries, err := s.entries(id)
	return slices.Clone(entries), err
}

// entries is what is in the folder with an id. The result is shared. Two
// goroutines may decode the same folder at once; both results are equal, and
// the last one stays in the cache.
func (s *commitStore) entries(id objects.ID) ([]tree.Entry, error) {
	if entries, found := s.trees.get(s.owner, id); found {
		return entries, nil
	}
	entries, err := s.decode(id)
	if err != nil {
		return nil, s.reportDamage(err)
	}
	s.trees.put(s.owner, id, entries)
	return entries, nil
}

// maxTreeBytes is that of a folder with some 500,000 files.
const maxTreeBytes = 32 << 20

// decode reads a tree object and adds the sizes of its files. Sizes come from
// the headers in the pack; no content is inflated for a whole object.
func (s *commitStore) decode(id objects.ID) ([]tree.Entry, error) {
	kind, content, err := s.set.Read(id, maxTreeBytes)
	if err != nil {
		return nil, err
	}
	// The mode in the parent and the type of the object can differ in a crafted
	// repository.
	if kind != objects.Tree {
		return nil, fmt.Errorf("%w: %s is not a folder", objects.ErrCorrupt, id)
	}
	entries, err := parseTree(content)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if entries[i].Kind != tree.File {
			continue
		}
		file, _ := remote.ParseID(entries[i].Hash)
		if _, entries[i].Size, err = s.set.Stat(file); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// reportDamage marks the repository as damaged for an object that is missing or
// corrupt. The error is not fs.ErrNotExist: the path exists, and a render must
// not take it for a missing file.
func (s *commitStore) reportDamage(err error) error {
	if errors.Is(err, objects.ErrCorrupt) || errors.Is(err, objects.ErrMissing) {
		s.onDamage()
	}
	return err
}

// parseTree reads the entries of a tree object: mode, name and id of each.
// Names that no folder can contain (empty, dots, a slash) are refused: Git
// never writes them, and a crafted tree could escape its folder with them.
func parseTree(content []byte) ([]tree.Entry, error) {
	var entries []tree.Entry
	text := string(content)
	for len(text) > 0 {
		head, rest, found := strings.Cut(text, "\x00")
		mode, name, hasName := strings.Cut(head, " ")
		if !found || !hasName || len(rest) < len(objects.ID{}) {
			return nil, fmt.Errorf("%w: a folder has no proper entries", objects.ErrCorrupt)
		}
		if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			return nil, refusal.New(name, refusal.Invalid, "it is a name that no file may have")
		}
		kind := kindOf(mode)
		if kind == "" {
			return nil, refusal.New(name, refusal.Unsupported, "it is of an unknown kind")
		}
		id := objects.ID([]byte(rest[:len(objects.ID{})]))
		entries = append(entries, tree.Entry{Name: name, Kind: kind, Hash: id.String(), Executable: mode == "100755"})
		text = rest[len(id):]
	}
	// Git sorts folders as if their names ended with a slash.
	slices.SortFunc(entries, func(a, b tree.Entry) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(entries); i++ {
		if entries[i].Name == entries[i-1].Name {
			return nil, refusal.New(entries[i].Name, refusal.Duplicate, "it is in its folder twice")
		}
	}
	return entries, nil
}

// kindOf maps the mode of a tree entry. Git writes six modes; old repositories
// have variants of 100644 with other permissions, which count as files.
func kindOf(mode string) tree.Kind {
	switch mode {
	case "40000", "040000":
		return tree.Folder
	case "120000":
		return tree.Link
	case "160000":
		return tree.Submodule
	}
	if len(mode) == 6 && strings.HasPrefix(mode, "100") {
		return tree.File
	}
	return ""
}

// parseID reads a full, lower-case id.
func parseID(text string) (objects.ID, bool) { return remote.ParseID(text) }

// notExist is the error for a missing path, as tree.Store specifies it.
func notExist(path string) error {
	return &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
}
