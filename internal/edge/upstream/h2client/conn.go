package h2client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2flow"
)

const (
	// maxStreams bounds the streams of a connection, even if the endpoint
	// allows more: with more, one lost packet would delay too many.
	maxStreams = 250
	// frameSize is the largest payload of the frames that are sent and
	// accepted.
	frameSize = 16 << 10
	// streamWindow is how many bytes of a response are buffered before they are
	// read.
	streamWindow = 128 << 10
	// connWindow is returned when bytes arrive, not when they are read: if slow
	// readers could use it up, they would block all other streams. The windows
	// of the streams bound the memory.
	connWindow = 1 << 20
	// lastID is the highest identifier of a stream.
	lastID = 1<<31 - 1
	// goAwayTimeout bounds writing the GOAWAY of a connection that is closed.
	goAwayTimeout = time.Second
)

// Config configures a connection. Every field has to be set, except where it
// is marked otherwise.
type Config struct {
	// Pool lends the buffers of bodies.
	Pool *h1.BufferPool
	// Limits bound the heads and trailers of responses.
	Limits h1.Limits
	// WriteTimeout bounds each write to the connection.
	WriteTimeout time.Duration
	// IdleTimeout is how long the connection is kept without a stream.
	IdleTimeout time.Duration
	// PingAfter is how long an endpoint may send no frame while a response is
	// outstanding, before it gets a PING. PingTimeout is how long it has to
	// send a frame after that.
	PingAfter, PingTimeout time.Duration
	// Secure is set if the connection is TLS. The scheme of requests is https
	// then.
	Secure bool
	// Abort closes the connection below without GOAWAY, close_notify or a wait.
	// Nil uses Close.
	Abort func() error
	// OnClose is called once, when the connection is closed or Start fails. It
	// may be nil.
	OnClose func(*Conn)
}

// Conn is the client side of one HTTP/2 connection. It has two goroutines, one
// that reads and one that writes control frames; requests are written by their
// callers.
//
// There are two locks. The writer's comes first: a goroutine that holds it may
// take mu, and never the other way round, because writing waits for the
// endpoint.
type Conn struct {
	cfg    Config
	net    net.Conn
	framer *http2.Framer // reads belong to readLoop, writes to the holder of writer.mu
	// receive is the window of the connection. It belongs to readLoop.
	receive h2flow.ReceiveWindow
	writer  headerWriter

	mu        sync.Mutex // guards what follows
	streams   streamTable
	send      h2flow.ConnSendWindow
	settings  peerSettings
	control   controlQueue
	keepalive keepalive
	started   bool // ready is closed
	draining  bool // no more streams are opened
	goneAway  bool // the endpoint accepts no more streams, also none that is open here
	over      bool
	cause     error // why it is over

	ready chan struct{} // closed when streams can be opened, or never will be
	stop  chan struct{} // closed when it is over
	done  chan struct{} // closed when its goroutines have ended
}

// streamTable has the streams of a connection.
type streamTable struct {
	open map[uint32]*Stream // those that have an identifier and have not ended
	live int                // those, and those that have no identifier yet
	next uint32             // the identifier of the next stream
	used bool               // there has been a stream
}

// peerSettings are the settings of the endpoint.
type peerSettings struct {
	maxStreams int
	// tableSizes are the changes of the HPACK table size that the encoder has
	// not applied yet.
	tableSizes []uint32
}

// Start begins HTTP/2 on a connection that was just made. It returns when the
// endpoint's SETTINGS allow at least one stream. After an error the connection
// is closed.
func Start(ctx context.Context, below net.Conn, cfg Config) (*Conn, error) {
	c := &Conn{
		cfg: cfg, net: below,
		streams:  streamTable{open: map[uint32]*Stream{}, next: 1},
		settings: peerSettings{maxStreams: maxStreams},
		send:     h2flow.NewConnSendWindow(), receive: h2flow.NewReceiveWindow(connWindow),
		ready: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
	}
	c.control.wake = make(chan struct{}, 1)
	c.keepalive.began = time.Now()
	c.writer.out = bufio.NewWriterSize(below, frameSize+2048)
	c.writer.encoder = hpack.NewEncoder(&c.writer.block)
	c.framer = http2.NewFramer(c.writer.out, bufio.NewReader(below))
	c.framer.SetMaxReadFrameSize(frameSize)
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.MaxHeaderListSize = listSize(&cfg.Limits)
	if err := c.sendSettings(); err != nil {
		_ = c.abort()
		c.notifyClosed()
		return nil, err
	}
	c.mu.Lock()
	c.keepalive.timer = time.AfterFunc(c.cfg.PingAfter, c.checkAlive)
	c.mu.Unlock()
	c.run()
	select {
	case <-c.ready:
	case <-ctx.Done():
		c.closeWith(errClosed)
		return nil, fmt.Errorf("the endpoint did not start HTTP/2 in time: %w", ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, c.cause
	}
	return c, nil
}

// run starts the goroutines. OnClose is called after both have ended.
func (c *Conn) run() {
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		c.readLoop()
	}()
	go func() {
		c.writeLoop()
		<-reading
		c.notifyClosed()
		close(c.done)
	}()
}

