package appset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/gitops/fair"
	"slipway.dev/slipway/internal/gitops/feed"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/kube"
)

// ControllerOptions configures a Controller.
type ControllerOptions struct {
	Cluster *kube.Cluster
	Facts   Facts
	// Generator generates Applications.
	Generator Generator
	// ControlNamespace has AppProjects and cluster Secrets. Empty is the
	// namespace of the Cluster.
	ControlNamespace string
	// Namespaces have ApplicationSets. Empty is the control namespace only, and
	// * all.
	Namespaces []string
	// Interval is the default interval of polling Git; zero is 3 minutes.
	Interval time.Duration
	// Reporter is the source of Events.
	Reporter kube.Reporter
	// Log may be nil.
	Log *slog.Logger
}

// Generator makes the Applications of a set, and passes each to take, as JSON. A
// render.Renderer does that in a worker.
type Generator interface {
	Generate(ctx context.Context, set map[string]any, facts generate.Facts, take func([]byte) error) error
}

const (
	defaultInterval = 3 * time.Minute
	// minInterval is the shortest interval of polling Git.
	minInterval = 5 * time.Second
	// statusDelay is how long changes of the health of Applications are
	// collected before the status is written.
	statusDelay = 5 * time.Second
	workers     = 4
)

// Controller reconciles the Applications of ApplicationSets. A set is
// reconciled when it, one of its Applications or a cluster changed, after
// Refresh, and at an interval if it reads Git.
type Controller struct {
	options ControllerOptions
	store   *store
	// sets are watched from the start. The rest is watched only once there is a
	// set: many clusters have none, and Applications need not be watched a
	// second time then.
	sets, rest []*feed.Feed
	// needed is closed by need when the first set is seen.
	needed chan struct{} // closed when there is a set
	need   func()
	queue  workqueue.TypedRateLimitingInterface[types.NamespacedName]
	order  *fair.Queue[types.NamespacedName]
	// paths evaluates the expressions of ignoreApplicationDifferences.
	paths   *jq.Evaluator
	reports reports
	started atomic.Bool
}

// NewController returns a Controller. It sends nothing before Run.
func NewController(options ControllerOptions) *Controller {
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	options.ControlNamespace = cmp.Or(options.ControlNamespace, options.Cluster.Namespace)
	if options.Interval <= 0 {
		options.Interval = defaultInterval
	}
	c := &Controller{options: options, store: newStore(), needed: make(chan struct{}), paths: jq.New()}
	c.need = sync.OnceFunc(func() { close(c.needed) })
	// Failures are retried from one second up to the polling interval.
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Second, options.Interval)
	// Projects take turns: sets of one that wait for Git do not delay all others.
	c.order = fair.NewQueue(c.store.projectsOf)
	c.queue = workqueue.NewTypedRateLimitingQueueWithConfig(limiter, workqueue.TypedRateLimitingQueueConfig[types.NamespacedName]{DelayingQueue: c.order.NewDelaying()})
	for _, namespace := range c.scopes() {
		c.sets = append(c.sets, feed.New(feed.Options{
			Resource: v1alpha1.SetResource(), Namespace: namespace, Put: c.setChanged, Gone: c.setGone, Log: options.Log,
		}))
		c.rest = append(c.rest, feed.New(feed.Options{
			Resource: v1alpha1.ApplicationResource(), Namespace: namespace, Put: c.applicationChanged, Gone: c.applicationGone, Log: options.Log,
		}))
	}
	c.rest = append(c.rest, feed.New(feed.Options{
		Resource: corev1.SchemeGroupVersion.WithResource("secrets"), Namespace: options.ControlNamespace, Selector: clusterSecrets,
		MetadataOnly: true, Put: c.clusterChanged, Gone: c.clusterGone, Log: options.Log,
	}))
	return c
}

// scopes returns the namespaces to watch; an empty one is all.
func (c *Controller) scopes() []string {
	switch {
	case len(c.options.Namespaces) == 0:
		return []string{c.options.ControlNamespace}
	case slices.Contains(c.options.Namespaces, "*"):
		return []string{""}
	}
	return slices.Compact(slices.Sorted(slices.Values(c.options.Namespaces)))
}

// Run reconciles until the context is done, and returns when everything has
// stopped. A Controller runs once.
func (c *Controller) Run(ctx context.Context) error {
	if c.started.Swap(true) {
		return errors.New("a controller of ApplicationSets runs once: make a new one")
	}
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown()
	follow := func(feeds []*feed.Feed) {
		for _, one := range feeds {
			running.Go(func() { one.Follow(ctx, c.options.Cluster) })
		}
	}
	// The sets first: without any, nothing else is watched.
	follow(c.sets)
	select {
	case <-c.needed:
	case <-ctx.Done():
		return nil
	}
	follow(c.rest)
	for _, one := range slices.Concat(c.sets, c.rest) {
		select {
		case <-one.Listed():
		case <-ctx.Done():
			return nil
		}
	}
	// Workers start after all first lists. An Application that is not in the
	// store yet would be created again.
	for range workers {
		running.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	return nil
}

// Ready returns an error while not everything was listed once. Before the first
// set only the watch of sets counts, because nothing else is watched.
func (c *Controller) Ready() error {
	feeds := c.sets
	select {
	case <-c.needed:
		feeds = slices.Concat(c.sets, c.rest)
	default:
	}
	for _, one := range feeds {
		if err := one.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// Refresh regenerates the sets that read what was pushed or changed. The caller
// drops the cached refs first.
func (c *Controller) Refresh(push webhook.Push) {
	for _, name := range c.store.setsReading(push) {
		c.regenerate(name)
	}
}

// regenerate queues a set for generation.
func (c *Controller) regenerate(name types.NamespacedName) {
	c.store.due(name)
	c.queue.Add(name)
}

// work processes the queue, which gives each set to one worker at a time. A
// failed set is retried with backoff.
func (c *Controller) work(ctx context.Context) {
	for {
		name, stop := c.queue.Get()
		if stop {
			return
		}
		again, err := c.pass(ctx, name)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			c.queue.AddRateLimited(name)
		default:
			c.queue.Forget(name)
			if again > 0 {
				c.queue.AddAfter(name, again)
			}
		}
		c.order.Release(name)
		c.queue.Done(name)
		if ctx.Err() != nil {
			return
		}
	}
}

// wait returns when a set is generated next; zero for never. The jitter keeps
// sets from polling all at once.
func (c *Controller) wait(interval time.Duration) time.Duration {
	if interval <= 0 {
		return 0
	}
	interval = max(interval, minInterval)
	return backoff.Jitter(interval, 0.1)
}

// describe names a set in logs.
func describe(name types.NamespacedName) string {
	return fmt.Sprintf("ApplicationSet %s/%s", name.Namespace, name.Name)
}
