package program

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

type number struct{ n int }

func (x *number) key() int { return x.n }

// TestSharded compares an index with a map, through changes that share most of it:
// with so many entries there are equal tags in most shards.
func TestSharded(t *testing.T) {
	const keys, rounds = 60_000, 30
	index := newSharded[int, *number]()
	want := map[int]*number{}
	random := rand.New(rand.NewPCG(1, 2))
	for round := range rounds {
		before, kept := index, maps.Clone(want)
		e := index.edit()
		for range keys / 6 {
			n := random.IntN(keys)
			if random.IntN(3) == 0 {
				e.delete(n)
				delete(want, n)
				continue
			}
			want[n] = &number{n}
			e.set(want[n])
		}
		index = e.sharded
		compare(t, &index, want, keys)
		if round == rounds-1 {
			compare(t, &before, kept, keys)
		}
	}
	equal := 0
	for i := range index.shards {
		in := &index.shards[i]
		if !slices.IsSorted(in.tags) || len(in.tags) != len(in.values) {
			t.Fatalf("shard %d has %d tags, in order: %v, and %d values", i, len(in.tags), slices.IsSorted(in.tags), len(in.values))
		}
		equal += len(in.tags) - len(slices.Compact(slices.Clone(in.tags)))
	}
	if equal == 0 {
		t.Error("no two tags are equal: nothing was shown")
	}
}

func compare(t *testing.T, index *sharded[int, *number], want map[int]*number, keys int) {
	t.Helper()
	if index.size != len(want) {
		t.Fatalf("%d entries, want %d", index.size, len(want))
	}
	for n := range keys {
		if got := index.get(n); got != want[n] {
			t.Fatalf("%d: %v, want %v", n, got, want[n])
		}
	}
}
