package listener

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"slipway.dev/slipway/internal/edge/connset"
	"slipway.dev/slipway/internal/edge/eventloop"
)

// Conn is an accepted connection. Its read deadline is the listener's
// HeaderTimeout after the accept, until its owner sets another: an owner that
// waits longer has to.
type Conn struct {
	// tcp is the socket, unless an event loop has it. Then loop is, until Detach.
	tcp      atomic.Pointer[net.TCPConn]
	loop     *eventloop.Conn
	owner    *Listener
	accepted time.Time

	// header is the PROXY header, if there was one.
	header proxyHeader
	remote net.Addr
	local  net.Addr

	// hasAhead is set if there are bytes that were read ahead. Without any,
	// Read goes to the socket and takes no lock.
	hasAhead atomic.Bool
	mu       sync.Mutex // guards ahead
	ahead    lookahead

	blocked      bool // see SetBlocked
	peeking      atomic.Bool
	peekDeadline atomic.Pointer[time.Time] // the deadline of Peek; nil for none
	closed       atomic.Bool
	notified     atomic.Bool // Drain's callback was called

	// The rest is guarded by the tracker.
	place     connset.Place
	handedOut bool         // Accept returned it
	source    netip.Prefix // the client that MaxConnsPerSource counts it for
}

var (
	_ net.Conn      = (*Conn)(nil)
	_ io.ReaderFrom = (*Conn)(nil)
	_ io.WriterTo   = (*Conn)(nil)
)

// socket is a connection without what a Conn adds to it.
type socket interface {
	net.Conn
	CloseWrite() error
}

func newConn(s socket, owner *Listener) *Conn {
	c := &Conn{owner: owner, accepted: time.Now(), remote: s.RemoteAddr(), local: s.LocalAddr()}
	switch s := s.(type) {
	case *net.TCPConn:
		c.tcp.Store(s)
	case *eventloop.Conn:
		c.loop = s
	}
	return c
}

// socket returns what has the socket now.
func (c *Conn) socket() socket {
	if tcp := c.tcp.Load(); tcp != nil {
		return tcp
	}
	return c.loop
}

// Place implements [connset.Member].
func (c *Conn) Place() *connset.Place { return &c.place }

// RemoteAddr is the client's address: that of the PROXY header if it has one,
// otherwise the socket's.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// LocalAddr is the address the client connected to: that of the PROXY header if
// it has one, otherwise the socket's.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// Read reads the bytes that were read ahead, then from the socket.
func (c *Conn) Read(p []byte) (int, error) {
	if c.hasAhead.Load() {
		if n, ok := c.readAhead(p); ok {
			return n, nil
		}
	}
	if c.blocked {
		return 0, os.ErrDeadlineExceeded
	}
	return c.socket().Read(p)
}

// SetBlocked makes Read fail as after a deadline, without a system call: what TLS
// has buffered can then be read without a wait. It is for the goroutine that reads.
func (c *Conn) SetBlocked(blocked bool) { c.blocked = blocked }

// AwaitRead waits until Read does not have to, within the read deadline. A goroutine
// that waits needs neither a buffer nor much of a stack. It returns io.EOF if the
// client has ended the connection and there is nothing left to read.
func (c *Conn) AwaitRead() error {
	if c.hasAhead.Load() {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	ended := false
	err = raw.Read(func(fd uintptr) (ready bool) {
		ready, ended = readable(fd)
		return ready
	})
	if err == nil && ended {
		err = io.EOF
	}
	return err
}

func (c *Conn) readAhead(p []byte) (int, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.ahead.bytes()) == 0 {
		return 0, false
	}
	n := c.ahead.take(p, &c.owner.pools)
	c.hasAhead.Store(len(c.ahead.bytes()) > 0)
	return n, true
}

// WriteTo copies everything to w. After the bytes that were read ahead, the
// kernel does the copy if w is a TCP connection too.
func (c *Conn) WriteTo(w io.Writer) (int64, error) {
	ahead, err := c.writeAhead(w)
	if err != nil {
		return ahead, err
	}
	n, err := io.Copy(w, c.socket())
	return ahead + n, err
}

