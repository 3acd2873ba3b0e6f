package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"

	"slipway.dev/slipway/internal/route"
)

// sessions is the size of the TLS session cache of a backend, which has one
// session for each endpoint.
const sessions = 256

// dialer makes connections to the endpoints of a backend. It never changes:
// another transport is another dialer, and connections of the two are never
// mixed.
type dialer struct {
	protocol    route.Protocol
	tls         route.UpstreamTLS
	authority   *authority
	certificate *keyPair

	config     *tls.Config // nil without TLS
	sessions   tls.ClientSessionCache
	localNames bool
	own        *atomic.Pointer[[]netip.AddrPort] // of the Set
}

// newDialer makes the dialer of a backend, or returns why the backend is
// broken. It returns the previous one when nothing has changed, so that
// connections stay.
func (s *Set) newDialer(b *route.Backend, previous *dialer) (*dialer, error) {
	d := &dialer{protocol: b.Transport.Protocol, localNames: s.cfg.LocalNames, own: &s.own}
	switch d.protocol {
	case "":
		d.protocol = route.ProtocolHTTP1
	case route.ProtocolHTTP1, route.ProtocolH2C, route.ProtocolTLS, route.ProtocolH2, route.ProtocolALPN:
	default:
		return nil, fmt.Errorf("the protocol %q is not known; use http1, h2c, tls, h2 or alpn", d.protocol)
	}
	if b.Transport.TLS != nil {
		if !d.protocol.Encrypted() {
			return nil, errors.New("there are settings for TLS, but the protocol has none; set it to tls, h2 or alpn, or remove them")
		}
		d.tls = *b.Transport.TLS
	}
	if err := s.tlsRegistry.resolve(d); err != nil {
		return nil, err
	}
	if previous != nil && previous.protocol == d.protocol && previous.tls == d.tls &&
		previous.authority == d.authority && previous.certificate == d.certificate {
		return previous, nil
	}
	if !d.protocol.Encrypted() {
		return s.plainDialer(d), nil
	}
	d.sessions = tls.NewLRUClientSessionCache(sessions)
	d.config = d.clientConfig()
	return d, nil
}

// plainDialer returns the dialer that all backends with a protocol without encryption
// share: such dialers differ in nothing else.
func (s *Set) plainDialer(d *dialer) *dialer {
	if shared := s.plainDialers[d.protocol]; shared != nil {
		return shared
	}
	s.plainDialers[d.protocol] = d
	return d
}

// clientConfig returns the part of the TLS configuration that all endpoints
// share.
func (d *dialer) clientConfig() *tls.Config {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		NextProtos:         offered(d.protocol),
		ServerName:         d.tls.ServerName,
		InsecureSkipVerify: d.tls.SkipVerify,
	}
	if d.authority != nil {
		config.RootCAs = d.authority.pool
	}
	if d.tls.SubjectAltNames != "" {
		// The chain is verified as ever; only the name that it has to be for differs.
		config.InsecureSkipVerify = true
		config.VerifyConnection = func(state tls.ConnectionState) error {
			return verifyAltNames(state, config.RootCAs, d.tls.SubjectAltNames)
		}
	}
	if d.certificate != nil {
		// The edge sends its certificate even if the endpoint names other
		// authorities: sending none would only give a worse error.
		certificate := d.certificate.parsed
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return certificate, nil
		}
	}
	return config
}

// offered returns the ALPN protocols of the handshake.
func offered(protocol route.Protocol) []string {
	switch protocol {
	case route.ProtocolH2:
		return []string{alpnH2}
	case route.ProtocolALPN:
		return []string{alpnH2, alpnHTTP1}
	}
	return []string{alpnHTTP1}
}

const (
	alpnH2    = "h2"
	alpnHTTP1 = "http/1.1"
)

// dialTCP connects without a TLS handshake.
func (d *dialer) dialTCP(ctx context.Context, e *Endpoint) (*net.TCPConn, error) {
	var by net.Dialer
	if e.location.host != "" && !d.localNames {
		by.Control = refuseLocal
	}
	conn, err := by.DialContext(ctx, "tcp", e.address)
	if err != nil {
		return nil, &ConnectError{Address: e.address, Err: dialCause(err)}
	}
	socket, ok := conn.(*net.TCPConn)
	if !ok {
		_ = conn.Close()
		return nil, &ConnectError{Address: e.address, Err: errors.New("it is not a TCP connection")}
	}
	if d.isOwn(addrPort(socket.RemoteAddr()), func() netip.AddrPort { return addrPort(socket.LocalAddr()) }) {
		_ = socket.Close()
		return nil, &ConnectError{Address: e.address, Err: ErrOwnAddress}
	}
	return socket, nil
}

// isOwn reports whether a connection leads to an entry point of this edge. A
// listener of all addresses has no address to compare with. But the kernel gives
// a connection to an address of the machine that address as its source too.
func (d *dialer) isOwn(to netip.AddrPort, from func() netip.AddrPort) bool {
	own := d.own.Load()
	if own == nil {
		return false
	}
	return slices.ContainsFunc(*own, func(listening netip.AddrPort) bool {
		at := listening.Addr().Unmap()
		return listening.Port() == to.Port() && (at == to.Addr() || at.IsUnspecified() && from().Addr() == to.Addr())
	})
}

// addrPort returns a TCP address in the form that compares.
func addrPort(address net.Addr) netip.AddrPort {
	tcp, ok := address.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	at := tcp.AddrPort()
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// dial connects, with the TLS handshake if there is one, and notes the protocol
// that was negotiated.
func (d *dialer) dial(ctx context.Context, e *Endpoint) (link, error) {
	socket, err := d.dialTCP(ctx, e)
	if err != nil {
		return link{}, err
	}
	if d.config == nil {
		l := link{conn: socket, http2: d.protocol == route.ProtocolH2C}
		l.attach(socket)
		return l, nil
	}
	below := &tap{TCPConn: socket}
	config := d.config.Clone()
	config.ClientSessionCache = sessionOf{d.sessions, e.address}
	if config.ServerName == "" {
		config.ServerName = e.location.serverName()
	}
	secured := tls.Client(below, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = below.Close()
		return link{}, &ConnectError{Address: e.address, TLS: true, Err: err}
	}
	chosen := secured.ConnectionState().NegotiatedProtocol
	if d.protocol == route.ProtocolH2 && chosen != alpnH2 {
		_ = below.Close()
		return link{}, &ConnectError{Address: e.address, TLS: true, Err: errNoH2}
	}
	l := link{conn: secured, tap: below, http2: chosen == alpnH2}
	l.attach(socket)
	return l, nil
}

// dialCause removes the address from an error, because a ConnectError has it
// already.
func dialCause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return op.Err
	}
	return err
}

// refuseLocal is called by the net package for each address that a name
// resolves to, before it connects. So the check cannot be passed by a second
// DNS response.
func refuseLocal(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := to.Addr().Unmap()
	if ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast() {
		return ErrLocalAddress
	}
	return nil
}

// sessionOf is the session cache of one endpoint. crypto/tls would key sessions
// by server name, which all endpoints share: they would evict each other's.
type sessionOf struct {
	all     tls.ClientSessionCache
	address string
}

// Get implements [tls.ClientSessionCache].
func (s sessionOf) Get(string) (*tls.ClientSessionState, bool) { return s.all.Get(s.address) }

// Put implements [tls.ClientSessionCache].
func (s sessionOf) Put(_ string, state *tls.ClientSessionState) { s.all.Put(s.address, state) }
