package proxy

import (
	"io"
	"net"
	"time"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
)

const (
	// tunnelBuffer is what one direction of a tunnel holds while it waits: most messages fit, and
	// most tunnels are idle.
	tunnelBuffer = 4 << 10
	// tunnelBulk is the buffer of a direction that fills the other one.
	tunnelBulk = 32 << 10
)

// tunnelOnLoop joins both sides by two tasks of the event loop, until both have ended, and
// reports whether that loop has both. Otherwise goroutines do: see [exchange.tunnel].
func (a *attempt) tunnelOnLoop() bool {
	x, c := a.x, a.x.conn
	client, backend := eventloop.Of(c.net), a.upstream.Socket()
	if !c.task.OnLoop() || client == nil || backend == nil {
		return false
	}
	if x.exchangeEarly(backend, a.upstream.Reader.Unread()) != nil {
		return true
	}
	// An error shows with the first read.
	_, _ = client.SetDeadline(time.Time{}), backend.SetDeadline(time.Time{})
	client.QueueWrites()
	backend.QueueWrites()
	down := direction{pool: c.proxy.cfg.Pool, task: c.task, from: backend, to: c.net, source: backend, target: client}
	up := direction{pool: c.proxy.cfg.Pool, from: c.net, to: backend, source: client, target: backend}
	ended, parked := false, false
	backend.Bind(c.task)
	c.task.Start(func(task *eventloop.Task) {
		client.Bind(task)
		up.task = task
		up.pass()
		if ended = true; parked {
			c.task.Unpark()
		}
	})
	down.pass()
	if !ended {
		parked = true
		c.task.Park()
	}
	x.record.Received, x.record.Sent = up.moved, down.moved
	return true
}

// direction is one direction of a tunnel on an event loop.
type direction struct {
	pool           *h1.BufferPool
	task           *eventloop.Task
	from, to       net.Conn        // with TLS, where a side has it
	source, target *eventloop.Conn // below it
	moved          int64
}

// pass passes everything on, and then the end. A side that cannot be written to is closed, so that the
// other direction ends too.
func (d *direction) pass() {
	err := d.copy()
	if half, ok := d.to.(interface{ CloseWrite() error }); ok && err == io.EOF && half.CloseWrite() == nil {
		_, _ = d.target.Drain(d.task) // of TLS, which says that it ends
		return
	}
	d.to.Close()
	d.from.Close()
}

// copy passes on what comes until there is an error; at the end that is io.EOF.
func (d *direction) copy() error {
	buf := d.pool.Get(tunnelBuffer)
	defer func() { d.pool.Put(buf) }()
	for {
		n, err := d.from.Read(buf)
		if n > 0 {
			if _, err := d.to.Write(buf[:n]); err != nil {
				return err
			}
			if _, err := d.target.Drain(d.task); err != nil {
				return err
			}
			d.moved += int64(n)
		}
		if err != nil {
			return err
		}
		if bulk := len(buf) > tunnelBuffer; bulk != (n >= tunnelBuffer) {
			d.pool.Put(buf)
			if bulk {
				buf = d.pool.Get(tunnelBuffer)
			} else {
				buf = d.pool.Get(tunnelBulk)
			}
		}
	}
}
