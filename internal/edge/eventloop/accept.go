//go:build linux

package eventloop

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A connection takes a few microseconds to accept and many more to serve. Taking all of a burst first
// would make the clients of the loop wait for the burst; taking one at a time would take a
// wait for each.

// maxAccepts is how many connections of a listener a loop accepts before it serves them.
const maxAccepts = 16

// Acceptor accepts the connections of a listening socket on all loops of a group.
type Acceptor struct {
	group  *Group
	fd     int
	local  net.Addr // of every connection; nil if it has to be asked for
	admit  func(*Conn)
	failed func(error) time.Duration

	watches []*watch
	mu      sync.Mutex // guards the rest
	stopped bool
	active  int // loops that are accepting
	over    chan struct{}
}

// watch is the registration of an Acceptor with a loop.
type watch struct {
	acceptor *Acceptor
	loop     *Loop
	slot     slot
}

// Accept begins to accept. The descriptor is a non-blocking listening socket, which stays the
// caller's. Admit is called on the loop of each connection and must not block: it
// begins a task with [Conn.Serve]. failed is called for errors that are not those
// of one connection, such as too many open files, and returns how long to pause.
func (g *Group) Accept(fd int, local net.Addr, admit func(*Conn), failed func(error) time.Duration) (*Acceptor, error) {
	a := &Acceptor{group: g, fd: fd, local: local, admit: admit, failed: failed, over: make(chan struct{})}
	for _, l := range g.loops {
		w := &watch{acceptor: a, loop: l}
		err := l.table.add(&w.slot, w)
		if err == nil {
			if err = w.begin(); err != nil {
				l.table.remove(&w.slot)
			}
		}
		if err != nil {
			a.Stop()
			return nil, fmt.Errorf("watch a listener: %w", err)
		}
		a.watches = append(a.watches, w)
	}
	return a, nil
}

// begin watches the socket. Of the loops that sleep, a connection wakes one.
func (w *watch) begin() error {
	event := &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLEXCLUSIVE, Fd: w.slot.index, Pad: w.slot.generation}
	return unix.EpollCtl(w.loop.epoll, unix.EPOLL_CTL_ADD, w.acceptor.fd, event)
}

// pause ends the watch for a while: the socket would be ready all the time.
func (w *watch) pause(wait time.Duration) {
	_ = unix.EpollCtl(w.loop.epoll, unix.EPOLL_CTL_DEL, w.acceptor.fd, nil)
	time.AfterFunc(wait, func() {
		a := w.acceptor
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.stopped {
			_ = w.begin() // nothing of the kernel is missing for what was there before
		}
	})
}

// Stop ends accepting. No admit is called after it: it waits for the loops that are accepting,
// and so must not be called on one of them.
func (a *Acceptor) Stop() {
	a.mu.Lock()
	first := !a.stopped
	a.stopped = true
	wait := a.active > 0
	a.mu.Unlock()
	if first {
		for _, w := range a.watches { // it may be paused, and then is not watched
			_ = unix.EpollCtl(w.loop.epoll, unix.EPOLL_CTL_DEL, a.fd, nil)
			w.loop.table.remove(&w.slot)
		}
	}
	if wait {
		<-a.over
	}
}

// enter reports whether a loop may accept, until exit.
func (a *Acceptor) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return false
	}
	a.active++
	return true
}

func (a *Acceptor) exit() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.active--; a.active == 0 && a.stopped {
		close(a.over)
	}
}

// happened implements entry. The watch is level-triggered, unlike those of connections: what is left
// in the queue after maxAccepts is reported again, to any loop.
func (w *watch) happened(_ uint32, on *Loop) {
	a := w.acceptor
	if !a.enter() {
		return
	}
	defer a.exit()
	for range maxAccepts {
		again, err := a.acceptOne(on)
		if err != nil {
			w.pause(a.failed(err))
		}
		if !again || err != nil {
			return
		}
	}
}

// acceptOne accepts a connection, and reports whether there may be another one.
func (a *Acceptor) acceptOne(on *Loop) (again bool, err error) {
	var address syscall.RawSockaddrAny
	fd, errno := acceptNow(a.fd, &address)
	switch errno {
	case 0:
	case unix.EAGAIN:
		return false, nil
	case unix.EINTR, unix.ECONNABORTED:
		return true, nil
	default:
		return false, os.NewSyscallError("accept", errno)
	}
	remote := rawAddrPort(&address)
	if !remote.IsValid() {
		_ = unix.Close(fd)
		return true, errors.New("accept: a connection without an address")
	}
	local := a.local
	if local == nil {
		at, err := unix.Getsockname(fd)
		if err != nil {
			_ = unix.Close(fd)
			return true, nil // the client has left
		}
		local = net.TCPAddrFromAddrPort(addrPort(at))
	}
	c, err := a.group.quietest(on).newConn(fd, local, remote)
	if err != nil {
		return false, err
	}
	here := c.loop == on
	c.starting = here
	a.admit(c)
	if here { // otherwise it belongs to the other loop now
		c.starting = false
	}
	return true, nil
}

// rawAddrPort is an address as accept returns it.
func rawAddrPort(address *syscall.RawSockaddrAny) netip.AddrPort {
	switch address.Addr.Family {
	case unix.AF_INET:
		four := (*syscall.RawSockaddrInet4)(unsafe.Pointer(address))
		return netip.AddrPortFrom(netip.AddrFrom4(four.Addr), bigEndian(four.Port))
	case unix.AF_INET6:
		six := (*syscall.RawSockaddrInet6)(unsafe.Pointer(address))
		return addrPort(&unix.SockaddrInet6{Port: int(bigEndian(six.Port)), Addr: six.Addr, ZoneId: six.Scope_id})
	}
	return netip.AddrPort{}
}

// bigEndian is a port as the kernel writes it.
func bigEndian(port uint16) uint16 {
	b := (*[2]byte)(unsafe.Pointer(&port))
	return uint16(b[0])<<8 | uint16(b[1])
}
