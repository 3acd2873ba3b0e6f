package h2client

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"slipway.dev/slipway/internal/edge/h1"
)

const (
	// maxStreams bounds the streams of a connection, whatever the endpoint
	// allows: with more, one lost packet would hold up too many.
	maxStreams = 250
	// frameSize is the payload of the frames that are sent and taken.
	frameSize = 16 << 10
	// streamWindow is what an endpoint may send on a stream that nobody reads.
	streamWindow = 128 << 10
	// connWindow is given back when bytes come, not when they are read: were it
	// shared by slow readers, they would hold up all others. The windows of the
	// streams bound the memory.
	connWindow = 1 << 20
	// lastID is the highest number of a stream.
	lastID = 1<<31 - 1
	// pingPause is the least time between two PINGs on a quiet connection.
	// Servers of gRPC take more than one in five minutes for an attack.
	pingPause = 5*time.Minute + 10*time.Second
	// patience is the part of PingTimeout that a stream has to have waited for
	// to be given up in doubt.
	patience = 8
	// farewellTime bounds saying goodbye.
	farewellTime = time.Second
)

// Config is what a connection works with. All of it has to be set, but for what
// says otherwise.
type Config struct {
	// Pool lends the buffers of bodies.
	Pool *h1.BufferPool
	// Limits bound the heads and trailers of responses.
	Limits h1.Limits
	// WriteTimeout bounds each write to the connection.
	WriteTimeout time.Duration
	// IdleTimeout is how long the connection is kept without a stream.
	IdleTimeout time.Duration
	// PingAfter is how long an endpoint that owes an answer may be silent before
	// it gets a PING, and PingTimeout how long it may take to answer that.
	PingAfter, PingTimeout time.Duration
	// Secure says that the connection is TLS: the scheme is https then.
	Secure bool
	// Abort closes the connection without a word and without waiting. Without
	// it, Close does.
	Abort func() error
	// Ended is told once, when the connection is closed or Start fails; nil is
	// nobody.
	Ended func(*Conn)
}

// Conn is one HTTP/2 connection, the client's side.
type Conn struct {
	cfg    Config
	net    net.Conn
	framer *http2.Framer // reads belong to readLoop, writes to writing
	began  time.Time
	heard  atomic.Int64 // when a frame was last read
	// doubted says that a stream was given up and nothing was heard since it
	// began. Until something is, no other is opened.
	doubted atomic.Bool
	// talked says that there was more than PINGs since the last PING.
	talked atomic.Bool
	// flooded says that more was queued than is ever written.
	flooded atomic.Bool

	// writing guards what frames are written with. It comes before mu.
	writing sync.Mutex
	out     *bufio.Writer
	encoder *hpack.Encoder
	block   bytes.Buffer

	mu        sync.Mutex
	streams   map[uint32]*Stream // those that have a number and are not over
	live      int                // those, and those that have no number yet
	next      uint32             // the number of the next stream
	limit     int                // of streams, as the endpoint says
	begun     bool               // ready is closed
	shared    bool               // there has been a stream
	leaving   bool               // no more streams are opened
	goneAway  bool               // the endpoint takes no more, opened or not
	over      bool
	cause     error // why it is over
	window    int64 // what may be sent
	initial   int64 // the window of a new stream
	tables    []uint32
	queue     []frame
	idleSince int64
	pingAt    int64 // when the last PING was sent; 0 is never
	timer     *time.Timer

	ready chan struct{} // closed when streams can be opened, or never will
	wake  chan struct{} // there is something in queue
	stop  chan struct{} // closed when it is over
	done  chan struct{} // closed when its goroutines have ended

	taken int64 // of connWindow; belongs to readLoop
}

// Start makes a connection of one that was just made. It returns when the
// endpoint has said how many streams it takes, which has to be one at least.
// After an error the connection is closed.
func Start(ctx context.Context, below net.Conn, cfg Config) (*Conn, error) {
	c := &Conn{
		cfg: cfg, net: below, began: time.Now(),
		streams: map[uint32]*Stream{}, next: 1, limit: maxStreams, window: 1<<16 - 1, initial: 1<<16 - 1,
		ready: make(chan struct{}), wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	c.out = bufio.NewWriterSize(below, frameSize+2048)
	c.framer = http2.NewFramer(c.out, bufio.NewReader(below))
	c.framer.SetMaxReadFrameSize(frameSize)
	c.framer.SetReuseFrames()
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.framer.MaxHeaderListSize = listSize(&cfg.Limits)
	c.encoder = hpack.NewEncoder(&c.block)
	if err := c.greet(); err != nil {
		_ = c.abort()
		c.tell()
		return nil, err
	}
	c.mu.Lock()
	c.timer = time.AfterFunc(c.cfg.PingAfter, c.watch)
	c.mu.Unlock()
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		c.readLoop()
	}()
	go func() {
		c.writeLoop()
		<-reading
		c.tell()
		close(c.done)
	}()
	select {
	case <-c.ready:
	case <-ctx.Done():
		c.shut(errRetired)
		return nil, fmt.Errorf("the endpoint did not begin to speak HTTP/2 in time: %w", ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, c.cause
	}
	return c, nil
}

// listSize is the limit on heads in the way that HTTP/2 counts it.
func listSize(limits *h1.Limits) uint32 { return uint32(limits.HeadBytes + 32*limits.Fields) }

// greet writes what a client begins with.
func (c *Conn) greet() error {
	if err := c.net.SetWriteDeadline(time.Now().Add(c.cfg.WriteTimeout)); err != nil {
		return err
	}
	_, err := c.out.WriteString(http2.ClientPreface)
	err = errors.Join(err, c.framer.WriteSettings(
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: c.framer.MaxHeaderListSize},
	), c.framer.WriteWindowUpdate(0, connWindow-(1<<16-1)))
	if err != nil {
		return err
	}
	return c.out.Flush()
}

