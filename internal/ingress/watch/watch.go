package watch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/kube"
)

// Options say what is read.
type Options struct {
	// Namespaces are those that are read; empty is all of them.
	Namespaces []string
	// Selector selects Ingresses by their labels. It is for nothing else.
	Selector string
	// NoClasses leaves IngressClasses out.
	NoClasses bool
	// NoNodes leaves nodes out.
	NoNodes bool
	// Home is a namespace whose Secrets can be wanted besides, for what the edge
	// keeps there itself; empty is none.
	Home string
	// Log gets failures, each once; nil is none.
	Log *slog.Logger
}

// Event is one thing that happened. Exactly one of Put, Delete and Kind is set.
type Event struct {
	// Put is an object for Snapshot.Put.
	Put any
	// Delete names an object for Snapshot.Delete. The name of an EndpointSlice
	// is its own.
	Delete snapshot.Ref
	// Kind and State are for Snapshot.SetKind.
	Kind  snapshot.Kind
	State snapshot.KindState
	// At is when it was received.
	At time.Time
}

// Watcher reads a cluster. Next, Want and Synced are for the goroutine that owns
// the Snapshot; Failures is for any.
type Watcher struct {
	cluster  *kube.Cluster
	options  Options
	timing   timing
	queue    *queue
	failures *failures
	secrets  *secretReader

	// wantsChanged holds one signal at most: something new is wanted, and must be
	// watched.
	wantsChanged chan struct{}

	mu      sync.Mutex
	started bool
	// unlisted are the feeds whose first list has not been taken from the queue.
	unlisted map[feedName]struct{}
	// kinds are the custom kinds that were ever wanted, and what Next has said
	// about them.
	kinds map[snapshot.Kind]snapshot.KindState
	// needed counts the objects of each of them that are wanted now.
	needed map[snapshot.Kind]int
}

// timing is how fast and how much. Tests change it.
type timing struct {
	// first and longest are the pauses between attempts of a reflector, or to
	// read a Secret, while the API server does not answer.
	first, longest time.Duration
	// deniedRetry is the pause where asking again soon is of no use: the kind does not
	// exist, or we have no right to it.
	deniedRetry time.Duration
	// requestTimeout is how long the reading of one Secret may take.
	requestTimeout time.Duration
	// queueLimit is how many events wait for Next at most, besides one for each
	// Secret.
	queueLimit int
}

func defaultTiming() timing {
	return timing{
		first: 200 * time.Millisecond, longest: 4 * time.Second,
		deniedRetry: 30 * time.Second, requestTimeout: 15 * time.Second, queueLimit: 1024,
	}
}

// backoff is the backoff of requests that fail. The jitter keeps replicas that
// lost the API server at the same time from coming back at the same time.
func (p timing) backoff() backoff.Policy {
	return backoff.Policy{First: p.first, Longest: p.longest, JitterUp: 0.5}
}

// errStopped is what Next returns when there is nobody left to wait for.
var errStopped = errors.New("the watcher has stopped")

// New makes a Watcher. It sends nothing before Run.
func New(cluster *kube.Cluster, options Options) (*Watcher, error) {
	if _, err := labels.Parse(options.Selector); err != nil {
		return nil, fmt.Errorf("providers.kubernetesIngress.labelSelector %q: %w", options.Selector, err)
	}
	for _, namespace := range options.Namespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return nil, fmt.Errorf("providers.kubernetesIngress.namespaces: %q is no namespace: %s", namespace, strings.Join(problems, "; "))
		}
	}
	options.Namespaces = slices.Compact(slices.Sorted(slices.Values(options.Namespaces)))
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	w := &Watcher{
		cluster: cluster, options: options, timing: defaultTiming(),
		failures:     newFailures(options.Log),
		wantsChanged: make(chan struct{}, 1),
		unlisted:     map[feedName]struct{}{},
		kinds:        map[snapshot.Kind]snapshot.KindState{},
		needed:       map[snapshot.Kind]int{},
	}
	w.queue = newQueue(w.timing.queueLimit)
	w.secrets = newSecretReader(w)
	for _, source := range w.builtIn() {
		w.unlisted[source.name] = struct{}{}
	}
	return w, nil
}

// Run reads until the context is done, and returns when all of it has stopped.
// A Watcher runs once.
func (w *Watcher) Run(ctx context.Context) error {
	w.mu.Lock()
	again := w.started
	w.started = true
	w.mu.Unlock()
	if again {
		return errors.New("a watcher runs once: make a new one")
	}
	defer w.queue.close()
	var running sync.WaitGroup
	defer running.Wait()
	start := func(sources []source) {
		for _, source := range sources {
			running.Go(func() { w.follow(ctx, source) })
		}
	}
	start(w.builtIn())
	running.Go(func() { w.secrets.run(ctx) })
	followed := map[snapshot.Kind]bool{}
	for {
		for _, kind := range w.unfollowed(followed) {
			followed[kind] = true
			start(w.sourcesOf(ctx, kind))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.wantsChanged:
		}
	}
}

