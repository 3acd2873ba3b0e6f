package proxy

import (
	"net/netip"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/route"
)

// Record is what became of one request, for logs, metrics and traces. Its texts
// and heads are parts of the messages and hold only during the call of Observe.
type Record struct {
	EntryPoint string
	// Peer is the other end of the connection, Client who sent the request: the
	// same, unless a trusted proxy names another.
	Peer   netip.AddrPort
	Client netip.Addr
	// User is who a filter found the client to be; empty when none did.
	User string
	// Protocol is HTTP/1.1, HTTP/2 or HTTP/3.
	Protocol string
	// TLS says that the connection is encrypted, the numbers how; they are those
	// of crypto/tls.
	TLS                     bool
	TLSVersion, CipherSuite uint16
	// Rule is nil when none took the request.
	Rule *route.Rule
	// unrecorded is its Unrecorded, from where the request has been already.
	unrecorded *route.Unrecorded
	// TCPRoute is set in place of Rule for a connection that is passed on as it
	// is. Method, heads and status are empty then.
	TCPRoute *route.TCPRoute
	// Backend and Endpoint are who was asked last; Backend is nil when nobody was,
	// Endpoint its address, empty when no connection was made.
	Backend  *route.BackendID
	Endpoint string
	Method   string
	Host     string
	Path     string
	// Head is the request as it came, nil when it could not be read. Response is
	// the backend's answer, nil when the edge answered itself.
	Head     *h1.Head
	Response *h1.ResponseHead
	// Status is what the client got; 0 when it got nothing.
	Status int
	// Reason says why the edge answered itself, or what went wrong.
	Reason string
	// Attempts is how often a backend was asked.
	Attempts int
	// Upgraded says that the connection became a tunnel.
	Upgraded bool
	Began    time.Time
	Duration time.Duration
	// Connected is when the connection of the last attempt was there, Answered
	// when the head of its answer was, and Asked how long the backend was in
	// charge: Duration without Asked is the edge's own. The first two count from
	// Began; 0 is never.
	Connected, Responded, Upstream time.Duration
	// Received and Sent are bytes of bodies as the client sent and got them,
	// Origin those of the backend's answer before it was encoded.
	Received, Sent, Origin int64
}

// Unrecorded is what the rule wants left out.
func (r *Record) Unrecorded() route.Unrecorded {
	switch {
	case r.unrecorded != nil:
		return *r.unrecorded
	case r.Rule == nil:
		return route.Unrecorded{}
	}
	return r.Rule.Unrecorded
}

// Retries is how often the backend was asked again.
func (r *Record) Retries() int { return max(0, r.Attempts-1) }
