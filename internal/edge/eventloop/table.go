//go:build linux

package eventloop

import (
	"errors"
	"sync"
	"sync/atomic"
)

const (
	// wakeSlot is what epoll returns for the eventfd.
	wakeSlot  = -1
	chunkSize = 256
	maxChunks = 1 << 13
)

// errFull is returned when a loop has two million sockets.
var errFull = errors.New("an event loop has no room for another socket")

// entry is what an event is for.
type entry interface{ happened(events uint32, on *Loop) }

// slot is a place in the table. Its generation distinguishes a socket from the one before,
// whose events may have been fetched already.
type slot struct {
	index      int32
	generation int32
	entry      entry
}

// table finds the entry of an event. Entries come and go on any goroutine; chunks never move.
type table struct {
	chunks [maxChunks]atomic.Pointer[[chunkSize]atomic.Pointer[slot]]

	mu          sync.Mutex // guards the rest
	free        []int32
	used        int32
	generations int32
}

// Generations wrap around after four thousand million sockets. An event would have to stay
// fetched for as long to be taken for another connection's.

// add fills a slot for an entry. Nothing else may have used it: events are compared with its
// generation without a lock.
func (t *table) add(s *slot, e entry) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var index int32
	if n := len(t.free); n > 0 {
		index, t.free = t.free[n-1], t.free[:n-1]
	} else {
		if t.used == maxChunks*chunkSize {
			return errFull
		}
		index = t.used
		t.used++
	}
	chunk := t.chunks[index/chunkSize].Load()
	if chunk == nil {
		chunk = new([chunkSize]atomic.Pointer[slot])
		t.chunks[index/chunkSize].Store(chunk)
	}
	t.generations++
	*s = slot{index: index, generation: t.generations, entry: e}
	chunk[index%chunkSize].Store(s)
	return nil
}

// remove frees a slot.
func (t *table) remove(s *slot) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chunks[s.index/chunkSize].Load()[s.index%chunkSize].Store(nil)
	t.free = append(t.free, s.index)
}

// find returns the entry of an event, nil if it is gone.
func (t *table) find(index, generation int32) entry {
	s := t.chunks[index/chunkSize].Load()[index%chunkSize].Load()
	if s == nil || s.generation != generation {
		return nil
	}
	return s.entry
}
