package engine

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestUnitSet: a set behaves as a map, at any size.
func TestUnitSet(t *testing.T) {
	units := make([]*routeUnit, 3*fewUnits)
	for i := range units {
		units[i] = &routeUnit{}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var set unitSet
		want := map[*routeUnit]struct{}{}
		for range 200 {
			u := units[random.IntN(len(units))]
			if random.IntN(2) == 0 {
				set.add(u)
				want[u] = struct{}{}
			} else {
				set.remove(u)
				delete(want, u)
			}
			got := maps.Collect(func(yield func(*routeUnit, struct{}) bool) {
				for u := range set.all() {
					if !yield(u, struct{}{}) {
						return
					}
				}
			})
			if set.count() != len(want) || !maps.Equal(got, want) || len(slices.Collect(set.all())) != len(want) {
				t.Fatalf("the set has %d units, want %d", set.count(), len(want))
			}
		}
	}
}
