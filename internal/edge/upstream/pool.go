package upstream

import (
	"sync"

	"slipway.dev/slipway/internal/edge/upstream/h2client"
)

// pool holds the idle connections of one endpoint.
type pool struct {
	mu sync.Mutex
	// dialer is the way to make connections; those that were made another way
	// are not kept. Nil keeps none.
	dialer *dialer
	// idle is sorted by since: the last one in is the first one out.
	idle []*Conn
	// watched says that the sweeper knows the pool.
	watched bool
	// trunk has the HTTP/2 connections.
	trunk trunk
}

// takeIdle gives the most recently used connection that seems to be alive, or
// nil.
func (e *Endpoint) takeIdle() *Conn {
	s := e.handle.set
	for {
		conn := e.pool.pop()
		if conn == nil {
			return nil
		}
		switch unused := s.now() - conn.since; {
		case unused >= int64(s.cfg.IdleTimeout):
			s.stats.expired.Add(1)
		case unused < int64(s.cfg.CheckAfter) || conn.sound():
			conn.reused = true
			e.reused.Add(1)
			return conn
		}
		conn.Close()
	}
}

func (p *pool) pop() *Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	conn := p.idle[n-1]
	p.idle[n-1] = nil
	p.idle = p.idle[:n-1]
	conn.idle = false
	return conn
}

// put keeps a connection, and reports whether it did.
func (e *Endpoint) put(conn *Conn) bool {
	s := e.handle.set
	p := &e.pool
	p.mu.Lock()
	if conn.idle {
		// Released twice. Keeping it twice would mix up two requests.
		p.mu.Unlock()
		return true
	}
	if p.dialer != conn.dialer || conn.dialer == nil {
		p.mu.Unlock()
		return false
	}
	if len(p.idle) >= s.cfg.MaxIdlePerEndpoint {
		p.mu.Unlock()
		s.stats.overflows.Add(1)
		return false
	}
	conn.since = s.now()
	conn.idle = true
	p.idle = append(p.idle, conn)
	watched := p.watched
	p.watched = true
	p.mu.Unlock()
	if !watched {
		s.sweeper.watch(e)
	}
	return true
}

// rewire changes the way to make connections, and closes what was made the old
// way. It must be done before requests see the new way.
func (e *Endpoint) rewire(d *dialer) {
	e.pool.mu.Lock()
	var old []*Conn
	var shared []*h2client.Conn
	if e.pool.dialer != d {
		e.pool.dialer = d
		old, shared = e.pool.takeAll(), e.pool.trunk.takeAll()
	}
	e.pool.mu.Unlock()
	closeAll(old)
	retireAll(shared)
}

// retire is for an endpoint that left the table.
func (e *Endpoint) retire() {
	e.gone.Store(true)
	e.rewire(nil)
}

func (e *Endpoint) dropIdle() {
	e.pool.mu.Lock()
	old, shared := e.pool.takeAll(), e.pool.trunk.takeAll()
	e.pool.mu.Unlock()
	closeAll(old)
	retireAll(shared)
}

func (p *pool) takeAll() []*Conn {
	all := p.idle
	p.idle = nil
	for _, conn := range all {
		conn.idle = false
	}
	return all
}

// expire closes what has been idle since before the given time. It returns when
// the oldest of the rest was used, or 0 when there is none; the sweeper forgets
// the pool then.
func (e *Endpoint) expire(before int64) (oldest int64, closed int) {
	p := &e.pool
	p.mu.Lock()
	n := 0
	for n < len(p.idle) && p.idle[n].since <= before {
		n++
	}
	var old []*Conn
	switch {
	case n == len(p.idle):
		// Nothing is left: let go of the list too.
		old = p.takeAll()
		p.watched = false
	case n > 0:
		old = append(old, p.idle[:n]...)
		for _, conn := range old {
			conn.idle = false
		}
		kept := copy(p.idle, p.idle[n:])
		clear(p.idle[kept:])
		p.idle = p.idle[:kept]
		fallthrough
	default:
		oldest = p.idle[0].since
	}
	p.mu.Unlock()
	closeAll(old)
	return oldest, len(old)
}

func (p *pool) idleCount() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.idle) + p.trunk.idleCount()
}

func closeAll(conns []*Conn) {
	for _, conn := range conns {
		conn.farewell()
	}
}
