package tunnel

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/link"
)

// connection is one connection to a replica of the platform.
type connection struct {
	*tunnel
	address string
	replica string
	// replicas is how many the platform said it has.
	replicas int
	// second is set when another connection leads to the same replica.
	second bool
	// token was presented last.
	token string
	link  *link.Link

	session *yamux.Session
	control *stream
	heard   *bufio.Reader // of control
	writing sync.Mutex    // of lines to control
	beside  sync.WaitGroup
}

// outcome is why a connection is no longer this one's business.
type outcome string

const (
	lost    outcome = "lost"
	moved   outcome = "moved"
	refused outcome = "refused"
	stopped outcome = "stopped"
)

// open starts the streams on a WebSocket, and presents the token once more, which
// is how the platform knows that the agent speaks.
func (c *connection) open() error {
	session, err := yamux.Server(c.link, link.Streams(link.Settings{Ping: c.Timing.Ping, Dead: c.Timing.Dead, Close: closeTimeout, Log: c.Log}))
	if err != nil {
		return errors.Join(err, c.link.Close())
	}
	c.session = session
	opened, err := session.OpenStream()
	if err != nil {
		return errors.Join(fmt.Errorf("open the control stream: %w", err), session.Close())
	}
	c.control = newStream(opened, func() {})
	c.heard = bufio.NewReaderSize(c.control, maxNotice)
	if err := c.greet(); err != nil {
		return errors.Join(err, session.Close())
	}
	c.beside.Go(func() { link.Ping(session, c.Timing.Ping) })
	c.beside.Go(func() { _ = c.server.Serve(&streamListener{session: session, metrics: c.Metrics, ending: c.ending}) })
	return nil
}

// greet presents the token and waits for the platform to accept it.
func (c *connection) greet() error {
	if err := c.say(presentation{Token: c.token}); err != nil {
		return fmt.Errorf("present the token: %w", err)
	}
	if err := c.control.SetReadDeadline(time.Now().Add(c.Timing.Dial)); err != nil {
		return err
	}
	n, err := readNotice(c.heard)
	switch {
	case err != nil:
		return fmt.Errorf("wait for the platform to accept the token: %w", err)
	case n.Refused != "":
		return fmt.Errorf("the platform refuses the connection: %s", printable(n.Refused))
	}
	c.replicas = max(n.Replicas, 1)
	return c.control.SetReadDeadline(time.Time{})
}

// say writes a line to the platform.
func (c *connection) say(p presentation) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.control.SetWriteDeadline(time.Now().Add(c.Timing.Dead / 2)); err != nil {
		return err
	}
	return writePresentation(c.control, p)
}

// close ends the connection and everything on it.
func (c *connection) close() {
	if c.session == nil {
		_ = c.link.Close()
		return
	}
	_ = c.session.Close()
	c.beside.Wait()
}

// listen passes on what the platform says until it says no more.
func (c *connection) listen(heard chan<- notice) {
	defer close(heard)
	for {
		n, err := readNotice(c.heard)
		if err != nil {
			// Without control there is no telling when the token expires.
			_ = c.link.Close()
			return
		}
		select {
		case heard <- n:
		case <-c.session.CloseChan():
			return
		}
	}
}

// live keeps a connection until it ends, the platform wants the agent elsewhere, or
// a connection to another replica takes its place.
func (c *connection) live(ctx context.Context) (outcome, *connection) {
	heard := make(chan notice)
	c.beside.Go(func() { c.listen(heard) })
	present := time.NewTicker(c.Timing.Present)
	defer present.Stop()

	searching, stopSearching := context.WithCancel(ctx)
	found := make(chan *connection, 1)
	busy := false
	defer func() {
		stopSearching()
		if busy {
			if other := <-found; other != nil {
				c.release(other)
				other.close()
			}
		}
	}()
	for {
		select {
		case n, ok := <-heard:
			switch {
			case !ok:
				return lost, nil
			case n.Refused != "":
				c.Log.Warn("the platform closes a connection of the tunnel", observe.KeyReason, printable(n.Refused))
				return refused, nil
			case n.Drain:
				return moved, nil
			}
			c.replicas = max(n.Replicas, 1)
			if c.second && !busy && c.elsewhere(c.replicas) {
				busy = true
				c.searches.Go(func() { other, _ := c.connect(searching, true); found <- other })
			}
		case other := <-found:
			busy = false
			if other != nil {
				return moved, other
			}
		case <-present.C:
			if err := c.presentAgain(ctx); err != nil {
				c.Log.Warn("the token of the tunnel was not presented again; the platform closes the connection when the last one expires",
					observe.KeyError, err)
			}
		case <-c.session.CloseChan():
			return lost, nil
		case <-ctx.Done():
			return stopped, nil
		}
	}
}

// presentAgain shows the platform a token that is good for longer.
func (c *connection) presentAgain(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timing.Dial)
	defer cancel()
	token, err := c.Token(ctx)
	if err != nil {
		return err
	}
	c.token = token
	return c.say(presentation{Token: token})
}

// sayFarewell asks the platform to send nothing more, and goes on until the platform
// closes the connection: it knows when the last request is answered.
func (c *connection) sayFarewell() {
	if c.say(presentation{Moved: true}) != nil {
		return
	}
	patience := time.NewTimer(c.Timing.Finish)
	defer patience.Stop()
	select {
	case <-patience.C:
	case <-c.session.CloseChan():
	}
}

// linger keeps a connection that has a successor until the platform closes it,
// which it does when the last request is answered.
func (c *connection) linger(ctx context.Context) {
	// The platform knows better; this bounds one that has forgotten.
	limit := time.NewTimer(4 * c.Timing.Dead)
	defer limit.Stop()
	select {
	case <-c.session.CloseChan():
	case <-limit.C:
	case <-ctx.Done():
	}
}

// streamListener gives the streams of a session to the server of HTTP. Closing it
// stops new ones only.
type streamListener struct {
	session *yamux.Session
	metrics *Metrics
	ending  context.Context
}

// Accept waits for a stream.
func (l *streamListener) Accept() (net.Conn, error) {
	accepted, err := l.session.AcceptStreamWithContext(l.ending)
	if err != nil {
		return nil, http.ErrServerClosed
	}
	l.metrics.streams.Inc()
	return newStream(accepted, l.metrics.streams.Dec), nil
}

// Close does nothing: the end of the agent stops Accept, and the session is closed
// when its requests are finished.
func (l *streamListener) Close() error { return nil }

// Addr is the address of the session.
func (l *streamListener) Addr() net.Addr { return l.session.Addr() }
