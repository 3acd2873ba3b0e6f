package resilience

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// crowd is a great number of connections that are not served with a goroutine
// each: the race detector allows eight thousand of those. It talks to the
// kernel itself.
type crowd struct {
	poll    int
	members map[int]*member // by file descriptor
	begun   time.Time
	drip    time.Time // when everybody says something again
	buf     []byte
}

// member is one connection.
type member struct {
	kind   *manner
	opened time.Time
}

// manner is a way to be slow.
type manner struct {
	name  string
	point string // the entry point
	count int
	// first is sent at once, and drip again and again.
	first, drip string
	// buffer is the size of the receive buffer; 0 leaves it to the kernel.
	buffer int
	// deaf members do not read what they get.
	deaf bool
	// patience is how long the edge may put up with a member; 0 is for as long
	// as a short test lasts.
	patience time.Duration

	opened, closed int
	longest        time.Duration // until one was closed
}

// openFiles allows this process, and those it starts, that many files.
func openFiles(t *testing.T, count uint64) {
	t.Helper()
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	limit.Cur = max(limit.Cur, count)
	limit.Max = max(limit.Max, count)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatalf("%d files are needed: run as root, or raise the limit with ulimit -n: %v", count, err)
	}
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	poll := must.Get(syscall.EpollCreate1(syscall.EPOLL_CLOEXEC))(t)
	c := &crowd{poll: poll, members: map[int]*member{}, begun: time.Now(), buf: make([]byte, 16<<10)}
	t.Cleanup(func() {
		c.dismiss()
		_ = syscall.Close(poll)
	})
	return c
}

// dismiss closes all connections that are open.
func (c *crowd) dismiss() {
	for fd := range c.members {
		_ = syscall.Close(fd)
	}
	clear(c.members)
}

// join opens a connection. Each has one of several source addresses, because
// there are not enough ports for one.
func (c *crowd) join(kind *manner, to netip.AddrPort) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	if err := c.enter(fd, kind, to); err != nil {
		return errors.Join(err, syscall.Close(fd))
	}
	kind.opened++
	c.members[fd] = &member{kind: kind, opened: time.Now()}
	return nil
}

func (c *crowd) enter(fd int, kind *manner, to netip.AddrPort) error {
	if kind.buffer > 0 {
		if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, kind.buffer); err != nil {
			return err
		}
	}
	// The kernel chooses the port at the connect, and so can use one again for
	// another destination.
	const bindAddressNoPort = 24
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, bindAddressNoPort, 1); err != nil {
		return err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, byte(2 + len(c.members)%8)}}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil {
		return err
	}
	if _, err := syscall.Write(fd, []byte(kind.first)); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	events := uint32(syscall.EPOLLIN | syscall.EPOLLRDHUP)
	if kind.deaf {
		events = syscall.EPOLLRDHUP // and errors, which always come
	}
	return syscall.EpollCtl(c.poll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: events, Fd: int32(fd)})
}

// live drips and notices who was closed, until a condition holds or the time is
// over. It reports whether the condition held.
func (c *crowd) live(until time.Time, done func() bool) bool {
	events := make([]syscall.EpollEvent, 512)
	for !done() {
		now := time.Now()
		if now.After(until) {
			return false
		}
		if !now.Before(c.drip) {
			c.dripAll()
			c.drip = now.Add(time.Second)
		}
		n, err := syscall.EpollWait(c.poll, events, 5)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			panic(os.NewSyscallError("epoll_wait", err))
		}
		for _, event := range events[:max(n, 0)] {
			c.notice(int(event.Fd), event.Events)
		}
	}
	return true
}

func (c *crowd) dripAll() {
	for fd, m := range c.members {
		if m.kind.drip != "" {
			// Who is closed is noticed by the poll.
			_, _ = syscall.Write(fd, []byte(m.kind.drip))
		}
	}
}

// notice reads what a member got, and lets it go when it was closed.
func (c *crowd) notice(fd int, events uint32) {
	m := c.members[fd]
	if m == nil {
		return
	}
	ended := events&(syscall.EPOLLERR|syscall.EPOLLHUP|syscall.EPOLLRDHUP) != 0
	for !m.kind.deaf && !ended {
		n, err := syscall.Read(fd, c.buf)
		if errors.Is(err, syscall.EAGAIN) {
			return
		}
		ended = n == 0 || err != nil
	}
	if !ended {
		return
	}
	m.kind.closed++
	m.kind.longest = max(m.kind.longest, time.Since(m.opened))
	delete(c.members, fd)
	_ = syscall.Close(fd)
}
