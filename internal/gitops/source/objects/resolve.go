package objects

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
)

// resolver finds the ids of objects that are stored as differences. It goes
// from what is stored whole to the differences to it, so that every object is
// made once.
type resolver struct {
	*receiver
	pack *pack
	// byOffset is the differences by the place of their base: positions in
	// objects, sorted by that.
	byOffset []int
	// byID is the differences that wait for an object of this id.
	byID      map[ID][]int
	heldBytes int64
}

// deltaBase is an object that differences are to.
type deltaBase struct {
	kind    Kind
	content []byte
	deltas  []int
}

// resolve gives every object its id and its kind.
func (r *receiver) resolve(p *pack) error {
	v := &resolver{receiver: r, pack: p, byID: map[ID][]int{}}
	var roots []int
	for i, o := range r.objects {
		switch o.kind {
		default:
			roots = append(roots, i)
		case plumbing.OFSDeltaObject:
			v.byOffset = append(v.byOffset, i)
		case plumbing.REFDeltaObject:
			v.byID[o.baseID] = append(v.byID[o.baseID], i)
		}
	}
	if len(v.byOffset) == 0 && len(v.byID) == 0 {
		return nil
	}
	// Sorted once, the deltas of a base are found by binary search.
	slices.SortStableFunc(v.byOffset, func(a, b int) int { return compare(r.objects[a].base, r.objects[b].base) })
	for _, i := range roots {
		if err := v.resolveRoot(i); err != nil {
			return err
		}
	}
	if err := v.resolveThin(); err != nil {
		return err
	}
	for _, o := range r.objects {
		if o.kind.IsDelta() {
			return corrupt("a difference is to a place where no object begins")
		}
	}
	return nil
}

// compare orders offsets.
func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// takeDeltas takes the differences to an object. Deltas by id are removed from
// the map, so that what is left in it at the end has no base in this pack.
func (v *resolver) takeDeltas(i int) []int {
	o := v.objects[i]
	from := sort.Search(len(v.byOffset), func(n int) bool { return v.objects[v.byOffset[n]].base >= o.offset })
	to := from
	for to < len(v.byOffset) && v.objects[v.byOffset[to]].base == o.offset {
		to++
	}
	found := slices.Clone(v.byOffset[from:to])
	found = append(found, v.byID[o.id]...)
	delete(v.byID, o.id)
	return found
}

// resolveRoot resolves the differences to an object that is stored whole.
func (v *resolver) resolveRoot(i int) error {
	waiting := v.takeDeltas(i)
	// Most objects have no deltas and are never inflated here.
	if len(waiting) == 0 {
		return nil
	}
	o := v.objects[i]
	if o.length > v.limits.MemoryBytes {
		return v.tooLarge(o.length)
	}
	h, err := v.pack.header(o.offset)
	if err != nil {
		return err
	}
	content, err := v.pack.inflate(v.set.inflaters, h, h.length)
	if err != nil {
		return err
	}
	return v.resolveChain(deltaBase{kind: o.kind, content: content, deltas: waiting})
}

// resolveThin resolves the differences to objects of other packs. A resolved
// object may itself be the base of further entries, and the map changes while
// they are resolved: the iteration starts again after each.
func (v *resolver) resolveThin() error {
	for len(v.byID) > 0 {
		progress := false
		for id, waiting := range v.byID {
			if !v.set.Has(id) {
				continue
			}
			kind, content, err := v.set.Read(id, v.limits.MemoryBytes)
			if err != nil {
				return err
			}
			delete(v.byID, id)
			if err := v.resolveChain(deltaBase{kind: kind, content: content, deltas: waiting}); err != nil {
				return err
			}
			progress = true
			break
		}
		if !progress {
			return fmt.Errorf("%w: %d of them", ErrBase, len(v.byID))
		}
	}
	return nil
}

// resolveChain makes all objects that are differences to this one, and to
// those. An object leaves memory when the last difference to it is taken. It
// uses a stack of its own instead of recursion: chains of a crafted pack can be
// as long as the pack.
func (v *resolver) resolveChain(root deltaBase) error {
	stack := []deltaBase{root}
	v.heldBytes = int64(len(root.content))
	for len(stack) > 0 {
		if err := context.Cause(v.ctx); err != nil {
			return err
		}
		top := &stack[len(stack)-1]
		kind, base, i := top.kind, top.content, top.deltas[0]
		if top.deltas = top.deltas[1:]; len(top.deltas) == 0 {
			stack = stack[:len(stack)-1]
			v.heldBytes -= int64(len(base))
		}
		content, err := v.buildObject(i, kind, base)
		if err != nil {
			return err
		}
		waiting := v.takeDeltas(i)
		if len(waiting) == 0 {
			continue
		}
		if v.heldBytes += int64(len(content)); v.heldBytes > v.limits.MemoryBytes {
			return v.tooLarge(v.heldBytes)
		}
		stack = append(stack, deltaBase{kind: kind, content: content, deltas: waiting})
	}
	return nil
}

// buildObject makes an object of its base, and notes what it is.
func (v *resolver) buildObject(i int, kind Kind, base []byte) ([]byte, error) {
	o := &v.objects[i]
	if o.length > v.limits.MemoryBytes {
		return nil, v.tooLarge(o.length)
	}
	h, err := v.pack.header(o.offset)
	if err != nil {
		return nil, err
	}
	delta, err := v.pack.inflate(v.set.inflaters, h, h.length)
	if err != nil {
		return nil, err
	}
	content, err := applyDelta(base, delta, v.limits.MemoryBytes)
	if err != nil {
		return nil, err
	}
	o.kind, o.id = kind, plumbing.ComputeHash(kind, content)
	return content, nil
}

// tooLarge is the refusal of deltas that need more memory than the limit.
// Deltas have to be in memory with their bases; whole objects stream.
func (v *resolver) tooLarge(size int64) error {
	return &TooLarge{What: fmt.Sprintf("files are stored as differences that need %d bytes of memory", size), Limit: v.limits.MemoryBytes}
}
