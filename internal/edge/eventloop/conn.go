//go:build linux

package eventloop

import (
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// watched are the events of every socket, reported once for each change.
const watched = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET

// Conn is a TCP connection of a loop.
type Conn struct {
	loop *Loop
	slot *slot
	fd   int
	// starting is set while the loop that accepted the connection starts its task.
	starting bool
	// task waits for the connection; nil if a goroutine does.
	task *Task
	// uses counts the system calls that use fd. It is negative once the connection is closed:
	// the last one closes fd.
	uses  atomic.Int32
	ended atomic.Bool // the peer sends nothing more: what is read next may be the end

	// Reading and writing wait apart, as in package net: a request may still be uploaded
	// while its response comes.
	read, write side
	timer       timer // guarded by Loop.mu

	local  net.Addr
	vector []syscall.Iovec // of WriteNow
	queue  atomic.Pointer[writeQueue]

	// What a connection would allocate besides, in one piece with it.
	remote    net.TCPAddr
	remoteIP  [16]byte
	firstSlot slot
}

var _ net.Conn = (*Conn)(nil)

// closed is added to Conn.uses when the connection is closed.
const closed = math.MinInt32

// newConn makes a connection of a socket, which it closes when it fails. Both sides begin as
// ready: what came before the watch began has no event, and the first read or write finds
// out.
func (l *Loop) newConn(fd int, local net.Addr, remote netip.AddrPort) (*Conn, error) {
	c := &Conn{fd: fd, local: local}
	c.setRemote(remote)
	c.read.state.Store(isReady)
	c.write.state.Store(isReady)
	if err := c.register(l, &c.firstSlot); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return c, nil
}

// setRemote sets the address of the other end.
func (c *Conn) setRemote(at netip.AddrPort) {
	ip := at.Addr()
	c.remoteIP = ip.As16()
	c.remote = net.TCPAddr{IP: c.remoteIP[:], Port: int(at.Port()), Zone: ip.Zone()}
	if ip.Is4() {
		c.remote.IP = c.remoteIP[12:]
	}
}

// register puts the socket under the watch of a loop. Every socket is registered once, for all
// events and edge-triggered, so that waiting for it never takes a system call.
func (c *Conn) register(l *Loop, s *slot) error {
	c.loop, c.slot = l, s // before the loop can find it
	if err := l.table.add(s, c); err != nil {
		return err
	}
	if err := unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, c.fd, &unix.EpollEvent{Events: watched, Fd: s.index, Pad: s.generation}); err != nil {
		l.table.remove(s)
		return fmt.Errorf("watch a connection: %w", err)
	}
	l.conns.Add(1)
	return nil
}

// leave ends the watch of the loop. The descriptor stays open. Events that the loop has fetched
// find the slot empty, or another generation in it. Without watched the descriptor is about to be closed,
// which ends the watch by itself.
func (c *Conn) leave(watched bool) {
	l := c.loop
	l.table.remove(c.slot)
	if watched {
		_ = unix.EpollCtl(l.epoll, unix.EPOLL_CTL_DEL, c.fd, nil)
	}
	l.mu.Lock()
	l.wheel.remove(c)
	l.mu.Unlock()
	l.conns.Add(-1)
}

// Move hands an idle connection to another loop. It must not be in use.
func (c *Conn) Move(to *Loop) error {
	if c.loop == to {
		return nil
	}
	c.leave(true)
	c.read.state.Store(isReady) // what came meanwhile is no event of the new loop
	c.read.deadline, c.write.deadline = 0, 0
	c.read.expired.Store(false)
	c.write.expired.Store(false)
	return c.register(to, new(slot))
}

// Bind makes a task the one that waits for the connection; nil makes it goroutines.
func (c *Conn) Bind(t *Task) { c.task = t }

// Task is the task that the connection is bound to.
func (c *Conn) Task() *Task { return c.task }

// Loop is the loop of the connection.
func (c *Conn) Loop() *Loop { return c.loop }

// Serve begins a task that the connection is bound to.
func (c *Conn) Serve(run func(*Task)) {
	if c.starting {
		c.loop.startFor(c, run)
		return
	}
	c.loop.post(func(l *Loop) { l.startFor(c, run) })
}

// ServeNext begins a task, as Serve does, when there is something to read, the read deadline
// has passed or the connection was closed. Until then it needs no task.
func (c *Conn) ServeNext(run func(*Task)) {
	c.awaitRead(&waiter{begin: run, conn: c}, nil)
}

