package proxy

import (
	"net/netip"
	"time"

	"slipway.dev/slipway/internal/route"
)

// Record is what became of one request, for logs and metrics. Its texts are
// parts of the request and hold only during the call of Observe.
type Record struct {
	EntryPoint string
	Client     netip.Addr
	TLS        bool
	// Rule is nil when none took the request.
	Rule *route.Rule
	// TCPRoute is the route of a connection that was passed on as it is; such a
	// record has no request.
	TCPRoute *route.TCPRoute
	// Endpoint is the address that answered, empty when the edge did.
	Endpoint string
	Method   string
	Host     string
	Path     string
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
	// Received and Sent are bytes of bodies.
	Received, Sent int64
}
