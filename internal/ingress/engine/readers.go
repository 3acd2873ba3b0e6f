package engine

import (
	"hash/maphash"
	"iter"
	"slices"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// readerIndex has the units that read an object, by the object. It has an entry for each
// object of a cluster, and each unit keeps those of its reads, so entries are small and
// units share them.
type readerIndex struct {
	seed maphash.Seed
	// objects has the entries by the hash of their reference. Entries with the same hash
	// are a list.
	objects map[uint64]*readObject
}

// readObject is an object that units have read, also one that does not exist.
type readObject struct {
	ref snapshot.Ref
	// reader is the only reader, or *severalUnits.
	reader unit
	next   *readObject
}

// severalUnits are the readers of an object that more than one unit has read.
type severalUnits struct{ units []unit }

// markDirty implements unit.
func (s *severalUnits) markDirty(r *updateState) {
	for _, u := range s.units {
		u.markDirty(r)
	}
}

func newReaderIndex() readerIndex {
	return readerIndex{seed: maphash.MakeSeed(), objects: map[uint64]*readObject{}}
}

// find returns the entry of an object; nil if no unit has read it.
func (x *readerIndex) find(ref snapshot.Ref) *readObject {
	at := x.objects[maphash.Comparable(x.seed, ref)]
	for at != nil && at.ref != ref {
		at = at.next
	}
	return at
}

// markDirty marks the readers of an object.
func (x *readerIndex) markDirty(ref snapshot.Ref, r *updateState) {
	if at := x.find(ref); at != nil {
		at.reader.markDirty(r)
	}
}

// add adds a reader of an object, and returns its entry, and whether the reader is the
// first.
func (x *readerIndex) add(ref snapshot.Ref, u unit) (*readObject, bool) {
	at := x.find(ref)
	if at == nil {
		hash := maphash.Comparable(x.seed, ref)
		at = &readObject{ref: ref, reader: u, next: x.objects[hash]}
		x.objects[hash] = at
		return at, true
	}
	if several, yes := at.reader.(*severalUnits); yes {
		several.units = append(several.units, u)
	} else {
		at.reader = &severalUnits{[]unit{at.reader, u}}
	}
	return at, false
}

// remove removes a reader, and reports whether it was the last. The last of several moves
// into the gap, because their order does not matter, and the old place is cleared, so that
// a unit that is dropped can be collected.
func (x *readerIndex) remove(at *readObject, u unit) bool {
	if several, yes := at.reader.(*severalUnits); yes {
		last := len(several.units) - 1
		several.units[slices.Index(several.units, u)] = several.units[last]
		several.units[last] = nil
		if several.units = several.units[:last]; last == 1 {
			at.reader = several.units[0]
		}
		return false
	}
	hash := maphash.Comparable(x.seed, at.ref)
	first := x.objects[hash]
	switch {
	case first != at:
		for first.next != at {
			first = first.next
		}
		first.next = at.next
	case at.next != nil:
		x.objects[hash] = at.next
	default:
		delete(x.objects, hash)
	}
	return true
}

// all yields all objects that were read.
func (x *readerIndex) all() iter.Seq[snapshot.Ref] {
	return func(yield func(snapshot.Ref) bool) {
		for _, at := range x.objects {
			for ; at != nil; at = at.next {
				if !yield(at.ref) {
					return
				}
			}
		}
	}
}

// compareRead orders entries by their objects.
func compareRead(at *readObject, ref snapshot.Ref) int { return at.ref.Compare(ref) }

// read updates the index with what a unit has read, and returns that for the next
// comparison, sorted.
func (e *Engine) read(u unit, before []*readObject, view *snapshot.View) []*readObject {
	refs := slices.SortedFunc(view.Reads(), snapshot.Ref.Compare)
	same := slices.EqualFunc(before, refs, func(at *readObject, ref snapshot.Ref) bool { return at.ref == ref })
	if same {
		return before
	}
	for _, at := range before {
		if _, stays := slices.BinarySearchFunc(refs, at.ref, snapshot.Ref.Compare); !stays {
			e.forget(u, at)
		}
	}
	after := make([]*readObject, len(refs))
	for i, ref := range refs {
		if known, found := slices.BinarySearchFunc(before, ref, compareRead); found {
			after[i] = before[known]
			continue
		}
		at, first := e.readers.add(ref, u)
		if after[i] = at; first {
			e.toggleWant(ref)
		}
	}
	return after
}

// forget removes a unit from the readers of an object.
func (e *Engine) forget(u unit, at *readObject) {
	if e.readers.remove(at, u) {
		e.toggleWant(at.ref)
	}
}

// forgetAll removes a unit that is dropped from all readers.
func (e *Engine) forgetAll(u unit, reads []*readObject) {
	for _, at := range reads {
		e.forget(u, at)
	}
}
