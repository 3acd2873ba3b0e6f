package watch

import (
	"cmp"
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

// Options configure what a Watcher reads.
type Options struct {
	// Namespaces are those that are read; empty means all.
	Namespaces []string
	// Selector selects Ingresses by their labels. Other kinds are not affected.
	Selector string
	// NoClasses leaves IngressClasses out.
	NoClasses bool
	// NoNodes leaves nodes out.
	NoNodes bool
	// Gateways reads the kinds of Gateway API, as far as the cluster has them, and
	// the labels of namespaces.
	Gateways bool
	// Traefik reads the routes of Traefik, as far as the cluster has their kinds, and
	// TraefikSelector selects them by their labels.
	Traefik         bool
	TraefikSelector string
	// Home is a further namespace whose Secrets can be wanted: that of the edge,
	// which has the challenges; empty means none.
	Home string
	// Log gets failures, each once; it may be nil.
	Log *slog.Logger
}

// Event is one change of the cluster. Exactly one of Put, Delete and Kind is set.
type Event struct {
	// Put is an object for Snapshot.Put.
	Put any
	// Delete is an object for Snapshot.Delete. An EndpointSlice has its own name
	// here, not that of its Service.
	Delete snapshot.Ref
	// Kind and State are for Snapshot.SetKind.
	Kind  snapshot.Kind
	State snapshot.KindState
	// At is when it was received, the start of propagation_seconds.
	At time.Time
}

// Watcher watches a cluster. Next, Want, Synced and Versions are for the goroutine that
// owns the Snapshot; Failures is safe for concurrent use.
type Watcher struct {
	cluster  *kube.Cluster
	options  Options
	timing   timing
	queue    *queue
	failures *failures
	secrets  *secretReader
	versions versions

	// wantsChanged holds at most one signal that a new kind is wanted and must be
	// watched.
	wantsChanged chan struct{}

	mu      sync.Mutex
	started bool
	// unlisted are the sources whose first list Next has not returned yet.
	unlisted map[feedName]struct{}
	// kinds are the kinds that were ever wanted, with the state that Next has
	// returned.
	kinds map[snapshot.Kind]snapshot.KindState
	// needed counts the wanted objects of each custom kind.
	needed map[snapshot.Kind]int
	// owners has the namespaces whose Pods and ReplicaSets are wanted.
	owners map[string]*ownersWatch
}

// timing has the delays, timeouts and limits. Tests change them.
type timing struct {
	// first and longest bound the backoff of reflectors and of reads of Secrets
	// while the API server fails.
	first, longest time.Duration
	// deniedRetry is the delay after a kind was found missing or forbidden, which
	// rarely changes.
	deniedRetry time.Duration
	// requestTimeout bounds the read of one Secret.
	requestTimeout time.Duration
	// queueLimit bounds the queued events, besides one for each Secret.
	queueLimit int
}

// defaultTiming returns the timing of a real cluster.
func defaultTiming() timing {
	return timing{
		first: 200 * time.Millisecond, longest: 4 * time.Second,
		deniedRetry: 30 * time.Second, requestTimeout: 15 * time.Second, queueLimit: 1024,
	}
}

// backoff is the policy for requests that fail. The jitter keeps replicas apart that
// lost the API server at the same moment.
func (p timing) backoff() backoff.Policy {
	return backoff.Policy{First: p.first, Longest: p.longest, JitterUp: 0.5}
}

// errStopped is returned by Next after the end of Run.
var errStopped = errors.New("the watcher has stopped")

// Validate returns what is wrong with the options.
func (o Options) Validate() error {
	var problems []error
	if _, err := labels.Parse(o.Selector); err != nil {
		problems = append(problems, fmt.Errorf("providers.kubernetesIngress.labelSelector %q: %w; write one such as app=shop,tier!=test", o.Selector, err))
	}
	if _, err := labels.Parse(o.TraefikSelector); err != nil {
		problems = append(problems, fmt.Errorf("providers.kubernetesCRD.labelSelector %q: %w; write one such as app=shop,tier!=test", o.TraefikSelector, err))
	}
	for _, namespace := range o.Namespaces {
		if faults := validation.IsDNS1123Label(namespace); len(faults) > 0 {
			problems = append(problems, fmt.Errorf("providers.kubernetesIngress.namespaces: %q is not a namespace: %s", namespace, strings.Join(faults, "; ")))
		}
	}
	return errors.Join(problems...)
}

// New returns a Watcher. It sends nothing before Run.
func New(cluster *kube.Cluster, options Options) (*Watcher, error) {
	if err := options.Validate(); err != nil {
		return nil, err
	}
	options.Namespaces = slices.Compact(slices.Sorted(slices.Values(options.Namespaces)))
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	w := &Watcher{
		cluster: cluster, options: options, timing: defaultTiming(),
		failures:     newFailures(options.Log),
		wantsChanged: make(chan struct{}, 1),
		unlisted:     map[feedName]struct{}{},
		kinds:        map[snapshot.Kind]snapshot.KindState{},
		needed:       map[snapshot.Kind]int{},
		owners:       map[string]*ownersWatch{},
		versions:     versions{read: map[string]uint64{}, upTo: map[string]uint64{}},
	}
	w.queue = newQueue(w.timing.queueLimit)
	w.secrets = newSecretReader(w)
	for _, source := range w.builtIn() {
		w.unlisted[source.name] = struct{}{}
	}
	if options.Gateways {
		for _, kind := range snapshot.GatewayKinds() {
			w.Want([]snapshot.Ref{{Kind: kind}}, nil)
		}
	}
	if options.Traefik {
		for _, kind := range snapshot.TraefikUnits() {
			w.Want([]snapshot.Ref{{Kind: kind}}, nil)
		}
	}
	return w, nil
}

// Run watches until the context is done, and returns when all reflectors have
// stopped. A Watcher runs once. The queue is closed after them, so that none
// pushes into a closed queue.
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
		w.startOwners(ctx, &running)
		select {
		case <-ctx.Done():
			return nil
		case <-w.wantsChanged:
		}
	}
}

