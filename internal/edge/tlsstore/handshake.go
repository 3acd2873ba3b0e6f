package tlsstore

import (
	"context"
	"sync/atomic"
)

// Handshake records the options that a connection's handshake was made with.
// The store writes it during the handshake; [Store.Verdict] reads it for each
// request.
//
// tls.ConnectionState is not enough: it has the name, but the options of the
// name may have changed since the client connected.
type Handshake struct {
	recorded atomic.Pointer[handshakeFacts]
}

type handshakeFacts struct {
	options   OptionsID
	name      string
	challenge bool
	// reused is set if one Handshake was used for two connections.
	reused bool
}

type handshakeKey struct{}

// WithHandshake returns a context that carries a new Handshake. The connection
// must be made with it: http.Server.ConnContext, quic.Transport.ConnContext and
// tls.Conn.HandshakeContext all lead to the store. Use one for each connection.
func WithHandshake(ctx context.Context) context.Context {
	return context.WithValue(ctx, handshakeKey{}, new(Handshake))
}

// HandshakeFrom returns the Handshake of a connection's or a request's context,
// nil when there is none.
func HandshakeFrom(ctx context.Context) *Handshake {
	if ctx == nil { // a ClientHelloInfo that crypto/tls did not make
		return nil
	}
	h, _ := ctx.Value(handshakeKey{}).(*Handshake)
	return h
}

// record stores the facts. A second connection with other facts invalidates the
// record, so that neither of the two can be taken for the other.
func (h *Handshake) record(facts handshakeFacts) {
	if h == nil || h.recorded.CompareAndSwap(nil, &facts) {
		return
	}
	if old := h.recorded.Load(); *old != facts {
		facts.reused = true
		h.recorded.Store(&facts)
	}
}

// facts returns what was recorded; false means that no request may be served.
func (h *Handshake) facts() (handshakeFacts, bool) {
	if h == nil {
		return handshakeFacts{}, false
	}
	made := h.recorded.Load()
	if made == nil || made.reused || made.challenge {
		return handshakeFacts{}, false
	}
	return *made, true
}

// ServerName is the canonical name of SNI, empty when there is none, or none
// that is a DNS name.
func (h *Handshake) ServerName() string {
	if h == nil || h.recorded.Load() == nil {
		return ""
	}
	return h.recorded.Load().name
}

// Challenge reports whether the connection is only for an ACME challenge. It
// has to be closed after the handshake.
func (h *Handshake) Challenge() bool {
	if h == nil {
		return false
	}
	made := h.recorded.Load()
	return made != nil && made.challenge
}

// Decide is whether a request may be served on its connection.
type Decision uint8

// The verdicts. The zero value serves nothing.
const (
	// Misdirected: the connection was made with other options than the host
	// has, or the host cannot be parsed. Respond with 421; the client connects
	// again.
	Misdirected Decision = iota
	// Refused: the host's options are invalid. Respond with 503.
	Refused
	// Serve: the connection was made with the host's options.
	Serve
)

// String is the verdict for logs.
func (v Decision) String() string {
	switch v {
	case Serve:
		return "serve"
	case Refused:
		return "refused"
	}
	return "misdirected"
}

// Decide decides whether a request for a host may be served on the connection
// that made the handshake. host is a Host header or an :authority, with or
// without a port.
//
// host may also be a wildcard such as *.example.com. A proxy that serves a
// request by a wildcard's rule checks the rule's host as well: the name itself
// can have other options.
func (s *Store) Decide(h *Handshake, host string) Decision {
	set, ok := s.selectOptions(host)
	if !ok {
		return Misdirected
	}
	if set.refused {
		return Refused
	}
	if made, ok := h.facts(); !ok || made.options != set.id {
		return Misdirected
	}
	return Serve
}
