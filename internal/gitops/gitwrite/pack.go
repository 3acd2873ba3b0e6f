package gitwrite

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // Git's own checksum of a pack.
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"slipway.dev/slipway/internal/gitops/source/objects"
)

// packBuilder collects the new objects of a commit.
type packBuilder struct {
	// order is that of the additions, so that equal changes give equal packs.
	order   []objects.ID
	content map[objects.ID]packedObject
}

// packedObject is one object of a pack.
type packedObject struct {
	kind    objects.Kind
	content []byte
}

// newPackBuilder returns an empty builder.
func newPackBuilder() *packBuilder { return &packBuilder{content: map[objects.ID]packedObject{}} }

// add adds an object once and returns its id.
func (f *packBuilder) add(kind objects.Kind, content []byte) objects.ID {
	id := plumbing.ComputeHash(kind, content)
	if _, there := f.content[id]; !there {
		f.order = append(f.order, id)
		f.content[id] = packedObject{kind: kind, content: content}
	}
	return id
}

// pack encodes all objects without deltas: they are few and small.
func (f *packBuilder) pack() ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("PACK")
	out.Write(binary.BigEndian.AppendUint32(nil, 2))
	out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(f.order))))
	for _, id := range f.order {
		one := f.content[id]
		// Four bits of the length go beside the kind, then seven at a time.
		size := len(one.content)
		first := byte(one.kind)<<4 | byte(size&0x0f)
		for size >>= 4; size > 0; size >>= 7 {
			out.WriteByte(first | 0x80)
			first = byte(size & 0x7f)
		}
		out.WriteByte(first)
		packed := zlib.NewWriter(&out)
		_, err := packed.Write(one.content)
		if err := errors.Join(err, packed.Close()); err != nil {
			return nil, err
		}
	}
	sum := sha1.Sum(out.Bytes()) //nolint:gosec // Git's own checksum of a pack.
	out.Write(sum[:])
	return out.Bytes(), nil
}

// encodeTree encodes a folder. Git sorts folders as if their names ended with a
// slash.
func encodeTree(entries map[string]*entry) []byte {
	key := func(name string) string {
		if entries[name].mode == filemode.Dir {
			return name + "/"
		}
		return name
	}
	names := slices.SortedFunc(maps.Keys(entries), func(x, y string) int { return strings.Compare(key(x), key(y)) })
	var out bytes.Buffer
	for _, name := range names {
		one := entries[name]
		// A zero id is a folder that has become empty; Git has no empty
		// folders.
		if one.id != plumbing.ZeroHash {
			fmt.Fprintf(&out, "%o %s\x00", uint32(one.mode), name)
			out.Write(one.id[:])
		}
	}
	return out.Bytes()
}

// decodeTree reads a tree object. A name with a slash is refused: it would
// address an entry outside of its folder.
func decodeTree(content []byte) (map[string]*entry, error) {
	entries := map[string]*entry{}
	for len(content) > 0 {
		head, rest, found := bytes.Cut(content, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		if !found || !named || name == "" || strings.Contains(name, "/") || len(rest) < len(objects.ID{}) {
			return nil, errTree
		}
		parsed, err := filemode.New(mode)
		if err != nil {
			return nil, errTree
		}
		one := &entry{mode: parsed, id: objects.ID(rest[:len(objects.ID{})])}
		content = rest[len(objects.ID{}):]
		entries[name] = one
	}
	return entries, nil
}

// errTree is the error for a damaged tree object.
var errTree = errors.New("a folder cannot be read: check the repository with git fsck")

// treeOf returns the tree of a commit.
func treeOf(kind objects.Kind, commit []byte) (objects.ID, error) {
	line, _, _ := bytes.Cut(commit, []byte("\n"))
	text, found := strings.CutPrefix(string(line), "tree ")
	if kind != objects.Commit || !found || len(text) != 2*len(objects.ID{}) {
		return plumbing.ZeroHash, errors.New("its newest commit cannot be read: check the repository with git fsck")
	}
	return plumbing.NewHash(text), nil
}

// gitSignature is a person and a time, as in a commit.
type gitSignature struct {
	name, email string
	at          time.Time
}

// String formats a line of a commit.
func (s gitSignature) String() string {
	return fmt.Sprintf("%s <%s> %d +0000", s.name, s.email, s.at.Unix())
}

// commitText encodes a commit object. A zero parent is the first commit.
func commitText(tree, parent objects.ID, author, committer gitSignature, message string) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "tree %s\n", tree)
	if parent != plumbing.ZeroHash {
		fmt.Fprintf(&out, "parent %s\n", parent)
	}
	fmt.Fprintf(&out, "author %s\ncommitter %s\n\n%s", author, committer, message)
	return out.Bytes()
}
