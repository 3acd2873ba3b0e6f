package listener

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"slipway.dev/slipway/internal/backoff"
)

// The backoff after a failed accept.
const (
	acceptPauseMin = 5 * time.Millisecond
	acceptPauseMax = time.Second
)

// Listener accepts connections. It is a net.Listener; its methods may be called
// from any goroutine.
//
// Its states are: accepting; stopping, when Drain empties the accept queue of
// the kernel; and stopped, when Accept returns net.ErrClosed. Close goes to the
// last one directly.
type Listener struct {
	config Config
	inner  *net.TCPListener
	looped *loopAcceptor // in place of inner, where event loops accept
	addr   net.Addr
	pools  bufferPools
	live   *tracker

	ready    chan *Conn                  // to Accept
	handler  atomic.Pointer[func(*Conn)] // of Serve; nil before it
	abort    chan struct{}               // closed by Close
	stopping atomic.Bool

	// workers are the accept loop and the readers of PROXY headers. stopped is
	// closed after the last one: no connection will come any more.
	workers sync.WaitGroup
	stopped chan struct{}

	closeOnce sync.Once
}

var _ net.Listener = (*Listener)(nil)

// Listen opens a socket and starts to accept. The listener is closed when ctx
// is done; connections that Accept returned stay open.
func Listen(ctx context.Context, config Config) (*Listener, error) {
	config = config.withDefaults()
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("listener %s: %w", config.Address, err)
	}
	inner, err := openSocket(ctx, &config)
	if err != nil {
		return nil, err
	}
	l := &Listener{
		config:  config,
		inner:   inner,
		addr:    inner.Addr(),
		live:    newTracker(),
		ready:   make(chan *Conn),
		abort:   make(chan struct{}),
		stopped: make(chan struct{}),
	}
	if config.Loops == nil {
		l.workers.Go(l.acceptLoop)
	} else if l.looped, err = newLoopAcceptor(l, inner); err != nil {
		return nil, fmt.Errorf("listener %s: %w", config.Address, err)
	}
	unwatch := context.AfterFunc(ctx, func() { _ = l.close() })
	go func() {
		l.workers.Wait()
		unwatch()
		close(l.stopped)
	}()
	return l, nil
}

func openSocket(ctx context.Context, config *Config) (*net.TCPListener, error) {
	lc := net.ListenConfig{KeepAliveConfig: config.KeepAlive}
	// Multipath TCP would prevent splice between sockets in the kernel, and no
	// load balancer uses it.
	lc.SetMultipathTCP(false)
	setOptions(&lc, config)
	opened, err := lc.Listen(ctx, config.Network, config.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", config.Address, err)
	}
	inner, ok := opened.(*net.TCPListener)
	if !ok {
		_ = opened.Close()
		return nil, fmt.Errorf("cannot listen on %s: it is not TCP", config.Address)
	}
	if config.Backlog > 0 {
		if err := setBacklog(inner, config.Backlog); err != nil {
			_ = inner.Close()
			return nil, err
		}
	}
	return inner, nil
}

// Addr is the address of the socket.
func (l *Listener) Addr() net.Addr { return l.addr }

// Live is the number of open connections, including those whose PROXY header is
// still being read.
func (l *Listener) Live() int { return l.live.count() }

// Accept waits for the next connection, which is a [*Conn]. It returns
// net.ErrClosed after the last one.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.AcceptConn()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// AcceptConn is Accept with the concrete type.
func (l *Listener) AcceptConn() (*Conn, error) {
	for {
		select {
		case c := <-l.ready:
			if !l.handOut(c) {
				continue
			}
			return c, nil
		case <-l.stopped:
			return nil, net.ErrClosed
		}
	}
}

// Serve calls handle for each connection, in place of Accept, until the listener is
// closed or drained. Handle must not block. It is called by the goroutine that
// accepted the connection, which so reaches its own goroutine with one hand-over less. With
// event loops, handle serves the connection itself: see Config.Loops.
func (l *Listener) Serve(handle func(*Conn)) {
	l.handler.Store(&handle)
	if l.looped != nil {
		l.looped.start()
	}
	// The accept loop may have a connection for Accept still.
	for {
		c, err := l.AcceptConn()
		if err != nil {
			return
		}
		handle(c)
	}
}

// handOut gives a connection to its owner. It reports false if Drain or Close has
// closed it meanwhile.
func (l *Listener) handOut(c *Conn) bool {
	notify, ok := l.live.handOut(c)
	if ok {
		l.config.Hooks.opened()
		c.notify(notify)
	}
	return ok
}

// Close stops accepting, and closes the connections that Accept has not
// returned. The others stay open; [Listener.Drain] closes those.
func (l *Listener) Close() error {
	err := l.close()
	<-l.stopped
	return err
}

