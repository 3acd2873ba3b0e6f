package hub

import (
	"bufio"
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
	// closeTimeout is how long an agent may go on writing on a stream that is closed,
	// because nobody waits for its answer any longer.
	closeTimeout = 5 * time.Second
	// idleStreams is how many streams of a connection wait for another request.
	idleStreams = 32
	// idleTimeout is shorter than the agent's, so that no stream is closed under a
	// request.
	idleTimeout = time.Minute
	// An agent presents its token about once a minute.
	linesPerSecond, linesAtOnce = 1, 10
)

// ending is why a connection ended.
type ending string

const (
	endLost       ending = "lost"
	endDenied     ending = "denied"
	endExpired    ending = "expired"
	endMoved      ending = "moved"
	endDisplaced  ending = "displaced"
	endMisbehaved ending = "misbehaved"
	endDraining   ending = "draining"
)

// connection is one connection of an agent.
type connection struct {
	hub       *Hub
	runtimeID string
	link      *link.Link
	session   *yamux.Session
	transport *http.Transport
	control   link.Stream
	writing   sync.Mutex // of lines to control

	// heard is what hub.heard was before the token was checked.
	heard uint64
	// moving is set when no new requests are wanted on it.
	moving atomic.Bool
	// ready is set when requests may be sent.
	ready atomic.Bool
	// running is how many requests there are. hub.mu guards it.
	running int
	// moved is closed when the agent does not need the connection any longer.
	moved chan struct{}
	once  sync.Once

	mu       sync.Mutex
	identity signing.RuntimeIdentity
	token    secret.Text
	expiry   *time.Timer
	end      ending
}

// newConnection takes over a WebSocket of a verified agent.
func (h *Hub) newConnection(socket *websocket.Conn, identity signing.RuntimeIdentity, token secret.Text) *connection {
	return &connection{
		hub: h, runtimeID: identity.RuntimeID, identity: identity, token: token, moved: make(chan struct{}),
		link: link.New(socket, h.options.Timing.Dead, h.options.Metrics.bytes.WithLabelValues("in"), h.options.Metrics.bytes.WithLabelValues("out")),
	}
}

// serve is the life of a connection.
func (c *connection) serve() ending {
	session, err := yamux.Client(c.link, link.Streams(link.Settings{
		Ping: c.hub.options.Timing.Ping, Dead: c.hub.options.Timing.Dead, Close: closeTimeout, Log: c.hub.options.Log,
	}))
	if err != nil {
		_ = c.link.Close()
		return endLost
	}
	c.session = session
	c.transport = &http.Transport{
		DialContext:         c.dial,
		DisableCompression:  true,
		MaxIdleConnsPerHost: idleStreams, IdleConnTimeout: idleTimeout,
		MaxResponseHeaderBytes: c.hub.options.Limits.HeaderBytes,
		ExpectContinueTimeout:  time.Second,
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	defer c.transport.CloseIdleConnections()
	defer session.Close()
	c.expireAt(c.identity.Expires)
	defer c.stopExpiry()
	beside.Go(func() { link.Ping(session, c.hub.options.Timing.Ping) })

	lines, err := c.meet()
	if err != nil {
		c.hub.options.Metrics.handshakes.WithLabelValues("failed").Inc()
		c.finish(endMisbehaved)
		return c.ended()
	}
	displaced, ok := c.hub.enter(c)
	if !ok {
		c.refuse(drainMessage)
		c.finish(endDraining)
		return c.ended()
	}
	defer c.hub.leave(c)
	for _, other := range displaced {
		other.finish(endDisplaced)
	}
	// Who was revoked during the handshake was in no list when the hub heard of it.
	if c.hub.heard.Load() != c.heard && c.present(c.token) != nil {
		return c.ended()
	}
	c.ready.Store(true)
	c.hub.options.Metrics.handshakes.WithLabelValues("connected").Inc()
	c.hub.options.Log.Info("an agent is connected", "runtime", c.identity.Name, "runtimeID", c.runtimeID)
	beside.Go(c.watchStreams)
	// Requests may come before the agent knows that it is connected.
	if c.greet() == nil {
		c.obey(lines)
	}
	return c.ended()
}

// meet waits for the control stream and the token on it.
func (c *connection) meet() (*bufio.Reader, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.hub.options.Timing.Handshake)
	defer cancel()
	opened, err := c.session.AcceptStreamWithContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("wait for the control stream: %w", err)
	}
	c.control = link.Stream{Stream: opened}
	if err := c.control.SetReadDeadline(time.Now().Add(c.hub.options.Timing.Handshake)); err != nil {
		return nil, err
	}
	lines := bufio.NewReaderSize(c.control, maxLine)
	first, err := readPresentation(lines)
	if err != nil {
		return nil, err
	}
	if err := c.control.SetReadDeadline(time.Time{}); err != nil {
		return nil, err
	}
	if first.Token.Reveal() == c.token.Reveal() {
		return lines, nil
	}
	return lines, c.present(first.Token)
}