// Next blocks until there are events and returns all that are queued. The slice
// is empty if nothing changed but Synced may have become true. The callbacks of
// items run here, on the goroutine that owns the Snapshot, so that Synced
// agrees with what Next has returned.
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

// Wake makes Next return, also without events.
func (w *Watcher) Wake() { w.queue.tryPush(item{silent: true}) }

// Want adds and removes Secrets, objects of custom kinds, and namespaces whose Pods and
// ReplicaSets are needed. References to other kinds are ignored. A Secret that is unwanted is dropped,
// with an event; a custom kind stays watched, because stopping and starting
// reflectors with each edit of an Ingress would cost more than a watch.
func (w *Watcher) Want(wanted, unwanted []snapshot.Ref) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ref := range wanted {
		switch {
		case ref.Kind == snapshot.Secret && ref.Name != "":
			w.ensureFollowed(snapshot.Secret)
			w.secrets.want(name{ref.Namespace, ref.Name})
		case ref.Kind == snapshot.Pod && ref.Name == "":
			w.wantOwners(ref.Namespace)
		case ref.Kind.Custom():
			w.needed[ref.Kind]++
			w.ensureFollowed(ref.Kind)
		}
	}
	for _, ref := range unwanted {
		switch {
		case ref.Kind == snapshot.Secret && ref.Name != "":
			w.secrets.unwant(name{ref.Namespace, ref.Name})
		case ref.Kind == snapshot.Pod && ref.Name == "":
			w.unwantOwners(ref.Namespace)
		case ref.Kind.Custom():
			if w.needed[ref.Kind]--; w.needed[ref.Kind] <= 0 {
				delete(w.needed, ref.Kind)
			}
		}
	}
}

// ensureFollowed starts the watch of a kind, if it is new. The caller holds mu.
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
	w.wake()
}

// wake makes Run look for what is wanted.
func (w *Watcher) wake() {
	select {
	case w.wantsChanged <- struct{}{}:
	default:
	}
}

// unfollowed returns the wanted kinds without a reflector.
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
// wanted objects, as far as they exist and may be read. The owner of the Snapshot
// calls it after it has applied the events and called Want, so true means that the
// table is complete.
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
	for _, watch := range w.owners {
		if !watch.stopped && watch.delivered == snapshot.KindPending {
			return false
		}
	}
	return w.secrets.allDelivered()
}

// Failures returns the resources that cannot be read at the moment, with the
// reason.
func (w *Watcher) Failures() map[string]error { return w.failures.current() }

// listed records that Next has returned the first list of a source, or that there
// will be none.
func (w *Watcher) listed(feed feedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.unlisted, feed)
}

// queueListed queues the end of a list behind its objects.
func (w *Watcher) queueListed(ctx context.Context, feed feedName) {
	// push fails only at the end of the context.
	_ = w.queue.push(ctx, item{silent: true, delivered: func() { w.listed(feed) }})
}

// scopes returns the namespaces of requests; an empty name means all at once.
func (w *Watcher) scopes() []string {
	if len(w.options.Namespaces) == 0 {
		return []string{""}
	}
	return w.options.Namespaces
}

// secretScopes returns the namespaces of requests for Secrets.
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
