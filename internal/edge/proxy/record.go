package proxy

import (
	"net/netip"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/route"
)

// Record is the outcome of one request, for logs, metrics and traces. Its texts
// and heads are parts of the messages and are valid only during the call of
// Observe.
type Record struct {
	Connection
	Timing
	Traffic

	// Client is the address that sent the request: that of Peer, unless a
	// trusted proxy names another.
	Client netip.Addr
	// User is the name that a filter authenticated; empty when none did.
	User string
	// Rule is nil when none matched the request.
	Rule *route.Rule
	// unrecorded is the rule's, from a place that the request has read already.
	unrecorded *route.Unrecorded
	// TCPRoute is set in place of Rule for a connection that is passed on as it
	// is. Method, heads and status are empty then.
	TCPRoute *route.TCPRoute
	// Backend and Endpoint are those of the last attempt. Backend is nil when
	// there was none; Endpoint is an address, empty when no connection was made.
	Backend  *route.BackendID
	Endpoint string
	// Revision is stable or canary for an endpoint of a Release; empty for any other.
	Revision string
	Method   string
	Host     string
	Path     string
	// Head is the request as it came, nil when it could not be read. Response is
	// the backend's response, nil when the edge responded itself.
	Head     *h1.Head
	Response *h1.ResponseHead
	// Status is the one that the client got; 0 when it got none.
	Status int
	// Reason is why the edge responded itself, or what went wrong.
	Reason string
	// Attempts is how often the request was sent to a backend.
	Attempts int
	// Upgraded reports that the connection became a tunnel.
	Upgraded bool
}

// Connection is the part of a Record that all requests of a connection share.
type Connection struct {
	EntryPoint string
	// Peer is the other end of the connection.
	Peer netip.AddrPort
	// Protocol is HTTP/1.1, HTTP/2 or HTTP/3.
	Protocol string
	// TLS reports that the connection is encrypted; version and cipher suite are
	// the numbers of crypto/tls.
	TLS                     bool
	TLSVersion, CipherSuite uint16
}

// Timing is when the phases of a request happened.
type Timing struct {
	Began    time.Time
	Duration time.Duration
	// Connected is when the last attempt had its connection, Responded when it
	// had the head of the response. Both count from Began; 0 is never.
	Connected, Responded time.Duration
	// Upstream is how long the backend was in charge: Duration without it is the
	// edge's own overhead.
	Upstream time.Duration
}

// Traffic is the number of bytes in bodies.
type Traffic struct {
	// Received and Sent are bytes as the client sent and got them, Origin those
	// of the backend's response before it was compressed.
	Received, Sent, Origin int64
}

// Unrecorded is what the rule keeps out of logs, metrics and traces.
func (r *Record) Unrecorded() route.Unrecorded {
	switch {
	case r.unrecorded != nil:
		return *r.unrecorded
	case r.Rule == nil:
		return route.Unrecorded{}
	}
	return r.Rule.Unrecorded
}

// Retries is how often the request was sent again.
func (r *Record) Retries() int { return max(0, r.Attempts-1) }

// finish ends the exchange, however it ended. Filters come first, then the
// observers: heads and texts are parts of buffers that connections lend, so
// nothing may be released before.
func (x *exchange) finish() {
	if x.ran > 0 {
		x.rule.chain.Done(x.filters, x.ran)
	}
	x.observe()
	x.attempt.release()
	x.body.release()
	x.mirrorBody.release()
	x.body, x.mirrorBody = nil, nil
	if x.page != nil {
		x.page.Close()
		x.page = nil
	}
}

// observe completes the record and passes it to the counters of the rule, the
// tracer and Config.Observe.
func (x *exchange) observe() {
	observe := x.conn.proxy.cfg.Observe
	if observe == nil && x.finishTrace == nil && x.counters == nil {
		return
	}
	x.record.Duration = time.Since(x.record.Began)
	x.count()
	if x.proxied > 0 {
		x.record.Upstream = x.record.Duration - x.proxied
	}
	if x.finishTrace != nil {
		x.finishTrace()
	}
	if observe != nil {
		observe(&x.record)
	}
}

// count adds the exchange to those of its rule. A tunnel counts with the time to
// its response: how long it stays open is no measure of the backend.
func (x *exchange) count() {
	if x.counters == nil {
		return
	}
	took := x.record.Duration
	if x.record.Upgraded {
		took = x.record.Responded
	}
	x.counters.observe(x.record.Status, took)
}
