package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/floodtracker"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/h2"
	"slipway.dev/slipway/internal/edge/h3"
	"slipway.dev/slipway/internal/edge/listener"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/edge/workers"
	"slipway.dev/slipway/internal/route"
)

// point is an open entry point.
type point struct {
	EntryPoint
	server   *Server
	listener *listener.Listener
	// id is the listener of the table that it is; zero for an entry point.
	id program.Listener
	// hosts are those that share it; of listeners with TLS only.
	hosts proxy.ListenerHosts
	// certificates chooses those of handshakes, and tls is its form for servers.
	certificates *tlsstore.Store
	tls          *tls.Config
	h2           *h2.Server
	h3           *h3.Server // nil without HTTP/3
	trust        *proxy.Trust
	// floods tracks the clients that flooded this entry point.
	floods *floodtracker.Tracker
	edits  []h1.Edit     // of the headers of every response
	tcp    atomic.Uint32 // tcpNone, tcpPlain or tcpTLS
	raw    bool          // no connection is read as HTTP
}

// open opens the listeners of an entry point. Connections wait in their queues
// until Run.
func (s *Server) open(options EntryPoint) error {
	p, err := s.newPoint(options, s.certificates)
	if err != nil {
		return openError(options.Name, err)
	}
	s.points = append(s.points, p)
	if p.HTTP3 {
		return p.openHTTP3()
	}
	return nil
}

// openError says which entry point cannot be opened, and what to do.
func openError(name string, err error) error {
	return fmt.Errorf("entry point %s: %w: choose another address with --entryPoints.%s.address", name, err, name)
}

// newPoint opens the TCP listener of an entry point, or of a listener of the table:
// both have the same limits, timeouts and protocols.
func (s *Server) newPoint(options EntryPoint, certificates *tlsstore.Store) (*point, error) {
	p := &point{EntryPoint: options, server: s, trust: proxy.NewTrust(options.ForwardTrusted, false), certificates: certificates}
	if certificates != nil {
		p.tls = certificates.ServerConfig()
	}
	p.floods = p.newFloodTracker()
	// HTTP/2 gets the limits of the entry point. The flood tracker is shared
	// with the listener, so that a ban by one is enforced by the other.
	config := h2.DefaultConfig()
	config.Handler = s.streams
	config.MaxStreams = options.MaxStreams
	config.HeaderBytes = options.Limits.HeadBytes
	config.FirstTimeout, config.HeaderTimeout = options.Timeouts.Head, options.Timeouts.Head
	config.IdleTimeout, config.WriteTimeout = options.Timeouts.Idle, options.Timeouts.Write
	config.TrustedProxy, config.Floods = p.trust.Trusts, p.floods
	config.Hooks = s.options.Metrics.streamHooks(options.Name)
	config.Log = s.options.Log
	var err error
	if p.h2, err = h2.New(config); err != nil {
		return nil, err
	}
	p.listener, err = p.listen(s.lifetime, s.options.Metrics.hooks(options.Name))
	return p, err
}

// drainGrace is how long a client that connected before a drain may take to
// send its first byte.
const drainGrace = time.Second

// drain closes the connections of an entry point gracefully, and forcibly after
// DrainTimeout. The Proxy is draining by then.
func (p *point) drain() {
	ctx, cancel := context.WithTimeout(p.server.lifetime, p.DrainTimeout)
	defer cancel()
	var beside sync.WaitGroup
	defer beside.Wait()
	if p.h3 != nil {
		beside.Go(func() {
			if err := p.h3.Drain(ctx); err != nil {
				p.server.options.Log.Info("closed HTTP/3 connections after the drain timeout", "entryPoint", p.Name, "error", err)
			}
		})
	}
	p.h2.Drain()
	// Clients that have connected and sent nothing yet get a short deadline.
	until := time.Now().Add(drainGrace)
	report := p.listener.Drain(ctx, func(conn *listener.Conn) { conn.SetPeekDeadline(until) })
	p.server.options.Log.Info("drained entry point", "entryPoint", p.Name, "closed", report.Closed, "cut", report.Forced)
}

// close closes the listeners without a drain.
func (p *point) close() {
	p.listener.Close()
	if p.h3 != nil {
		p.h3.Close()
	}
}

// What the TCP routes of an entry point need of a connection. With only plain
// routes the first bytes must not be waited for: in many protocols the server
// sends first.
const (
	tcpNone uint32 = iota
	tcpPlain
	tcpTLS
)