func (c *Conn) now() int64 { return int64(time.Since(c.began)) + 1 }

// Open gives a stream, or nil when the connection takes no more: it has as many
// as it may, it is going away, or it is not known to be alive.
func (c *Conn) Open() *Stream {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.leaving || c.doubted.Load() || c.live >= c.limit || c.next > lastID-2*uint32(c.live) {
		return nil
	}
	s := newStream(c, c.shared)
	c.shared = true
	c.live++
	if c.live == 1 && c.answered() {
		c.wakeAfter(int64(c.cfg.PingAfter))
	}
	return s
}

// Spent reports whether no more streams will be opened.
func (c *Conn) Spent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over || c.leaving
}

// Live is the number of streams.
func (c *Conn) Live() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live
}

// Retire closes the connection after its streams. No more are opened.
func (c *Conn) Retire() {
	c.mu.Lock()
	c.leaving = true
	idle := c.live == 0
	c.mu.Unlock()
	if idle {
		c.shut(errRetired)
	}
}

// Done is closed when the connection is closed and its goroutines have ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// finish takes a stream out. It is called with mu held.
func (c *Conn) finish(s *Stream) {
	if s.over {
		return
	}
	s.over = true
	delete(c.streams, s.id)
	c.live--
	switch {
	case c.live > 0 || c.over:
	case c.leaving:
		c.wakeAfter(0)
	default:
		c.idleSince = c.now()
		if c.answered() {
			c.wakeAfter(int64(c.cfg.IdleTimeout))
		}
	}
}

// answered reports that no PING is waiting for its answer. While one is, the
// timer belongs to it.
func (c *Conn) answered() bool { return c.pingAt <= c.heard.Load() }

// shut ends the connection, and what runs on it. It does not wait.
func (c *Conn) shut(cause error) {
	c.mu.Lock()
	if c.over {
		c.mu.Unlock()
		return
	}
	c.over, c.leaving, c.cause = true, true, cause
	c.timer.Stop()
	if cause == errRetired {
		c.queue = append(c.queue, frame{kind: frameGoAway})
	}
	var streams []*Stream
	for _, s := range c.streams {
		streams = append(streams, s)
		s.forbid(broken(cause, true))
		c.finish(s)
	}
	c.begin()
	close(c.stop)
	c.mu.Unlock()
	for _, s := range streams {
		s.breakOff(cause)
	}
	if cause != errRetired {
		// There is nobody to tell. Writes that wait end with this too.
		_ = c.abort()
	}
}

func (c *Conn) tell() {
	if c.cfg.Ended != nil {
		c.cfg.Ended(c)
	}
}

// begin lets Start return. It is called with mu held.
func (c *Conn) begin() {
	if !c.begun {
		c.begun = true
		close(c.ready)
	}
}

func (c *Conn) abort() error {
	if c.cfg.Abort != nil {
		return c.cfg.Abort()
	}
	return c.net.Close()
}

// watch runs when the timer says so, and finds out what is due: to close a
// connection without streams, to ask one that is silent, or to give it up.
func (c *Conn) watch() {
	c.mu.Lock()
	now, heard := c.now(), c.heard.Load()
	var verdict error
	switch asked := max(heard+int64(c.cfg.PingAfter), c.nextPing()); {
	case c.over:
	case c.live == 0 && (c.leaving || now-c.idleSince >= int64(c.cfg.IdleTimeout)):
		c.leaving = true
		verdict = errRetired
	case c.pingAt > heard && now-c.pingAt >= int64(c.cfg.PingTimeout):
		verdict = ErrSilent
	case c.pingAt > heard:
		c.wakeAfter(c.pingAt + int64(c.cfg.PingTimeout) - now)
	case c.live == 0:
		c.wakeAfter(c.idleSince + int64(c.cfg.IdleTimeout) - now)
	case now >= asked:
		c.ping(now)
	default:
		c.wakeAfter(asked - now)
	}
	c.mu.Unlock()
	if verdict != nil {
		c.shut(verdict)
	}
}

// nextPing is the earliest moment of another PING. It is called with mu held.
func (c *Conn) nextPing() int64 {
	if c.pingAt == 0 || c.talked.Load() {
		return 0
	}
	return c.pingAt + int64(pingPause)
}

// ping is called with mu held.
func (c *Conn) ping(now int64) {
	c.pingAt = now
	c.talked.Store(false)
	c.enqueue(frame{kind: framePing})
	c.wakeAfter(int64(c.cfg.PingTimeout))
}

func (c *Conn) wakeAfter(wait int64) { c.timer.Reset(max(time.Duration(wait), time.Millisecond)) }

// doubt is called with mu held, for a stream that is given up although nothing
// has been heard since it began: the endpoint may be gone. One that is given up
// at once proves nothing, and where the endpoint may not be asked it is
// believed.
func (c *Conn) doubt(s *Stream) {
	now, heard := c.now(), c.heard.Load()
	if heard >= s.sentAt || now-s.sentAt < int64(c.cfg.PingTimeout)/patience || c.answered() && now < c.nextPing() {
		return
	}
	c.doubted.Store(true)
	if c.answered() {
		c.ping(now)
	}
}
