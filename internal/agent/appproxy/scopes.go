package appproxy

import (
	"context"
	"errors"
	"sync"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/kube"
)

// maxScopes bounds what is followed at a time for all trees: each is a watch at an
// API server.
const maxScopes = 1000

// scopeWatches follows what trees are read from: each scope once, for all trees
// that have something of it, and as long as there is one.
type scopeWatches struct {
	mu   sync.Mutex
	open map[scopeAt]*scopeWatch
}

// scopeAt is a scope in a cluster.
type scopeAt struct {
	cluster *kube.Cluster
	inspect.Scope
}

// scopeWatch is one that is followed. The lock of scopeWatches guards it.
type scopeWatch struct {
	stop  context.CancelFunc
	feeds map[*treeFeed]struct{}
	// heard: the API server has answered, so that changes are told.
	heard bool
}

// join has a tree told of changes.
func (w *scopeWatches) join(at scopeAt, feed *treeFeed) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	followed := w.open[at]
	if followed == nil {
		if len(w.open) >= maxScopes {
			return connect.NewError(connect.CodeResourceExhausted, errors.New("too many different resources of this runtime are followed: close some applications, or try again later"))
		}
		ctx, stop := context.WithCancel(context.Background())
		followed = &scopeWatch{stop: stop, feeds: map[*treeFeed]struct{}{}}
		w.open[at] = followed
		inspector := &inspect.Inspector{Cluster: at.cluster, Manager: fieldManager}
		go inspector.FollowScope(ctx, at.Scope, func(change inspect.Change) { w.tell(at, followed, change) })
	}
	followed.feeds[feed] = struct{}{}
	return nil
}

// leave ends that. The last one ends the watch.
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

// tell passes a change on, without the lock.
func (w *scopeWatches) tell(at scopeAt, followed *scopeWatch, change inspect.Change) {
	w.mu.Lock()
	followed.heard = true
	feeds := make([]*treeFeed, 0, len(followed.feeds))
	for feed := range followed.feeds {
		feeds = append(feeds, feed)
	}
	w.mu.Unlock()
	for _, feed := range feeds {
		feed.stir(at.Scope, change)
	}
}

// hears reports whether changes of a scope are told.
func (w *scopeWatches) hears(at scopeAt) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	followed := w.open[at]
	return followed != nil && followed.heard
}
