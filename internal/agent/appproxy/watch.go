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
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// maxWatchers bounds the streams of Applications.
const maxWatchers = 256

// firstListTimeout is how long a stream waits for the first list of the API
// server.
const firstListTimeout = 30 * time.Second

// sharedWatch is one watch of Applications in each namespace, shared by all
// streams. It runs while there are streams, and caches the last state.
type sharedWatch struct {
	inspector  *inspect.Inspector
	namespaces []string
	log        *slog.Logger

	mu       sync.Mutex
	watchers map[*watcher]struct{}
	stop     context.CancelFunc
	// run counts the starts of the watch, so that an earlier run that ends late
	// cannot write into the state of the next.
	run    int
	listed map[string]bool
	cached map[tracking.App]*unstructured.Unstructured
}

// watcher is the subscription of one stream to one Application, or to all of them
// without a place. It holds one signal at most, and the receiver reads the current
// state: a slow one skips states and never grows a queue.
type watcher struct {
	place  tracking.App
	signal chan struct{}
}

// newSharedWatch returns a watch that is not started.
func newSharedWatch(inspector *inspect.Inspector, namespaces []string, log *slog.Logger) *sharedWatch {
	return &sharedWatch{inspector: inspector, namespaces: namespaces, log: log, watchers: map[*watcher]struct{}{}}
}

// join adds a stream. The first one starts the watch. Later ones get a signal
// at once for the cached state.
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
		joined.notify() // for the cached state
	}
	return joined, nil
}

// leave removes a stream. The last one stops the watch and drops its cache.
func (w *sharedWatch) leave(gone *watcher) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.watchers, gone)
	if len(w.watchers) == 0 && w.stop != nil {
		w.stop()
		w.stop, w.cached, w.listed = nil, nil, nil
	}
}

// notify signals a change without waiting.
func (r *watcher) notify() {
	select {
	case r.signal <- struct{}{}:
	default: // it has not taken the last one yet
	}
}

// begin starts the watch. The lock must be held. Its context is not that of a
// request: the watch outlives the stream that started it.
func (w *sharedWatch) begin() {
	ctx, stop := context.WithCancel(context.Background())
	w.run++
	w.stop, w.listed, w.cached = stop, map[string]bool{}, map[tracking.App]*unstructured.Unstructured{}
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
		w.update(namespace, run, found)
	})
	w.log.Debug("stopped watching Applications", "namespace", namespace, observe.KeyError, err)
}

// update stores all Applications of a namespace, and signals the streams of
// those that changed. The first list signals all streams of it.
func (w *sharedWatch) update(namespace string, run int, found []*unstructured.Unstructured) {
	w.mu.Lock()
	defer w.mu.Unlock()
	// One watch that was stopped may still deliver one list.
	if run != w.run || w.cached == nil {
		return
	}
	// Streams of Applications that do not exist wait for the first list too.
	first := !w.listed[namespace]
	w.listed[namespace] = true
	changed, present := map[tracking.App]bool{}, map[tracking.App]bool{}
	for _, object := range found {
		place := tracking.App{Namespace: object.GetNamespace(), Name: object.GetName()}
		present[place] = true
		before := w.cached[place]
		if before == nil || before.GetUID() != object.GetUID() || before.GetResourceVersion() != object.GetResourceVersion() {
			w.cached[place], changed[place] = object, true
		}
	}
	for place := range w.cached {
		if !present[place] && (namespace == everyNamespace || place.Namespace == namespace) {
			delete(w.cached, place)
			changed[place] = true
		}
	}
	for each := range w.watchers {
		if first || changed[each.place] || each.place == (tracking.App{}) && len(changed) > 0 {
			each.notify()
		}
	}
}

// state returns the cached Application. ready is false before the first list of
// its namespace.
func (w *sharedWatch) state(place tracking.App) (object *unstructured.Unstructured, ready bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cached[place], w.listed[place.Namespace] || w.listed[everyNamespace]
}

// WatchApplication streams an Application: now and after each change. For a
// deleted one the last message has Deleted set.
func (s *Service) WatchApplication(ctx context.Context, request *connect.Request[runtimev1.WatchApplicationRequest], stream *connect.ServerStream[runtimev1.WatchApplicationResponse]) error {
	return s.StreamApplication(ctx, request.Msg.GetRef(), stream.Send)
}

// StreamApplication is WatchApplication for a caller in this process.
func (s *Service) StreamApplication(ctx context.Context, ref *runtimev1.ApplicationRef, send func(*runtimev1.WatchApplicationResponse) error) error {
	place, err := s.resolveRef(ref)
	if err != nil {
		return err
	}
	looking, err := s.watch.join(place)
	if err != nil {
		return err
	}
	defer s.watch.leave(looking)
	// A watch that was not listed yet gives no signal, so a stream needs a
	// timeout of its own.
	late := time.NewTimer(firstListTimeout)
	defer late.Stop()
	sent := ""
	for {
		select {
		case <-ctx.Done():
			return s.streamEnd(ctx)
		case <-late.C:
			if _, ready := s.watch.state(place); !ready {
				return connect.NewError(connect.CodeUnavailable, errors.New("the API server of the cluster does not respond: try again later"))
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
			return send(deletedApplication(place))
		// Signals are coalesced and may come without a change.
		case object.GetResourceVersion() == sent:
			continue
		}
		if err := s.sendState(ctx, send, object); err != nil {
			return s.toConnectError(err, place)
		}
		sent = object.GetResourceVersion()
	}
}

// sendState sends an Application, masked like every other response. The right to
// get it is checked each time: its project, and the policies, may have changed.
func (s *Service) sendState(ctx context.Context, send func(*runtimev1.WatchApplicationResponse) error, object *unstructured.Unstructured) error {
	app, err := inspect.Decode(object)
	if err != nil {
		return err
	}
	can, err := s.accessOf(ctx)
	if err == nil {
		err = can.require(app, permission.Get)
	}
	if err != nil {
		return err
	}
	detail, err := detailOf(app, can)
	if err != nil {
		return err
	}
	return send(&runtimev1.WatchApplicationResponse{Application: detail})
}

// deletedApplication is the last message about an Application.
func deletedApplication(place tracking.App) *runtimev1.WatchApplicationResponse {
	return &runtimev1.WatchApplicationResponse{Application: &runtimev1.ApplicationDetail{Ref: refOf(place)}, Deleted: true}
}

// streamEnd is the error of a stream that ends by its context: by the timeout,
// on which clients reconnect, or by the client.
func (s *Service) streamEnd(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return connect.NewError(connect.CodeAborted, errors.New("the stream reached its maximum length: request it again"))
	}
	return connect.NewError(connect.CodeCanceled, errors.New("the request was ended"))
}
