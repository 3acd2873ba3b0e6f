package upstream

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/upstream/h2client"
)

// sharedConns are the HTTP/2 connections of one endpoint, which its requests
// share: those of an event loop, for the requests on it, or those of goroutines. One
// connection is filled before another is made, and one is made at a
// time: when many requests come at once, the first of them dials and the others
// wait for it. The pool's mutex guards it.
type sharedConns struct {
	conns   []*h2client.Conn
	dialing *dialing // nil while no request dials
	// http1 is set if the endpoint chose HTTP/1.1 last time. Such a connection
	// cannot be shared, so each request dials for itself then.
	http1 bool
}

// dialing is a connection that is being made.
type dialing struct {
	over  bool
	err   error          // why it failed; valid once over is set
	ended eventloop.Cond // signalled when it is over
}

// sharedBy returns the shared connections for a task, or for goroutines. It is called with
// mu held, and the result is valid no longer.
func (p *pool) sharedBy(task *eventloop.Task) *sharedConns {
	if !task.OnLoop() {
		return &p.shared
	}
	at := task.Loop().Index()
	for len(p.loopedShared) <= at {
		p.loopedShared = append(p.loopedShared, sharedConns{})
	}
	return &p.loopedShared[at]
}

// allShared are the shared connections of goroutines and of each event loop. It is called with
// mu held.
func (p *pool) allShared(yield func(*sharedConns) bool) {
	for i := range p.loopedShared {
		if !yield(&p.loopedShared[i]) {
			return
		}
	}
	yield(&p.shared)
}

// takeStream returns a stream of a shared connection that has room, or nil.
func (e *Endpoint) takeStream(task *eventloop.Task, d *dialer) *Conn {
	p := &e.pool
	p.mu.Lock()
	var s *h2client.Stream
	if p.dialer == d {
		s = p.sharedBy(task).openStream(task)
	}
	p.mu.Unlock()
	if s == nil {
		return nil
	}
	return e.wrapStream(s, d)
}

// connectShared returns a stream of a shared connection, and makes one if none
// has room. With fresh, it makes one or waits for one that is being made.
func (e *Endpoint) connectShared(ctx context.Context, task *eventloop.Task, d *dialer, fresh bool) (*Conn, error) {
	p := &e.pool
	for {
		p.mu.Lock()
		if p.dialer != d {
			// The backend has changed since the request picked this endpoint.
			p.mu.Unlock()
			return e.dialShared(ctx, task, d)
		}
		if !fresh {
			if s := p.sharedBy(task).openStream(task); s != nil {
				p.mu.Unlock()
				return e.wrapStream(s, d), nil
			}
		}
		if current := p.sharedBy(task).dialing; current != nil {
			err := p.awaitDial(ctx, task, current)
			p.mu.Unlock()
			if ctx.Err() != nil {
				err = &ConnectError{Address: e.address, Err: ctx.Err()}
			} else if isCallerTimeout(err) {
				err = nil
			}
			if err != nil {
				return nil, err
			}
			fresh = false
			continue
		}
		mine := new(dialing)
		mine.ended.Init(&p.mu)
		if shared := p.sharedBy(task); !shared.http1 {
			shared.dialing = mine
		}
		p.mu.Unlock()
		conn, err := e.dialShared(ctx, task, d)
		p.mu.Lock()
		if shared := p.sharedBy(task); shared.dialing == mine {
			shared.dialing = nil
		}
		mine.over, mine.err = true, err
		mine.ended.Wake(task)
		p.mu.Unlock()
		return conn, err
	}
}

// awaitDial waits for a connection that another request makes, and returns why that failed. It
// is called with mu held, and releases it while it waits.
func (p *pool) awaitDial(ctx context.Context, task *eventloop.Task, current *dialing) error {
	stop := context.AfterFunc(ctx, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		current.ended.Wake(nil)
	})
	defer stop()
	for !current.over && ctx.Err() == nil {
		current.ended.Wait(task)
	}
	return current.err
}

// isCallerTimeout reports whether the dial of another request failed because of
// that request's own context or timeout. The others may have more time.
func isCallerTimeout(err error) bool {
	var failed *ConnectError
	return errors.Is(err, context.Canceled) || errors.As(err, &failed) && failed.Timeout()
}

// openStream opens a stream on the first connection that has room.
func (t *sharedConns) openStream(task *eventloop.Task) *h2client.Stream {
	t.conns = slices.DeleteFunc(t.conns, (*h2client.Conn).Closing)
	for _, conn := range t.conns {
		if s := conn.OpenStream(task); s != nil {
			return s
		}
	}
	return nil
}

