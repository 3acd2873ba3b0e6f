package upstream

import (
	"cmp"
	"context"
	"net"
	"time"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream/h2client"
)

// Conn is an HTTP/1.1 connection to an endpoint, plain or TLS, or a stream of a
// shared HTTP/2 connection that carries one exchange. The caller of Connect
// ends it with Release or Close, once.
//
// It is one allocation, and the fields that each request reads come first: with
// thousands of endpoints most requests find their connection in no CPU cache.
type Conn struct {
	Reader *h1.Reader
	Writer *h1.Writer
	// Limits are those for the heads of responses.
	Limits *h1.Limits

	endpoint      *Endpoint
	dialer        *dialer
	next          *Conn // the connection below it in the pool, whose mutex guards this
	idleSince     int64
	reused        bool
	idle          bool // it is in the pool, whose mutex guards this
	closed        bool
	timeoutsSet   bool             // the two timeouts below were set
	stream        *h2client.Stream // nil for HTTP/1.1
	headerTimeout time.Duration    // as given to SetTimeouts
	bodyTimeout   time.Duration
	waits         uint64 // of the loop when the connection was released
	link          link

	reader h1.Reader
	writer h1.Writer
}

// connect makes a connection. With HTTP/2 it may return a stream of one that is
// shared; with fresh, only of one that is being made.
func (e *Endpoint) connect(ctx context.Context, d *dialer, timeout time.Duration, fresh bool) (*Conn, error) {
	if d.protocol.HTTP2() {
		return e.connectStream(ctx, nil, d, timeout, fresh)
	}
	ctx, cancel := e.withConnectTimeout(ctx, timeout)
	defer cancel()
	return e.dialSingle(ctx, d)
}

// connectStream is connect for HTTP/2. Most requests find a connection with room, and need no
// context with a timeout.
func (e *Endpoint) connectStream(ctx context.Context, task *eventloop.Task, d *dialer, timeout time.Duration, fresh bool) (*Conn, error) {
	if !fresh {
		if conn := e.takeStream(task, d); conn != nil {
			return conn, nil
		}
	}
	ctx, cancel := e.withConnectTimeout(ctx, timeout)
	defer cancel()
	return e.connectShared(ctx, task, d, fresh)
}

// withConnectTimeout returns a context with the timeout of a connect; 0 is the
// default.
func (e *Endpoint) withConnectTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		timeout = e.handle.set.cfg.ConnectTimeout
	}
	return context.WithTimeout(ctx, timeout)
}

// dialSingle makes a connection that is not shared.
func (e *Endpoint) dialSingle(ctx context.Context, d *dialer) (*Conn, error) {
	s := e.handle.set
	if s.stop.Err() != nil {
		return nil, &ConnectError{Address: e.address, Err: ErrClosed}
	}
	link, err := d.dial(ctx, e)
	if err != nil {
		s.stats.connectFailures.Add(1)
		return nil, err
	}
	s.stats.connects.Add(1)
	e.openConns.Add(1)
	return e.wrap(link, d), nil
}

// wrap makes a Conn of a connection on which HTTP/1.1 is spoken.
func (e *Endpoint) wrap(link link, d *dialer) *Conn {
	cfg := &e.handle.set.cfg
	c := &Conn{Limits: &cfg.Limits, link: link, endpoint: e, dialer: d}
	c.Reader, c.Writer = &c.reader, &c.writer
	c.reader.Init(link.conn, cfg.Pool, cfg.Timeouts)
	c.writer.Init(link.conn, cfg.Pool, cfg.Timeouts)
	if link.loop != nil {
		c.Writer.UseSocket(link.loop)
	} else if link.raw != nil && link.tap == nil {
		// takeIdle checks the socket before each use, so there is nothing to
		// read.
		c.Reader.UseRawConn(link.raw)
	}
	return c
}

// SetTimeouts sets the timeouts of the next exchange: for the head of the
// response, and between two pieces of a body. 0 means the default. They hold
// until they are set again. It returns the effective header timeout.
func (c *Conn) SetTimeouts(header, idle time.Duration) time.Duration {
	defaults := &c.endpoint.handle.set.cfg.Timeouts
	c.Reader.SetPollInterval(0)
	if !c.timeoutsSet || header != c.headerTimeout || idle != c.bodyTimeout {
		c.timeoutsSet, c.headerTimeout, c.bodyTimeout = true, header, idle
		times := *defaults
		times.Idle = cmp.Or(header, times.Idle)
		times.Body = cmp.Or(idle, times.Body)
		times.Write = cmp.Or(idle, times.Write)
		c.Reader.SetTimeouts(times)
		c.Writer.SetTimeouts(times)
	}
	return cmp.Or(header, defaults.Idle)
}

// NetConn is the connection itself, for protocols that take over after an
// upgrade, and for TCP routes. With HTTP/2 it is the stream, unless it comes
// from Dial: closing it cancels the exchange.
func (c *Conn) NetConn() net.Conn { return c.link.conn }

// Takes reports whether a request with a body of a size does not have to wait for the windows of
// HTTP/2, which an endpoint may open only after its response has begun.
func (c *Conn) Takes(size int) bool { return c.stream == nil || c.stream.Takes(size) }

// Reused reports whether the connection was used before. The backend may have
// closed it just when the next request was sent. A stream that the endpoint
// refused counts as reused too: the request was not processed.
func (c *Conn) Reused() bool { return c.reused || c.stream != nil && c.stream.Reused() }

// Release returns the connection to the pool after a clean exchange: the
// response was read to its end and allows reuse. It is closed nevertheless when
// the endpoint was removed, when the pool is full, or when there are unexpected
// bytes to read.
func (c *Conn) Release() {
	if c.stream != nil {
		// The shared connection stays open; the stream has nothing to keep.
		c.closeGracefully()
		return
	}
	if len(c.Reader.Unread()) > 0 || c.link.hasUnread() {
		c.endpoint.handle.set.stats.polluted.Add(1)
		c.Close()
		return
	}
	c.Reader.Release()
	if loop := c.link.loop; loop != nil {
		loop.Bind(nil)
		c.waits = loop.Loop().Waits()
	}
	if !c.endpoint.put(c) {
		c.closeGracefully()
	}
}

// Close closes the connection after an exchange that was not clean. It does not
// wait for the backend.
func (c *Conn) Close() { c.finish(c.link.abort) }

// closeGracefully closes a connection that is idle. TLS sends close_notify
// then, which could take seconds with a full send buffer.
func (c *Conn) closeGracefully() { c.finish(c.link.conn.Close) }

func (c *Conn) finish(how func() error) {
	if c.closed {
		return
	}
	c.closed = true
	// Errors do not matter: the connection is not used again.
	_ = how()
	c.Reader.Close()
	if c.stream == nil {
		c.endpoint.openConns.Add(-1)
	} else if c.stream.Refused() {
		c.endpoint.handle.set.stats.refused.Add(1)
	}
}

// usable checks an idle connection, without waiting.
func (c *Conn) usable() bool {
	stats := &c.endpoint.handle.set.stats
	switch c.link.peerState(c.waits) {
	case peerClosed:
		stats.stale.Add(1)
		return false
	case peerSent:
		stats.polluted.Add(1)
		return false
	}
	return true
}
