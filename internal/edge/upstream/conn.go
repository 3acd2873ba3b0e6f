package upstream

import (
	"cmp"
	"context"
	"net"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/upstream/h2client"
)

// Conn is one HTTP/1.1 connection to an endpoint, plain or TLS, or one that
// carries a single exchange and is a stream of HTTP/2 below. Whoever got it from
// Connect ends it with Release or Close, once.
//
// It is one piece of memory, in which what each request reads comes first: with
// thousands of endpoints hardly a request finds its connection in the caches of
// the processor.
type Conn struct {
	Reader *h1.Reader
	Writer *h1.Writer
	// Limits are those for the heads of responses.
	Limits *h1.Limits

	endpoint      *Endpoint
	dialer        *dialer
	next          *Conn // in the pool, whose mutex guards this
	idleSince     int64 // when it was last used
	reused        bool
	idle          bool // it is in the pool, whose mutex guards this
	closed        bool
	timeoutsSet   bool             // header and between were set
	stream        *h2client.Stream // nil for HTTP/1.1
	headerTimeout time.Duration    // as SetTimeouts got them
	bodyTimeout   time.Duration
	link          link

	reader h1.Reader
	writer h1.Writer
}

// connect makes a connection. Where connections are shared it may give a part of
// one; with fresh, only of one that is being made.
func (e *Endpoint) connect(ctx context.Context, d *dialer, timeout time.Duration, fresh bool) (*Conn, error) {
	ctx, cancel := e.withConnectTimeout(ctx, timeout)
	defer cancel()
	if d.protocol.HTTP2() {
		return e.connectShared(ctx, d, fresh)
	}
	return e.dialSingle(ctx, d)
}

// withConnectTimeout gives the context in which a connection is made.
func (e *Endpoint) withConnectTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout <= 0 {
		timeout = e.handle.set.cfg.ConnectTimeout
	}
	return context.WithTimeout(ctx, timeout)
}

// dialSingle makes a connection that nobody shares.
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

// wrap makes a Conn of what HTTP/1.1 is spoken on.
func (e *Endpoint) wrap(link link, d *dialer) *Conn {
	cfg := &e.handle.set.cfg
	c := &Conn{Limits: &cfg.Limits, link: link, endpoint: e, dialer: d}
	c.Reader, c.Writer = &c.reader, &c.writer
	c.reader.Init(link.conn, cfg.Pool, cfg.Timeouts)
	c.writer.Init(link.conn, cfg.Pool, cfg.Timeouts)
	if link.raw != nil && link.tap == nil {
		// Each use is looked at before, so that nothing is there to read.
		c.Reader.UseRawConn(link.raw)
	}
	return c
}

// SetTimeouts bounds the exchange that comes: the wait for the head of the
// response, and the waits between two pieces of a body. 0 means the default.
// They hold until they are set again. It returns the first of them as it is now.
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

// Reused reports whether the connection was kept from before. Such a one may
// die of age with the next request. A stream that the endpoint refused counts
// as one too: it was not looked at.
func (c *Conn) Reused() bool { return c.reused || c.stream != nil && c.stream.Reused() }

// Release gives the connection back after a clean exchange: the response was
// read to its end, and it said that the connection can be used again. It is
// closed nevertheless when the endpoint has left, when enough are kept, or when
// there is something to read that nobody asked for.
func (c *Conn) Release() {
	if c.stream != nil {
		// What others share goes on; there is nothing to keep of one exchange.
		c.closeGracefully()
		return
	}
	if len(c.Reader.Unread()) > 0 || c.link.hasUnread() {
		c.endpoint.handle.set.stats.polluted.Add(1)
		c.Close()
		return
	}
	c.Reader.Release()
	if !c.endpoint.put(c) {
		c.closeGracefully()
	}
}

// Close ends the connection after anything but a clean exchange. It does not
// wait for the backend.
func (c *Conn) Close() { c.finish(c.link.abort) }

// closeGracefully ends a connection that is at rest. TLS says goodbye then; with a
// full send buffer that could take seconds.
func (c *Conn) closeGracefully() { c.finish(c.link.conn.Close) }

func (c *Conn) finish(how func() error) {
	if c.closed {
		return
	}
	c.closed = true
	// There is nobody to tell, and nothing to be done.
	_ = how()
	c.Reader.Close()
	if c.stream == nil {
		c.endpoint.openConns.Add(-1)
	} else if c.stream.Refused() {
		c.endpoint.handle.set.stats.refused.Add(1)
	}
}

// usable looks at an idle connection, without waiting.
func (c *Conn) usable() bool {
	stats := &c.endpoint.handle.set.stats
	switch c.link.peerState() {
	case peerClosed:
		stats.stale.Add(1)
		return false
	case peerSent:
		stats.polluted.Add(1)
		return false
	}
	return true
}
