package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// tcpBinding is a TCP route compiled for connections.
type tcpBinding struct {
	route *route.TCPRoute
	chain filter.Chain
	// refused is why its connections are closed, nil for a route that serves.
	refused  error
	backends *weightedBackends
	timeouts timeouts
}

// bindTCP compiles a TCP route that is new or changed. A policy that cannot be
// compiled takes its own route down: its connections are closed, and never read
// as HTTP instead.
func (p *Proxy) bindTCP(tcp *route.TCPRoute) (any, error) {
	b := &tcpBinding{route: tcp, timeouts: timeouts{
		connect: time.Duration(tcp.Timeouts.Connect), idle: time.Duration(tcp.Timeouts.Idle), total: time.Duration(tcp.Timeouts.Total),
	}}
	chain, err := filter.Compile(tcp.Policies, p.cfg.Counters)
	if err != nil {
		p.cfg.Log.Warn("refused TCP route, closing its connections", "route", tcp.ID.String(), "error", err)
		b.refused = err
		return b, nil
	}
	if len(tcp.Backends) == 0 {
		return nil, errors.New("the route has no backend")
	}
	b.chain = chain
	b.backends = newWeightedBackends(tcp.Backends, false, func(id route.BackendID) *upstream.Handle {
		if id == (route.BackendID{}) {
			return nil // the share of a backend that does not exist
		}
		return p.cfg.Upstreams.Handle(id)
	})
	return b, nil
}

// ServeTCP passes a connection on to a backend of a TCP route, until both ends
// are done, and closes it. The route may have changed since it was found, such as
// during a handshake, and its backend may have left the table. Then the connection
// goes by the route that lookup finds now.
func (p *Proxy) ServeTCP(conn net.Conn, from Accepted, found program.TCPResult, lookup func() program.TCPResult) {
	defer conn.Close()
	b := found.Binding.(*tcpBinding)
	began := time.Now()
	record := Record{
		Connection: Connection{EntryPoint: from.EntryPoint, TLS: from.TLS}, Timing: Timing{Began: began},
		Client: from.Client.Addr(),
	}
	for {
		record.TCPRoute = b.route
		err := p.proxyTCP(conn, &from, b, &record)
		if errors.Is(err, upstream.ErrNoBackend) {
			if next := lookup(); next.Route != nil && next.Route != b.route && next.Route.TLS == b.route.TLS {
				b = next.Binding.(*tcpBinding)
				continue
			}
		}
		if err != nil {
			record.Reason = err.Error()
		}
		break
	}
	if p.cfg.Observe != nil {
		record.Duration = time.Since(began)
		p.cfg.Observe(&record)
	}
}

// errRejected is why a filter closed a connection.
var errRejected = errors.New("the policies of the route reject the client")

// errNoBackend is why a connection was closed whose share has no backend.
var errNoBackend = errors.New("the backend of the route does not exist")

// proxyTCP runs the route's filters, connects to an endpoint and joins the two
// connections.
func (p *Proxy) proxyTCP(conn net.Conn, from *Accepted, b *tcpBinding, record *Record) error {
	if b.refused != nil {
		return b.refused
	}
	if !b.chain.Empty() {
		var x filter.Exchange
		var none h1.Head // a connection has no request
		x.Begin(&none, b.chain.Marks())
		x.Client, x.Now, x.TLS, x.ServerPort = from.Client.Addr().Unmap(), record.Began, from.TLS, from.Local.Port()
		ran, local := b.chain.Request(&x)
		defer b.chain.Done(&x, ran)
		if local != nil {
			return errRejected
		}
	}
	remote, lease, err := b.connect(record)
	if err != nil {
		return err
	}
	defer remote.Close()
	lease.ResponseStarted()
	defer lease.Done(upstream.OK)
	record.Endpoint = lease.Endpoint().Address()
	record.Received, record.Sent, err = join(conn, remote.NetConn(), b.timeouts)
	return err
}

// connect makes a connection to an endpoint, to another when one fails. It is
// never a pooled one: a TCP connection carries the state of one client.
func (b *tcpBinding) connect(record *Record) (*upstream.Conn, *upstream.Lease, error) {
	handle := b.backends.next()
	if handle == nil {
		return nil, nil, errNoBackend
	}
	var options upstream.PickOptions
	for attempt := 1; ; attempt++ {
		lease, err := handle.Pick(options)
		if err != nil {
			return nil, nil, err
		}
		record.Attempts = attempt
		conn, err := lease.Dial(context.Background(), b.timeouts.connect)
		if err == nil {
			return conn, &lease, nil
		}
		options.Avoid = lease.Endpoint()
		lease.Done(upstream.ConnectFailed)
		if attempt == maxAttempts {
			return nil, nil, err
		}
	}
}

// join copies bytes both ways until both directions have ended. It returns how
// many went to the backend and how many came from it.
func join(client, backend net.Conn, limits timeouts) (up, down int64, err error) {
	if err := errors.Join(client.SetDeadline(time.Time{}), backend.SetDeadline(time.Time{})); err != nil {
		return 0, 0, fmt.Errorf("join two connections: %w", err)
	}
	if limits.total > 0 {
		defer time.AfterFunc(limits.total, func() { client.Close(); backend.Close() }).Stop()
	}
	idle := &idleness{wait: limits.idle}
	idle.moved()
	ended := make(chan error, 1)
	go func() {
		var err error
		up, err = idle.pipe(backend, client)
		ended <- err
	}()
	down, err = idle.pipe(client, backend)
	return up, down, errors.Join(err, <-ended)
}

// idleness ends two directions when neither of them moved for a time; 0 is no
// bound.
type idleness struct {
	wait time.Duration
	last atomic.Int64
}

// moved restarts the idle timeout. Both directions share it.
func (i *idleness) moved() {
	if i.wait > 0 {
		i.last.Store(time.Now().UnixNano())
	}
}

// pipe copies one direction and passes its end on. A side that cannot be written
// to is closed, so that the other direction ends too.
func (i *idleness) pipe(to, from net.Conn) (n int64, err error) {
	if i.wait <= 0 {
		n, err = io.Copy(to, from)
	} else {
		n, err = i.copy(to, from)
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = half.CloseWrite()
		return n, nil
	}
	to.Close()
	from.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil // the other direction ended first
	}
	return n, err
}

// errIdleTimeout is why a connection was closed that neither side used.
var errIdleTimeout = errors.New("nothing was sent either way for the route's idle timeout")

// copyBuffer is the memory of one direction of a connection with an idle timeout.
// Without one, io.Copy splices in the kernel.
const copyBuffer = 32 << 10

// copy copies one direction until its end, or until neither direction has moved
// for the idle timeout.
func (i *idleness) copy(to, from net.Conn) (n int64, err error) {
	buf := make([]byte, copyBuffer)
	for {
		if err := from.SetReadDeadline(time.Unix(0, i.last.Load()).Add(i.wait)); err != nil {
			return n, err
		}
		got, err := from.Read(buf)
		if got > 0 {
			i.moved()
			if err := to.SetWriteDeadline(time.Now().Add(i.wait)); err != nil {
				return n, err
			}
			if _, err := to.Write(buf[:got]); err != nil {
				return n, err
			}
			n += int64(got)
		}
		switch {
		case err == nil:
		case err == io.EOF:
			return n, nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return n, err
		case time.Since(time.Unix(0, i.last.Load())) >= i.wait:
			return n, errIdleTimeout
		}
	}
}