// setTCP finds which TCP routes of a table the entry point has.
func (p *point) setTCP(routes iter.Seq[*route.TCPRoute]) {
	kind := tcpNone
	for tcp := range routes {
		for _, name := range tcp.EntryPoints {
			switch {
			case name != p.Name:
			case tcp.TLS != route.TLSPlain:
				kind = tcpTLS
			case kind == tcpNone:
				kind = tcpPlain
			}
		}
	}
	p.tcp.Store(kind)
}

// accept serves each connection as a task of an event loop, or in a goroutine, which is
// reused for another one.
func (p *point) accept() {
	if p.server.loops != nil {
		p.listener.Serve(p.serve)
		return
	}
	pool := workers.New(p.serve)
	pool.AddUser()
	defer pool.RemoveUser()
	p.listener.Serve(pool.Serve)
}

// serve detects the protocol of a client and serves it. The order is always the
// same: a TCP route first, then TLS, then HTTP.
func (p *point) serve(conn *listener.Conn) {
	from := p.accepted(conn.RemoteAddr(), conn.LocalAddr())
	kind := p.tcp.Load()
	var peeked listener.Peeked
	if kind != tcpPlain {
		var err error
		if peeked, err = conn.Peek(); err != nil && (peeked.Protocol != listener.ProtocolTLS || !p.TLS || p.raw) {
			// It was closed, too slow, or sent nothing that can be forwarded.
			conn.Close()
			return
		}
	}
	if kind != tcpNone && p.serveTCP(conn, from, peeked) {
		return
	}
	switch {
	case p.raw:
		p.server.options.Metrics.protocolMismatch(p.Name)
		conn.Close()
	case p.TLS && peeked.Protocol == listener.ProtocolTLS:
		p.serveTLS(conn, from)
	case p.TLS && peeked.Protocol == listener.ProtocolHTTP1:
		p.server.proxy.RejectPlainHTTP(conn, from)
	case p.TLS, peeked.Protocol == listener.ProtocolTLS:
		p.server.options.Metrics.protocolMismatch(p.Name)
		conn.Close()
	case peeked.Protocol == listener.ProtocolHTTP2:
		p.h2.ServeConn(withAccepted(p.server.lifetime, from), conn)
	default:
		p.server.proxy.ServeHTTP1(conn, from)
	}
}

// depart makes a connection one of goroutines until it ends. It closes one with which that
// fails.
func depart(conn *listener.Conn) bool {
	loop := conn.Loop()
	if loop == nil {
		return true
	}
	loop.Task().Leave()
	if conn.Detach() != nil {
		conn.Close()
		return false
	}
	return true
}

// serveTCP serves a connection if a TCP route matches it.
func (p *point) serveTCP(conn *listener.Conn, from proxy.Accepted, peeked listener.Peeked) bool {
	if p.server.proxy.Program() == nil {
		return false
	}
	name, _ := tlsstore.CanonicalName(peeked.ServerName)
	request := program.TCPRequest{EntryPoint: p.Name, Listener: p.id, TLS: peeked.Protocol == listener.ProtocolTLS, ServerName: name}
	lookup := func() program.TCPResult { return p.server.proxy.Program().LookupTCP(&request) }
	found := lookup()
	switch {
	case found.Route == nil:
		return false
	case !depart(conn):
	case found.Route.TLS == route.TLSTerminate:
		encrypted, err := p.handshake(conn, &from)
		// The name of the handshake has to be the one that the route was found
		// by.
		if err != nil || from.Handshake.ServerName() != name {
			conn.Close()
			return true
		}
		p.server.proxy.ServeTCP(encrypted, from, found, lookup)
	default:
		p.server.proxy.ServeTCP(conn, from, found, lookup)
	}
	return true
}

// serveTLS makes the handshake and serves the negotiated protocol.
func (p *point) serveTLS(conn *listener.Conn, from proxy.Accepted) {
	encrypted, err := p.handshake(conn, &from)
	if err != nil {
		conn.Close()
		return
	}
	if encrypted.ConnectionState().NegotiatedProtocol == "h2" {
		p.h2.ServeConn(withAccepted(p.server.lifetime, from), encrypted)
		return
	}
	p.server.proxy.ServeHTTP1(encrypted, from)
}

