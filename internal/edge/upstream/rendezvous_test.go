package upstream_test

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"testing"

	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

const hashKeys = 2000

// hashed serves endpoints with weights, by consistent hash.
func (w *world) hashed(weights map[string]uint32) {
	b := &route.Backend{ID: shop, Balancing: route.Balancing{Method: route.BalanceHash, Hash: route.HashKey{By: route.KeyClient}}}
	for address, weight := range weights {
		b.Endpoints = append(b.Endpoints, route.Endpoint{Address: netip.MustParseAddrPort(address), Weight: weight})
	}
	w.serve(b)
}

// placement returns where each key goes.
func (w *world) placement(t *testing.T) []string {
	t.Helper()
	h := w.Handle(shop)
	where := make([]string, hashKeys)
	for key := range where {
		lease := pick(t, h, upstream.PickOptions{Hash: uint64(key), HasHash: true})
		where[key] = lease.Endpoint().Address()
		lease.Done(upstream.OK)
	}
	return where
}

// Keys go to another endpoint only when they have to: to one that came or from
// one that went. And each endpoint has about its share.
func TestConsistentHash(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, upstream.Config{})
			weights := map[string]uint32{}
			for _, address := range pods(2 + random.IntN(12)) {
				weights[address] = 1
				if seed%2 == 1 {
					weights[address] += random.Uint32N(9)
				}
			}
			w.hashed(weights)
			before := w.placement(t)
			checkShares(t, weights, before)
			for step := range 6 {
				address := fmt.Sprintf("10.9.%d.1:80", step)
				comes := step%2 == 0 || len(weights) < 3
				if comes {
					weights[address] = 1 + random.Uint32N(3)*uint32(seed%2)
				} else {
					for address = range weights {
						break
					}
					delete(weights, address)
				}
				w.hashed(weights)
				after := w.placement(t)
				for key := range after {
					if comes && after[key] != before[key] && after[key] != address {
						t.Fatalf("key %d moved from %s to %s when %s came", key, before[key], after[key], address)
					}
					if !comes && after[key] != before[key] && before[key] != address {
						t.Fatalf("key %d moved from %s to %s when %s went", key, before[key], after[key], address)
					}
				}
				checkShares(t, weights, after)
				before = after
			}
		})
	}
}

func checkShares(t *testing.T, weights map[string]uint32, where []string) {
	t.Helper()
	total := uint32(0)
	for _, weight := range weights {
		total += weight
	}
	counts := map[string]int{}
	for _, address := range where {
		counts[address]++
	}
	for address, weight := range weights {
		want := hashKeys * float64(weight) / float64(total)
		// The counts are fixed by the addresses; this is about six deviations.
		if got := float64(counts[address]); got < want*0.6-30 || got > want*1.4+30 {
			t.Errorf("endpoint %s with weight %d of %d has %.0f keys, about %.0f are its share", address, weight, total, got, want)
		}
	}
}

// Hashes with little variety, such as those of an FNV of short text, have to
// spread too, and so do keys in a row.
func TestHashOfPoorQuality(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.serve(weighted(route.BalanceHash, 0, 0, 0, 0))
	h := w.Handle(shop)
	counts := map[string]int{}
	for i := range 4000 {
		sum := fnv.New64a()
		fmt.Fprintf(sum, "10.0.0.%d", i)
		lease := pick(t, h, upstream.PickOptions{Hash: sum.Sum64() & 0xffff0000, HasHash: true})
		counts[letter(&lease)]++
		lease.Done(upstream.OK)
	}
	for name, n := range counts {
		if n < 800 || n > 1200 {
			t.Errorf("endpoint %s has %d of 4000 keys, 1000 are its share", name, n)
		}
	}
}

func TestWithoutHash(t *testing.T) {
	w := newWorld(t, upstream.Config{})
	w.serve(weighted(route.BalanceHash, 0, 0))
	h := w.Handle(shop)
	a := pick(t, h, upstream.PickOptions{})
	b := pick(t, h, upstream.PickOptions{})
	if a.Endpoint() == b.Endpoint() {
		t.Error("requests without a hash should go to the less busy endpoint")
	}
	a.Done(upstream.OK)
	b.Done(upstream.OK)
}
