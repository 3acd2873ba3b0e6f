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

// connection is one connection to a replica of the platform. The slot that claimed it
// owns it; other goroutines only send control messages.
type connection struct {
	*tunnel
	address string
	replica string
	// replicas is the number of live replicas that the platform reported last.
	replicas int
	// second is set when another connection leads to the same replica. Such a
	// connection is replaced when another replica becomes reachable.
	second bool
	// token is the token that was sent last.
	token string
	link  *link.Link

	session       *yamux.Session
	control       *stream
	controlReader *bufio.Reader // buffers control
	controlWrite  sync.Mutex    // serializes messages to control
	// background tracks the goroutines that end with the session.
	background sync.WaitGroup
}

// endReason is why a slot stopped using a connection; the metric disconnects_total
// has the same values.
type endReason string

const (
	lost    endReason = "lost"
	moved   endReason = "moved"
	refused endReason = "refused"
	stopped endReason = "stopped"
)

// open starts the session on the WebSocket and performs the handshake on the control
// stream. The yamux server side belongs to the agent: the platform opens the streams
// for requests.
func (c *connection) open() error {
	session, err := yamux.Server(c.link, link.Streams(link.Settings{Ping: c.Timing.Ping, Dead: c.Timing.Dead, Close: closeTimeout, Log: c.Log}))
	if err != nil {
		return errors.Join(err, c.link.Close())
	}
	c.session = session
	opened, err := session.OpenStream()
	if err != nil {
		return errors.Join(fmt.Errorf("open control stream: %w", err), session.Close())
	}
	c.control = newStream(opened, func() {})
	c.controlReader = bufio.NewReaderSize(c.control, maxControlLine)
	if err := c.handshake(); err != nil {
		return errors.Join(err, session.Close())
	}
	c.background.Go(func() { link.Ping(session, c.Timing.Ping) })
	c.background.Go(func() { _ = c.server.Serve(&streamListener{session: session, metrics: c.Metrics, ending: c.ending}) })
	return nil
}

// handshake sends the token and waits for the platform's settings. The token was
// already checked before the upgrade; sending it again proves that the agent speaks
// the control protocol.
func (c *connection) handshake() error {
	if err := c.sendControl(agentMessage{Token: c.token}); err != nil {
		return fmt.Errorf("send token: %w", err)
	}
	if err := c.control.SetReadDeadline(time.Now().Add(c.Timing.Dial)); err != nil {
		return err
	}
	n, err := readHubMessage(c.controlReader)
	switch {
	case err != nil:
		return fmt.Errorf("wait for platform settings: %w", err)
	case n.Refused != "":
		return fmt.Errorf("the platform rejected the connection: %s", printable(n.Refused))
	}
	c.replicas = max(n.Replicas, 1)
	return c.control.SetReadDeadline(time.Time{})
}

// sendControl writes one control message. It is safe for concurrent use; a write
// deadline keeps a stalled platform from blocking the caller.
func (c *connection) sendControl(p agentMessage) error {
	c.controlWrite.Lock()
	defer c.controlWrite.Unlock()
	if err := c.control.SetWriteDeadline(time.Now().Add(c.Timing.Dead / 2)); err != nil {
		return err
	}
	return writeAgentMessage(c.control, p)
}

// close closes the session with all its streams and waits for its goroutines.
func (c *connection) close() {
	if c.session == nil {
		_ = c.link.Close()
		return
	}
	_ = c.session.Close()
	c.background.Wait()
}

// readControl delivers control messages until the control stream ends, then closes
// the channel.
func (c *connection) readControl(messages chan<- hubMessage) {
	defer close(messages)
	for {
		n, err := readHubMessage(c.controlReader)
		if err != nil {
			// Without control messages the token cannot be updated, so the connection
			// would expire: reconnect now instead.
			_ = c.link.Close()
			return
		}
		select {
		case messages <- n:
		case <-c.session.CloseChan():
			return
		}
	}
}

// serve keeps a connection until it ends, the platform drains it, or a connection to
// another replica replaces it. It returns that replacement, which is claimed and not
// yet open.
func (c *connection) serve(ctx context.Context) (endReason, *connection) {
	messages := make(chan hubMessage)
	c.background.Go(func() { c.readControl(messages) })
	update := time.NewTicker(c.Timing.TokenInterval)
	defer update.Stop()

	// At most one search for another replica runs at a time. When serve returns
	// before the search ends, its result is released here: no other owner would close
	// it.
	searchCtx, stopSearch := context.WithCancel(ctx)
	found := make(chan *connection, 1)
	searching := false
	defer func() {
		stopSearch()
		if searching {
			if other := <-found; other != nil {
				c.release(other)
				other.close()
			}
		}
	}()
	for {
		select {
		case n, ok := <-messages:
			switch {
			case !ok:
				return lost, nil
			case n.Refused != "":
				c.Log.Warn("platform is closing tunnel connection", observe.KeyReason, printable(n.Refused))
				return refused, nil
			case n.Drain:
				return moved, nil
			}
			c.replicas = max(n.Replicas, 1)
			if c.second && !searching && c.otherReplicas(c.replicas) {
				searching = true
				c.searches.Go(func() { other, _ := c.connect(searchCtx, true); found <- other })
			}
		case other := <-found:
			searching = false
			if other != nil {
				return moved, other
			}
		case <-update.C:
			if err := c.updateToken(ctx); err != nil {
				c.Log.Warn("tunnel token update failed; the platform closes the connection when the current token expires",
					observe.KeyError, err)
			}
		case <-c.session.CloseChan():
			return lost, nil
		case <-ctx.Done():
			return stopped, nil
		}
	}
}

// updateToken sends the platform a fresh token, which extends the lifetime of the
// connection.
func (c *connection) updateToken(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timing.Dial)
	defer cancel()
	token, err := c.Token(ctx)
	if err != nil {
		return err
	}
	c.token = token
	return c.sendControl(agentMessage{Token: token})
}

// drain requests that the platform sends no new requests, and waits until the
// platform closes the connection. Only the platform can detect that the last response
// was read. DrainTimeout bounds the wait.
func (c *connection) drain() {
	if c.sendControl(agentMessage{Moved: true}) != nil {
		return
	}
	timeout := time.NewTimer(c.Timing.DrainTimeout)
	defer timeout.Stop()
	select {
	case <-timeout.C:
	case <-c.session.CloseChan():
	}
}

// drainRead keeps a replaced connection open until the platform closes it, which it
// does after the last response.
func (c *connection) drainRead(ctx context.Context) {
	// The bound covers a platform that never closes the connection.
	limit := time.NewTimer(4 * c.Timing.Dead)
	defer limit.Stop()
	select {
	case <-c.session.CloseChan():
	case <-limit.C:
	case <-ctx.Done():
	}
}

// streamListener passes the streams of a session to the HTTP server as connections.
// Closing it stops new streams only.
type streamListener struct {
	session *yamux.Session
	metrics *Metrics
	ending  context.Context
}

// Accept waits for the next stream. Any error ends the server's loop: the session is
// closed or the agent is shutting down.
func (l *streamListener) Accept() (net.Conn, error) {
	accepted, err := l.session.AcceptStreamWithContext(l.ending)
	if err != nil {
		return nil, http.ErrServerClosed
	}
	l.metrics.streams.Inc()
	return newStream(accepted, l.metrics.streams.Dec), nil
}

// Close does nothing: the shutdown context stops Accept, and the session is closed
// after its last request.
func (l *streamListener) Close() error { return nil }

// Addr returns the address of the session.
func (l *streamListener) Addr() net.Addr { return l.session.Addr() }
