package cache

import (
	"sync"
	"weak"
)

// sweepSlack is how many entries a Weak map may have before the first sweep,
// and how many more than twice the live ones before the next.
const sweepSlack = 64

// Weak maps keys to values that it does not keep alive: a value is found for as
// long as something else refers to it. It is for state that belongs to an
// identity, survives the replacement of the objects that use it, and goes with
// the last of them. The zero value is an empty map.
//
// Entries of dead values are removed in sweeps, when the map has grown to twice
// its live size. So the cost of a sweep is constant per entry, and the map
// never has more than about twice as many entries as live values.
type Weak[K comparable, V any] struct {
	mu      sync.Mutex
	entries map[K]weak.Pointer[V]
	sweepAt int // the number of entries at which to sweep
}

// Get returns the live value of a key, or nil.
func (w *Weak[K, V]) Get(key K) *V {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.entries[key].Value()
}

// GetOrCreate returns the live value of a key, or the one that create makes. It
// holds the lock of the map while create runs, so that a key has one value.
func (w *Weak[K, V]) GetOrCreate(key K, create func() *V) *V {
	w.mu.Lock()
	defer w.mu.Unlock()
	if value := w.entries[key].Value(); value != nil {
		return value
	}
	value := create()
	w.put(key, value)
	return value
}

// Put sets the value of a key.
func (w *Weak[K, V]) Put(key K, value *V) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(key, value)
}

// put is called with mu held. It sweeps before it adds: the caller holds the
// value, so a sweep afterwards could only find it alive.
func (w *Weak[K, V]) put(key K, value *V) {
	if len(w.entries) >= w.sweepAt {
		w.sweep()
	}
	w.entries[key] = weak.Make(value)
}

func (w *Weak[K, V]) sweep() {
	if w.entries == nil {
		w.entries = map[K]weak.Pointer[V]{}
	}
	for key, pointer := range w.entries {
		if pointer.Value() == nil {
			delete(w.entries, key)
		}
	}
	w.sweepAt = 2*len(w.entries) + sweepSlack
}

// Delete removes a key.
func (w *Weak[K, V]) Delete(key K) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.entries, key)
}

// Live returns a copy of the map with the values that are alive, which the copy
// keeps alive.
func (w *Weak[K, V]) Live() map[K]*V {
	w.mu.Lock()
	defer w.mu.Unlock()
	live := make(map[K]*V, len(w.entries))
	for key, pointer := range w.entries {
		if value := pointer.Value(); value != nil {
			live[key] = value
		}
	}
	return live
}
