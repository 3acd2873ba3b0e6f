package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
	"slipway.dev/slipway/internal/route"
)

// point is an entry point that is open.
type point struct {
	EntryPoint
	server   *Server
	listener *listener.Listener
	h2       *h2.Server
	h3       *h3.Server // nil without HTTP/3
	trust    *proxy.Trust
	// floods tracks the clients that flooded this entry point.
	floods *floodtracker.Tracker
	edits  []h1.Edit     // of every response
	tcp    atomic.Uint32 // tcpNone, tcpPlain or tcpTLS
}

// open makes an entry point ready. Connections wait until Run.
func (s *Server) open(options EntryPoint) error {
	p := &point{EntryPoint: options, server: s, trust: proxy.NewTrust(options.ForwardTrusted, false)}
	p.floods = p.newFloodTracker()
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
		return fmt.Errorf("entry point %s: %w", options.Name, err)
	}
	if p.listener, err = p.listen(s.lifetime, s.options.Metrics.hooks(options.Name)); err != nil {
		return err
	}
	s.points = append(s.points, p)
	if p.HTTP3 {
		return p.openHTTP3()
	}
	return nil
}

// drainGrace is how long a client that had connected before a drain may take to
// send its first byte.
const drainGrace = time.Second

// drain ends the connections of an entry point in good order, and cuts those
// that are left when its time is over. The Proxy is draining by then.
func (p *point) drain() {
	ctx, cancel := context.WithTimeout(p.server.lifetime, p.DrainTimeout)
	defer cancel()
	var beside sync.WaitGroup
	defer beside.Wait()
	if p.h3 != nil {
		beside.Go(func() {
			if err := p.h3.Drain(ctx); err != nil {
				p.server.options.Log.Info("connections of HTTP/3 were cut", "entryPoint", p.Name, "error", err)
			}
		})
	}
	p.h2.Drain()
	// Who has connected and said nothing yet has no time left to think about it.
	until := time.Now().Add(drainGrace)
	report := p.listener.Drain(ctx, func(conn *listener.Conn) { conn.SetPeekDeadline(until) })
	p.server.options.Log.Info("entry point is drained", "entryPoint", p.Name, "closed", report.Closed, "cut", report.Forced)
}

func (p *point) close() {
	p.listener.Close()
	if p.h3 != nil {
		p.h3.Close()
	}
}

// What the TCP routes of an entry point have to know of a connection. With
// plain ones alone its first bytes must not be waited for: in many protocols
// the server speaks first.
const (
	tcpNone uint32 = iota
	tcpPlain
	tcpTLS
)

// setTCP looks at the TCP routes of a table.
func (p *point) setTCP(table *route.Table) {
	kind := tcpNone
	for _, tcp := range table.TCPRoutes {
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

// accept serves each connection in a goroutine of its own.
func (p *point) accept() {
	for {
		conn, err := p.listener.AcceptConn()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				p.server.options.Log.Error("an entry point stopped accepting", "entryPoint", p.Name, "error", err)
			}
			return
		}
		go p.serve(conn)
	}
}

