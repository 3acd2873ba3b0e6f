package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"maps"
	"path"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// memory is files that are in memory already.
type memory struct {
	nodes map[string]*memoryNode
}

// memoryNode is a file, a link or a folder.
type memoryNode struct {
	entry    Entry
	content  string
	children []string // names, sorted
}

// NewMemory returns a Store of the given files, by their paths. It is for tests
// and for unpacked charts. Paths are relative to the root, with or without a
// leading slash. Where one path is a file and a folder of others, it is a
// folder.
func NewMemory(files map[string]string) Store { return newMemory(files, nil) }

// BytesInMemory is how many bytes of files a Store keeps in memory; 0 for one
// that reads them from elsewhere.
func BytesInMemory(store Store) (size int64) {
	if m, ok := store.(*memory); ok {
		for _, node := range m.nodes {
			size += int64(len(node.content))
		}
	}
	return size
}

// newMemory takes links as well, by their targets.
func newMemory(files, links map[string]string) *memory {
	m := &memory{nodes: map[string]*memoryNode{"": {entry: Entry{Kind: Folder}}}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		m.add(name, File, files[name])
	}
	for _, name := range slices.Sorted(maps.Keys(links)) {
		m.add(name, Link, links[name])
	}
	m.finish("")
	return m
}

// add adds a file or a link, and the folders above it. A folder replaces a file
// of the same path, so that nothing below it is lost.
func (m *memory) add(name string, kind Kind, content string) {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	if name == "" || m.nodes[name] != nil {
		return
	}
	m.nodes[name] = &memoryNode{entry: Entry{Name: path.Base(name), Kind: kind, Size: int64(len(content))}, content: content}
	for below := name; below != ""; {
		above := parent(below)
		node := m.nodes[above]
		if node == nil {
			node = &memoryNode{}
			m.nodes[above] = node
		}
		node.entry = Entry{Name: base(above), Kind: Folder}
		node.content = ""
		if child := path.Base(below); !slices.Contains(node.children, child) {
			node.children = append(node.children, child)
		}
		below = above
	}
}

// finish sorts the folders and makes the hashes, from the bottom up.
func (m *memory) finish(name string) string {
	node := m.nodes[name]
	if node.entry.Kind != Folder {
		sum := sha256.Sum256([]byte(node.content))
		node.entry.Hash = hex.EncodeToString(sum[:])
		return node.entry.Hash
	}
	slices.Sort(node.children)
	sum := sha256.New()
	for _, child := range node.children {
		below := m.finish(join(name, child))
		writeEntry(sum, Entry{Name: child, Kind: m.nodes[join(name, child)].entry.Kind, Hash: below})
	}
	node.entry.Hash = hex.EncodeToString(sum.Sum(nil))
	return node.entry.Hash
}

// writeEntry adds an entry to a hash so that no two lists look alike.
func writeEntry(sum hash.Hash, entry Entry) {
	fmt.Fprintf(sum, "%q %s %s\n", entry.Name, entry.Kind, entry.Hash)
}

// Entry implements Store.
func (m *memory) Entry(name string) (Entry, error) {
	node := m.nodes[name]
	if node == nil {
		return Entry{}, missing(name)
	}
	return node.entry, nil
}

// Read implements Store.
func (m *memory) Read(name string, limit int64) ([]byte, error) {
	node := m.nodes[name]
	switch {
	case node == nil:
		return nil, missing(name)
	case node.entry.Kind == Folder:
		return nil, refusal.New(name, refusal.Invalid, "it is a folder, not a file")
	case int64(len(node.content)) > limit:
		return nil, tooLarge(name, limit)
	}
	return []byte(node.content), nil
}

// List implements Store.
func (m *memory) List(name string) ([]Entry, error) {
	node := m.nodes[name]
	switch {
	case node == nil:
		return nil, missing(name)
	case node.entry.Kind != Folder:
		return nil, refusal.New(name, refusal.Invalid, "it is not a folder")
	}
	entries := make([]Entry, 0, len(node.children))
	for _, child := range node.children {
		entries = append(entries, m.nodes[join(name, child)].entry)
	}
	return entries, nil
}

// parent is the folder of a path; that of the root is the root.
func parent(name string) string {
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		return name[:i]
	}
	return ""
}

// base is the last name of a path; the root has none.
func base(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// join appends a name to a folder; the root is "".
func join(folder, name string) string {
	if folder == "" {
		return name
	}
	return folder + "/" + name
}
