package h2

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"slipway.dev/slipway/internal/edge/eventloop"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2flow"
	"slipway.dev/slipway/internal/edge/h2wire"
	"slipway.dev/slipway/internal/edge/httperr"
)

const (
	// goAwayTimeout bounds writing the last frames of a connection that is
	// closed because of an error or a flood of its client.
	goAwayTimeout = 250 * time.Millisecond
	// drainReadTime and drainReadBytes bound what is read after the last frame.
	// Closing a socket with unread bytes makes the kernel reset the connection,
	// and the client may then never read the GOAWAY.
	drainReadTime  = 250 * time.Millisecond
	drainReadBytes = 64 << 10
)

var (
	// errEnded is the error of streams whose connection was closed.
	errEnded = errors.New("the HTTP/2 connection was closed")
	// errPingTimeout closes the connection of a client that does not
	// acknowledge PING.
	errPingTimeout = errors.New("the client did not acknowledge a PING in time")
	// errPreface is a connection that does not start with the client preface.
	errPreface = httperr.Reset(http2.ErrCodeProtocol, ReasonPreface, "the connection does not start with the HTTP/2 preface")
)

// session is one connection. One goroutine, in serve, reads its frames. Each
// request that runs has a goroutine of the server's workers. A goroutine that
// has frames to send adds them to the writer's buffer, and one of them at a
// time writes the buffer to the connection. On an event loop all of them are tasks
// of that loop: see looped.go.
type session struct {
	server *Server
	cfg    *Config
	conn   net.Conn
	task   *eventloop.Task // reads the connection on an event loop; nil where a goroutine does
	ctx    context.Context // requests derive theirs from it
	pool   *h1.BufferPool
	local  net.Addr
	remote net.Addr
	client netip.Prefix // whom a flood is recorded for; not valid for none
	began  time.Time
	// acceptedDraining is set if the connection came after Drain. Its client
	// gets GOAWAY with the first response.
	acceptedDraining bool

	// reader belongs to the goroutine of serve, and needs no lock.
	reader frameReader

	mu         sync.Mutex // guards all that follows, and all streams
	writer     h2wire.Writer
	headers    headerEncoder
	streams    streamTable
	flow       connFlow
	accounting frameAccounting
	requests   requestQueue
	keepalive  keepalive
	looped     loopedStreams
	// waitForRoom counts the streams that wait for the writer to have room.
	waitForRoom int
	over        bool   // the connection is being closed, and no request starts any more
	reason      string // why; set together with over
}

// connFlow is the flow control of all streams together, in both directions.
type connFlow struct {
	send    h2flow.ConnSendWindow
	receive h2flow.ReceiveWindow
}

func newSession(s *Server, cfg *Config, conn net.Conn) *session {
	c := &session{
		server: s, cfg: cfg, conn: conn, pool: cfg.Handler.Pool,
		local: conn.LocalAddr(), remote: conn.RemoteAddr(), began: time.Now(),
		accounting: newAccounting(cfg), streams: newStreamTable(),
		flow: connFlow{send: h2flow.NewConnSendWindow(), receive: h2flow.NewReceiveWindow(cfg.ConnWindow)},
	}
	if socket := eventloop.Of(conn); socket != nil {
		c.task = socket.Task()
	}
	c.reader.init(cfg, conn)
	c.writer.Init(h2wire.Config{Owner: c, Mu: &c.mu, Conn: conn, Pool: c.pool, Timeout: cfg.WriteTimeout})
	c.headers.init()
	return c
}

// serve serves the connection until it is closed and all its requests have
// ended.
func (c *session) serve(ctx context.Context) {
	c.ctx = ctx
	defer context.AfterFunc(ctx, c.cancelAll)()
	c.mu.Lock()
	c.startKeepalive()
	c.sendSettings()
	c.mu.Unlock()
	err := c.reader.readPreface()
	for err == nil {
		err = c.readFrame()
	}
	if c.task != nil {
		c.task.Leave() // the end waits for more than the connection
	}
	c.closeAfter(err)
	c.requests.running.Wait()
}

// sendSettings sends the server's preface: SETTINGS, and the window of the
// connection, for which there is no setting.
func (c *session) sendSettings() {
	c.writer.Settings(
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: maxFrame},
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(c.cfg.MaxStreams)},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(c.reader.headers.limit)},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(c.cfg.StreamWindow)},
	)
	if c.cfg.ConnWindow > h2flow.DefaultWindow {
		c.writer.WindowUpdate(0, c.cfg.ConnWindow-h2flow.DefaultWindow)
	}
	_ = c.flush(c.task) // an error shows with the first read
}

