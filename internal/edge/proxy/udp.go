package proxy

import (
	"errors"
	"net"
	"net/netip"
	"time"

	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/upstream"
)

// UDPFlow is the use of an endpoint by the datagrams of one client. It implements
// datagram.Backend.
type UDPFlow struct {
	proxy  *Proxy
	lookup func() program.TCPResult
	lease  upstream.Lease
	socket *net.UDPConn
	record Record
}

// errNoRoute is why a datagram is dropped that no route takes.
var errNoRoute = errors.New("the listener has no route")

// errPolicies is why the datagrams of a route are dropped whose policies are for connections:
// they must not be passed on without them.
var errPolicies = errors.New("the route has policies, which datagrams do not pass")

// ConnectUDP opens a socket to an endpoint of the route that lookup finds. It does not
// block: connecting a socket of UDP sends nothing.
func (p *Proxy) ConnectUDP(client netip.AddrPort, entryPoint string, lookup func() program.TCPResult) (*UDPFlow, error) {
	found := lookup()
	if found.Route == nil {
		return nil, errNoRoute
	}
	b := found.Binding.(*tcpBinding)
	switch {
	case b.refused != nil:
		return nil, b.refused
	case !b.chain.Empty():
		return nil, errPolicies
	}
	handle := b.backends.next()
	if handle == nil {
		return nil, errNoBackend
	}
	lease, err := handle.Pick(upstream.PickOptions{})
	if err != nil {
		return nil, err
	}
	socket, err := lease.DialUDP()
	if err != nil {
		lease.Done(upstream.Cancelled)
		return nil, err
	}
	return &UDPFlow{proxy: p, lookup: lookup, lease: lease, socket: socket, record: Record{
		Connection: Connection{EntryPoint: entryPoint}, Timing: Timing{Began: time.Now()},
		Client: client.Addr().Unmap(), TCPRoute: b.route, Endpoint: lease.Endpoint().Address(), Attempts: 1,
	}}, nil
}

// Socket implements datagram.Backend.
func (f *UDPFlow) Socket() *net.UDPConn { return f.socket }

// Current implements datagram.Backend. A route that changed chooses again: its backends
// may be others.
func (f *UDPFlow) Current() bool {
	return !f.lease.Endpoint().Removed() && f.lookup().Route == f.record.TCPRoute
}

// Done implements datagram.Backend. The outcome does not count for the health of the
// endpoint: a backend may have no response to send.
func (f *UDPFlow) Done(up, down int64) {
	f.socket.Close()
	f.lease.Done(upstream.Cancelled)
	if f.proxy.cfg.Observe != nil {
		f.record.Received, f.record.Sent = up, down
		f.record.Duration = time.Since(f.record.Began)
		f.proxy.cfg.Observe(&f.record)
	}
}