// listSize is the limit on heads as HTTP/2 counts it, with 32 bytes for each
// field (RFC 9113 section 6.5.2).
func listSize(limits *h1.Limits) uint32 { return uint32(limits.HeadBytes + 32*limits.Fields) }

// sendSettings writes the client preface: the magic bytes, SETTINGS, and the
// window of the connection, for which there is no setting.
func (c *Conn) sendSettings() error {
	if err := c.net.SetWriteDeadline(time.Now().Add(c.cfg.WriteTimeout)); err != nil {
		return err
	}
	_, err := c.writer.out.WriteString(http2.ClientPreface)
	err = errors.Join(err, c.framer.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: c.framer.MaxHeaderListSize},
	), c.framer.WriteWindowUpdate(0, connWindow-h2flow.DefaultWindow))
	if err != nil {
		return err
	}
	return c.writer.out.Flush()
}

// OpenStream returns a new stream, or nil when the connection takes no more: it
// has as many as it may, it drains, or the endpoint may be gone. The stream
// gets its identifier with the head of its request.
func (c *Conn) OpenStream() *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.streams
	if c.over || c.draining || c.keepalive.suspected.Load() || t.live >= c.settings.maxStreams || t.next > lastID-2*uint32(t.live) {
		return nil
	}
	s := newStream(c, t.used)
	t.used = true
	t.live++
	if t.live == 1 && c.keepalive.acknowledged() {
		c.keepalive.wakeAfter(int64(c.cfg.PingAfter))
	}
	return s
}

// Closing reports whether no more streams will be opened.
func (c *Conn) Closing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over || c.draining
}

// ActiveStreams is the number of streams.
func (c *Conn) ActiveStreams() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.streams.live
}

// Drain opens no more streams, and closes the connection after the last one.
func (c *Conn) Drain() {
	c.mu.Lock()
	c.draining = true
	idle := c.streams.live == 0
	c.mu.Unlock()
	if idle {
		c.closeWith(errClosed)
	}
}

// Done is closed when the connection is closed and its goroutines have ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// remove takes a stream out of the table. It is called with mu held. The last
// stream starts the idle timeout, or closes a connection that drains.
func (c *Conn) remove(s *Stream) {
	if s.over {
		return
	}
	s.over = true
	delete(c.streams.open, s.id)
	c.streams.live--
	switch {
	case c.streams.live > 0 || c.over:
	case c.draining:
		c.keepalive.wakeAfter(0)
	default:
		c.keepalive.idleSince = c.keepalive.now()
		if c.keepalive.acknowledged() {
			c.keepalive.wakeAfter(int64(c.cfg.IdleTimeout))
		}
	}
}

// closeWith closes the connection and fails its streams. It does not wait. A
// connection without an error is closed by writeLoop, after a GOAWAY.
func (c *Conn) closeWith(cause error) {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	c.over, c.draining, c.cause = true, true, cause
	c.keepalive.timer.Stop()
	if cause == errClosed {
		c.control.frames = append(c.control.frames, frame{kind: frameGoAway})
	}
	var streams []*Stream
	for _, s := range c.streams.open {
		streams = append(streams, s)
		s.stopSending(streamError(cause, true))
		c.remove(s)
	}
	c.signalReady()
	close(c.stop)
	c.mu.Unlock()
	// The streams have their own lock, which must not be taken under mu.
	for _, s := range streams {
		s.connectionClosed(cause)
	}
	if cause != errClosed {
		// No GOAWAY can be written. Writes that wait fail with this too.
		_ = c.abort()
	}
}

func (c *Conn) notifyClosed() {
	if c.cfg.OnClose != nil {
		c.cfg.OnClose(c)
	}
}

// signalReady lets Start return. It is called with mu held.
func (c *Conn) signalReady() {
	if !c.started {
		c.started = true
		close(c.ready)
	}
}

func (c *Conn) abort() error {
	if c.cfg.Abort != nil {
		return c.cfg.Abort()
	}
	return c.net.Close()
}
