package hub

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/hashicorp/yamux"
	"golang.org/x/time/rate"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/link"
)

const (
	// closeTimeout is how long an agent may write to a closed stream, whose
	// response is no longer wanted, before the stream is reset.
	closeTimeout = 5 * time.Second
	// idleStreams is the number of idle streams that a connection keeps for
	// further requests.
	idleStreams = 32
	// idleTimeout is shorter than the agent's, so that the agent never closes
	// a stream while a request starts on it.
	idleTimeout = time.Minute
	// Rate limit of control messages. An agent sends a token about once a
	// minute.
	linesPerSecond, linesAtOnce = 1, 10
)

// closeReason is why a connection was closed; the metric disconnects_total
// has the same values.
type closeReason string

const (
	closeLost       closeReason = "lost"
	closeDenied     closeReason = "denied"
	closeExpired    closeReason = "expired"
	closeMoved      closeReason = "moved"
	closeDisplaced  closeReason = "displaced"
	closeMisbehaved closeReason = "misbehaved"
	closeDraining   closeReason = "draining"
)

// connection is one connection of an agent. serve owns it; other goroutines
// use it through finish, sendControl and the atomic flags. Lock order: hub.mu
// and mu are never held together.
type connection struct {
	hub          *Hub
	runtimeID    string
	link         *link.Link
	session      *yamux.Session
	transport    *http.Transport
	control      link.Stream
	controlWrite sync.Mutex // serializes messages to control

	// rechecks is the value of hub.rechecks before the token was verified.
	rechecks uint64
	// moving is set when no new requests may be sent.
	moving atomic.Bool
	// ready is set when requests may be sent.
	ready atomic.Bool
	// running is the number of requests in flight; hub.mu guards it.
	running int
	// moved is closed when the agent no longer needs the connection.
	moved chan struct{}
	once  sync.Once

	mu       sync.Mutex
	identity signing.RuntimeIdentity
	token    secret.Text
	expiry   *time.Timer
	closedBy closeReason
}

// newConnection takes over the WebSocket of an authenticated agent.
func (h *Hub) newConnection(socket *websocket.Conn, identity signing.RuntimeIdentity, token secret.Text) *connection {
	return &connection{
		hub: h, runtimeID: identity.RuntimeID, identity: identity, token: token, moved: make(chan struct{}),
		link: link.New(socket, h.options.Timing.Dead, h.options.Metrics.bytes.WithLabelValues("in"), h.options.Metrics.bytes.WithLabelValues("out")),
	}
}

// serve runs a connection: handshake, registration, control loop. It returns
// when the connection is closed and its goroutines have ended.
func (c *connection) serve() closeReason {
	session, err := yamux.Client(c.link, link.Streams(link.Settings{
		Ping: c.hub.options.Timing.Ping, Dead: c.hub.options.Timing.Dead, Close: closeTimeout, Log: c.hub.options.Log,
	}))
	if err != nil {
		_ = c.link.Close()
		return closeLost
	}
	c.session = session
	c.transport = &http.Transport{
		DialContext:         c.dial,
		DisableCompression:  true,
		MaxIdleConnsPerHost: idleStreams, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: c.hub.options.Limits.HeaderBytes,
		ExpectContinueTimeout:  time.Second,
	}
	var background sync.WaitGroup
	defer background.Wait()
	defer c.transport.CloseIdleConnections()
	defer session.Close()
	c.expireAt(c.identity.Expires)
	defer c.stopExpiry()
	background.Go(func() { link.Ping(session, c.hub.options.Timing.Ping) })

	lines, err := c.handshake()
	if err != nil {
		c.hub.options.Metrics.handshakes.WithLabelValues("failed").Inc()
		c.finish(closeMisbehaved)
		return c.reason()
	}
	displaced, ok := c.hub.addConnection(c)
	if !ok {
		c.sendRefusal(drainMessage)
		c.finish(closeDraining)
		return c.reason()
	}
	defer c.hub.removeConnection(c)
	for _, other := range displaced {
		other.finish(closeDisplaced)
	}
	// A revocation during the handshake did not find the connection in the
	// hub.
	if c.hub.rechecks.Load() != c.rechecks && c.updateToken(c.token) != nil {
		return c.reason()
	}
	c.ready.Store(true)
	c.hub.options.Metrics.handshakes.WithLabelValues("connected").Inc()
	c.hub.options.Log.Info("agent connected", "runtime", c.identity.Name, "runtimeID", c.runtimeID)
	background.Go(c.watchStreams)
	// Requests may already be sent before the agent has received the
	// settings.
	if c.sendSettings() == nil {
		c.controlLoop(lines)
	}
	return c.reason()
}

// handshake waits for the control stream and the token on it.
func (c *connection) handshake() (*bufio.Reader, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.hub.options.Timing.Handshake)
	defer cancel()
	opened, err := c.session.AcceptStreamWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for control stream: %w", err)
	}
	c.control = link.Stream{Stream: opened}
	if err := c.control.SetReadDeadline(time.Now().Add(c.hub.options.Timing.Handshake)); err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(c.control, maxLine)
	first, err := readAgentMessage(lines)
	if err != nil {
		return nil, err
	}
	if err := c.control.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if first.Token.Reveal() == c.token.Reveal() {
		return lines, nil
	}
	return lines, c.updateToken(first.Token)
}

