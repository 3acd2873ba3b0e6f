package upstream

import (
	"sync"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/upstream/h2client"
)

// pool holds the idle connections of one endpoint.
type pool struct {
	mu sync.Mutex
	// top is the connection that was used last. The others follow it in the
	// order of their use: the last one in is the first one out, so that rarely
	// used ones expire.
	top *Conn
	// looped are the same for the connections of each event loop; nil before the first one.
	looped []*Conn
	// dialer makes connections; those of another dialer are not kept. Nil keeps
	// none.
	dialer *dialer
	// count is the number of idle connections.
	count int
	// swept is set if the pool is in the list of the sweeper.
	swept bool
	// shared has the HTTP/2 connections of goroutines, and loopedShared those of each event
	// loop; nil before the first one.
	shared       sharedConns
	loopedShared []sharedConns
}

// takeIdle returns the most recently used connection of a loop that is still usable, or
// nil. Nil is the loop of goroutines.
func (e *Endpoint) takeIdle(loop *eventloop.Loop) *Conn {
	s := e.handle.set
	for {
		conn := e.pool.pop(loop)
		if conn == nil {
			return nil
		}
		switch unused := s.now() - conn.idleSince; {
		case unused >= int64(s.cfg.IdleTimeout):
			s.stats.expired.Add(1)
		case (unused < int64(s.cfg.CheckAfter) || conn.usable()) && conn.moveTo(loop):
			conn.reused = true
			e.reused.Add(1)
			return conn
		}
		conn.Close()
	}
}

// pop takes a connection of a loop, or of another one if it has none.
func (p *pool) pop(loop *eventloop.Loop) *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	from := p.stack(loop)
	if loop != nil && *from == nil {
		for i := range p.looped {
			if p.looped[i] != nil {
				from = &p.looped[i]
				break
			}
		}
	}
	conn := *from
	if conn != nil {
		*from, conn.next = conn.next, nil
		p.count--
		conn.idle = false
	}
	return conn
}

// stack is the list of idle connections of a loop. It is called with mu held.
func (p *pool) stack(loop *eventloop.Loop) **Conn {
	if loop == nil {
		return &p.top
	}
	for len(p.looped) <= loop.Index() {
		p.looped = append(p.looped, nil)
	}
	return &p.looped[loop.Index()]
}

// stacks are all lists of idle connections. It is called with mu held.
func (p *pool) stacks(yield func(**Conn) bool) {
	for i := range p.looped {
		if !yield(&p.looped[i]) {
			return
		}
	}
	yield(&p.top)
}

// put returns a connection to the pool, and reports whether the pool kept it.
func (e *Endpoint) put(conn *Conn) bool {
	s := e.handle.set
	p := &e.pool
	p.mu.Lock()
	if conn.idle {
		// It was released twice. Keeping it twice would mix up two requests.
		p.mu.Unlock()
		return true
	}
	if p.dialer != conn.dialer || conn.dialer == nil {
		p.mu.Unlock()
		return false
	}
	if p.count >= s.cfg.MaxIdlePerEndpoint {
		p.mu.Unlock()
		s.stats.overflows.Add(1)
		return false
	}
	conn.idleSince = s.now()
	conn.idle = true
	top := p.stack(conn.loop())
	*top, conn.next = conn, *top
	p.count++
	watched := p.swept
	p.swept = true
	p.mu.Unlock()
	if !watched {
		s.sweeper.watch(e)
	}
	return true
}

// resetTransport changes the dialer, and closes the connections of the old one.
// It must be done before requests see the new endpoint set.
func (e *Endpoint) resetTransport(d *dialer) {
	e.pool.mu.Lock()
	var old []*Conn
	var shared []*h2client.Conn
	if e.pool.dialer != d {
		e.pool.dialer = d
		old, shared = e.pool.takeAll(), e.pool.takeAllShared()
	}
	e.pool.mu.Unlock()
	closeAll(old)
	drainAll(shared)
}

// close closes the connections of an endpoint that was removed.
func (e *Endpoint) close() {
	e.removed.Store(true)
	e.resetTransport(nil)
}

func (e *Endpoint) closeIdle() {
	e.pool.mu.Lock()
	old, shared := e.pool.takeAll(), e.pool.takeAllShared()
	e.pool.mu.Unlock()
	closeAll(old)
	drainAll(shared)
}

func (p *pool) takeAll() (taken []*Conn) {
	for top := range p.stacks {
		taken = append(taken, p.takeBelow(top)...)
	}
	return taken
}

// takeBelow takes a connection and all that were used before it. It is called
// with mu held.
func (p *pool) takeBelow(from **Conn) (taken []*Conn) {
	conn := *from
	*from = nil
	for conn != nil {
		taken = append(taken, conn)
		conn.idle = false
		p.count--
		conn, conn.next = conn.next, nil
	}
	return taken
}

// expire closes connections that have been idle since before the given time. It
// returns when the oldest of the rest was used, or 0 when there is none; the
// sweeper drops the pool from its list then.
func (e *Endpoint) expire(before int64) (oldest int64, closed int) {
	p := &e.pool
	p.mu.Lock()
	var old []*Conn
	for from := range p.stacks {
		for *from != nil && (*from).idleSince > before {
			if since := (*from).idleSince; oldest == 0 || since < oldest {
				oldest = since
			}
			from = &(*from).next
		}
		old = append(old, p.takeBelow(from)...)
	}
	p.swept = p.count > 0
	p.mu.Unlock()
	closeAll(old)
	return oldest, len(old)
}

func (p *pool) idleCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count + p.idleShared()
}

func closeAll(conns []*Conn) {
	for _, conn := range conns {
		conn.closeGracefully()
	}
}