// errChallenge closes a connection that was made for an ACME challenge only.
var errChallenge = errors.New("the connection was for an ACME challenge only")

// handshake makes the TLS handshake and stores its result in from.
func (p *point) handshake(conn *listener.Conn, from *proxy.Accepted) (*tls.Conn, error) {
	// Deadlines of the connection take less than one of the context, for which package tls starts a
	// goroutine. That of reads is the listener's, since the accept: a client that stalls must
	// not have it twice.
	ctx := tlsstore.WithHandshake(context.Background())
	encrypted := tls.Server(conn, p.tls)
	if err := encrypted.SetWriteDeadline(time.Now().Add(p.Timeouts.Head)); err != nil {
		return nil, err
	}
	if err := encrypted.HandshakeContext(ctx); err != nil {
		p.server.options.Metrics.handshakeFailed(p.Name)
		return nil, err
	}
	from.Handshake = tlsstore.HandshakeFrom(ctx)
	if from.Handshake.Challenge() {
		return nil, errChallenge
	}
	noteTLS(from, encrypted.ConnectionState())
	// The deadlines of the handshake must not hold for the requests.
	return encrypted, encrypted.SetDeadline(time.Time{})
}

// noteTLS stores the properties of a handshake that requests forward and log.
func noteTLS(from *proxy.Accepted, state tls.ConnectionState) {
	from.TLS = true
	from.TLSVersion, from.CipherSuite = state.Version, state.CipherSuite
	if len(state.PeerCertificates) > 0 {
		from.Certificate.Presented = state.PeerCertificates[0]
	}
	if len(state.VerifiedChains) > 0 {
		from.Certificate.Verified = from.Certificate.Presented
	}
}

// refusedTLS is the response for a host whose TLS options are invalid.
var refusedTLS = &filter.LocalResponse{Status: 503, Reason: string(route.ReasonRefused)}

// admit checks a request against its connection: a host with TLS options is
// served only on connections that were made with them. SNI and Host may differ,
// and options may have changed since the handshake.
func (s *Server) admit(from *proxy.Accepted, host string, rule *route.Rule) *filter.LocalResponse {
	if from.Listener != (program.Listener{}) {
		return nil // all handshakes of a listener have the same options
	}
	if from.Handshake == nil {
		if !s.certificates.PlaintextAllowed(host) {
			return proxy.Misdirected
		}
		return nil
	}
	decision := s.certificates.Decide(from.Handshake, host)
	if _, wildcard := route.WildcardParent(rule.Host); wildcard && decision == tlsstore.Serve {
		decision = s.certificates.Decide(from.Handshake, rule.Host)
	}
	switch decision {
	case tlsstore.Serve:
		return nil
	case tlsstore.Refused:
		return refusedTLS
	}
	return proxy.Misdirected
}

// acceptedKey is the context key of the connection of an HTTP/2 stream.
type acceptedKey struct{}

// withAccepted adds the connection to the context of its streams.
func withAccepted(ctx context.Context, from proxy.Accepted) context.Context {
	from.Describe()
	return context.WithValue(ctx, acceptedKey{}, &from)
}

// acceptedFrom returns the connection of a stream. It is a copy, because each
// request changes its own.
func acceptedFrom(ctx context.Context) (proxy.Accepted, bool) {
	from, ok := ctx.Value(acceptedKey{}).(*proxy.Accepted)
	if !ok {
		return proxy.Accepted{}, false
	}
	return *from, true
}

// addrPort returns the address of TCP and of UDP, which HTTP/3 has.
func addrPort(a net.Addr) netip.AddrPort {
	switch at := a.(type) {
	case *net.TCPAddr:
		return at.AddrPort()
	case *net.UDPAddr:
		return at.AddrPort()
	}
	return netip.AddrPort{}
}

// accepted describes a connection to the proxy.
func (p *point) accepted(remote, local net.Addr) proxy.Accepted {
	client := addrPort(remote)
	var hosts *proxy.ListenerHosts
	if p.TLS && p.id != (program.Listener{}) {
		hosts = &p.hosts
	}
	return proxy.Accepted{
		EntryPoint: p.Name, Listener: p.id, Hosts: hosts, Client: client, Local: addrPort(local),
		Trusted: p.trust.Trusts(client.Addr()), Trust: p.trust,
		Limits: &p.Limits, Timeouts: &p.Timeouts, Edits: p.edits,
	}
}
