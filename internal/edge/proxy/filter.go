package proxy

import "slipway.dev/slipway/internal/edge/filter"

// filter runs the rule's filters on the request, in the order of the policies.
// One of them may end the request with a local response. Filters whose Request
// has run see the response too, and are finished with the exchange: ran counts
// them.
func (x *exchange) filter() (local *filter.LocalResponse) {
	chain := x.rule.chain
	if chain.Empty() {
		return nil
	}
	if chain.Slow() {
		x.leave()
	}
	x.beginFilters(chain.Marks())
	x.describe()
	x.ran, local = chain.Request(x.filters)
	x.record.User = x.filters.User
	return local
}

// beginFilters resets what filters see, with room for their marks. The edits of
// the connection come before those of filters, so that filters win.
func (x *exchange) beginFilters(marks int) {
	x.filters.Begin(&x.conn.head, marks)
	if edits := x.conn.from.Edits; len(edits) > 0 {
		x.filters.ResponseEdits = append(x.filters.ResponseEdits, edits...)
	}
}

// describe fills in what filters and tracers read of the request. A rule without
// filters skips it, unless the request is traced.
func (x *exchange) describe() {
	from := &x.conn.from
	x.filters.Now = x.record.Began
	x.filters.Client = x.record.Client
	x.filters.Trusted = from.Trusted
	x.filters.TLS = x.request.TLS
	x.filters.ServerPort = from.Local.Port()
	x.filters.Certificate = from.Certificate
	x.filters.Bufferer = x
}
