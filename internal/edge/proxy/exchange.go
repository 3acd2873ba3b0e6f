package proxy

import (
	"time"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/program"
)

// exchange is one request and its response. It is part of its conn and reset by
// one assignment in [conn.begin], so nothing of a request can leak into the
// next one. What it points to is released by finish.
type exchange struct {
	conn    *conn
	request program.Request // what rules are matched against
	rule    *binding        // nil until a rule has matched
	record  Record

	// filters is the exchange as filters see it; ran is how many of the rule's
	// filters have run, for their Response and Done.
	filters *filter.Exchange
	ran     int

	counters    *requestCounters // of the rule, nil where it is in no metric
	proxied     time.Duration    // when proxying began, after the start; 0 is never
	finishTrace func()           // ends the spans of the tracer

	body       *bufferedBody       // the request's body, when it is in memory
	continued  bool                // 100 Continue was sent
	departed   bool                // the event loop had to be left: see leave
	mirrors    []*filter.Mirror    // wait for the body of the request
	mirrorBody *bufferedBody       // what of that body has passed
	page       *filter.Subresponse // the page for an error

	attempt attempt
}

// begin resets the exchange for the request whose head was read. The struct is
// cleared in its place: a literal that reads the connection would be built on the
// stack and then copied, which is a tenth of the work of this package.
func (c *conn) begin(now time.Time) *exchange {
	x := &c.exchange
	if c.dirty { // a pooled conn is clear, and has one exchange if it is a stream
		*x = exchange{}
	}
	c.dirty = true
	x.conn, x.filters, x.attempt.x = c, &c.buffers.filters, x
	x.record.Began = now
	from, to := &c.from, &x.record.Connection
	to.EntryPoint, to.Peer, to.Protocol = from.EntryPoint, from.Client, from.Protocol
	to.TLS, to.TLSVersion, to.CipherSuite = from.TLS, from.TLSVersion, from.CipherSuite
	x.beginFilters(0)
	return x
}

// serve takes the request through its phases, in the order in which they
// happen:
//
//	route    finds the rule                                    route.go
//	admit    refuses what must not be served here or now       admit.go
//	filter   runs the rule's filters                           filter.go
//	again    finds the rule of a path that directives changed  match_again.go
//	buffer   reads the body, where the rule buffers it         buffer.go
//	pick     chooses a backend and an endpoint, and connects   pick.go
//	send     writes the request                                send.go
//	receive  reads the head of the response                    receive.go
//	respond  writes the response to the client                 respond.go
//	record   counts, logs and traces, and releases memory      record.go
//
// Each phase up to the backend returns nil to go on, or the local response that
// ends the request. pick, send, receive and respond are one attempt, which may
// be followed by another: see [exchange.proxyWithRetries]. serve reports whether
// the connection can take another request.
func (x *exchange) serve() (keepAlive bool) {
	defer x.finish()
	local := x.route()
	if local == nil {
		local = x.admit()
	}
	if local == nil {
		local = x.filter()
	}
	for local == filter.Rerouted {
		local = x.matchAgain()
	}
	if local == nil {
		local = x.rule.localResponse()
	}
	if local == nil {
		local = x.buffer()
	}
	if local == nil {
		keepAlive, local = x.proxy()
	}
	if local != nil {
		keepAlive = x.writeLocalResponse(local)
	}
	return keepAlive
}
