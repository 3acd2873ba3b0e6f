//go:build linux

package eventloop

import (
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Detach takes the socket out of the loop, and returns it as a connection of package net with
// the same deadlines. The Conn is closed then. No read or write may be running.
func (c *Conn) Detach() (*net.TCPConn, error) {
	for {
		n := c.uses.Load()
		if n < 0 {
			return nil, net.ErrClosed
		}
		if c.uses.CompareAndSwap(n, n+1+closed) {
			break
		}
	}
	l := c.loop
	l.mu.Lock()
	read, write := c.read.deadline, c.write.deadline
	l.mu.Unlock()
	c.leave(true)
	tcp, err := c.standard()
	c.done() // package net has a descriptor of its own
	if err != nil {
		return nil, fmt.Errorf("detach a connection: %w", err)
	}
	if read != 0 {
		_ = tcp.SetReadDeadline(l.time(read)) // an error shows with the read
	}
	if write != 0 {
		_ = tcp.SetWriteDeadline(l.time(write))
	}
	return tcp, nil
}

// The order is that of Move: first the loop must not find the connection any more, then the
// socket gets another poller. An event between the two is lost to the loop and found
// by the first read of the other.

// standard makes a connection of package net of a copy of the descriptor.
func (c *Conn) standard() (*net.TCPConn, error) {
	// The copy belongs to the file, because the file closes what it is made of.
	fd, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	file := os.NewFile(uintptr(fd), "")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// time is the moment of a deadline.
func (l *Loop) time(at int64) time.Time { return l.epoch.Add(time.Duration(at - 1)) }