// wrapStream makes a Conn of a stream.
func (e *Endpoint) wrapStream(s *h2client.Stream, d *dialer) *Conn {
	e.handle.set.stats.streams.Add(1)
	if s.Reused() {
		e.reused.Add(1)
	}
	conn := e.wrap(link{conn: s}, d)
	conn.stream = s
	return conn
}

// dialShared makes a connection, and shares it if it is HTTP/2.
func (e *Endpoint) dialShared(ctx context.Context, task *eventloop.Task, d *dialer) (*Conn, error) {
	if e.handle.set.stop.Err() != nil {
		return nil, &ConnectError{Address: e.address, Err: ErrClosed}
	}
	stats := &e.handle.set.stats
	link, err := e.dialFor(ctx, task, d)
	if err != nil {
		stats.connectFailures.Add(1)
		return nil, err
	}
	e.openConns.Add(1)
	if !link.http2 {
		stats.connects.Add(1)
		e.pool.addShared(nil, task, d)
		return e.wrap(link, d), nil
	}
	shared, err := h2client.Start(ctx, task, link.conn, e.sharedConfig(link))
	if err != nil {
		stats.connectFailures.Add(1)
		return nil, &ConnectError{Address: e.address, Err: err}
	}
	stats.connects.Add(1)
	s := shared.OpenStream(task)
	if !e.pool.addShared(shared, task, d) {
		shared.Drain()
	}
	if s == nil {
		return nil, &ConnectError{Address: e.address, Err: errShortLived}
	}
	return e.wrapStream(s, d), nil
}

// dialFor connects on the event loop of a task, or for goroutines.
func (e *Endpoint) dialFor(ctx context.Context, task *eventloop.Task, d *dialer) (link, error) {
	if !task.OnLoop() {
		return d.dial(ctx, e)
	}
	until, _ := ctx.Deadline()
	socket, err := e.dialOn(task, d, until)
	if err != nil {
		return link{}, err
	}
	socket.Bind(nil) // another task reads it
	return link{conn: socket, loop: socket, http2: true}, nil
}

func (e *Endpoint) sharedConfig(l link) h2client.Config {
	cfg := &e.handle.set.cfg
	return h2client.Config{
		Pool:         cfg.Pool,
		Limits:       cfg.Limits,
		WriteTimeout: cmp.Or(cfg.Timeouts.Write, DefaultConfig().Timeouts.Write),
		IdleTimeout:  cfg.IdleTimeout,
		PingAfter:    cfg.PingAfter,
		PingTimeout:  cfg.PingTimeout,
		Secure:       l.tap != nil,
		Abort:        l.abort,
		OnClose:      e.sharedClosed,
	}
}

// sharedClosed is called when a shared connection is closed.
func (e *Endpoint) sharedClosed(gone *h2client.Conn) {
	e.openConns.Add(-1)
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	for shared := range e.pool.allShared {
		shared.conns = slices.DeleteFunc(shared.conns, func(c *h2client.Conn) bool { return c == gone })
	}
}

// addShared notes the protocol that an endpoint chose, and keeps a connection
// to share. It reports whether it did: one of an old dialer is not kept.
func (p *pool) addShared(shared *h2client.Conn, task *eventloop.Task, d *dialer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dialer != d {
		return false
	}
	of := p.sharedBy(task)
	of.http1 = shared == nil
	if shared != nil {
		of.conns = append(of.conns, shared)
	}
	return true
}

// takeAllShared removes all shared connections. It is called with mu held.
func (p *pool) takeAllShared() (all []*h2client.Conn) {
	for shared := range p.allShared {
		all = append(all, shared.conns...)
		shared.conns = nil
	}
	return all
}

// listShared returns the shared connections.
func (p *pool) listShared() (all []*h2client.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for shared := range p.allShared {
		all = append(all, shared.conns...)
	}
	return all
}

// idleShared counts the shared connections without a stream. It is called with mu held.
func (p *pool) idleShared() (idle int) {
	for shared := range p.allShared {
		for _, conn := range shared.conns {
			if conn.ActiveStreams() == 0 {
				idle++
			}
		}
	}
	return idle
}

// drainAll closes shared connections after their last stream.
func drainAll(conns []*h2client.Conn) {
	for _, conn := range conns {
		conn.Drain()
	}
}
