//go:build linux

package eventloop

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// pipeSize is how much a pipe has room for: as much as a large buffer of the edge.
	pipeSize = 256 << 10
	// maxPipes bounds the pipes that are lent. Each is two descriptors, and up to pipeSize of
	// the kernel's memory while its client is slow.
	maxPipes = 128
	// maxIdlePipes bounds those that are kept.
	maxIdlePipes = 16
)

// pipes are those of all loops.
var pipes struct {
	mu   sync.Mutex // guards the rest
	lent int
	idle []*Pipe
}

// Pipe has data in the kernel between two connections of loops. It is for one goroutine.
type Pipe struct {
	from, to    *Conn
	read, write int // its descriptors
	held        int // bytes in it
}

// Pipe lends a pipe from another connection to c; nil if there is none to be had.
func (c *Conn) Pipe(from *Conn) *Pipe {
	pipes.mu.Lock()
	defer pipes.mu.Unlock()
	if pipes.lent == maxPipes {
		return nil
	}
	var p *Pipe
	if n := len(pipes.idle); n > 0 {
		p = pipes.idle[n-1]
		pipes.idle = pipes.idle[:n-1]
	} else if p = newPipe(); p == nil {
		return nil
	}
	pipes.lent++
	p.from, p.to = from, c
	return p
}

// newPipe returns nil if there are too many open files.
func newPipe() *Pipe {
	var fds [2]int
	if unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return nil
	}
	// Users have a limit on the sum of all sizes. A pipe of the usual 64 KiB does as well.
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize)
	return &Pipe{read: fds[0], write: fds[1]}
}

// Close gives the pipe back. One with data in it is of no more use: its transfer has failed.
func (p *Pipe) Close() {
	pipes.mu.Lock()
	defer pipes.mu.Unlock()
	p.from, p.to = nil, nil
	pipes.lent--
	if p.held > 0 || len(pipes.idle) == maxIdlePipes {
		_, _ = unix.Close(p.read), unix.Close(p.write)
		return
	}
	pipes.idle = append(pipes.idle, p)
}

// Fill takes what there is of the source, at most so much, and waits for it as Read does. The
// pipe has to be empty: otherwise it could not be distinguished from a socket without
// data.
func (p *Pipe) Fill(most int64) (int, error) {
	c := p.from
	for {
		if err := c.over(&c.read); err != nil {
			return 0, err
		}
		if c.read.state.Load() != isReady {
			if err := c.wait(&c.read); err != nil {
				return 0, err
			}
		}
		if !c.use() {
			return 0, net.ErrClosed
		}
		c.read.state.Store(nil) // as in Read
		n, errno := spliceNow(c.fd, p.write, int(min(most, pipeSize)))
		c.done()
		if errno == unix.EAGAIN {
			continue
		}
		c.read.set() // the pipe may have been what was full
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return 0, os.NewSyscallError("splice", errno)
		case n == 0:
			return 0, io.EOF
		}
		p.held = n
		if t := c.task; t != nil {
			t.account(n)
		}
		return n, nil
	}
}

// Drain writes what the pipe has, and waits for room as Write does.
func (p *Pipe) Drain() error {
	c := p.to
	for p.held > 0 {
		if err := c.over(&c.write); err != nil {
			return err
		}
		n, err := p.writeSome()
		if err != nil {
			return err
		}
		if n > 0 {
			continue
		}
		c.write.state.Store(nil) // as in Write
		n, err = p.writeSome()
		if err != nil || n > 0 {
			c.write.set()
		}
		if err == nil && n == 0 {
			err = c.wait(&c.write)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// writeSome writes what the socket takes at once.
func (p *Pipe) writeSome() (int, error) {
	c := p.to
	if !c.use() {
		return 0, net.ErrClosed
	}
	defer c.done()
	for {
		n, errno := spliceNow(p.read, c.fd, p.held)
		if errno == unix.EINTR {
			continue
		}
		n, err := written(n, errno)
		p.held -= n
		return n, err
	}
}

// spliceNow moves bytes between a pipe and a socket without waiting for either.
func spliceNow(from, to, most int) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(most), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
	return int(n), errno
}
