package h2

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// errGuarded is what the library gets from a connection that the guard ended.
var errGuarded = errors.New("the guard has ended the connection")

const (
	// partingTime bounds writing a frame of our own.
	partingTime = 250 * time.Millisecond
	// lingerTime and lingerBytes bound what is read after that frame. Closing
	// with bytes unread makes the kernel reset the connection, and the client
	// may then never read why.
	lingerTime  = 250 * time.Millisecond
	lingerBytes = 64 << 10
)

// guard is a connection that looks at the frames which go through it. The
// library reads from one goroutine and writes from one at a time.
type guard struct {
	net.Conn
	cfg *Config

	mu     sync.Mutex // guards the ledger and the reason
	ledger ledger
	reason string

	// These are the reader's.
	in       scanner
	found    frame
	preface  int  // bytes of the preface to come
	waiting  bool // for the first frame
	deadline bool // the connection has a read deadline

	// These are the writer's, and whoever holds writing.
	writing sync.Mutex
	out     scanner
	ahead   int  // bytes that were looked at and could not be written yet
	begun   bool // the first frame has been written

	over   atomic.Bool   // nothing of the library's is written any more
	gone   chan struct{} // closed when the guard has ended the connection
	notice atomic.Bool   // a GOAWAY is to be written that announces another one
}

// secureGuard is a guard whose connection is encrypted. The library looks for
// that method.
type secureGuard struct {
	*guard
	state func() tls.ConnectionState
}

// ConnectionState says how the connection is encrypted.
func (g *secureGuard) ConnectionState() tls.ConnectionState { return g.state() }

// newGuard stands before conn from its first byte on.
func newGuard(conn net.Conn, cfg *Config) *guard {
	return &guard{
		Conn: conn, cfg: cfg, ledger: newLedger(cfg),
		in: scanner{skip: prefaceSize}, preface: prefaceSize, waiting: true, deadline: true, gone: make(chan struct{}),
	}
}

// facade is the guard as the library wants it.
func (g *guard) facade() net.Conn {
	if secure, ok := g.Conn.(interface{ ConnectionState() tls.ConnectionState }); ok {
		return &secureGuard{g, secure.ConnectionState}
	}
	return g
}

// Read reads from the client.
func (g *guard) Read(p []byte) (int, error) {
	n, done, err := g.readSettings(p)
	if !done {
		n, err = g.Conn.Read(p)
	}
	if n > 0 {
		if reason := g.inspect(p[:n]); reason != "" {
			code := uint32(codeCalm)
			if reason == ReasonPreface {
				code = codeProtocol
			}
			g.end(reason, code)
			return 0, errGuarded
		}
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		reason := ReasonSlowHeaders
		if g.waiting {
			reason = ReasonFirst
		}
		g.note(reason)
	}
	return n, err
}

// inspect weighs what the client sent.
func (g *guard) inspect(p []byte) (reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for len(p) > 0 {
		left := g.in.skip
		used, found := g.in.next(p, &g.found)
		if g.preface > 0 {
			if g.preface -= used; !isPreface(p[:used], left) {
				return ReasonPreface
			}
		}
		p = p[used:]
		if !found {
			continue
		}
		g.waiting = false
		if reason := g.ledger.fromClient(&g.found); reason != "" {
			return reason
		}
	}
	g.setDeadline()
	return ""
}

// setDeadline sees to it that headers which have begun to come have a deadline
// until they are complete, and nothing else has one.
func (g *guard) setDeadline() {
	if g.waiting || g.over.Load() {
		// Nobody takes the deadline of the last moment away.
		return
	}
	part := g.found.kind == frameHeaders || g.found.kind == frameContinuation
	headers := g.ledger.inBlock || part && g.in.skip > 0
	if headers == g.deadline {
		return
	}
	g.deadline = headers
	var until time.Time
	if headers {
		until = time.Now().Add(g.cfg.HeaderTimeout)
	}
	// A connection that is gone shows with the next read.
	_ = g.Conn.SetReadDeadline(until)
}