// controlLoop processes control messages until the control stream ends. An
// agent that exceeds the rate limit is disconnected.
func (c *connection) controlLoop(lines *bufio.Reader) {
	limit := rate.NewLimiter(linesPerSecond, linesAtOnce)
	for {
		p, err := readAgentMessage(lines)
		switch {
		case err != nil:
			c.finish(closeLost)
			return
		case !limit.Allow():
			c.sendRefusal("the agent sends control messages too often")
			c.finish(closeMisbehaved)
			return
		}
		if p.Moved {
			c.closeWhenIdle()
		}
		if p.Token.IsZero() {
			continue
		}
		if c.updateToken(p.Token) != nil || c.sendSettings() != nil {
			return
		}
	}
}

// updateToken verifies a token. A valid one replaces the current one and
// extends the connection.
func (c *connection) updateToken(token secret.Text) error {
	identity, err := c.check(token)
	if errors.Is(err, store.ErrUnavailable) {
		// The current token stays valid until it expires.
		return nil
	}
	if err != nil {
		c.sendRefusal("the access token is not valid, has expired or was revoked")
		c.finish(closeDenied)
		return err
	}
	c.mu.Lock()
	c.identity, c.token = identity, token
	c.mu.Unlock()
	c.expireAt(identity.Expires)
	return nil
}

// sendSettings confirms the token and sends the number of live replicas.
func (c *connection) sendSettings() error {
	return c.sendControl(hubMessage{Replicas: c.hub.replicas()})
}

// check verifies a token and that it belongs to this runtime.
func (c *connection) check(token secret.Text) (signing.RuntimeIdentity, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.hub.options.Timing.Handshake)
	defer cancel()
	identity, err := c.hub.options.Verify(ctx, token.Reveal())
	switch {
	case err != nil && ctx.Err() != nil:
		return identity, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	case err != nil:
		return identity, err
	case identity.RuntimeID != c.runtimeID:
		return identity, errors.New("the token belongs to another runtime")
	}
	return identity, nil
}

// recheck closes the connection if its token is no longer valid.
func (c *connection) recheck() {
	c.mu.Lock()
	token := c.token
	c.mu.Unlock()
	_, err := c.check(token)
	switch {
	case errors.Is(err, store.ErrUnavailable):
		c.hub.options.Log.Debug("token recheck failed", observe.KeyError, err)
	case err != nil:
		// No refusal message: it could block on an agent that does not read.
		c.finish(closeDenied)
	}
}

// watchStreams closes the connection if the agent opens a stream besides
// control: only the hub opens streams.
func (c *connection) watchStreams() {
	if _, err := c.session.AcceptStream(); err == nil {
		c.finish(closeMisbehaved)
	}
}

// sendControl writes one control message. It is safe for concurrent use and
// bounded by a write deadline.
func (c *connection) sendControl(n hubMessage) error {
	c.controlWrite.Lock()
	defer c.controlWrite.Unlock()
	if err := c.control.SetWriteDeadline(time.Now().Add(c.hub.options.Timing.Dead / 2)); err != nil {
		return err
	}
	return writeHubMessage(c.control, n)
}

// sendRefusal sends the reason for closing the connection, if the agent still
// reads.
func (c *connection) sendRefusal(reason string) { _ = c.sendControl(hubMessage{Refused: reason}) }

// finish closes the connection. The first reason is recorded; later calls
// have no effect on it.
func (c *connection) finish(why closeReason) {
	c.mu.Lock()
	c.closedBy = cmp.Or(c.closedBy, why)
	c.mu.Unlock()
	c.ready.Store(false)
	_ = c.session.Close()
}

// reason returns why the connection was closed.
func (c *connection) reason() closeReason {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closedBy == "" {
		return closeLost
	}
	return c.closedBy
}

// expireAt closes the connection when its token expires, and replaces the
// previous timer.
func (c *connection) expireAt(expires time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expiry != nil {
		c.expiry.Stop()
	}
	c.expiry = time.AfterFunc(time.Until(expires), func() { c.finish(closeExpired) })
}

func (c *connection) stopExpiry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expiry.Stop()
}

// usable reports whether a request may be sent.
func (c *connection) usable() bool {
	return c.ready.Load() && !c.moving.Load() && !c.session.IsClosed()
}

// closeWhenIdle accepts no more requests and closes the connection after the
// last one.
func (c *connection) closeWhenIdle() {
	c.moving.Store(true)
	c.once.Do(func() { close(c.moved) })
	c.hub.mu.Lock()
	idle := c.running == 0
	c.hub.mu.Unlock()
	if idle {
		c.finish(closeMoved)
	}
}

// dial opens a stream for a request.
func (c *connection) dial(context.Context, string, string) (net.Conn, error) {
	opened, err := c.session.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("open stream to agent: %w", err)
	}
	return link.Stream{Stream: opened}, nil
}
