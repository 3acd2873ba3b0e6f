package proxy

import (
	"testing"

	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// Over one round every backend gets exactly its share, and never much more than
// its share within any part of it.
func TestTargetsByWeight(t *testing.T) {
	set := upstream.NewSet(upstream.DefaultConfig())
	defer set.Close()
	tests := []struct {
		name    string
		weights []uint32
		want    []int
	}{
		{"one", []uint32{7}, []int{7}},
		{"all zero is even", []uint32{0, 0, 0}, []int{1, 1, 1}},
		{"zero gets nothing", []uint32{3, 0, 1}, []int{3, 0, 1}},
		{"canary", []uint32{90, 10}, []int{90, 10}},
		{"odd", []uint32{5, 3, 2, 1}, []int{5, 3, 2, 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var refs []route.BackendRef
			index := map[*upstream.Handle]int{}
			for i, weight := range test.weights {
				id := route.BackendID{Name: test.name, Port: uint16(i + 1)}
				refs = append(refs, route.BackendRef{Backend: id, Weight: weight})
				index[set.Handle(id)] = i
			}
			backends := newWeightedBackends(refs, false, set.Handle)
			got := make([]int, len(test.weights))
			total, longest, run, last := 0, 0, 0, -1
			for _, share := range test.want {
				total += share
			}
			for range total {
				i := index[backends.next()]
				got[i]++
				if i != last {
					run, last = 0, i
				}
				if run++; i > 0 {
					longest = max(longest, run)
				}
			}
			for i := range got {
				if got[i] != test.want[i] {
					t.Fatalf("got %v, want %v", got, test.want)
				}
			}
			if longest > 3 {
				t.Errorf("a minor backend got %d requests in a row", longest)
			}
		})
	}
}

// A change of the table makes new weighted backends; two handles of one backend are one.
func TestHandlesAreStable(t *testing.T) {
	set := upstream.NewSet(upstream.DefaultConfig())
	defer set.Close()
	refs := []route.BackendRef{{Backend: route.BackendID{Name: "app", Port: 80}}}
	before, after := newWeightedBackends(refs, false, set.Handle), newWeightedBackends(refs, false, set.Handle)
	if before.next() != after.next() {
		t.Error("the same backend has two handles: its pool would be lost with each change")
	}
}
