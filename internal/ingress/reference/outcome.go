package reference

import "slipway.dev/slipway/internal/route"

// Transport is what a declaration says about the way to a backend, with what
// the table needs besides.
type Transport struct {
	// TLS is nil when the declaration says nothing about it.
	TLS *route.UpstreamTLS
	// Timeouts are for the rules that use the backend. What is zero is not said.
	Timeouts route.Timeouts
	// HTTP1Only keeps an encrypted backend from being spoken to by HTTP/2.
	HTTP1Only    bool
	Authorities  []*route.Authority
	Certificates []*route.Certificate
}

// TLSConditions are the options of a declaration, without hosts, with what the
// table needs besides.
type TLSConditions struct {
	Options     route.TLSOptions
	Authorities []*route.Authority
}
