package inspect

import (
	"context"
	"maps"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// TreeReader reads the tree of one Application again and again. What the
// Application has itself is listed again only where it may have changed; what these
// own is, each time. It is for one goroutine.
type TreeReader struct {
	strict Strict
	known  map[Scope]map[tracking.Key]identity
}

// NewTreeReader makes one that knows nothing yet.
func NewTreeReader(strict Strict) *TreeReader {
	return &TreeReader{strict: strict, known: map[Scope]map[tracking.Key]identity{}}
}

// Keep forgets all scopes but those that still hold.
func (r *TreeReader) Keep(holds func(Scope) bool) {
	maps.DeleteFunc(r.known, func(scope Scope, _ map[tracking.Key]identity) bool { return !holds(scope) })
}

// Tree reads the tree.
func (r *TreeReader) Tree(ctx context.Context, app *Application, skipped func(kind, namespace string)) (*Tree, error) {
	return r.strict.tree(ctx, app, &marked{strict: r.strict, found: map[tracking.Key]identity{}, reader: r}, skipped)
}

// recall adds what is known of a scope, and reports whether something is.
func (r *TreeReader) recall(scope Scope, into map[tracking.Key]identity) bool {
	if r == nil || r.known[scope] == nil {
		return false
	}
	maps.Copy(into, r.known[scope])
	return true
}

// remember keeps what was listed; nil is what cannot be.
func (r *TreeReader) remember(scope Scope, found map[tracking.Key]identity) {
	if r != nil && found != nil {
		r.known[scope] = found
	}
}