// awaitRead has a waiter woken that is no task, when there is something to read, the read
// deadline has passed or the connection was closed. on is the loop that runs the caller, nil for a goroutine.
func (c *Conn) awaitRead(w *waiter, on *Loop) {
	c.task = nil
	for {
		if c.over(&c.read) != nil || c.read.state.Load() == isReady {
			w.wake(c.loop, on)
			return
		}
		if !c.read.state.CompareAndSwap(nil, w) {
			continue
		}
		if c.over(&c.read) == nil || !c.read.state.CompareAndSwap(w, nil) {
			return
		}
	}
}

// happened implements entry. The connection may be moving to another loop: then the event
// was for its last user, and the connection is checked before its next use.
func (c *Conn) happened(events uint32, on *Loop) {
	if events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.ended.Store(true)
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.read.happened(on)
	}
	if events&(unix.EPOLLOUT|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
		c.write.happened(on)
	}
}

// use keeps the descriptor open until done. Without that, a system call could be made on
// a number that another goroutine closed meanwhile, and that the kernel has given to
// the connection of another client since.
func (c *Conn) use() bool {
	for {
		n := c.uses.Load()
		if n < 0 {
			return false
		}
		if c.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (c *Conn) done() {
	if c.uses.Add(-1) == closed {
		_ = unix.Close(c.fd)
	}
}

// Read reads what there is, and waits for it.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if err := c.over(&c.read); err != nil {
			return 0, err
		}
		if c.read.state.Load() != isReady {
			if err := c.wait(&c.read); err != nil {
				return 0, err
			}
		}
		n, err := c.readSome(p)
		if n == 0 && err == nil {
			continue
		}
		if t := c.task; t != nil {
			t.account(n)
		}
		return n, err
	}
}

// readSome reads what there is at once; nothing without an error if there is nothing.
//
// The state of the side is cleared before the socket is read, and never after it: an event
// that comes in between is for bytes which the read may have missed, and has to be
// seen by the next one. Setting it again afterwards is safe in any case; it costs one read
// that finds nothing.
func (c *Conn) readSome(p []byte) (int, error) {
	if !c.use() {
		return 0, net.ErrClosed
	}
	c.read.state.Store(nil)
	n, errno := readNow(c.fd, p)
	c.done()
	switch {
	case errno == unix.EAGAIN:
		return 0, nil
	case errno == unix.EINTR:
		c.read.set()
		return 0, nil
	case errno != 0:
		c.read.set()
		return 0, os.NewSyscallError("read", errno)
	case n == 0:
		c.read.set()
		return 0, io.EOF
	case n == len(p) || c.ended.Load():
		c.read.set() // otherwise the socket was empty: the next read waits for an event
	}
	return n, nil
}

// Write writes all of p. It touches the state of its side only when the socket is full, which
// is rare: most responses fit the buffer of the kernel.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.over(&c.write); err != nil {
		return 0, err
	}
	if q := c.queue.Load(); q != nil {
		return q.write(c, p)
	}
	written := 0
	for written < len(p) {
		n, err := c.writeSome(p[written:])
		written += n
		if err != nil {
			return written, err
		}
		if written == len(p) {
			break
		}
		// The socket is full, unless there is room again since: then the event that says so may
		// have come already.
		c.write.state.Store(nil)
		n, err = c.writeSome(p[written:])
		written += n
		switch {
		case err != nil:
			return written, err
		case n > 0:
			c.write.set()
			continue
		}
		if err := c.wait(&c.write); err != nil {
			return written, err
		}
	}
	if t := c.task; t != nil {
		t.account(written)
	}
	return written, nil
}

// writeSome writes what the socket takes at once.
func (c *Conn) writeSome(p []byte) (int, error) {
	if !c.use() {
		return 0, net.ErrClosed
	}
	defer c.done()
	for {
		n, errno := writeNow(c.fd, p)
		if errno != unix.EINTR {
			return written(n, errno)
		}
	}
}

// written is the result of a write that did not wait: a socket that is full takes nothing.
func written(n int, errno syscall.Errno) (int, error) {
	switch errno {
	case 0:
		return n, nil
	case unix.EAGAIN:
		return 0, nil
	}
	return 0, os.NewSyscallError("write", errno)
}

