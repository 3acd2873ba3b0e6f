package watch

import (
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
)

// ownerResources are the resources by which an endpoint is found to belong to a
// revision. Only their metadata is read.
func ownerResources() map[snapshot.Kind]schema.GroupVersionResource {
	return map[snapshot.Kind]schema.GroupVersionResource{
		snapshot.Pod:        corev1.SchemeGroupVersion.WithResource("pods"),
		snapshot.ReplicaSet: appsv1.SchemeGroupVersion.WithResource("replicasets"),
	}
}

// ownersWatch is the watch of the Pods and ReplicaSets of a namespace, which runs only
// while a Release is there.
type ownersWatch struct {
	watcher   *Watcher
	namespace string
	// before is the watch of the same namespace that ends first.
	before *ownersWatch
	done   chan struct{}

	// Watcher.mu guards these. delivered is the state that Next has returned.
	started, stopped bool
	cancel           context.CancelFunc
	delivered        snapshot.KindState

	// mu is held while a state is queued, so that states are queued in the order in
	// which they are set.
	mu    sync.Mutex
	of    map[snapshot.Kind]snapshot.KindState
	state snapshot.KindState
}

// wantOwners begins the watch of a namespace. The caller holds mu.
func (w *Watcher) wantOwners(namespace string) {
	before := w.owners[namespace]
	if before != nil && !before.stopped {
		return
	}
	w.owners[namespace] = &ownersWatch{watcher: w, namespace: namespace, before: before, done: make(chan struct{}), of: map[snapshot.Kind]snapshot.KindState{}}
	w.wake()
}

// unwantOwners ends the watch of a namespace. The caller holds mu.
func (w *Watcher) unwantOwners(namespace string) {
	watch := w.owners[namespace]
	if watch == nil || watch.stopped {
		return
	}
	watch.stopped = true
	switch {
	case watch.started:
		watch.cancel()
	case watch.before != nil:
		w.owners[namespace] = watch.before
	default:
		delete(w.owners, namespace)
	}
}

// startOwners starts the watches that are wanted and not started.
func (w *Watcher) startOwners(ctx context.Context, running *sync.WaitGroup) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, watch := range w.owners {
		if !watch.started {
			until, cancel := context.WithCancel(ctx)
			watch.started, watch.cancel = true, cancel
			running.Go(func() { watch.run(ctx, until) })
		}
	}
}

// run watches until the second context is done, and then removes what it has queued.
// The objects of an earlier watch of the namespace are removed first.
func (o *ownersWatch) run(ctx, until context.Context) {
	defer close(o.done)
	if o.before != nil {
		<-o.before.done
		o.before = nil
	}
	var mirrors []*mirror
	var running sync.WaitGroup
	for kind, resource := range ownerResources() {
		// The mirror outlives the watch: its objects are removed after it.
		objects := newMirror(ctx, o.watcher.queue, kind)
		objects.listed = func() { o.set(ctx, kind, snapshot.KindKnown) }
		mirrors = append(mirrors, objects)
		part := source{
			name: feedName{resource.Resource, o.namespace}, example: &metav1.PartialObjectMetadata{},
			requests: kube.NewListWatcher(o.watcher.cluster.Metadata.Resource(resource).Namespace(o.namespace), metav1.ListOptions{}),
			store:    func(context.Context) cache.ReflectorStore { return objects },
			observe:  o.observe(ctx, kind),
		}
		running.Go(func() { o.watcher.follow(until, part) })
	}
	running.Wait()
	if ctx.Err() != nil {
		return
	}
	for kind, resource := range ownerResources() {
		o.set(ctx, kind, snapshot.KindPending)
		for _, verb := range []string{"list", "watch"} {
			o.watcher.failures.note(resource.Resource, attempt{o.namespace, verb}, nil)
		}
	}
	for _, objects := range mirrors {
		objects.clear()
	}
	o.watcher.mu.Lock()
	defer o.watcher.mu.Unlock()
	if o.watcher.owners[o.namespace] == o {
		delete(o.watcher.owners, o.namespace)
	}
}

// observe returns what is called after a success and after a denial. What was read
// before stays through a few denials, as with other kinds.
func (o *ownersWatch) observe(ctx context.Context, kind snapshot.Kind) func(error) time.Duration {
	denials := 0
	return func(err error) time.Duration {
		if err == nil {
			denials = 0
			return 0
		}
		if denials++; o.current(kind) == snapshot.KindKnown && denials < denialsBelieved {
			return o.watcher.timing.first
		}
		o.set(ctx, kind, snapshot.KindForbidden)
		return backoff.Jitter(o.watcher.timing.deniedRetry, 0.3)
	}
}

// current returns the state of one of the two kinds.
func (o *ownersWatch) current(kind snapshot.Kind) snapshot.KindState {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.of[kind]
}

// set records the state of one of the two kinds, and queues that of the namespace if it
// changes: both have to be known.
func (o *ownersWatch) set(ctx context.Context, kind snapshot.Kind, state snapshot.KindState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of[kind] = state
	sum := snapshot.KindKnown
	for of := range ownerResources() {
		switch {
		case o.of[of] == snapshot.KindForbidden:
			sum = snapshot.KindForbidden
		case o.of[of] == snapshot.KindPending && sum != snapshot.KindForbidden:
			sum = snapshot.KindPending
		}
	}
	if sum == o.state {
		return
	}
	o.state = sum
	// push fails only at the end of the context.
	_ = o.watcher.queue.push(ctx, item{
		event:     Event{Put: &snapshot.OwnersState{Namespace: o.namespace, State: sum}, At: time.Now()},
		delivered: func() { o.markDelivered(sum) },
	})
}

// markDelivered is called by Next, on the goroutine of the Snapshot.
func (o *ownersWatch) markDelivered(state snapshot.KindState) {
	o.watcher.mu.Lock()
	defer o.watcher.mu.Unlock()
	o.delivered = state
}