// serve finds out what a client wants to speak, and answers it in that. There
// is one order for all: a TCP route first, then TLS, then HTTP.
func (p *point) serve(conn *listener.Conn) {
	from := p.accepted(conn.RemoteAddr(), conn.LocalAddr())
	kind := p.tcp.Load()
	var peeked listener.Peeked
	if kind != tcpPlain {
		var err error
		if peeked, err = conn.Peek(); err != nil && (peeked.Protocol != listener.ProtocolTLS || !p.TLS) {
			// It went away, was too slow, or said nothing that can be passed on.
			conn.Close()
			return
		}
	}
	if kind != tcpNone && p.serveTCP(conn, from, peeked) {
		return
	}
	switch {
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

// serveTCP passes a connection on if a TCP route takes it.
func (p *point) serveTCP(conn *listener.Conn, from proxy.Accepted, peeked listener.Peeked) bool {
	compiled := p.server.proxy.Program()
	if compiled == nil {
		return false
	}
	name, _ := tlsstore.CanonicalName(peeked.ServerName)
	found := compiled.LookupTCP(&program.TCPRequest{
		EntryPoint: p.Name, TLS: peeked.Protocol == listener.ProtocolTLS, ServerName: name,
	})
	switch {
	case found.Route == nil:
		return false
	case found.Route.TLS == route.TLSTerminate:
		encrypted, err := p.handshake(conn, &from)
		// An SNI that only looks like the route's is not let in by it.
		if err != nil || from.Handshake.ServerName() != name {
			conn.Close()
			return true
		}
		p.server.proxy.ServeTCP(encrypted, from, found.Binding)
	default:
		p.server.proxy.ServeTCP(conn, from, found.Binding)
	}
	return true
}

// serveTLS makes the handshake and serves what it agreed on.
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

// errChallenge ends a connection that was made to answer a challenge only.
var errChallenge = errors.New("the connection answered a challenge")

// handshake makes the TLS handshake and notes in from what it showed.
func (p *point) handshake(conn *listener.Conn, from *proxy.Accepted) (*tls.Conn, error) {
	ctx, cancel := context.WithTimeout(tlsstore.WithHandshake(p.server.lifetime), p.Timeouts.Head)
	defer cancel()
	encrypted := tls.Server(conn, p.server.tls)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		p.server.options.Metrics.handshakeFailed(p.Name)
		return nil, err
	}
	from.Handshake = tlsstore.HandshakeFrom(ctx)
	if from.Handshake.Challenge() {
		return nil, errChallenge
	}
	noteTLS(from, encrypted.ConnectionState())
	// The deadlines of the handshake are not those of what follows.
	return encrypted, encrypted.SetDeadline(time.Time{})
}

// noteTLS keeps what requests are told and logged about a handshake.
func noteTLS(from *proxy.Accepted, state tls.ConnectionState) {
	from.TLS = true
	from.TLSVersion, from.CipherSuite = state.Version, state.CipherSuite
	if len(state.VerifiedChains) > 0 {
		from.Certificate = state.PeerCertificates[0]
	}
}

// The answers to requests that came by the wrong connection.
var (
	misdirected = &filter.LocalResponse{Status: 421, Reason: "Misdirected"}
	refusedTLS  = &filter.LocalResponse{Status: 503, Reason: string(route.ReasonRefused)}
)

// admit judges a request by its connection: a host that has TLS options is
// served only where they hold. SNI and Host may differ, and options may have
// changed since the handshake.
func (s *Server) admit(from *proxy.Accepted, host string, rule *route.Rule) *filter.LocalResponse {
	if from.Handshake == nil {
		if !s.certificates.PlaintextAllowed(host) {
			return misdirected
		}
		return nil
	}
	verdict := s.certificates.Verdict(from.Handshake, host)
	if _, wildcard := route.WildcardParent(rule.Host); wildcard && verdict == tlsstore.Serve {
		verdict = s.certificates.Verdict(from.Handshake, rule.Host)
	}
	switch verdict {
	case tlsstore.Serve:
		return nil
	case tlsstore.Refused:
		return refusedTLS
	}
	return misdirected
}

type acceptedKey struct{}

// withAccepted lets the streams of a connection know where they came from.
func withAccepted(ctx context.Context, from proxy.Accepted) context.Context {
	return context.WithValue(ctx, acceptedKey{}, &from)
}

func acceptedFrom(ctx context.Context) (proxy.Accepted, bool) {
	from, ok := ctx.Value(acceptedKey{}).(*proxy.Accepted)
	if !ok {
		return proxy.Accepted{}, false
	}
	return *from, true
}

func addrPort(a net.Addr) netip.AddrPort {
	switch at := a.(type) {
	case *net.TCPAddr:
		return at.AddrPort()
	case *net.UDPAddr:
		return at.AddrPort()
	}
	return netip.AddrPort{}
}

// accepted is what the proxy is told about a connection.
func (p *point) accepted(remote, local net.Addr) proxy.Accepted {
	client := addrPort(remote)
	return proxy.Accepted{
		EntryPoint: p.Name, Client: client, Local: addrPort(local),
		Trusted: p.trust.Trusts(client.Addr()), Trust: p.trust,
		Limits: &p.Limits, Timeouts: &p.Timeouts, Edits: p.edits,
	}
}