// readFrame reads a frame and handles it. An error closes the connection.
//
// The frame is accounted for before it is handled: a frame over a limit does
// not get to do its work.
func (c *session) readFrame() error {
	if c.reader.in.Buffered() < frameHeaderSize {
		c.beforeWait(false)
	}
	header, err := c.reader.framer.ReadFrameHeader()
	if err != nil {
		return err
	}
	if c.reader.in.Buffered() < int(header.Length) {
		c.beforeWait(header.Type == http2.FrameHeaders || header.Type == http2.FrameContinuation)
	}
	read, err := c.reader.framer.ReadFrameForHeader(header)
	var streamError http2.StreamError
	if err != nil && !errors.As(err, &streamError) {
		return err
	}
	f := frame{length: header.Length, kind: uint8(header.Type), flags: uint8(header.Flags), stream: header.StreamID}
	if data, ok := read.(*http2.DataFrame); ok {
		f.data = len(data.Data())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reader.noFrame = false
	if c.reader.waited {
		// The clock is read only after a wait: frames that came together have
		// the same time.
		c.reader.waited = false
		c.keepalive.lastFrame = c.now()
	}
	c.accounting.exceed(c.accounting.countReceived(&f))
	if c.accounting.exceeded == "" {
		if err != nil {
			err = c.resetInvalid(streamError)
		} else {
			err = c.handle(read)
		}
	}
	if c.accounting.exceeded != "" {
		c.goAway(c.accounting.exceeded, http2.ErrCodeEnhanceYourCalm, c.streams.last)
	}
	if c.over {
		return errEnded
	}
	return err
}

// beforeWait is called before the reader waits for the client. It starts the
// requests that were read so far, and has pending frames written. A block of
// headers that has begun has a read deadline until it is complete; there is
// none otherwise.
func (c *session) beforeWait(inHeaders bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reader.waited = true
	if c.shouldDepart() {
		c.depart()
	}
	c.startRequests(c.task)
	if c.writer.Pending() > maxUnwritten {
		c.goAway(ReasonUnread, http2.ErrCodeEnhanceYourCalm, c.streams.last)
	}
	c.writer.FlushAsync(c.task)
	headers := inHeaders || c.accounting.inBlock
	if c.reader.noFrame || c.over || headers == c.reader.hasDeadline {
		return // the deadlines of the first frame and of the end stay
	}
	c.reader.hasDeadline = headers
	var until time.Time
	if headers {
		until = time.Now().Add(c.cfg.HeaderTimeout)
	}
	// A connection that is gone shows with the next read.
	_ = c.conn.SetReadDeadline(until)
}

// closeAfter closes the connection after an error of the reader. The connection
// may be closing already, and the error be the consequence of that.
func (c *session) closeAfter(err error) {
	var protocol http2.ConnectionError
	switch {
	case errors.Is(err, errPreface):
		c.end(errPreface.Reason, errPreface.Code)
	case errors.As(err, &protocol):
		c.cfg.Log.Debug("client broke the HTTP/2 protocol", "client", c.remote, "error", errors.Join(err, c.reader.framer.ErrorDetail()))
		c.end(ReasonEnded, http2.ErrCode(protocol))
	case errors.Is(err, http2.ErrFrameTooLarge):
		c.end(ReasonEnded, http2.ErrCodeFrameSize)
	case errors.Is(err, os.ErrDeadlineExceeded) && c.reader.noFrame:
		c.end(ReasonFirst, http2.ErrCodeNo)
	case errors.Is(err, os.ErrDeadlineExceeded):
		// Either the headers took too long, or goAway set a deadline in the
		// past to wake the reader; end does nothing then.
		c.end(ReasonSlowHeaders, http2.ErrCodeNo)
	default:
		c.mu.Lock()
		if !c.over {
			c.abort(err)
		}
		c.mu.Unlock()
	}
	c.recordFlood()
	c.shutdown()
}

// recordFlood reports a flood to the flood tracker. That happens before the
// client gets time to read the GOAWAY: it may reconnect as soon as it has read
// it.
func (c *session) recordFlood() {
	c.mu.Lock()
	reason := c.reason
	c.mu.Unlock()
	if isFlood(reason) {
		c.cfg.Floods.RecordFlood(c.client, time.Now())
	}
}

// end is goAway for callers without the lock.
func (c *session) end(reason string, code http2.ErrCode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goAway(reason, code, c.streams.last)
}

// goAway ends all streams, adds GOAWAY with a code, and wakes up the reader,
// which closes the connection. It is called with mu held.
func (c *session) goAway(reason string, code http2.ErrCode, last uint32) {
	if c.over {
		return
	}
	c.stopAll(reason)
	if c.streams.accepting() || code != http2.ErrCodeNo {
		c.writer.GoAway(last, code)
	}
	if code != http2.ErrCodeNo {
		// A write that waits for the client does not wait for long any more.
		c.writer.Hurry(goAwayTimeout)
	}
	// A connection that is gone shows with the next read.
	_ = c.conn.SetReadDeadline(time.Unix(1, 0))
}

// abort closes a connection that no longer works. It is called with mu held.
func (c *session) abort(err error) {
	c.writer.Fail(err)
	c.stopAll(ReasonEnded)
	_ = c.conn.Close()
}

// stopAll marks the connection as over and ends all streams. It is called with
// mu held.
func (c *session) stopAll(reason string) {
	if !c.over {
		c.over, c.reason = true, reason
		c.stopKeepalive()
	}
	for _, s := range c.streams.open {
		s.fail(errEnded)
	}
	clear(c.streams.open)
}

// cancelAll cancels the contexts of all requests together with that of the
// connection.
func (c *session) cancelAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.streams.open {
		(*streamContext)(s).cancel()
	}
}

// shutdown writes what is left, gives the client a moment to read it, and
// closes the connection.
func (c *session) shutdown() {
	c.mu.Lock()
	_ = c.flush(nil) // the connection is closed in any case
	c.writer.Await()
	broken := c.writer.Err() != nil
	c.writer.Close(errEnded)
	c.dropQueued()
	c.mu.Unlock()
	if !broken {
		c.drainRead()
	}
	_ = c.conn.Close()
}

// drainRead reads and discards what the client still sends, so that the client
// receives the last frame and not a reset.
func (c *session) drainRead() {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.conn.SetReadDeadline(time.Now().Add(drainReadTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.conn, drainReadBytes)
}
