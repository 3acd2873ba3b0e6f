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

// tunnelOnLoop joins both sides on the event loop, until both directions have ended, and
// reports whether that loop has both sides. Otherwise goroutines do: see [exchange.tunnel].
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
	t := &loopedTunnel{pool: c.proxy.cfg.Pool, owner: c.task, running: 2}
	down := t.direction(backend, backend, c.net, client)
	up := t.direction(c.net, client, backend, backend)
	c.task.Start(up.run)
	down.run(c.task)
	if t.running > 0 {
		t.parked = true
		c.task.Park()
	}
	x.record.Received, x.record.Sent = up.moved, down.moved
	return true
}

// loopedTunnel is a tunnel on an event loop, which has all of its fields.
type loopedTunnel struct {
	pool    *h1.BufferPool
	owner   *eventloop.Task // of the exchange
	parked  bool            // owner waits for the end
	running int             // directions that have not ended
}

// direction is one direction of a tunnel on an event loop. A task runs it while there is much to pass
// on. Otherwise it is watched, and a step passes on what comes: an idle direction has no task
// and no buffer, and a message costs no switch to a task.
type direction struct {
	tunnel         *loopedTunnel
	from, to       net.Conn        // with TLS, where a side has it
	source, target *eventloop.Conn // below it
	watch          *eventloop.Watch
	moved          int64
}

func (t *loopedTunnel) direction(from net.Conn, source *eventloop.Conn, to net.Conn, target *eventloop.Conn) *direction {
	d := &direction{tunnel: t, from: from, to: to, source: source, target: target}
	// What TLS has decrypted already makes no event.
	if eventloop.BelowTLS(from) == from {
		d.watch = eventloop.NewWatch(d.step)
	}
	return d
}

// step passes on what came, if the target takes it at once. Whatever may have to wait is left to
// a task.
func (d *direction) step() {
	p, more, err := d.source.ReadShared()
	if len(p) > 0 && err == nil {
		_, err = d.to.Write(p)
		d.moved += int64(len(p))
	}
	switch {
	case err != nil:
		d.tunnel.owner.Start(func(task *eventloop.Task) { d.end(task, err) })
	case more || d.target.Queued():
		d.tunnel.owner.Start(d.run)
	default:
		d.source.Watch(d.watch)
	}
}

// run passes everything on, until the direction ends or can be watched.
func (d *direction) run(task *eventloop.Task) {
	d.source.Bind(task)
	if err := d.copy(task); err != nil {
		d.end(task, err)
		return
	}
	d.source.Watch(d.watch)
}

// end passes on the end of what came. A side that cannot be written to is closed, so that the
// other direction ends too.
func (d *direction) end(task *eventloop.Task, err error) {
	defer d.tunnel.ended()
	if half, ok := d.to.(interface{ CloseWrite() error }); ok && err == io.EOF && half.CloseWrite() == nil {
		_, _ = d.target.Drain(task) // of TLS, which says that it ends
		return
	}
	d.to.Close()
	d.from.Close()
}

// ended counts the directions that have ended.
func (t *loopedTunnel) ended() {
	if t.running--; t.running == 0 && t.parked {
		t.owner.Unpark()
	}
}

// copy passes on what comes until there is an error, which is io.EOF at the end, or until
// nothing is left and the direction can be watched.
func (d *direction) copy(task *eventloop.Task) error {
	pool := d.tunnel.pool
	buf := pool.Get(tunnelBuffer)
	defer func() { pool.Put(buf) }()
	if _, err := d.target.Drain(task); err != nil {
		return err
	}
	for {
		n, err := d.from.Read(buf)
		if n > 0 {
			if _, err := d.to.Write(buf[:n]); err != nil {
				return err
			}
			if _, err := d.target.Drain(task); err != nil {
				return err
			}
			d.moved += int64(n)
		}
		if err != nil {
			return err
		}
		if d.watch != nil && n < len(buf) {
			return nil
		}
		if bulk := len(buf) > tunnelBuffer; bulk != (n >= tunnelBuffer) {
			pool.Put(buf)
			if bulk {
				buf = pool.Get(tunnelBuffer)
			} else {
				buf = pool.Get(tunnelBulk)
			}
		}
	}
}