// note keeps the first reason.
func (g *guard) note(reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason == "" {
		g.reason = reason
	}
}

// why is the reason for which the connection ended.
func (g *guard) why() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.reason == "" {
		return ReasonEnded
	}
	return g.reason
}

// end ends the connection. It tells the client why, if the library is between
// two frames. A write that waits for the client does not wait for long any more.
func (g *guard) end(reason string, code uint32) {
	g.note(reason)
	if g.over.Swap(true) {
		return
	}
	defer close(g.gone)
	defer g.Conn.Close()
	if g.Conn.SetWriteDeadline(time.Now().Add(partingTime)) != nil {
		return
	}
	g.writing.Lock()
	defer g.writing.Unlock()
	g.mu.Lock()
	last := g.ledger.last
	g.mu.Unlock()
	g.insert(goAway(last, code))
	g.linger()
}

// Close closes the connection. The library does so as soon as it is refused
// anything; the client has a moment to read why.
func (g *guard) Close() error {
	if g.over.Load() {
		<-g.gone
		return nil
	}
	return g.Conn.Close()
}

// linger reads what the client is still sending, so that it gets the last
// frame.
func (g *guard) linger() {
	half, ok := g.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	g.mu.Lock()
	err := g.Conn.SetReadDeadline(time.Now().Add(lingerTime))
	g.mu.Unlock()
	if err != nil {
		return
	}
	var buf [4 << 10]byte
	for total := 0; total < lingerBytes; {
		n, err := g.Conn.Read(buf[:])
		if err != nil {
			return
		}
		total += n
	}
}

// Write writes for the library.
func (g *guard) Write(p []byte) (int, error) {
	n, reason, err := g.write(p)
	if reason != "" {
		g.end(reason, codeCalm)
		return n, errGuarded
	}
	if g.notice.Load() {
		g.announce()
	}
	return n, err
}

func (g *guard) write(p []byte) (n int, reason string, err error) {
	g.writing.Lock()
	defer g.writing.Unlock()
	if g.over.Load() {
		return 0, "", errGuarded
	}
	// Bytes are weighed before they go out: the client may answer at once. What
	// a deadline cut off comes again.
	reason = g.observe(p[min(g.ahead, len(p)):])
	n, err = g.Conn.Write(p)
	g.ahead = max(g.ahead, len(p)) - n
	return n, reason, err
}

// observe weighs what the library sends.
func (g *guard) observe(p []byte) (reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var f frame
	for len(p) > 0 {
		used, found := g.out.next(p, &f)
		p = p[used:]
		if !found {
			continue
		}
		g.begun = true
		if why := g.ledger.fromServer(&f); why != "" && reason == "" {
			reason = why
		}
	}
	return reason
}

// announce writes the GOAWAY that lets a client know without refusing what it
// has sent meanwhile (RFC 9113 section 6.8). When the library is in the middle
// of a frame, or of a write, it is done after that.
func (g *guard) announce() {
	if !g.writing.TryLock() {
		return
	}
	defer g.writing.Unlock()
	if g.over.Load() || !g.between() || !g.notice.CompareAndSwap(true, false) {
		return
	}
	const everyStream = 1<<31 - 1
	g.insert(goAway(everyStream, codeNone))
}

// between reports whether a frame of our own may be written: between two of
// the library's, and not before its first. Hold writing.
func (g *guard) between() bool { return g.begun && g.ahead == 0 && g.out.atBoundary() }

// insert writes a frame of our own, where there is room for one. Hold writing.
func (g *guard) insert(b []byte) {
	if !g.between() || g.Conn.SetWriteDeadline(time.Now().Add(partingTime)) != nil {
		return
	}
	if _, err := g.Conn.Write(b); err != nil {
		// Nobody knows how much of the frame went out.
		g.Conn.Close()
		return
	}
	_ = g.Conn.SetWriteDeadline(time.Time{})
}