// obey follows the control stream to its end.
func (c *connection) obey(lines *bufio.Reader) {
	limit := rate.NewLimiter(linesPerSecond, linesAtOnce)
	for {
		p, err := readPresentation(lines)
		switch {
		case err != nil:
			c.finish(endLost)
			return
		case !limit.Allow():
			c.refuse("the agent presents its token too often")
			c.finish(endMisbehaved)
			return
		}
		if p.Moved {
			c.leaveWhenIdle()
		}
		if p.Token.IsZero() {
			continue
		}
		if c.present(p.Token) != nil || c.greet() != nil {
			return
		}
	}
}

// present checks a token. One that is good replaces the last.
func (c *connection) present(token secret.Text) error {
	identity, err := c.check(token)
	if errors.Is(err, store.ErrUnavailable) {
		// The last token is good until it expires.
		return nil
	}
	if err != nil {
		c.refuse("the access token is not valid, has expired or was revoked")
		c.finish(endDenied)
		return err
	}
	c.mu.Lock()
	c.identity, c.token = identity, token
	c.mu.Unlock()
	c.expireAt(identity.Expires)
	return nil
}

// greet tells the agent that its token is accepted, and how many replicas there are.
func (c *connection) greet() error { return c.say(notice{Replicas: c.hub.replicas()}) }

// check verifies a token and that it is this runtime's.
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
		return identity, errors.New("the token is another runtime's")
	}
	return identity, nil
}

// recheck closes a connection whose token is no longer good.
func (c *connection) recheck() {
	c.mu.Lock()
	token := c.token
	c.mu.Unlock()
	_, err := c.check(token)
	switch {
	case errors.Is(err, store.ErrUnavailable):
		c.hub.options.Log.Debug("a token could not be checked again", observe.KeyError, err)
	case err != nil:
		// The agent may not read, so it is not waited for.
		c.finish(endDenied)
	}
}

// watchStreams ends a connection whose agent opens streams that nobody asked for.
func (c *connection) watchStreams() {
	if _, err := c.session.AcceptStream(); err == nil {
		c.finish(endMisbehaved)
	}
}

// say writes a line to the agent.
func (c *connection) say(n notice) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if err := c.control.SetWriteDeadline(time.Now().Add(c.hub.options.Timing.Dead / 2)); err != nil {
		return err
	}
	return writeNotice(c.control, n)
}

// refuse tells the agent why the connection ends, if it listens.
func (c *connection) refuse(reason string) { _ = c.say(notice{Refused: reason}) }

// finish ends the connection. The first reason counts.
func (c *connection) finish(why ending) {
	c.mu.Lock()
	if c.end == "" {
		c.end = why
	}
	c.mu.Unlock()
	c.ready.Store(false)
	_ = c.session.Close()
}

// ended is why the connection ended.
func (c *connection) ended() ending {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.end == "" {
		return endLost
	}
	return c.end
}

// expireAt ends the connection when its token expires.
func (c *connection) expireAt(expires time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expiry != nil {
		c.expiry.Stop()
	}
	c.expiry = time.AfterFunc(time.Until(expires), func() { c.finish(endExpired) })
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

// leaveWhenIdle takes no more requests, and ends the connection after the last.
func (c *connection) leaveWhenIdle() {
	c.moving.Store(true)
	c.once.Do(func() { close(c.moved) })
	c.hub.mu.Lock()
	idle := c.running == 0
	c.hub.mu.Unlock()
	if idle {
		c.finish(endMoved)
	}
}

// dial opens a stream for a request.
func (c *connection) dial(context.Context, string, string) (net.Conn, error) {
	opened, err := c.session.OpenStream()
	if err != nil {
		return nil, fmt.Errorf("open a stream to the agent: %w", err)
	}
	return link.Stream{Stream: opened}, nil
}
