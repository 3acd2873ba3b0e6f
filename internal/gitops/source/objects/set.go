package objects

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// Set is the packs of a folder. It never changes and is safe for concurrent
// use.
type Set struct {
	folder    string
	packs     []*pack // those that were received last at the end
	memory    int64
	inflaters *inflaters
	bases     *baseCache
}

// packFolder is where packs are in a bare repository.
const packFolder = "objects/pack"

// Create makes a folder a bare repository without objects, in Git's own layout.
// The layout allows an administrator to inspect the folder with git.
func Create(folder string, memory int64) (*Set, error) {
	for _, below := range []string{packFolder, "refs"} {
		if err := os.MkdirAll(filepath.Join(folder, below), 0o700); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{
		"HEAD":   "ref: refs/heads/main\n",
		"config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	return newSet(folder, memory), nil
}

// newSet returns a Set without packs.
func newSet(folder string, memory int64) *Set {
	return &Set{folder: folder, memory: memory, inflaters: &inflaters{}, bases: newBaseCache(baseCacheBytes)}
}

// Open opens the packs of a folder and removes what an interrupted Receive
// left. A pack without an index is ignored: it is what a crash between the two
// renames of publish leaves. Any other damage is ErrCorrupt, and the caller
// fetches again.
func Open(folder string, memory int64) (*Set, error) {
	s := newSet(folder, memory)
	entries, err := os.ReadDir(filepath.Join(folder, packFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, corrupt("the folder has no objects")
	}
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		path := filepath.Join(folder, packFolder, entry.Name())
		// The folder belongs to one process, so that no Receive can be under
		// way.
		if strings.HasPrefix(entry.Name(), temporary) {
			if err := os.Remove(path); err != nil {
				return nil, err
			}
			continue
		}
		base, isIndex := strings.CutSuffix(path, ".idx")
		if !isIndex {
			continue
		}
		p, err := openPack(base+".pack", path)
		if errors.Is(err, fs.ErrNotExist) {
			err = corrupt("an index has no pack")
		}
		if err != nil {
			return nil, err
		}
		s.packs = append(s.packs, p)
	}
	return s, nil
}

// with is the Set with one more pack. The caches are shared by both Sets,
// because their keys contain the pack.
func (s *Set) with(p *pack) *Set {
	more := *s
	more.packs = append(slices.Clone(s.packs), p)
	return &more
}

// Packs is how many packs there are.
func (s *Set) Packs() int { return len(s.packs) }

// Bytes is the size of all packs and their indexes on the disk.
func (s *Set) Bytes() (size int64) {
	for _, p := range s.packs {
		size += p.size + int64(idSize) + int64(len(p.index.data))
	}
	return size
}

// Has reports whether an object is there.
func (s *Set) Has(id ID) bool {
	_, _, found := s.find(id)
	return found
}

// StartingWith is the commits whose ids begin with hexadecimal digits, in lower
// case.
func (s *Set) StartingWith(digits string) ([]ID, error) {
	var found []ID
	for _, p := range s.packs {
		for _, id := range p.index.startingWith(digits) {
			kind, _, err := s.Stat(id)
			if err != nil {
				return nil, err
			}
			if kind == Commit && !slices.Contains(found, id) {
				found = append(found, id)
			}
		}
	}
	return found, nil
}

// find looks into the newest pack first. Recent commits are read most, and a
// repository has few packs, so that a linear search is enough.
func (s *Set) find(id ID) (*pack, int64, bool) {
	for _, p := range slices.Backward(s.packs) {
		if offset, found := p.index.find(id); found {
			return p, offset, true
		}
	}
	return nil, 0, false
}

// Stat is the kind and the size of an object, without its content.
func (s *Set) Stat(id ID) (Kind, int64, error) {
	p, offset, found := s.find(id)
	if !found {
		return 0, 0, fmt.Errorf("%w: %s", ErrMissing, id)
	}
	h, err := p.header(offset)
	if err != nil {
		return 0, 0, err
	}
	size := h.length
	if h.isDelta() {
		if size, err = s.sizeAfter(p, h); err != nil {
			return 0, 0, err
		}
	}
	for range maxDepth {
		if !h.isDelta() {
			return h.kind, size, nil
		}
		if p, offset, err = s.base(p, h); err != nil {
			return 0, 0, err
		}
		if h, err = p.header(offset); err != nil {
			return 0, 0, err
		}
	}
	return 0, 0, corrupt("differences to differences without an end")
}

// sizeAfter is the size of an object that is stored as a difference. Both sizes
// are in the first bytes of the delta; the rest is not inflated.
func (s *Set) sizeAfter(p *pack, h header) (int64, error) {
	start, err := p.inflate(s.inflaters, h, 24)
	if err != nil {
		return 0, err
	}
	_, size, ok := deltaSizes(start)
	if !ok {
		return 0, corrupt("a difference has no sizes")
	}
	return size, nil
}

// base is where the object is that a difference is to. The own pack goes first,
// as a pack that was received is complete but for thin bases.
func (s *Set) base(p *pack, h header) (*pack, int64, error) {
	if h.kind == plumbing.OFSDeltaObject {
		return p, h.base, nil
	}
	if offset, found := p.index.find(h.baseID); found {
		return p, offset, nil
	}
	from, offset, found := s.find(h.baseID)
	if !found {
		return nil, 0, corrupt("%v: %s", ErrBase, h.baseID)
	}
	return from, offset, nil
}

// Read is the kind and the content of an object. More than limit bytes is a
// *[TooLarge].
func (s *Set) Read(id ID, limit int64) (Kind, []byte, error) {
	p, offset, found := s.find(id)
	if !found {
		return 0, nil, fmt.Errorf("%w: %s", ErrMissing, id)
	}
	kind, content, err := s.readAt(p, offset, limit)
	if err != nil {
		return 0, nil, err
	}
	if plumbing.ComputeHash(kind, content) != id {
		return 0, nil, corrupt("the object %s has another content", id)
	}
	return kind, content, nil
}

// step is an object on the way from a difference to what is stored whole.
type step struct {
	pack   *pack
	offset int64
	header header
}

// readAt resolves the delta chain of an object. The result may be shared with
// the cache; a caller that modifies it must copy it.
func (s *Set) readAt(p *pack, offset, limit int64) (Kind, []byte, error) {
	var steps []step
	for {
		h, err := p.header(offset)
		if err != nil {
			return 0, nil, err
		}
		if len(steps) == 0 {
			if err := s.checkSize(p, h, limit); err != nil {
				return 0, nil, err
			}
		}
		// A cached base ends the walk: deltas above it are applied to it.
		if kind, content, found := s.bases.get(p, offset); found {
			return s.patch(steps, kind, content)
		}
		if !h.isDelta() {
			if len(steps) > 0 && h.length > s.memory {
				return 0, nil, &TooLarge{What: "a file is stored as a difference to one that is too large", Limit: s.memory}
			}
			content, err := p.inflate(s.inflaters, h, h.length)
			if err != nil {
				return 0, nil, err
			}
			if len(steps) > 0 {
				s.bases.put(p, offset, h.kind, content)
			}
			return s.patch(steps, h.kind, content)
		}
		// A crafted pack can chain deltas without end, or in a cycle.
		if len(steps) == maxDepth {
			return 0, nil, corrupt("differences to differences without an end")
		}
		steps = append(steps, step{pack: p, offset: offset, header: h})
		if p, offset, err = s.base(p, h); err != nil {
			return 0, nil, err
		}
	}
}

// checkSize refuses an object before anything of it is in memory.
func (s *Set) checkSize(p *pack, h header, limit int64) error {
	size := h.length
	if h.isDelta() {
		var err error
		if size, err = s.sizeAfter(p, h); err != nil {
			return err
		}
		if size > s.memory {
			return &TooLarge{What: fmt.Sprintf("a file of %d bytes is stored as a difference", size), Limit: s.memory}
		}
	}
	if size > limit {
		return &TooLarge{What: fmt.Sprintf("it has %d bytes", size), Limit: limit}
	}
	return nil
}

// patch applies the differences, the last step first.
func (s *Set) patch(steps []step, kind Kind, content []byte) (Kind, []byte, error) {
	for i, at := range slices.Backward(steps) {
		if at.header.length > s.memory {
			return 0, nil, &TooLarge{What: "a difference between files is too large", Limit: s.memory}
		}
		delta, err := at.pack.inflate(s.inflaters, at.header, at.header.length)
		if err != nil {
			return 0, nil, err
		}
		if content, err = applyDelta(content, delta, s.memory); err != nil {
			return 0, nil, err
		}
		// The result itself is not cached: only bases are read repeatedly.
		if i > 0 {
			s.bases.put(at.pack, at.offset, kind, content)
		}
	}
	if len(steps) == 0 {
		// It may come from the cache.
		content = slices.Clone(content)
	}
	return kind, content, nil
}

// applyDelta makes an object of a base and a difference.
func applyDelta(base, delta []byte, limit int64) ([]byte, error) {
	before, after, ok := deltaSizes(delta)
	if !ok || before != int64(len(base)) {
		return nil, corrupt("a difference is to another object")
	}
	if after > limit {
		return nil, &TooLarge{What: fmt.Sprintf("a file of %d bytes is stored as a difference", after), Limit: limit}
	}
	content, err := packfile.PatchDelta(base, delta)
	if err != nil {
		return nil, corrupt("a difference cannot be applied: %v", err)
	}
	return content, nil
}
