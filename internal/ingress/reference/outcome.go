package reference

import "slipway.dev/slipway/internal/route"

// Transport is the parsed declaration of a transport to a backend, with the
// authorities and certificates that it refers to.
type Transport struct {
	// TLS is nil if the declaration has no TLS settings.
	TLS *route.UpstreamTLS
	// Timeouts are for the rules that use the backend; zero means not declared.
	Timeouts route.Timeouts
	// HTTP1Only disables HTTP/2 to a backend with TLS.
	HTTP1Only    bool
	Authorities  []*route.Authority
	Certificates []*route.Certificate
}

// TLSConditions are parsed TLS options, without hosts, with the authorities that
// they refer to.
type TLSConditions struct {
	Options     route.TLSOptions
	Authorities []*route.Authority
}
