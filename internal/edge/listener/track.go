package listener

import (
	"net/netip"
	"sync"

	"slipway.dev/slipway/internal/edge/connset"
)

// tracker counts connections from their accept until they are closed.
type tracker struct {
	mu      sync.Mutex
	conns   connset.Set[*Conn]
	sources map[netip.Prefix]int

	draining bool
	closed   int           // connections that ended while draining
	empty    chan struct{} // closed when there are none; nil while no caller waits
	notify   func(*Conn)   // Drain's callback
}

func newTracker() *tracker {
	return &tracker{sources: make(map[netip.Prefix]int)}
}

// add counts a connection, unless there are too many.
func (t *tracker) add(c *Conn, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.conns) >= limit {
		return false
	}
	t.conns.Add(c)
	return true
}

// addSource counts a connection under its source, unless there are too many.
func (t *tracker) addSource(c *Conn, source netip.Prefix, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.conns.Has(c) {
		return false
	}
	if t.sources[source] >= limit {
		return false
	}
	t.sources[source]++
	c.source = source
	return true
}

// handOut marks a connection as returned by Accept, unless it was closed
// meanwhile.
func (t *tracker) handOut(c *Conn) (notify func(*Conn), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ok = t.conns.Has(c)
	c.handedOut = ok
	return t.notify, ok
}

// remove removes a connection, and reports whether Accept had returned it.
func (t *tracker) remove(c *Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.conns.Remove(c) {
		return false
	}
	if c.source.IsValid() {
		if t.sources[c.source]--; t.sources[c.source] == 0 {
			delete(t.sources, c.source)
		}
	}
	t.closed++
	t.announceEmpty()
	return c.handedOut
}

func (t *tracker) announceEmpty() {
	if t.empty != nil && len(t.conns) == 0 {
		close(t.empty)
		t.empty = nil
	}
}

// count is the number of connections.
func (t *tracker) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.conns)
}

// list returns the current connections: those that Accept returned, those that
// it has not, or all.
func (t *tracker) list(want func(given bool) bool) []*Conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	var conns []*Conn
	for _, c := range t.conns {
		if want(c.handedOut) {
			conns = append(conns, c)
		}
	}
	return conns
}

func wasHandedOut(given bool) bool { return given }
func pending(given bool) bool      { return !given }
func anyConn(bool) bool            { return true }

// startDrain starts counting the connections that end while draining.
func (t *tracker) startDrain(notify func(*Conn)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.draining {
		t.draining, t.notify, t.closed = true, notify, 0
	}
}

// ended is the number of connections that ended since startDrain.
func (t *tracker) ended() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// whenEmpty returns a channel that is closed when there are no connections.
func (t *tracker) whenEmpty() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.empty == nil {
		t.empty = make(chan struct{})
	}
	empty := t.empty
	t.announceEmpty()
	return empty
}

// sourceOf returns what counts as one client: an IPv4 address, or the /64
// network of an IPv6 address.
func sourceOf(addr netip.Addr) netip.Prefix {
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	prefix, _ := addr.Prefix(bits) // not valid, and never limited, if addr is not
	return prefix
}
