package connset_test

import (
	"math/rand/v2"
	"testing"

	"slipway.dev/slipway/internal/edge/connset"
)

type member struct{ place connset.Place }

func (m *member) Place() *connset.Place { return &m.place }

// A set has what was added and not removed, in whatever order that happens.
func TestSet(t *testing.T) {
	var set connset.Set[*member]
	want := map[*member]bool{}
	all := make([]*member, 40)
	for i := range all {
		all[i] = new(member)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		m := all[random.IntN(len(all))]
		if set.Has(m) != want[m] {
			t.Fatalf("the set has a member: %t", set.Has(m))
		}
		if want[m] {
			if !set.Remove(m) {
				t.Fatal("a member was not removed")
			}
			delete(want, m)
		} else {
			if set.Remove(m) {
				t.Fatal("what is no member was removed")
			}
			set.Add(m)
			want[m] = true
		}
		if len(set) != len(want) {
			t.Fatalf("the set has %d members, not %d", len(set), len(want))
		}
		for _, m := range set {
			if !want[m] {
				t.Fatal("the set has a member that was removed")
			}
		}
	}
}

// A set does not keep a removed member in memory.
func TestRemovedIsForgotten(t *testing.T) {
	var set connset.Set[*member]
	a, b := new(member), new(member)
	set.Add(a)
	set.Add(b)
	set.Remove(a)
	set.Remove(b)
	for _, m := range set[:2] {
		if m != nil {
			t.Error("the set still refers to a removed member")
		}
	}
}
