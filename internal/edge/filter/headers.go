package filter

import (
	"fmt"
	"slices"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/route"
)

// headerEdits compiles the edits of a policy once: first removals, then settings,
// then additions.
func headerEdits(set, add []route.HeaderValue, remove []string) ([]h1.Edit, error) {
	edits := make([]h1.Edit, 0, len(remove)+len(set)+len(add))
	for i, name := range remove {
		edit, err := h1.RemoveField(name)
		if err != nil {
			return nil, invalid(fmt.Sprintf("remove[%d]", i), "%v", err)
		}
		edits = append(edits, edit)
	}
	for i, header := range set {
		edit, err := h1.SetField(header.Name, header.Value)
		if err != nil {
			return nil, invalid(fmt.Sprintf("set[%d]", i), "%v", err)
		}
		edits = append(edits, edit)
	}
	for i, header := range add {
		edit, err := h1.AddField(header.Name, header.Value)
		if err != nil {
			return nil, invalid(fmt.Sprintf("add[%d]", i), "%v", err)
		}
		edits = append(edits, edit)
	}
	return slices.Clip(edits), nil
}

// requestHeaders changes the headers of requests. It guards the names that it
// removes or sets, so that no trailer of such a name reaches the backend.
type requestHeaders struct{ edits []h1.Edit }

func newRequestHeaders(a *route.RequestHeaders, c *compiler) (*requestHeaders, error) {
	c.guard(a.Remove...)
	for _, header := range a.Set {
		c.guard(header.Name)
	}
	edits, err := headerEdits(a.Set, a.Add, a.Remove)
	return &requestHeaders{edits: edits}, err
}

// Request implements [Filter].
func (f *requestHeaders) Request(x *Exchange) *LocalResponse {
	x.RequestEdits = append(x.RequestEdits, f.edits...)
	return nil
}

// responseHeaders changes the headers of responses, local ones included.
type responseHeaders struct{ edits []h1.Edit }

func newResponseHeaders(a *route.ResponseHeaders) (*responseHeaders, error) {
	edits, err := headerEdits(a.Set, a.Add, a.Remove)
	return &responseHeaders{edits: edits}, err
}

// Request implements [Filter].
func (f *responseHeaders) Request(*Exchange) *LocalResponse { return nil }

// Response implements [ResponseFilter].
func (f *responseHeaders) Response(x *Exchange, _ int) {
	x.ResponseEdits = append(x.ResponseEdits, f.edits...)
}
