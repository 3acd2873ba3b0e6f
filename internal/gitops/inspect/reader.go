package inspect

import (
	"context"
	"maps"

	"slipway.dev/slipway/internal/gitops/tracking"
)

// TreeReader reads the tree of one Application repeatedly. The Application's
// own objects are listed again only after a change; the objects they own are
// listed each time. One goroutine uses it.
type TreeReader struct {
	strict Strict
	cached map[Scope]map[tracking.Key]identity
}

// NewTreeReader returns a reader with an empty cache.
func NewTreeReader(strict Strict) *TreeReader {
	return &TreeReader{strict: strict, cached: map[Scope]map[tracking.Key]identity{}}
}

// Keep drops the cached scopes for which holds returns false.
func (r *TreeReader) Keep(holds func(Scope) bool) {
	maps.DeleteFunc(r.cached, func(scope Scope, _ map[tracking.Key]identity) bool { return !holds(scope) })
}

// Tree reads the tree.
func (r *TreeReader) Tree(ctx context.Context, app *Application, skipped func(kind, namespace string)) (*Tree, error) {
	return r.strict.tree(ctx, app, &marked{strict: r.strict, found: map[tracking.Key]identity{}, reader: r}, skipped)
}

// fromCache adds the cached objects of a scope, and reports whether it was
// cached.
func (r *TreeReader) fromCache(scope Scope, into map[tracking.Key]identity) bool {
	if r == nil || r.cached[scope] == nil {
		return false
	}
	maps.Copy(into, r.cached[scope])
	return true
}

// toCache stores a listed scope. nil cannot be cached.
func (r *TreeReader) toCache(scope Scope, found map[tracking.Key]identity) {
	if r != nil && found != nil {
		r.cached[scope] = found
	}
}
