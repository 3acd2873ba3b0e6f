package engine

import (
	"iter"
	"maps"
	"slices"
)

// fewUnits is the number of units up to which a unitSet is a list.
const fewUnits = 8

// unitSet is a set of routes. Most hosts and backends have one, and there are thousands of
// them, so a small set is a list: a map takes more memory than the rest of its owner.
type unitSet struct {
	few  []*routeUnit
	many map[*routeUnit]struct{} // has all units once there were more than a few
}

func (s *unitSet) add(u *routeUnit) {
	switch {
	case s.many != nil:
		s.many[u] = struct{}{}
	case slices.Contains(s.few, u):
	case len(s.few) < fewUnits:
		s.few = append(s.few, u)
	default:
		s.many = map[*routeUnit]struct{}{u: {}}
		for _, known := range s.few {
			s.many[known] = struct{}{}
		}
		s.few = nil
	}
}

func (s *unitSet) remove(u *routeUnit) {
	if s.many != nil {
		delete(s.many, u)
		return
	}
	// It clears the place that becomes free, so that a dropped unit can be collected.
	s.few = slices.DeleteFunc(s.few, func(known *routeUnit) bool { return known == u })
}

func (s *unitSet) count() int { return len(s.few) + len(s.many) }

// all yields the units in no order.
func (s *unitSet) all() iter.Seq[*routeUnit] {
	if s.many != nil {
		return maps.Keys(s.many)
	}
	return slices.Values(s.few)
}
