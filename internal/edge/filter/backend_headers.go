package filter

import (
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/route"
)

// BackendHeaders are the edits of headers for one backend of a rule.
type BackendHeaders struct{ request, response []h1.Edit }

// WithBackendHeaders compiles the changes of headers for one backend. The chain that
// it returns guards the names too: which backend a request gets is not known when its
// trailers are checked.
func (c Chain) WithBackendHeaders(ref *route.BackendRef) (Chain, *BackendHeaders, error) {
	made := &BackendHeaders{}
	guards := compiler{chain: Chain{guarded: c.guarded[:len(c.guarded):len(c.guarded)]}}
	if change := ref.RequestHeaders; change != nil {
		compiled, err := newRequestHeaders(change, &guards)
		if err != nil {
			return Chain{}, nil, placed("requestHeaders", err)
		}
		made.request, c.guarded = compiled.edits, guards.chain.guarded
	}
	if change := ref.ResponseHeaders; change != nil {
		compiled, err := newResponseHeaders(change)
		if err != nil {
			return Chain{}, nil, placed("responseHeaders", err)
		}
		made.response = compiled.edits
	}
	return c, made, nil
}

// Apply adds the edits to an exchange whose backend is known: before the policies of
// the rule edit the response, and after they have edited the request.
func (h *BackendHeaders) Apply(x *Exchange) {
	x.RequestEdits = append(x.RequestEdits, h.request...)
	x.ResponseEdits = append(x.ResponseEdits, h.response...)
}
