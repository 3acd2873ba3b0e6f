package upstream

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"slipway.dev/slipway/internal/edge/upstream/h2client"
)

// sharedConns are the HTTP/2 connections of one endpoint, which its requests
// share. One connection is filled before another is made, and one is made at a
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
	done chan struct{}
	err  error // valid once done is closed
}

// connectShared returns a stream of a shared connection, and makes one if none
// has room.
func (e *Endpoint) connectShared(ctx context.Context, d *dialer, fresh bool) (*Conn, error) {
	p := &e.pool
	for {
		p.mu.Lock()
		if p.dialer != d {
			// The backend has changed since the request picked this endpoint.
			p.mu.Unlock()
			return e.dialShared(ctx, d)
		}
		if !fresh {
			if s := p.shared.openStream(); s != nil {
				p.mu.Unlock()
				return e.wrapStream(s, d), nil
			}
		}
		current := p.shared.dialing
		if current == nil {
			mine := &dialing{done: make(chan struct{})}
			if !p.shared.http1 {
				p.shared.dialing = mine
			}
			p.mu.Unlock()
			conn, err := e.dialShared(ctx, d)
			p.mu.Lock()
			if p.shared.dialing == mine {
				p.shared.dialing = nil
			}
			p.mu.Unlock()
			mine.err = err
			close(mine.done)
			return conn, err
		}
		p.mu.Unlock()
		select {
		case <-current.done:
		case <-ctx.Done():
			return nil, &ConnectError{Address: e.address, Err: ctx.Err()}
		}
		if err := current.err; err != nil && !isCallerTimeout(err) {
			return nil, err
		}
		fresh = false
	}
}

// isCallerTimeout reports whether the dial of another request failed because of
// that request's own context or timeout. The others may have more time.
func isCallerTimeout(err error) bool {
	var failed *ConnectError
	return errors.Is(err, context.Canceled) || errors.As(err, &failed) && failed.Timeout()
}

// openStream opens a stream on the first connection that has room.
func (t *sharedConns) openStream() *h2client.Stream {
	t.conns = slices.DeleteFunc(t.conns, (*h2client.Conn).Closing)
	for _, conn := range t.conns {
		if s := conn.OpenStream(); s != nil {
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
func (e *Endpoint) dialShared(ctx context.Context, d *dialer) (*Conn, error) {
	if e.handle.set.stop.Err() != nil {
		return nil, &ConnectError{Address: e.address, Err: ErrClosed}
	}
	stats := &e.handle.set.stats
	link, err := d.dial(ctx, e)
	if err != nil {
		stats.connectFailures.Add(1)
		return nil, err
	}
	e.openConns.Add(1)
	if !link.http2 {
		stats.connects.Add(1)
		e.pool.addShared(nil, d)
		return e.wrap(link, d), nil
	}
	shared, err := h2client.Start(ctx, link.conn, e.sharedConfig(link))
	if err != nil {
		stats.connectFailures.Add(1)
		return nil, &ConnectError{Address: e.address, Err: err}
	}
	stats.connects.Add(1)
	s := shared.OpenStream()
	if !e.pool.addShared(shared, d) {
		shared.Drain()
	}
	if s == nil {
		return nil, &ConnectError{Address: e.address, Err: errShortLived}
	}
	return e.wrapStream(s, d), nil
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
	e.pool.shared.conns = slices.DeleteFunc(e.pool.shared.conns, func(c *h2client.Conn) bool { return c == gone })
}

// addShared notes the protocol that an endpoint chose, and keeps a connection
// to share. It reports whether it did: one of an old dialer is not kept.
func (p *pool) addShared(shared *h2client.Conn, d *dialer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dialer != d {
		return false
	}
	p.shared.http1 = shared == nil
	if shared != nil {
		p.shared.conns = append(p.shared.conns, shared)
	}
	return true
}

// takeAll removes all connections. It is called with the pool's mutex held.
func (t *sharedConns) takeAll() []*h2client.Conn {
	all := t.conns
	t.conns = nil
	return all
}

// listShared returns the shared connections.
func (p *pool) listShared() []*h2client.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.shared.conns)
}

func (t *sharedConns) idleCount() int {
	idle := 0
	for _, conn := range t.conns {
		if conn.ActiveStreams() == 0 {
			idle++
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
