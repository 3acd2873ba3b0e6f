package appproxy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/kube"
)

// maxScopes bounds the watches of all trees together.
const maxScopes = 1000

// scopeWatches watches the objects that trees are read from. All trees that
// read a scope share one watch, which ends with the last of them.
type scopeWatches struct {
	mu   sync.Mutex
	open map[scopeAt]*scopeWatch
}

// scopeAt is a scope in a cluster.
type scopeAt struct {
	cluster *kube.Cluster
	inspect.Scope
}

// scopeWatch is one watch. The lock of scopeWatches guards it.
type scopeWatch struct {
	stop  context.CancelFunc
	feeds map[*treeFeed]struct{}
	// established is set once the API server has sent something, so that
	// changes are no longer missed.
	established bool
}

// join subscribes a tree to changes of a scope. The first subscriber starts the
// watch.
func (w *scopeWatches) join(at scopeAt, feed *treeFeed) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	followed := w.open[at]
	if followed == nil {
		if len(w.open) >= maxScopes {
			return connect.NewError(connect.CodeResourceExhausted, errors.New("too many different resources of this runtime are followed: close some applications, or try again later"))
		}
		// The watch outlives the request of its first tree.
		ctx, stop := context.WithCancel(context.Background())
		followed = &scopeWatch{stop: stop, feeds: map[*treeFeed]struct{}{}}
		w.open[at] = followed
		inspector := &inspect.Inspector{Cluster: at.cluster, Manager: fieldManager}
		go inspector.FollowScope(ctx, at.Scope, func(change inspect.Change) { w.notify(at, followed, change) })
	}
	followed.feeds[feed] = struct{}{}
	return nil
}

// leave unsubscribes a tree. The last one stops the watch.
func (w *scopeWatches) leave(at scopeAt, feed *treeFeed) {
	w.mu.Lock()
	defer w.mu.Unlock()
	followed := w.open[at]
	if followed == nil {
		return
	}
	delete(followed.feeds, feed)
	if len(followed.feeds) == 0 {
		followed.stop()
		delete(w.open, at)
	}
}

// notify sends a change to all subscribed trees. It calls them without the
// lock, as they take their own.
func (w *scopeWatches) notify(at scopeAt, followed *scopeWatch, change inspect.Change) {
	w.mu.Lock()
	followed.established = true
	// Copied, because feeds join and leave while they are notified.
	feeds := slices.Collect(maps.Keys(followed.feeds))
	w.mu.Unlock()
	for _, feed := range feeds {
		feed.onChange(at.Scope, change)
	}
}

// isEstablished reports whether changes of a scope are received.
func (w *scopeWatches) isEstablished(at scopeAt) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	followed := w.open[at]
	return followed != nil && followed.established
}