// close is Close without waiting.
func (l *Listener) close() error {
	err := net.ErrClosed
	l.closeOnce.Do(func() {
		l.stopping.Store(true)
		close(l.abort)
		err = l.closeSocket()
		for _, c := range l.live.list(pending) {
			_ = c.Close()
		}
	})
	return err
}

// acceptLoop accepts connections until the socket is closed or Drain has
// emptied the accept queue.
func (l *Listener) acceptLoop() {
	pause := acceptRetries()
	for {
		tcp, err := l.inner.AcceptTCP()
		if err == nil {
			pause.Reset()
			l.admit(tcp)
			continue
		}
		if errors.Is(err, net.ErrClosed) || (errors.Is(err, os.ErrDeadlineExceeded) && l.stopping.Load()) {
			return
		}
		// Every other error is temporary: no more file descriptors or memory,
		// or a client that disconnected. Returning here would take the port
		// down.
		l.config.Hooks.acceptFailed(err)
		if !l.sleep(pause.Next()) {
			return
		}
	}
}

// acceptRetries are the pauses after failures.
func acceptRetries() backoff.Retries {
	return backoff.Retries{Policy: backoff.Policy{First: acceptPauseMin, Longest: acceptPauseMax}}
}

// sleep waits, and reports false when the listener is closed meanwhile.
func (l *Listener) sleep(pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.abort:
		return false
	}
}

// closeSocket closes the listening socket.
func (l *Listener) closeSocket() error {
	if l.looped != nil {
		return l.looped.close()
	}
	return l.inner.Close()
}

// admit checks the limits of one connection, and delivers or refuses it.
func (l *Listener) admit(tcp *net.TCPConn) {
	c := newConn(tcp, l)
	if !l.count(c) {
		return
	}
	trusted := l.config.trusts(c.peerIP())
	switch {
	case l.config.Proxy == ProxyOff:
		l.deliver(c, trusted)
	case trusted:
		l.workers.Go(func() {
			if unlimited, ok := l.readProxied(c); ok {
				l.deliver(c, unlimited)
			}
		})
	case l.config.Proxy == ProxyRequire:
		l.refuse(c, RefusedUntrusted)
	default:
		l.deliver(c, false)
	}
}

// count counts a connection against the limit of all, and sets its first deadline. It
// reports false if it was refused.
func (l *Listener) count(c *Conn) bool {
	if !l.live.add(c, l.config.MaxConns) {
		l.refuse(c, RefusedLimit)
		return false
	}
	// close closes the connections it finds after it has closed abort. A
	// connection that was added after that is refused here.
	select {
	case <-l.abort:
		l.refuse(c, RefusedStopping)
		return false
	default:
	}
	_ = c.socket().SetReadDeadline(c.accepted.Add(l.config.HeaderTimeout))
	return true
}

// readProxied reads the PROXY header of a trusted peer. unlimited is as for deliver.
func (l *Listener) readProxied(c *Conn) (unlimited, ok bool) {
	err := c.readProxyHeader(l.config.ProxyHeaderLimit)
	switch {
	case err == nil:
		return !c.header.addressed(), true
	case errors.Is(err, errNoProxyHeader) && l.config.Proxy == ProxyOptional:
		return true, true
	}
	l.refuse(c, headerRefusal(err))
	return false, false
}

// headerRefusal distinguishes a wrong header from one that did not come.
func headerRefusal(err error) RefuseReason {
	var network net.Error
	switch {
	case errors.Is(err, net.ErrClosed):
		return RefusedStopping
	case errors.As(err, &network) && network.Timeout():
		return RefusedTimeout
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return RefusedGone
	}
	return RefusedProxyHeader
}

// deliver hands a connection to the handler of Serve, or to Accept. It waits for
// Accept, so that connections that are not accepted stay in the kernel's queue.
// unlimited is for trusted proxies themselves.
func (l *Listener) deliver(c *Conn, unlimited bool) {
	if client := addrOf(c.remote); !unlimited && client.IsValid() {
		if l.config.Banned != nil && l.config.Banned(client) {
			l.refuse(c, RefusedBanned)
			return
		}
		if limit := l.config.MaxConnsPerSource; limit > 0 && !l.live.addSource(c, sourceOf(client), limit) {
			l.refuse(c, RefusedSource)
			return
		}
	}
	if handle := l.handler.Load(); handle != nil {
		if l.handOut(c) {
			(*handle)(c)
		}
		return
	}
	select {
	case l.ready <- c:
	case <-l.abort:
		l.refuse(c, RefusedStopping)
	}
}

func (l *Listener) refuse(c *Conn, reason RefuseReason) {
	c.reset()
	l.config.Hooks.refused(reason)
}
