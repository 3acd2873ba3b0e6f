package appproxy

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"connectrpc.com/connect"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// maxWatchers bounds who looks at a time.
const maxWatchers = 256

// syncPatience is how long somebody waits for the first list.
const syncPatience = 30 * time.Second

// sharedWatch is one watch of Applications in each namespace for all who look. It
// runs while somebody looks, and knows what it saw last.
type sharedWatch struct {
	inspector  *inspect.Inspector
	namespaces []string
	log        *slog.Logger

	mu       sync.Mutex
	watchers map[*watcher]struct{}
	stop     context.CancelFunc
	// run counts the times it was started, so that a run that ends late cannot
	// write into the next.
	run    int
	listed map[string]bool
	known  map[tracking.App]*unstructured.Unstructured
}

// watcher looks at one Application. It holds one signal at most: whoever takes it
// asks for the state, so a slow one misses states and never grows a queue.
type watcher struct {
	place  tracking.App
	signal chan struct{}
}

func newSharedWatch(inspector *inspect.Inspector, namespaces []string, log *slog.Logger) *sharedWatch {
	return &sharedWatch{inspector: inspector, namespaces: namespaces, log: log, watchers: map[*watcher]struct{}{}}
}

// join adds somebody who looks. The first one starts the watch.
func (w *sharedWatch) join(place tracking.App) (*watcher, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watchers) >= maxWatchers {
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("too many people look at Applications of this runtime: try again later"))
	}
	joined := &watcher{place: place, signal: make(chan struct{}, 1)}
	w.watchers[joined] = struct{}{}
	if len(w.watchers) == 1 {
		w.begin()
	} else {
		joined.wake() // what is known already
	}
	return joined, nil
}

// leave takes somebody away. The last one ends the watch.
func (w *sharedWatch) leave(gone *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watchers, gone)
	if len(w.watchers) == 0 && w.stop != nil {
		w.stop()
		w.stop, w.known, w.listed = nil, nil, nil
	}
}

func (r *watcher) wake() {
	select {
	case r.signal <- struct{}{}:
	default: // it has not taken the last one yet
	}
}

// begin starts the watch. The lock is held.
func (w *sharedWatch) begin() {
	ctx, stop := context.WithCancel(context.Background())
	w.run++
	w.stop, w.listed, w.known = stop, map[string]bool{}, map[tracking.App]*unstructured.Unstructured{}
	for _, namespace := range w.namespaces {
		go w.follow(ctx, namespace, w.run)
	}
}

// follow watches one namespace until the context is done.
func (w *sharedWatch) follow(ctx context.Context, namespace string, run int) {
	place := namespace
	if namespace == everyNamespace {
		place = metav1.NamespaceAll
	}
	err := kube.Follow(ctx, w.inspector.Applications(place), metav1.ListOptions{}, nil, func(found []*unstructured.Unstructured) {
		w.saw(namespace, run, found)
	})
	w.log.Debug("nobody looks at Applications any more", "namespace", namespace, observe.KeyError, err)
}

// saw takes all Applications of a namespace, and wakes who looks at a changed one.
func (w *sharedWatch) saw(namespace string, run int, found []*unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if run != w.run || w.known == nil {
		return
	}
	first := !w.listed[namespace]
	w.listed[namespace] = true
	changed, present := map[tracking.App]bool{}, map[tracking.App]bool{}
	for _, object := range found {
		place := tracking.App{Namespace: object.GetNamespace(), Name: object.GetName()}
		present[place] = true
		before := w.known[place]
		if before == nil || before.GetUID() != object.GetUID() || before.GetResourceVersion() != object.GetResourceVersion() {
			w.known[place], changed[place] = object, true
		}
	}
	for place := range w.known {
		if !present[place] && (namespace == everyNamespace || place.Namespace == namespace) {
			delete(w.known, place)
			changed[place] = true
		}
	}
	for each := range w.watchers {
		if first || changed[each.place] {
			each.wake()
		}
	}
}

// state is an Application as it was seen last. ready is false before the first
// list of its namespace.
func (w *sharedWatch) state(place tracking.App) (object *unstructured.Unstructured, ready bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[place], w.listed[place.Namespace] || w.listed[everyNamespace]
}

// WatchApplication sends an Application now and whenever it changes.
func (s *Service) WatchApplication(ctx context.Context, request *connect.Request[runtimev1.WatchApplicationRequest], stream *connect.ServerStream[runtimev1.WatchApplicationResponse]) error {
	place, err := s.place(request.Msg.GetRef())
	if err != nil {
		return err
	}
	looking, err := s.watch.join(place)
	if err != nil {
		return err
	}
	defer s.watch.leave(looking)
	late := time.NewTimer(syncPatience)
	defer late.Stop()
	sent := ""
	for {
		select {
		case <-ctx.Done():
			return s.streamEnd(ctx)
		case <-late.C:
			if _, ready := s.watch.state(place); !ready {
				return connect.NewError(connect.CodeUnavailable, errors.New("the API server of the cluster does not answer: try again later"))
			}
			continue
		case <-looking.signal:
		}
		object, ready := s.watch.state(place)
		switch {
		case !ready:
			continue
		case object == nil && sent == "":
			return notFound(place)
		case object == nil:
			return stream.Send(&runtimev1.WatchApplicationResponse{
				Application: &runtimev1.ApplicationDetail{Ref: refOf(place)}, Deleted: true,
			})
		case object.GetResourceVersion() == sent:
			continue
		}
		if err := s.sendState(stream, object); err != nil {
			return s.fault(err, place)
		}
		sent = object.GetResourceVersion()
	}
}

func (s *Service) sendState(stream *connect.ServerStream[runtimev1.WatchApplicationResponse], object *unstructured.Unstructured) error {
	app, err := inspect.Decode(object)
	if err != nil {
		return err
	}
	detail, err := detailOf(app)
	if err != nil {
		return err
	}
	return stream.Send(&runtimev1.WatchApplicationResponse{Application: detail})
}

// streamEnd says why a stream ended that has no end of its own.
func (s *Service) streamEnd(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeAborted, errors.New("the stream is as long as one may be: ask again"))
	}
	return connect.NewError(connect.CodeCanceled, errors.New("the request was ended"))
}
