package proxy

import (
	"reflect"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/prefetch"
	"slipway.dev/slipway/internal/edge/program"
)

// The local responses of requests that no rule serves.
var (
	noProgram = &filter.LocalResponse{Status: 503, Reason: "NotReady"}
	noRoute   = &filter.LocalResponse{Status: 404, Reason: "NoRoute"}
)

// route finds the rule of the request in the current Program. The rule that is
// found here serves the request to its end, even when a new Program is swapped
// in meanwhile. An edge that is out of memory refuses before the lookup, which
// is the cheapest place.
func (x *exchange) route() *filter.LocalResponse {
	c := x.conn
	uri, request := &c.head.URI, &x.request
	request.EntryPoint, request.Listener, request.TLS = c.from.EntryPoint, c.from.Listener, x.secure()
	request.Method, request.Host = normalize.View(c.head.Method()), normalize.View(uri.Host)
	request.Path, request.Query = normalize.View(uri.Path), normalize.View(uri.Query)
	request.Header = x
	x.counters = c.proxy.counters.unrouted
	x.record.Client = x.clientAddress()
	request.Client = x.record.Client
	x.record.Method, x.record.Host, x.record.Path = x.request.Method, x.request.Host, x.request.Path
	x.record.Head = &c.head
	compiled := c.proxy.program.Load()
	switch {
	case compiled == nil:
		return noProgram
	case c.proxy.full():
		return overloaded
	case c.head.Passed && c.proxy.looped(&c.head):
		return loopDetected
	case c.from.Hosts != nil && c.from.Hosts.misdirected(c.from.Handshake.ServerName(), x.request.Host):
		return Misdirected
	}
	return x.lookup(compiled)
}

// lookup finds the rule in a Program.
func (x *exchange) lookup(compiled *program.Program) *filter.LocalResponse {
	found := compiled.Lookup(&x.request)
	if found.Rule == nil {
		return noRoute
	}
	x.record.Rule = found.Rule
	x.rule = found.Binding.(*binding)
	x.record.unrecorded, x.counters = &x.rule.unrecorded, x.rule.counters
	// With thousands of rules none of this is in a cache: ask for it now, and the
	// phases up to its use hide the wait (decision 0025).
	prefetch.ForReading(x.rule.only)
	x.rule.counters.prefetch()
	return nil
}

// reroute finds the rule of the request again after its backend left the table, and
// reports whether another one serves it now. A body may take seconds to arrive, and by then
// the rule can have another backend.
//
// The filters of the first rule have run, and see the response. So the new rule must treat
// requests as that one did, and only gives the request its backends.
func (x *exchange) reroute() bool {
	found := x.conn.proxy.program.Load().Lookup(&x.request)
	next, bound := found.Binding.(*binding)
	if !bound || next.rule == x.rule.rule || next.refused != nil || !next.replaces(x.rule) {
		return false
	}
	rerouted := *next
	rerouted.chain = x.rule.chain // it has the state of the filters that ran
	x.rule, x.record.Rule = &rerouted, found.Rule
	x.record.unrecorded, x.counters = &x.rule.unrecorded, x.rule.counters
	x.attempt.target = target{}
	return true
}

// replaces reports whether a rule forwards requests that the filters of another one have
// admitted and changed. Headers of a backend are among the filters.
func (b *binding) replaces(other *binding) bool {
	return b.backends != nil && b.backends.headers == nil && other.backends.headers == nil &&
		reflect.DeepEqual(b.rule.Policies, other.rule.Policies) && reflect.DeepEqual(b.rule.Directives, other.rule.Directives) &&
		reflect.DeepEqual(b.rule.Rewrite, other.rule.Rewrite)
}

// Value implements the Header of a program's request: it gives the conditions of rules
// value number i, from 0, of the headers with a name.
func (x *exchange) Value(name string, i int) (string, bool) {
	head := &x.conn.head
	for line := range head.Len() {
		if !normalize.SameField(head.Name(line), normalize.Bytes(name)) {
			continue
		}
		if i == 0 {
			return normalize.View(head.Value(line)), true
		}
		i--
	}
	return "", false
}
