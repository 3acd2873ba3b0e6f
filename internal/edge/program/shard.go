package program

import (
	"hash/maphash"
	"math/bits"
	"slices"
)

// shardCount is the number of lists that a sharded index is split into. A
// change copies one of them, with 100,000 entries about 400, and where all lists
// are.
const shardCount = 256

// keyed is a pointer to something that knows its own key.
type keyed[K comparable] interface {
	comparable
	key() K
}

// sharded is an index that never changes. A changed copy of it shares all
// shards but those with a change. A shard is a list in the order of the hashes:
// next to a map it is quick to copy, and it keeps what a lookup reads together.
type sharded[K comparable, V keyed[K]] struct {
	seed   maphash.Seed
	shards *[shardCount][]slot[V]
	size   int
}

type slot[V any] struct {
	hash  uint64
	value V
}

func newSharded[K comparable, V keyed[K]]() sharded[K, V] {
	return sharded[K, V]{seed: maphash.MakeSeed(), shards: new([shardCount][]slot[V])}
}

// get gives the value of a key, and the zero value when there is none.
func (s *sharded[K, V]) get(key K) V {
	hash := maphash.Comparable(s.seed, key)
	shard := s.shards[hash%shardCount]
	for i := position(shard, hash); i < len(shard) && shard[i].hash == hash; i++ {
		if shard[i].value.key() == key {
			return shard[i].value
		}
	}
	var none V
	return none
}

// position is where the first slot with a hash is or would be. Hashes are spread
// evenly, so that it is near to the place that their share of all hashes gives.
func position[V any](shard []slot[V], hash uint64) int {
	at, _ := bits.Mul64(hash, uint64(len(shard)))
	i := int(at)
	for i > 0 && shard[i-1].hash >= hash {
		i--
	}
	for i < len(shard) && shard[i].hash < hash {
		i++
	}
	return i
}

// shardEdit makes a changed copy. It copies a shard before the first change to
// it, so that many changes cost little more than one.
type shardEdit[K comparable, V keyed[K]] struct {
	sharded[K, V]
	started bool
	owned   [shardCount]bool
}

func (s sharded[K, V]) edit() *shardEdit[K, V] { return &shardEdit[K, V]{sharded: s} }

// own makes the shard of a hash free to be changed.
func (e *shardEdit[K, V]) own(hash uint64) *[]slot[V] {
	if !e.started {
		shards := *e.shards
		e.shards = &shards
		e.started = true
	}
	i := hash % shardCount
	if !e.owned[i] {
		e.owned[i] = true
		e.shards[i] = slices.Clone(e.shards[i])
	}
	return &e.shards[i]
}

// set puts a value in the place of the one with its key, or adds it.
func (e *shardEdit[K, V]) set(value V) {
	key := value.key()
	hash := maphash.Comparable(e.seed, key)
	shard := e.own(hash)
	i := position(*shard, hash)
	for ; i < len(*shard) && (*shard)[i].hash == hash; i++ {
		if (*shard)[i].value.key() == key {
			(*shard)[i].value = value
			return
		}
	}
	*shard = slices.Insert(*shard, i, slot[V]{hash, value})
	e.size++
}

// delete takes out the value with a key.
func (e *shardEdit[K, V]) delete(key K) {
	hash := maphash.Comparable(e.seed, key)
	shard := e.own(hash)
	for i := position(*shard, hash); i < len(*shard) && (*shard)[i].hash == hash; i++ {
		if (*shard)[i].value.key() == key {
			*shard = slices.Delete(*shard, i, i+1)
			e.size--
			return
		}
	}
}
