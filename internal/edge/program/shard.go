package program

import (
	"hash/maphash"
	"slices"
)

// shardCount is the number of lists that a sharded index is split into. A
// change copies one of them, with 100,000 entries about 400, and the array of
// lists.
const shardCount = 256

// keyed is a pointer to a value that has its own key.
type keyed[K comparable] interface {
	comparable
	key() K
}

// sharded is an immutable hash index. A changed copy shares all shards except
// those with a change.
type sharded[K comparable, V keyed[K]] struct {
	seed   maphash.Seed
	shards *[shardCount]shard[V]
	size   int
}

// shard is a list in the order of the tags, which are a part of the hashes: it
// is quicker to copy than a map. A lookup reads only tags and one value, so
// that with thousands of entries most of it stays in the CPU cache.
type shard[V any] struct {
	tags   []tag
	values []V // one for each tag
}

// tag is the upper part of a hash; the lower part selects the shard.
type tag uint16

const tagBits = 16

// tagOf uses the upper bits, because the lower ones select the shard.
func tagOf(hash uint64) tag { return tag(hash >> (64 - tagBits)) }

// newSharded makes an empty index with a seed of its own, so that clients cannot
// choose hosts that collide.
func newSharded[K comparable, V keyed[K]]() sharded[K, V] {
	return sharded[K, V]{seed: maphash.MakeSeed(), shards: new([shardCount]shard[V])}
}

// get returns the value of a key, and the zero value when there is none.
func (s *sharded[K, V]) get(key K) (value V) {
	hash := maphash.Comparable(s.seed, key)
	in := &s.shards[hash%shardCount]
	if i, found := find(in, hash, key); found {
		return in.values[i]
	}
	return value
}

// find returns where a key is, or where it would be inserted.
func find[K comparable, V keyed[K]](in *shard[V], hash uint64, key K) (at int, found bool) {
	want := tagOf(hash)
	at = in.position(want)
	for ; at < len(in.tags) && in.tags[at] == want; at++ {
		if in.values[at].key() == key {
			return at, true
		}
	}
	return at, false
}

// position returns the place of the first value with a tag, or where it would
// be. Hashes are uniform, so it is near the place that interpolation gives, and
// no binary search is needed.
func (s *shard[V]) position(want tag) int {
	i := int(want) * len(s.tags) >> tagBits
	for i > 0 && s.tags[i-1] >= want {
		i--
	}
	for i < len(s.tags) && s.tags[i] < want {
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

// own returns the shard of a hash, copied if it is still shared.
func (e *shardEdit[K, V]) own(hash uint64) *shard[V] {
	if !e.started {
		shards := *e.shards
		e.shards = &shards
		e.started = true
	}
	i := hash % shardCount
	owned := &e.shards[i]
	if !e.owned[i] {
		e.owned[i] = true
		owned.tags, owned.values = slices.Clone(owned.tags), slices.Clone(owned.values)
	}
	return owned
}

// set replaces the value with the same key, or adds it.
func (e *shardEdit[K, V]) set(value V) {
	key := value.key()
	hash := maphash.Comparable(e.seed, key)
	in := e.own(hash)
	i, found := find(in, hash, key)
	if found {
		in.values[i] = value
		return
	}
	in.tags = slices.Insert(in.tags, i, tagOf(hash))
	in.values = slices.Insert(in.values, i, value)
	e.size++
}

// delete removes the value with a key.
func (e *shardEdit[K, V]) delete(key K) {
	hash := maphash.Comparable(e.seed, key)
	in := e.own(hash)
	if i, found := find(in, hash, key); found {
		in.tags = slices.Delete(in.tags, i, i+1)
		in.values = slices.Delete(in.values, i, i+1)
		e.size--
	}
}
