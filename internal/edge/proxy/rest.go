package proxy

import (
	"errors"
	"net"
	"time"

	"slipway.dev/slipway/internal/edge/connset"
	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
)

// restAfter is how long a goroutine waits for the next request of its client.
// Clients that send requests one after the other are served by one goroutine.
const restAfter = time.Second

// errRest ends a wait for the next request: the connection is to rest.
var errRest = errors.New("the connection rests until its client sends")

// readWaiter is a connection that can be waited for without a buffer.
type readWaiter interface {
	// AwaitRead waits until Read does not have to, within the read deadline. It returns
	// io.EOF if the client has ended the connection.
	AwaitRead() error
	// SetBlocked makes Read fail in place of a wait.
	SetBlocked(bool)
}

// readWaiterOf finds the waiter below TLS too. It is nil where there is none.
func readWaiterOf(conn net.Conn) readWaiter {
	waiter, _ := eventloop.BelowTLS(conn).(readWaiter)
	return waiter
}

// restingConn is a connection between two requests. It has neither a conn nor the
// goroutine of one, whose stack has grown by what a request needs, but only a
// small goroutine that waits: together that is a fraction of the memory.
type restingConn struct {
	proxy  *Proxy
	net    net.Conn
	waiter readWaiter
	from   Accepted
	place  connset.Place // guarded by proxy.mu
	since  time.Time
	until  time.Time // the end of the idle timeout; zero for none
}

// Place implements [connset.Member].
func (r *restingConn) Place() *connset.Place { return &r.place }

// readRequest reads the next request. It returns errRest if that is left to a
// resting connection: where the last request came alone, or the next one does not
// come soon.
func (c *conn) readRequest() error {
	if c.waiter == nil || c.rest == nil && !c.served {
		return c.reader.ReadRequest(&c.head, c.limits)
	}
	if c.served && !c.warm && c.quiet() {
		c.setRest(c.timeouts.Idle)
		return errRest
	}
	wait, left := restAfter, c.timeouts.Idle
	if !c.served && !c.rest.until.IsZero() {
		left = max(time.Until(c.rest.until), time.Nanosecond)
	}
	if left > 0 {
		wait = min(wait, left)
	}
	err := c.reader.ReadNextRequest(&c.head, c.limits, wait)
	switch {
	case err == nil:
		c.warm = c.warm || c.served
	case errors.Is(err, h1.ErrIdle) && (left <= 0 || left > wait):
		c.setRest(left - wait)
		err = errRest
	}
	return err
}

// quiet reports whether neither the reader nor TLS holds bytes of another request.
func (c *conn) quiet() bool {
	if !c.from.TLS {
		return len(c.reader.Unread()) == 0
	}
	c.waiter.SetBlocked(true)
	defer c.waiter.SetBlocked(false)
	return c.reader.Quiet()
}

// setRest begins the rest of the connection, with what is left of its idle timeout;
// none if that is not positive.
func (c *conn) setRest(left time.Duration) {
	if c.rest == nil {
		c.rest = &restingConn{proxy: c.proxy, net: c.net, waiter: c.waiter, from: c.from}
	}
	r := c.rest
	r.since, r.until = time.Now(), time.Time{}
	if left > 0 {
		r.until = r.since.Add(left)
	}
}

// begin waits for the client in a goroutine of its own.
func (r *restingConn) begin() {
	p := r.proxy
	p.resumed.AddUser()
	if !p.addResting(r) {
		r.close()
		return
	}
	if loop := eventloop.Of(r.net); loop != nil {
		loop.ServeNext(func(*eventloop.Task) { r.serveNext(loop) })
		return
	}
	go r.wait()
}

// serveNext serves a connection of an event loop whose client has sent something, unless its
// time is over.
func (r *restingConn) serveNext(loop *eventloop.Conn) {
	r.proxy.removeResting(r)
	if loop.ReadOver() != nil {
		r.close()
		return
	}
	r.resume()
	r.proxy.resumed.RemoveUser()
}

// wait ends with the client's next bytes, which a goroutine with a large stack reads,
// or with the connection. Most clients that rest send no other request, and their end
// is seen without such a goroutine.
func (r *restingConn) wait() {
	err := r.waiter.AwaitRead()
	r.proxy.removeResting(r)
	if err != nil {
		r.close()
		return
	}
	r.proxy.resumed.Serve(r)
	r.proxy.resumed.RemoveUser()
}

func (r *restingConn) close() {
	_ = r.net.Close() // an error does not matter: it is not used again
	r.proxy.resumed.RemoveUser()
}

// resume serves a connection whose client has sent something.
func (r *restingConn) resume() {
	c := newConn(r.proxy, r.net, &r.from, false)
	c.rest = r
	c.warm = time.Since(r.since) < restAfter
	r.proxy.serveConn(c)
}

// addResting registers a connection that Drain can close, unless it has done so
// already. The deadline is set under the lock, so that it cannot replace Drain's.
func (p *Proxy) addResting(r *restingConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.draining.Load() || r.net.SetReadDeadline(r.until) != nil {
		return false
	}
	p.resting.Add(r)
	return true
}

func (p *Proxy) removeResting(r *restingConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resting.Remove(r)
}