// Next waits for events and returns all that are queued. The slice is empty when
// nothing has happened but Synced may have become true.
func (w *Watcher) Next(ctx context.Context) ([]Event, error) {
	items, err := w.queue.take(ctx)
	if err != nil {
		return nil, err
	}
	events := make([]Event, 0, len(items))
	for _, item := range items {
		if !item.silent {
			events = append(events, item.event)
		}
		if item.delivered != nil {
			item.delivered()
		}
	}
	return events, nil
}

// Want says which Secrets and which objects of custom kinds are needed that were
// not before, and which are not any more. References to other kinds are passed
// over. A Secret that is not wanted any more is forgotten, with an event; a
// custom kind goes on being followed.
func (w *Watcher) Want(wanted, unwanted []snapshot.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ref := range wanted {
		switch {
		case ref.Kind == snapshot.Secret && ref.Name != "":
			w.ensureFollowed(snapshot.Secret)
			w.secrets.want(name{ref.Namespace, ref.Name})
		case ref.Kind.Custom():
			w.needed[ref.Kind]++
			w.ensureFollowed(ref.Kind)
		}
	}
	for _, ref := range unwanted {
		switch {
		case ref.Kind == snapshot.Secret && ref.Name != "":
			w.secrets.unwant(name{ref.Namespace, ref.Name})
		case ref.Kind.Custom():
			if w.needed[ref.Kind]--; w.needed[ref.Kind] <= 0 {
				delete(w.needed, ref.Kind)
			}
		}
	}
}

// ensureFollowed sees to it that a kind is watched. The caller holds mu.
func (w *Watcher) ensureFollowed(kind snapshot.Kind) {
	if _, already := w.kinds[kind]; already {
		return
	}
	w.kinds[kind] = snapshot.KindPending
	if kind == snapshot.Secret {
		for _, namespace := range w.secretScopes() {
			w.unlisted[feedName{secretResource, namespace}] = struct{}{}
		}
	}
	select {
	case w.wantsChanged <- struct{}{}:
	default:
	}
}

// unfollowed are the kinds that are wanted and not among those followed.
func (w *Watcher) unfollowed(followed map[snapshot.Kind]bool) []snapshot.Kind {
	w.mu.Lock()
	defer w.mu.Unlock()
	var kinds []snapshot.Kind
	for kind := range w.kinds {
		if !followed[kind] {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// Synced reports whether Next has returned everything: each first list, and all
// that is wanted, as far as it exists and may be read. What Next has returned is
// in the Snapshot when its owner asks, and what that needs has been wanted.
func (w *Watcher) Synced() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.started || len(w.unlisted) > 0 {
		return false
	}
	for kind := range w.needed {
		if _, exists := resourceOf(kind); exists && w.kinds[kind] == snapshot.KindPending {
			return false
		}
	}
	return w.secrets.allDelivered()
}

// Failures are the kinds that cannot be read at the moment, by the names of
// their resources, with the reason.
func (w *Watcher) Failures() map[string]error { return w.failures.current() }

// listed notes that the first list of a feed has been taken from the queue, or
// that there will be none.
func (w *Watcher) listed(feed feedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unlisted, feed)
}

// queueListed puts the news that the list of a feed is complete behind the list.
func (w *Watcher) queueListed(ctx context.Context, feed feedName) {
	// Only the end of the context keeps it out of the queue.
	_ = w.queue.push(ctx, item{silent: true, delivered: func() { w.listed(feed) }})
}

// scopes are the namespaces to ask for: an empty name asks for all at once.
func (w *Watcher) scopes() []string {
	if len(w.options.Namespaces) == 0 {
		return []string{""}
	}
	return w.options.Namespaces
}

// secretScopes are the namespaces to ask for Secrets.
func (w *Watcher) secretScopes() []string {
	home := w.options.Home
	if home == "" || len(w.options.Namespaces) == 0 || slices.Contains(w.options.Namespaces, home) {
		return w.scopes()
	}
	return append(slices.Clone(w.options.Namespaces), home)
}

// reads reports whether Secrets of a namespace are read.
func (w *Watcher) reads(namespace string) bool {
	return len(w.options.Namespaces) == 0 || slices.Contains(w.secretScopes(), namespace)
}
