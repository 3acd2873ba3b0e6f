package listener

import (
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/edge/eventloop"
)

// loopAcceptor accepts the connections of a Listener on event loops. Until it is stopped it
// counts as one of the Listener's workers.
type loopAcceptor struct {
	listener *Listener
	fd       int      // the listening socket, which no other poller watches
	local    net.Addr // of all connections, nil for a socket of all addresses

	mu       sync.Mutex // guards the rest
	acceptor *eventloop.Acceptor
	stopped  bool
	pause    backoff.Retries
	failedAt time.Time
}

// newLoopAcceptor takes the socket over from inner. Package net has put it into its own
// poller, where each connection would wake a thread for nothing, so a copy of the descriptor
// is what stays open. Until start the kernel queues connections.
func newLoopAcceptor(l *Listener, inner *net.TCPListener) (*loopAcceptor, error) {
	defer inner.Close() // the copy stays open
	a := &loopAcceptor{listener: l, pause: acceptRetries()}
	raw, err := inner.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		a.fd, failed = duplicate(fd)
		if failed == nil {
			// Connections inherit it: package net would set it on each of them.
			failed = syscall.SetsockoptInt(a.fd, syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1)
		}
	})
	if err == nil {
		err = os.NewSyscallError("dup", failed)
	}
	if err != nil {
		return nil, fmt.Errorf("take over the socket: %w", err)
	}
	if at, ok := l.addr.(*net.TCPAddr); ok && !at.IP.IsUnspecified() {
		a.local = at
	}
	l.workers.Add(1)
	return a, nil
}

// start begins to accept, unless it was stopped before.
func (a *loopAcceptor) start() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped || a.acceptor != nil {
		return
	}
	acceptor, err := a.listener.config.Loops.Accept(a.fd, a.local, a.listener.admitLooped, a.failed)
	if err != nil {
		// There is no descriptor or memory for it, which no retry of one connection repairs.
		a.listener.config.Hooks.acceptFailed(err)
		time.AfterFunc(acceptPauseMax, a.start)
		return
	}
	a.acceptor = acceptor
}

// failed is called when accepting fails, and returns how long to pause.
func (a *loopAcceptor) failed(err error) time.Duration {
	a.listener.config.Hooks.acceptFailed(err)
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.failedAt) > 2*acceptPauseMax { // it worked since
		a.pause.Reset()
	}
	a.failedAt = time.Now()
	return a.pause.Next()
}

// stop ends accepting. The socket stays open, because closing it resets the connections in the
// queue of the kernel, and a drain wants to know when there are none.
func (a *loopAcceptor) stop() {
	a.mu.Lock()
	acceptor, first := a.acceptor, !a.stopped
	a.stopped = true
	a.mu.Unlock()
	if !first {
		return
	}
	if acceptor != nil {
		acceptor.Stop()
	}
	a.listener.workers.Done()
}

// close ends accepting and closes the socket.
func (a *loopAcceptor) close() error {
	a.stop()
	return os.NewSyscallError("close", syscall.Close(a.fd))
}

// admitLooped checks the limits of a connection, and serves it as a task of its loop. What may wait
// for the client, a PROXY header above all, is in the task; a connection that is refused
// needs none.
func (l *Listener) admitLooped(loop *eventloop.Conn) {
	c := newConn(loop, l)
	if !l.count(c) {
		return
	}
	trusted := l.config.trusts(c.peerIP())
	switch {
	case l.config.Proxy == ProxyOff:
		loop.Serve(func(*eventloop.Task) { l.deliver(c, trusted) })
	case trusted:
		l.workers.Add(1)
		loop.Serve(func(*eventloop.Task) {
			unlimited, ok := l.readProxied(c)
			l.workers.Done()
			if ok {
				l.deliver(c, unlimited)
			}
		})
	case l.config.Proxy == ProxyRequire:
		l.refuse(c, RefusedUntrusted)
	default:
		loop.Serve(func(*eventloop.Task) { l.deliver(c, false) })
	}
}

// Loop is the connection of the event loop that has the socket; nil if none has.
func (c *Conn) Loop() *eventloop.Conn {
	if c.loop == nil || c.tcp.Load() != nil {
		return nil
	}
	return c.loop
}

// Detach takes the socket out of its event loop, if one has it, for what is done by
// goroutines until the connection ends. No read or write may be running.
func (c *Conn) Detach() error {
	loop := c.Loop()
	if loop == nil {
		return nil
	}
	tcp, err := loop.Detach()
	if err != nil {
		return err
	}
	c.tcp.Store(tcp)
	if c.closed.Load() { // meanwhile
		_ = tcp.Close()
		return net.ErrClosed
	}
	return nil
}