// writeAhead takes the bytes that were read ahead out of the connection before
// it writes them, so that a slow w does not block Close.
func (c *Conn) writeAhead(w io.Writer) (int64, error) {
	c.mu.Lock()
	taken := c.ahead
	c.ahead = lookahead{}
	c.hasAhead.Store(false)
	c.mu.Unlock()
	defer taken.drop(&c.owner.pools)
	if len(taken.bytes()) == 0 {
		return 0, nil
	}
	n, err := w.Write(taken.bytes())
	if err == nil && n < len(taken.bytes()) {
		err = io.ErrShortWrite
	}
	return int64(n), err
}

// ReadFrom copies everything from r, in the kernel if possible.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) {
	if tcp := c.tcp.Load(); tcp != nil {
		return tcp.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.loop}, r)
}

// Write writes to the socket.
func (c *Conn) Write(p []byte) (int, error) { return c.socket().Write(p) }

// CloseWrite closes the sending side.
func (c *Conn) CloseWrite() error { return c.socket().CloseWrite() }

// SetDeadline sets the read and the write deadline.
func (c *Conn) SetDeadline(t time.Time) error { return c.socket().SetDeadline(t) }

// SetReadDeadline sets the read deadline.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.socket().SetReadDeadline(t) }

// SetWriteDeadline sets the write deadline.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.socket().SetWriteDeadline(t) }

// SyscallConn is the socket itself. There is none while an event loop has it.
func (c *Conn) SyscallConn() (syscall.RawConn, error) {
	if tcp := c.tcp.Load(); tcp != nil {
		return tcp.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}

// HeaderDeadline is the read deadline since the accept, for an owner that has set no
// other. It is zero if a drain has shortened it.
func (c *Conn) HeaderDeadline() time.Time {
	if c.peekDeadline.Load() != nil {
		return time.Time{}
	}
	return c.accepted.Add(c.owner.config.HeaderTimeout)
}

// Close closes the connection and removes it from the listener's count.
func (c *Conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	err := c.socket().Close()
	// A Peek that has the lock returns now that the socket is closed.
	c.mu.Lock()
	c.ahead.drop(&c.owner.pools)
	c.hasAhead.Store(false)
	c.mu.Unlock()
	if c.owner.live.remove(c) {
		c.owner.config.Hooks.closed(time.Since(c.accepted))
	}
	return err
}

// reset closes the connection with RST: the kernel keeps no state of it, which
// matters when there are too many.
func (c *Conn) reset() {
	if tcp := c.tcp.Load(); tcp != nil {
		_ = tcp.SetLinger(0)
	} else {
		_ = c.loop.ResetOnClose()
	}
	_ = c.Close()
}

// fill reads at least one more byte ahead, as long as there are fewer than
// limit. The caller holds mu.
func (c *Conn) fill(limit int) error {
	room := c.ahead.room(limit, &c.owner.pools)
	if room == nil {
		return io.ErrShortBuffer
	}
	n, err := c.socket().Read(room)
	c.ahead.end += n
	if len(c.ahead.bytes()) == 0 {
		c.ahead.drop(&c.owner.pools)
	}
	c.hasAhead.Store(len(c.ahead.bytes()) > 0)
	if n > 0 {
		return nil
	}
	return err
}

// readProxyHeader reads the PROXY header. Without one, no bytes are consumed,
// and the error is errNoProxyHeader.
func (c *Conn) readProxyHeader(limit int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		header, size, err := parseProxyHeader(c.ahead.bytes(), limit)
		if err == nil {
			c.ahead.skip(size, &c.owner.pools)
			c.hasAhead.Store(len(c.ahead.bytes()) > 0)
			c.setHeader(header)
			return nil
		}
		if !errors.Is(err, errMore) {
			return err
		}
		if err := c.fill(maxLookahead); err != nil {
			return err
		}
	}
}

func (c *Conn) setHeader(header proxyHeader) {
	c.header = header
	if header.addressed() {
		c.remote = net.TCPAddrFromAddrPort(header.source)
		c.local = net.TCPAddrFromAddrPort(header.destination)
	}
}

// notify calls Drain's callback, once.
func (c *Conn) notify(notify func(*Conn)) {
	if notify != nil && c.notified.CompareAndSwap(false, true) {
		notify(c)
	}
}

// peerIP is the remote address of the socket.
func (c *Conn) peerIP() netip.Addr { return addrOf(c.socket().RemoteAddr()) }

// addrOf returns the IP of an address, with IPv4 never in its IPv6 form.
func addrOf(addr net.Addr) netip.Addr {
	if tcp, ok := addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
