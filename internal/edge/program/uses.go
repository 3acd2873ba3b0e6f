package program

import (
	"iter"
	"math/bits"
	"slices"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/route"
)

// changeEntryPoints replaces the entry points. Names that stay keep their bits,
// because the masks of rules that stay have them.
func (e *edit) changeEntryPoints(change *route.Change) error {
	if !change.NewEntryPoints {
		return nil
	}
	table := route.Table{EntryPoints: change.EntryPoints}
	if problems := table.Validate(); len(problems) > 0 {
		e.problems = append(e.problems, problems...)
		return nil
	}
	entryPoints := make(map[string]uint8, len(change.EntryPoints))
	var taken uint64
	for _, name := range change.EntryPoints {
		if bit, stays := e.next.entryPoints[name]; stays {
			entryPoints[name] = bit
			taken |= 1 << bit
		}
	}
	for name, bit := range e.next.entryPoints {
		if _, stays := entryPoints[name]; !stays && e.next.entryPointUses[bit] > 0 {
			e.problem(route.WholeTable{}, "entryPoints", refusal.Unknown,
				"%s is removed, but rules still name it (%d); change these too", name, e.next.entryPointUses[bit])
		}
	}
	for _, name := range change.EntryPoints {
		if _, stays := entryPoints[name]; !stays {
			free := uint8(bits.TrailingZeros64(^taken))
			entryPoints[name] = free
			taken |= 1 << free
		}
	}
	e.next.entryPoints = entryPoints
	return nil
}

// useEntryPoints returns the mask of entry points, and counts their use.
func (e *edit) useEntryPoints(user route.Identity, names []string) uint64 {
	if len(names) == 0 {
		return ^uint64(0)
	}
	var mask uint64
	for _, name := range names {
		bit, known := e.next.entryPoints[name]
		if !known {
			e.problem(user, "entryPoints", refusal.Unknown, "there is no entry point %q; name one of the edge's options", name)
			continue
		}
		mask |= 1 << bit
		e.next.entryPointUses[bit]++
	}
	return mask
}

// releaseEntryPoints counts the end of a use. The names are known: a rule with
// an unknown one never became part of a Program.
func (e *edit) releaseEntryPoints(names []string) {
	for _, name := range names {
		e.next.entryPointUses[e.next.entryPoints[name]]--
	}
}

// changeBackends changes backends and leaves the rules as they are: they name a
// backend by its identity.
func (e *edit) changeBackends(change *route.Change) error {
	delta := &change.Backends
	for _, id := range delta.Removed {
		used := e.backends.get(id)
		if used == nil {
			return e.changeError("backend %s is removed, but it is not there", id)
		}
		if used.uses > 0 {
			e.problem(id, "", refusal.Unknown, "it is removed, but rules still name it (%d); change these too", used.uses)
		}
		e.backends.delete(id)
	}
	for _, backend := range slices.Concat(delta.Changed, delta.EndpointsChanged) {
		used := e.backends.get(backend.ID)
		if used == nil {
			return e.changeError("backend %s is changed, but it is not there", backend.ID)
		}
		e.setBackend(backend, used.uses)
	}
	for _, backend := range delta.Added {
		if e.backends.get(backend.ID) != nil {
			return e.changeError("backend %s is added, but it is there", backend.ID)
		}
		e.setBackend(backend, 0)
	}
	return nil
}

// setBackend stores a backend with the number of its uses.
func (e *edit) setBackend(backend *route.Backend, uses int) {
	if !e.checked {
		e.problems = append(e.problems, backend.Validate()...)
	}
	e.backends.set(&usedBackend{backend: backend, uses: uses})
}

// useBackends counts a use of each backend, and reports those that are missing.
func (e *edit) useBackends(user route.Identity, ids iter.Seq[route.BackendID]) {
	for id := range ids {
		used := e.backends.get(id)
		if used == nil {
			e.problem(user, "backends", refusal.Unknown, "the table has no backend %s", id)
			continue
		}
		e.backends.set(&usedBackend{backend: used.backend, uses: used.uses + 1})
	}
}

// releaseBackends counts the end of a use of each backend.
func (e *edit) releaseBackends(ids iter.Seq[route.BackendID]) {
	for id := range ids {
		used := e.backends.get(id)
		e.backends.set(&usedBackend{backend: used.backend, uses: used.uses - 1})
	}
}
