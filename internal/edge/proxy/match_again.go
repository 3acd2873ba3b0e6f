package proxy

import "slipway.dev/slipway/internal/edge/filter"

// matchAgain finds the rule of a path that directives have changed, and runs its filters.
// The request is that of the client with another path of the same host, so it gets no
// further than the client could itself. The filters of the first rule are finished, and
// the record keeps the path of the client.
func (x *exchange) matchAgain() (local *filter.LocalResponse) {
	if x.ran > 0 {
		x.rule.chain.Done(x.filters, x.ran)
		x.ran = 0
	}
	// Copies: later filters write into the memory of the path.
	x.request.Path, x.request.Query = string(x.filters.Path), string(x.filters.Query)
	if local := x.lookup(x.conn.proxy.program.Load()); local != nil {
		return local
	}
	if local := x.admit(); local != nil {
		return local
	}
	chain := x.rule.chain
	x.filters.Restart(chain.Marks())
	if edits := x.conn.from.Edits; len(edits) > 0 {
		x.filters.ResponseEdits = append(x.filters.ResponseEdits, edits...)
	}
	x.describe()
	if chain.Empty() {
		return nil
	}
	x.ran, local = chain.Request(x.filters)
	x.record.User = x.filters.User
	return local
}
