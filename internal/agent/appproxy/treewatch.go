package appproxy

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

const (
	// maxTreeViewers bounds the streams of trees.
	maxTreeViewers = 128
	// keepaliveInterval is how often an idle stream sends an empty message, so
	// that proxies do not close it.
	keepaliveInterval = 20 * time.Second
)

// treeWatches has the feeds of trees: one for each Application, shared by all
// of its viewers. The lock guards the viewers and the trees they are sent.
type treeWatches struct {
	service *Service

	mu      sync.Mutex
	viewers int
	shown   map[tracking.App]*shownTree
}

// shownTree is the state that the viewers of one Application share.
type shownTree struct {
	stop    context.CancelFunc
	viewers map[*treeViewer]struct{}
	tree    *runtimev1.ResourceTree
	// end is why the feed ended; errDeleted for a deleted Application.
	end error
}

// treeViewer is one stream of a tree. Like a watcher, a slow one skips trees.
type treeViewer struct {
	watcher
	shown *shownTree
}

// join adds a viewer. The first one of an Application starts the feed.
func (w *treeWatches) join(place tracking.App) (*treeViewer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.viewers >= maxTreeViewers {
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("too many people look at the resources of this runtime: try again later"))
	}
	w.viewers++
	shown := w.shown[place]
	if shown == nil {
		// The feed outlives the request of its first viewer.
		ctx, stop := context.WithCancel(context.Background())
		shown = &shownTree{stop: stop, viewers: map[*treeViewer]struct{}{}}
		w.shown[place] = shown
		go w.run(ctx, place, shown)
	}
	joined := &treeViewer{watcher{place: place, signal: make(chan struct{}, 1)}, shown}
	shown.viewers[joined] = struct{}{}
	// The viewer starts with the tree that is cached.
	joined.notify() // for the cached state
	return joined, nil
}

// leave removes a viewer. The last one of an Application stops the feed.
func (w *treeWatches) leave(gone *treeViewer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.viewers--
	delete(gone.shown.viewers, gone)
	if len(gone.shown.viewers) == 0 {
		gone.shown.stop()
		w.forget(gone.place, gone.shown)
	}
}

// forget makes the next viewer start a new feed. The lock must be held.
func (w *treeWatches) forget(place tracking.App, shown *shownTree) {
	if w.shown[place] == shown {
		delete(w.shown, place)
	}
}

// run runs the feed of one Application and stores its results for the viewers.
func (w *treeWatches) run(ctx context.Context, place tracking.App, shown *shownTree) {
	defer shown.stop()
	// change applies a result under the lock and signals all viewers.
	change := func(apply func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		apply()
		for viewer := range shown.viewers {
			viewer.notify()
		}
	}
	feed := newTreeFeed(w.service, place, func(tree *runtimev1.ResourceTree) { change(func() { shown.tree = tree }) })
	err := feed.run(ctx)
	change(func() {
		shown.end = err
		w.forget(place, shown)
	})
}

// state returns the current tree of a viewer, and why there will be no other.
func (w *treeWatches) state(viewer *treeViewer) (tree *runtimev1.ResourceTree, end error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return viewer.shown.tree, viewer.shown.end
}

// WatchTree streams the tree of an Application: now and after each change.
func (s *Service) WatchTree(ctx context.Context, request *connect.Request[runtimev1.WatchTreeRequest], stream *connect.ServerStream[runtimev1.WatchTreeResponse]) error {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return err
	}
	place := app.ID()
	viewer, err := s.trees.join(place)
	if err != nil {
		return err
	}
	defer s.trees.leave(viewer)
	alive := time.NewTicker(keepaliveInterval)
	defer alive.Stop()
	var sent *runtimev1.ResourceTree
	for {
		select {
		case <-ctx.Done():
			return s.streamEnd(ctx)
		case <-alive.C:
			if err := stream.Send(&runtimev1.WatchTreeResponse{}); err != nil {
				return s.toConnectError(err, place)
			}
			continue
		case <-viewer.signal:
		}
		tree, end := s.trees.state(viewer)
		// Trees are compared by pointer: each published one is new.
		if tree != sent {
			if err := stream.Send(&runtimev1.WatchTreeResponse{Tree: tree}); err != nil {
				return s.toConnectError(err, place)
			}
			sent = tree
		}
		switch {
		case errors.Is(end, errDeleted):
			return stream.Send(&runtimev1.WatchTreeResponse{Deleted: true})
		case end != nil:
			return s.toConnectError(end, place)
		}
	}
}