// WriteNow writes what the socket takes at once of some pieces, in one system call. The caller
// writes the rest with Write, and only then needs a deadline.
func (c *Conn) WriteNow(pieces [][]byte) (int, error) {
	if len(pieces) == 1 {
		return c.writeSome(pieces[0])
	}
	c.vector = c.vector[:0]
	for _, piece := range pieces {
		if len(piece) > 0 {
			v := syscall.Iovec{Base: &piece[0]}
			v.SetLen(len(piece))
			c.vector = append(c.vector, v)
		}
	}
	defer clear(c.vector[:len(c.vector)])
	if len(c.vector) == 0 {
		return 0, nil
	}
	if !c.use() {
		return 0, net.ErrClosed
	}
	defer c.done()
	for {
		n, errno := writeVector(c.fd, c.vector)
		if errno != unix.EINTR {
			return written(n, errno)
		}
	}
}

// Close closes the connection, and ends the waits for it. It may be called from any goroutine. The
// flag is set before waiters are looked for: one that begins to wait afterwards sees it.
func (c *Conn) Close() error {
	for {
		n := c.uses.Load()
		if n < 0 {
			return net.ErrClosed
		}
		if c.uses.CompareAndSwap(n, n+1+closed) {
			break
		}
	}
	c.leave(false) // closing the descriptor ends the watch
	c.done()
	c.read.interrupt(c.loop, nil)
	c.write.interrupt(c.loop, nil)
	return nil
}

// control calls f with the descriptor.
func (c *Conn) control(f func(fd int) error) error {
	if !c.use() {
		return net.ErrClosed
	}
	defer c.done()
	return f(c.fd)
}

// Control calls f with the descriptor, which stays open meanwhile.
func (c *Conn) Control(f func(fd uintptr)) error {
	return c.control(func(fd int) error { f(uintptr(fd)); return nil })
}

// CloseWrite closes the sending side.
func (c *Conn) CloseWrite() error {
	return c.control(func(fd int) error { return os.NewSyscallError("shutdown", unix.Shutdown(fd, unix.SHUT_WR)) })
}

// ResetOnClose makes Close reset the connection, so that the kernel keeps no state of it.
func (c *Conn) ResetOnClose() error {
	return c.control(func(fd int) error {
		return os.NewSyscallError("setsockopt", unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}))
	})
}

// LocalAddr is the address of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return &c.remote }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error { return c.setDeadlines(t, &c.read, &c.write) }

// SetReadDeadline sets the deadline of reads.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadlines(t, &c.read) }

// SetWriteDeadline sets the deadline of writes.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadlines(t, &c.write) }

// setDeadlines sets the deadline of sides. A loop that sleeps for longer is woken, to sleep
// for less; that is rare, because deadlines of a connection move to later. A deadline in the past
// ends waits at once and needs no wheel: that is how drains interrupt.
func (c *Conn) setDeadlines(t time.Time, sides ...*side) error {
	if c.uses.Load() < 0 {
		return net.ErrClosed
	}
	l, at, passed := c.loop, int64(0), false
	if !t.IsZero() {
		if at = int64(t.Sub(l.epoch)) + 1; at <= 0 {
			at = 1
		}
		passed = at <= l.now()
	}
	l.mu.Lock()
	for _, s := range sides {
		s.deadline = at
		s.expired.Store(passed)
	}
	earlier := false
	if at != 0 && !passed && c.uses.Load() >= 0 {
		l.wheel.place(c, at)
		earlier = l.wakeAt == 0 || c.timer.tick*tick < l.wakeAt
	}
	l.mu.Unlock()
	if passed {
		for _, s := range sides {
			s.interrupt(l, nil)
		}
	}
	if earlier {
		l.wake()
	}
	return nil
}

// A connection may be looked at long before its deadline: see wheel.

// expire ends the waits whose deadline has passed, and returns when to look again; 0 is
// never. It is called with Loop.mu held, on the loop.
func (c *Conn) expire(now int64) int64 {
	again := int64(0)
	for _, s := range [...]*side{&c.read, &c.write} {
		switch {
		case s.deadline == 0 || s.expired.Load():
		case s.deadline <= now:
			s.expired.Store(true)
			s.interrupt(c.loop, c.loop)
		case again == 0 || s.deadline < again:
			again = s.deadline
		}
	}
	return again
}
