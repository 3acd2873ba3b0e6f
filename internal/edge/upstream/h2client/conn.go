package h2client

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2flow"
	"slipway.dev/slipway/internal/edge/h2wire"
)

const (
	// maxStreams bounds the streams of a connection, even if the endpoint
	// allows more: with more, one lost packet would delay too many.
	maxStreams = 250
	// frameSize is the largest payload of the frames that are sent and
	// accepted.
	frameSize = h2wire.MaxFrame
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

// Conn is the client side of one HTTP/2 connection. One goroutine reads it, or one task
// where an event loop has the socket. Requests are written by their callers, each of which
// takes along what others have added, control frames included (package h2wire).
type Conn struct {
	cfg Config
	net net.Conn

	// What follows belongs to the reader.
	task    *eventloop.Task // that reads, on an event loop; nil where a goroutine does
	in      *bufio.Reader
	framer  *http2.Framer
	receive h2flow.ReceiveWindow // of the connection
	waited  bool                 // for bytes, since the last frame

	mu        sync.Mutex // guards what follows, and all streams
	writer    h2wire.Writer
	headers   headerEncoder
	streams   streamTable
	send      h2flow.ConnSendWindow
	settings  peerSettings
	keepalive keepalive
	// controls is how many control frames wait to be written, and flooded is set once
	// there were more than maxControls, which closes the connection.
	controls int
	flooded  bool
	// waitForRoom are the streams that wait for the writer to have room.
	waitForRoom map[*Stream]struct{}
	opened      eventloop.Cond // signalled when streams can be opened, or never will be
	started     bool           // it was
	draining    bool           // no more streams are opened
	goneAway    bool           // the endpoint accepts no more streams, also none that is open here
	over        bool
	cause       error // why it is over

	done chan struct{} // closed when nothing uses the connection any more
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
// is closed. by is the task that calls it, on the event loop that has the socket; nil
// for a goroutine.
func Start(ctx context.Context, by *eventloop.Task, below net.Conn, cfg Config) (*Conn, error) {
	c := &Conn{
		cfg: cfg, net: below,
		streams:  streamTable{open: map[uint32]*Stream{}, next: 1},
		settings: peerSettings{maxStreams: maxStreams},
		send:     h2flow.NewConnSendWindow(), receive: h2flow.NewReceiveWindow(connWindow),
		waitForRoom: map[*Stream]struct{}{},
		done:        make(chan struct{}),
	}
	c.opened.Init(&c.mu)
	c.keepalive.began = time.Now()
	c.writer.Init(h2wire.Config{Owner: c, Mu: &c.mu, Conn: below, Pool: cfg.Pool, Timeout: cfg.WriteTimeout})
	c.headers.init()
	c.in = bufio.NewReader(below)
	c.framer = http2.NewFramer(nil, c.in)
	c.framer.SetMaxReadFrameSize(frameSize)
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.MaxHeaderListSize = listSize(&cfg.Limits)
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.opened.Wake(nil)
	})
	defer stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendSettings()
	c.keepalive.timer = time.AfterFunc(c.cfg.PingAfter, c.checkAlive)
	c.startReading()
	_ = c.writer.Flush(by, false) // an error closes the connection
	for !c.started && ctx.Err() == nil {
		c.opened.Wait(by)
	}
	switch {
	case c.over:
		return nil, c.cause
	case !c.started:
		c.closeWith(errClosed)
		return nil, fmt.Errorf("the endpoint did not start HTTP/2 in time: %w", ctx.Err())
	}
	return c, nil
}

// startReading starts the reader: a task where an event loop has the socket.
func (c *Conn) startReading() {
	if socket := eventloop.Of(c.net); socket != nil {
		socket.Serve(c.read)
	} else {
		go c.read(nil)
	}
}

// listSize is the limit on heads as HTTP/2 counts it, with 32 bytes for each
// field (RFC 9113 section 6.5.2).
func listSize(limits *h1.Limits) uint32 { return uint32(limits.HeadBytes + 32*limits.Fields) }

// sendSettings sends the client preface: the magic bytes, SETTINGS, and the
// window of the connection, for which there is no setting.
func (c *Conn) sendSettings() {
	c.writer.Preface()
	c.writer.Settings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: c.framer.MaxHeaderListSize},
	)
	c.writer.WindowUpdate(0, connWindow-h2flow.DefaultWindow)
}

// OpenStream returns a new stream, or nil when the connection takes no more: it
// has as many as it may, it drains, or the endpoint may be gone. The stream
// gets its identifier with the head of its request. by is the task that is going to use it,
// on the event loop that has the connection; nil for goroutines.
func (c *Conn) OpenStream(by *eventloop.Task) *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &c.streams
	if c.over || c.draining || c.keepalive.suspected || t.live >= c.settings.maxStreams || t.next > lastID-2*uint32(t.live) {
		return nil
	}
	s := newStream(c, by, t.used)
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
	defer c.mu.Unlock()
	c.draining = true
	if c.streams.live == 0 {
		c.closeWith(errClosed)
	}
}

// Done is closed when the connection is closed and its reader has ended.
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

// closeWith closes the connection and fails its streams. It is called with mu held, and
// does not wait. A connection without an error is closed by its reader, after a GOAWAY.
func (c *Conn) closeWith(cause error) {
	if c.over {
		return
	}
	c.over, c.draining, c.cause = true, true, cause
	c.keepalive.timer.Stop()
	for _, s := range c.streams.open {
		s.stopSending(streamError(cause, true), nil)
		s.finishReading(streamError(cause, s.in.begun), nil)
		c.remove(s)
	}
	c.wakeWaiting(nil)
	c.signalStarted(nil)
	if cause == errClosed {
		c.writer.GoAway(0, http2.ErrCodeNo)
		c.writer.Hurry(goAwayTimeout)
		_ = c.net.SetReadDeadline(time.Unix(1, 0)) // it wakes the reader
		return
	}
	// No GOAWAY can be written. Writes that wait fail with this too.
	c.writer.Fail(cause)
	_ = c.abort()
}

// finish ends the use of the connection. The reader calls it in the end, as a goroutine.
func (c *Conn) finish() {
	c.mu.Lock()
	regular := c.cause == errClosed
	if regular {
		_ = c.writer.Flush(nil, false) // it is closed in any case
	}
	c.writer.Await()
	c.writer.Close(errClosed)
	c.mu.Unlock()
	if regular {
		_ = c.net.Close()
	}
	if c.cfg.OnClose != nil {
		c.cfg.OnClose(c)
	}
	close(c.done)
}

// signalStarted lets Start return.
func (c *Conn) signalStarted(by *eventloop.Task) {
	c.started = true
	c.opened.Wake(by)
}

func (c *Conn) abort() error {
	if c.cfg.Abort != nil {
		return c.cfg.Abort()
	}
	return c.net.Close()
}
