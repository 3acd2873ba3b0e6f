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
	// maxTreeViewers bounds who looks at trees at a time.
	maxTreeViewers = 128
	// signOfLife is how often a stream says that it is there.
	signOfLife = 20 * time.Second
)

// treeWatches has the trees that somebody looks at: one feed for each Application,
// however many look at it. Its lock guards the viewers and what they are shown.
type treeWatches struct {
	service *Service

	mu      sync.Mutex
	viewers int
	shown   map[tracking.App]*shownTree
}

// shownTree is what the viewers of one Application are shown.
type shownTree struct {
	stop    context.CancelFunc
	viewers map[*treeViewer]struct{}
	tree    *runtimev1.ResourceTree
	// end is why there is no more; it is errDeleted in good order.
	end error
}

// treeViewer looks at one tree. As with a watcher, who is slow misses trees.
type treeViewer struct {
	watcher
	shown *shownTree
}

// join adds somebody who looks. The first one starts the feed.
func (w *treeWatches) join(place tracking.App) (*treeViewer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.viewers >= maxTreeViewers {
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("too many people look at the resources of this runtime: try again later"))
	}
	w.viewers++
	shown := w.shown[place]
	if shown == nil {
		ctx, stop := context.WithCancel(context.Background())
		shown = &shownTree{stop: stop, viewers: map[*treeViewer]struct{}{}}
		w.shown[place] = shown
		go w.run(ctx, place, shown)
	}
	joined := &treeViewer{watcher{place: place, signal: make(chan struct{}, 1)}, shown}
	shown.viewers[joined] = struct{}{}
	joined.wake() // what is known already
	return joined, nil
}

// leave takes somebody away. The last one ends the feed.
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

// forget has the next one who looks start again. The lock is held.
func (w *treeWatches) forget(place tracking.App, shown *shownTree) {
	if w.shown[place] == shown {
		delete(w.shown, place)
	}
}

// run feeds the viewers of one Application.
func (w *treeWatches) run(ctx context.Context, place tracking.App, shown *shownTree) {
	defer shown.stop()
	change := func(apply func()) {
		w.mu.Lock()
		defer w.mu.Unlock()
		apply()
		for viewer := range shown.viewers {
			viewer.wake()
		}
	}
	feed := newTreeFeed(w.service, place, func(tree *runtimev1.ResourceTree) { change(func() { shown.tree = tree }) })
	err := feed.run(ctx)
	change(func() {
		shown.end = err
		w.forget(place, shown)
	})
}

// state is what a viewer is shown now.
func (w *treeWatches) state(viewer *treeViewer) (tree *runtimev1.ResourceTree, end error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return viewer.shown.tree, viewer.shown.end
}

// WatchTree sends the tree of an Application now and whenever it changes.
func (s *Service) WatchTree(ctx context.Context, request *connect.Request[runtimev1.WatchTreeRequest], stream *connect.ServerStream[runtimev1.WatchTreeResponse]) error {
	place, err := s.place(request.Msg.GetRef())
	if err != nil {
		return err
	}
	viewer, err := s.trees.join(place)
	if err != nil {
		return err
	}
	defer s.trees.leave(viewer)
	alive := time.NewTicker(signOfLife)
	defer alive.Stop()
	var sent *runtimev1.ResourceTree
	for {
		select {
		case <-ctx.Done():
			return s.streamEnd(ctx)
		case <-alive.C:
			if err := stream.Send(&runtimev1.WatchTreeResponse{}); err != nil {
				return s.fault(err, place)
			}
			continue
		case <-viewer.signal:
		}
		tree, end := s.trees.state(viewer)
		if tree != sent {
			if err := stream.Send(&runtimev1.WatchTreeResponse{Tree: tree}); err != nil {
				return s.fault(err, place)
			}
			sent = tree
		}
		switch {
		case errors.Is(end, errDeleted):
			return stream.Send(&runtimev1.WatchTreeResponse{Deleted: true})
		case end != nil:
			return s.fault(end, place)
		}
	}
}
