package h2

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/h1"
)

const (
	// readSize is how much is read at once, and so how far ahead it is known what
	// becomes of a request before it is served.
	readSize = 4 << 10
	// partingTime bounds writing the last frame of a connection that is ended for
	// what its client did.
	partingTime = 250 * time.Millisecond
	// lingerTime and lingerBytes bound what is read after that frame. Closing with
	// bytes unread makes the kernel reset the connection, and the client may then
	// never read why.
	lingerTime  = 250 * time.Millisecond
	lingerBytes = 64 << 10
	// recentResets is how many streams are remembered that were reset by us:
	// frames that are still on their way to them mean nothing.
	recentResets = 32
)

var (
	// errEnded is what streams get from a connection that has ended.
	errEnded = errors.New("the connection of HTTP/2 has ended")
	// errSilent ends the connection of a client that does not say that it is there.
	errSilent = errors.New("the client does not answer")
	// errPreface is a connection that does not start like HTTP/2.
	errPreface = errors.New("the connection does not start like HTTP/2")
)

// session is one connection. One goroutine reads from it, each request has one,
// and who has something to write does, one at a time.
type session struct {
	server *Server
	cfg    *Config
	conn   net.Conn
	ctx    context.Context
	pool   *h1.BufferPool
	local  net.Addr
	remote net.Addr
	client netip.Prefix // who is blamed for a flood; not valid for nobody
	piece  int          // how much one write is given
	began  time.Time
	late   bool // it came after Drain

	// These are the reader's.
	in       *bufio.Reader
	framer   *http2.Framer
	header   block
	composer composer
	opening  opening
	silent   bool // no frame has come
	settled  bool // the client's settings have
	deadline bool // the connection has a read deadline
	waited   bool // for bytes, since the last frame

	hurried atomic.Bool // writes have partingTime, altogether

	mu sync.Mutex // guards all that follows
	sender
	ledger  ledger
	verdict string // why the ledger wants the connection to end
	reason  string // why it has ended
	over    bool   // no request starts any more
	quiet   sync.Cond

	streams map[uint32]*stream // those that are not over
	last    uint32             // the highest that came
	allowed uint32             // the highest that is served
	recent  [recentResets]uint32
	resets  int
	room    int // what the client may still send
	owed    int // what was taken and not given back to it

	starter
	watcher
}

func newSession(s *Server, cfg *Config, conn net.Conn) *session {
	c := &session{
		server: s, cfg: cfg, conn: conn, pool: cfg.Handler.Pool, local: conn.LocalAddr(), remote: conn.RemoteAddr(),
		piece: 1 << 30, began: time.Now(), silent: true, deadline: true, ledger: newLedger(cfg),
		streams: make(map[uint32]*stream), allowed: everyStream, room: cfg.ConnWindow,
	}
	if _, secure := conn.(interface{ ConnectionState() tls.ConnectionState }); secure {
		c.piece = writePiece
	}
	c.in = bufio.NewReaderSize(conn, readSize)
	c.framer = http2.NewFramer(nil, c.in)
	c.framer.SetMaxReadFrameSize(maxFrame)
	c.framer.SetReuseFrames()
	c.header.init(cfg)
	c.composer.pool = c.pool
	c.quiet.L = &c.mu
	c.sender.init()
	return c
}

// serve serves the connection until it has ended and all its requests have, and
// closes it.
func (c *session) serve(ctx context.Context) {
	c.ctx = ctx
	defer context.AfterFunc(ctx, c.cancelAll)()
	c.mu.Lock()
	c.startWatch()
	c.greet()
	c.mu.Unlock()
	err := c.readPreface()
	for err == nil {
		err = c.readFrame()
	}
	c.conclude(err)
	c.running.Wait()
}

// greet says what is taken.
func (c *session) greet() {
	c.reserve(64)
	c.out = appendSettings(c.out,
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: maxFrame},
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(c.cfg.MaxStreams)},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(c.header.limit)},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(c.cfg.StreamWindow)},
	)
	if c.cfg.ConnWindow > firstWindow {
		c.sendWindow(0, c.cfg.ConnWindow-firstWindow)
	}
	_ = c.flush() // an error shows with the first read
}

func (c *session) readPreface() error {
	for at := 0; at < len(http2.ClientPreface); {
		if c.in.Buffered() == 0 {
			if _, err := c.in.Peek(1); err != nil {
				return err
			}
		}
		part, _ := c.in.Peek(min(c.in.Buffered(), len(http2.ClientPreface)-at))
		if string(part) != http2.ClientPreface[at:at+len(part)] {
			return errPreface
		}
		at += len(part)
		_, _ = c.in.Discard(len(part)) // it is there
	}
	return nil
}

