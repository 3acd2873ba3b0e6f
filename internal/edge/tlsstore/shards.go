package tlsstore

import (
	"hash/maphash"
	"maps"
)

// shardCount is the number of maps that a sharded map is split into. A change
// copies one of them: with 10,000 entries about 40.
const shardCount = 256

// shards is a map that never changes. A changed copy of it shares all maps but
// those with a change.
type shards[K comparable, V any] struct {
	seed  maphash.Seed
	hash  func(maphash.Seed, K) uint64
	parts *[shardCount]map[K]V
}

func newShards[K comparable, V any](hash func(maphash.Seed, K) uint64) shards[K, V] {
	return shards[K, V]{seed: maphash.MakeSeed(), hash: hash, parts: new([shardCount]map[K]V)}
}

// part is the map for what has a hash.
func (s *shards[K, V]) part(hash uint64) map[K]V { return s.parts[hash%shardCount] }

// get returns the value of a key, and the zero value when there is none.
func (s *shards[K, V]) get(key K) V { return s.part(s.hash(s.seed, key))[key] }

// each calls a function for every entry, in no order.
func (s *shards[K, V]) each(do func(K, V)) {
	for _, part := range s.parts {
		for key, value := range part {
			do(key, value)
		}
	}
}

// shardsEdit makes a changed copy.
type shardsEdit[K comparable, V any] struct {
	shards[K, V]
	owned [shardCount]bool // those that are copied already
}

func (s shards[K, V]) edit() *shardsEdit[K, V] {
	parts := *s.parts
	s.parts = &parts
	return &shardsEdit[K, V]{shards: s}
}

// own returns the map of a key, copied if it is still shared.
func (e *shardsEdit[K, V]) own(key K) map[K]V {
	i := e.hash(e.seed, key) % shardCount
	if !e.owned[i] {
		e.owned[i] = true
		if e.parts[i] == nil {
			e.parts[i] = map[K]V{}
		} else {
			e.parts[i] = maps.Clone(e.parts[i])
		}
	}
	return e.parts[i]
}

func (e *shardsEdit[K, V]) set(key K, value V) { e.own(key)[key] = value }

func (e *shardsEdit[K, V]) delete(key K) { delete(e.own(key), key) }
