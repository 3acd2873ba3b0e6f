package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/route"
)

// ErrNotLooped is returned for an endpoint to which connections are made by goroutines only: one with
// TLS or a host name.
var ErrNotLooped = errors.New("connections to the endpoint are not those of an event loop")

// ConnectIn is Connect for a task of an event loop: the connection, or that of the stream, is one
// of its loop, and the task waits for it.
func (l *Lease) ConnectIn(task *eventloop.Task, timeout time.Duration, fresh bool) (*Conn, error) {
	e := l.endpoint
	if e == nil {
		return nil, errLeaseEnded
	}
	if !fresh {
		if conn := e.takeIdle(task.Loop()); conn != nil {
			conn.link.loop.Bind(task)
			return conn, nil
		}
	}
	if l.endpoints == nil {
		l.endpoints = e.fastPathSet.Load()
	}
	d := l.endpoints.dialer
	switch {
	case e.location.host != "":
		return nil, ErrNotLooped
	case d.protocol == route.ProtocolHTTP1:
		return e.dialLooped(task, d, timeout)
	case d.protocol == route.ProtocolH2C:
		return e.connectStream(context.Background(), task, d, timeout, fresh)
	}
	return nil, ErrNotLooped
}

// dialLooped makes a connection on the loop of a task. It is what dialSingle is for goroutines.
func (e *Endpoint) dialLooped(task *eventloop.Task, d *dialer, timeout time.Duration) (*Conn, error) {
	s := e.handle.set
	if s.stop.Err() != nil {
		return nil, &ConnectError{Address: e.address, Err: ErrClosed}
	}
	if timeout <= 0 {
		timeout = s.cfg.ConnectTimeout
	}
	conn, err := e.dialOn(task, d, time.Now().Add(timeout))
	if err != nil {
		s.stats.connectFailures.Add(1)
		return nil, err
	}
	s.stats.connects.Add(1)
	e.openConns.Add(1)
	return e.wrap(link{conn: conn, loop: conn}, d), nil
}

// dialOn connects on the loop of a task. It refuses the addresses of the edge itself, as dialTCP
// does.
func (e *Endpoint) dialOn(task *eventloop.Task, d *dialer, until time.Time) (*eventloop.Conn, error) {
	to := netip.AddrPortFrom(e.location.address.Addr().Unmap(), e.location.address.Port())
	conn, err := task.Dial(to, until)
	if err == nil && d.isOwn(to, func() netip.AddrPort { return unmapped(conn.Source()) }) {
		_ = conn.Close()
		err = ErrOwnAddress
	}
	if err != nil {
		return nil, &ConnectError{Address: e.address, Err: err}
	}
	return conn, nil
}

func unmapped(at netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// Socket is the connection of the event loop that has it; nil if none has.
func (c *Conn) Socket() *eventloop.Conn { return c.link.loop }

// loop is the event loop of the connection; nil for one of goroutines.
func (c *Conn) loop() *eventloop.Loop {
	if c.link.loop == nil {
		return nil
	}
	return c.link.loop.Loop()
}

// moveTo makes the connection one of another loop, and reports whether it is one of it.
func (c *Conn) moveTo(loop *eventloop.Loop) bool {
	return loop == nil || c.link.loop.Move(loop) == nil
}

// A tunnel has no end that is known, and two goroutines copy between its sockets, in the kernel
// where that can.

// Detach takes the socket out of its event loop, if one has it, for what is done by goroutines
// until the connection ends. No read or write may be running.
func (c *Conn) Detach() (net.Conn, error) {
	if c.link.loop == nil {
		return c.link.conn, nil
	}
	tcp, err := c.link.loop.Detach()
	if err != nil {
		return nil, err
	}
	c.link.conn, c.link.loop = tcp, nil
	return tcp, nil
}