// readFrame reads a frame and does what it asks for. An error ends the
// connection.
func (c *session) readFrame() error {
	if c.in.Buffered() < frameHeaderSize {
		c.beforeWait(false)
	}
	header, err := c.framer.ReadFrameHeader()
	if err != nil {
		return err
	}
	if c.in.Buffered() < int(header.Length) {
		c.beforeWait(header.Type == http2.FrameHeaders || header.Type == http2.FrameContinuation)
	}
	read, err := c.framer.ReadFrameForHeader(header)
	var fault http2.StreamError
	if err != nil && !errors.As(err, &fault) {
		return err
	}
	f := frame{length: header.Length, kind: uint8(header.Type), flags: uint8(header.Flags), stream: header.StreamID}
	if data, ok := read.(*http2.DataFrame); ok {
		f.data = len(data.Data())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = false
	if c.waited {
		c.waited = false
		c.heard = c.now()
	}
	c.judge(c.ledger.fromClient(&f))
	if c.verdict == "" {
		if err != nil {
			err = c.streamFault(fault)
		} else {
			err = c.handle(read)
		}
	}
	switch {
	case c.over:
		return errEnded
	case c.verdict != "":
		return &floodError{c.verdict}
	}
	return err
}

// floodError is a connection that costs too much.
type floodError struct{ reason string }

func (e *floodError) Error() string { return "the client floods: " + e.reason }

// judge keeps what the ledger says.
func (c *session) judge(reason string) {
	if c.verdict == "" {
		c.verdict = reason
	}
}

// beforeWait is called before the client is waited for: what it has asked for so
// far is begun, and what is to be written to it is. A block of headers that has
// begun to come has a deadline until it is complete, and nothing else has one.
func (c *session) beforeWait(inHeaders bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waited = true
	c.startRequests()
	if len(c.out) > outMost {
		c.finish(ReasonUnread, http2.ErrCodeEnhanceYourCalm, c.last)
	}
	c.kick()
	headers := inHeaders || c.ledger.inBlock
	if c.silent || c.over || headers == c.deadline {
		return // nobody takes the deadline of the last moment away
	}
	c.deadline = headers
	var until time.Time
	if headers {
		until = time.Now().Add(c.cfg.HeaderTimeout)
	}
	// A connection that is gone shows with the next read.
	_ = c.conn.SetReadDeadline(until)
}

// conclude ends the connection after an error of the reader's, which may be that
// it has ended already.
func (c *session) conclude(err error) {
	var protocol http2.ConnectionError
	var flood *floodError
	switch {
	case errors.As(err, &flood):
		c.end(flood.reason, http2.ErrCodeEnhanceYourCalm)
	case errors.Is(err, errPreface):
		c.end(ReasonPreface, http2.ErrCodeProtocol)
	case errors.As(err, &protocol):
		c.cfg.Log.Debug("a client broke the rules of HTTP/2", "client", c.remote, "error", errors.Join(err, c.framer.ErrorDetail()))
		c.end(ReasonEnded, http2.ErrCode(protocol))
	case errors.Is(err, http2.ErrFrameTooLarge):
		c.end(ReasonEnded, http2.ErrCodeFrameSize)
	case errors.Is(err, os.ErrDeadlineExceeded) && c.silent:
		c.end(ReasonFirst, http2.ErrCodeNo)
	case errors.Is(err, os.ErrDeadlineExceeded):
		// Either that, or the connection has ended and this was to wake us up.
		c.end(ReasonSlowHeaders, http2.ErrCodeNo)
	default:
		c.mu.Lock()
		if !c.over {
			c.lose(err)
		}
		c.mu.Unlock()
	}
	c.blame()
	c.part()
}

// blame has a flood be remembered, before its client gets time to read why the
// connection ends.
func (c *session) blame() {
	c.mu.Lock()
	reason := c.reason
	c.mu.Unlock()
	if flood(reason) {
		c.cfg.Offenders.Flooded(c.client, time.Now())
	}
}

// end ends the connection and tells the client why. The reader does the rest.
func (c *session) end(reason string, code http2.ErrCode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finish(reason, code, c.last)
}

// finish is end, with mu held.
func (c *session) finish(reason string, code http2.ErrCode, last uint32) {
	if c.over {
		return
	}
	c.stopAll(reason)
	if c.allowed == everyStream || code != http2.ErrCodeNo {
		c.sendGoAway(last, code)
	}
	if code != http2.ErrCodeNo {
		// A write that waits for the client does not wait for long any more.
		c.hurried.Store(true)
		_ = c.conn.SetWriteDeadline(time.Now().Add(partingTime))
	}
	// A connection that is gone shows with the next read.
	_ = c.conn.SetReadDeadline(time.Unix(1, 0))
}

// lose ends a connection that cannot be used any more. It is called with mu held.
func (c *session) lose(err error) {
	if c.lost == nil {
		c.lost = err
	}
	c.stopAll(ReasonEnded)
	_ = c.conn.Close()
}

// stopAll lets nothing begin any more, and ends what runs.
func (c *session) stopAll(reason string) {
	if !c.over {
		c.over, c.reason = true, reason
		c.stopWatch()
	}
	for _, s := range c.streams {
		s.fail(errEnded)
	}
	clear(c.streams)
}

// cancelAll ends the contexts of requests together with that of the connection.
func (c *session) cancelAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams {
		(*lifetime)(s).cancel()
	}
}

// part writes what is left, gives the client a moment to read it, and closes the
// connection.
func (c *session) part() {
	c.mu.Lock()
	_ = c.flush() // nobody is left to tell
	for c.writing {
		c.quiet.Wait()
	}
	broken := c.lost != nil
	c.lost = errEnded
	c.pool.Put(c.out)
	c.out = nil
	c.dropQueued()
	c.mu.Unlock()
	if !broken {
		c.linger()
	}
	_ = c.conn.Close()
}

// linger reads what the client is still sending, so that it gets the last frame.
func (c *session) linger() {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.conn, lingerBytes)
}
