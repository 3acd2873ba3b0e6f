package appset

import (
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
	"slipway.dev/slipway/internal/gitops/feed"
	"slipway.dev/slipway/internal/kube"
)

// ControllerOptions are what a Controller needs.
type ControllerOptions struct {
	Cluster *kube.Cluster
	Facts   Facts
	// ControlNamespace is where AppProjects and cluster Secrets are. Empty is the
	// namespace of the Cluster.
	ControlNamespace string
	// Namespaces are where ApplicationSets are read. Empty is the control namespace
	// only, and * all.
	Namespaces []string
	// Interval is how often Git is asked when a set does not say; zero is 3
	// minutes.
	Interval time.Duration
	// Reporter is who tells Events.
	Reporter kube.Reporter
	// Log is nil for none.
	Log *slog.Logger
}

const (
	defaultInterval = 3 * time.Minute
	// shortest is how often Git is asked at most.
	shortest = 5 * time.Second
	// settle is how long changes of the health of Applications are gathered before
	// they are written.
	settle  = 5 * time.Second
	workers = 4
)

// Controller keeps the Applications of ApplicationSets. A set is looked at when
// it, one of its Applications or a cluster changed, when Refresh says so, and at
// an interval if it reads Git.
type Controller struct {
	options ControllerOptions
	book    *book
	// sets are followed from the start. The rest is only when there is a set: many
	// clusters have none, and then Applications are not read a second time.
	sets, rest []*feed.Feed
	needed     chan struct{} // closed when there is a set
	need       func()
	queue      workqueue.TypedRateLimitingInterface[types.NamespacedName]
	started    atomic.Bool
}

// NewController makes a Controller. It sends nothing before Run.
func NewController(options ControllerOptions) *Controller {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.ControlNamespace == "" {
		options.ControlNamespace = options.Cluster.Namespace
	}
	if options.Interval <= 0 {
		options.Interval = defaultInterval
	}
	c := &Controller{options: options, book: newBook(), needed: make(chan struct{})}
	c.need = sync.OnceFunc(func() { close(c.needed) })
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](time.Second, options.Interval)
	c.queue = workqueue.NewTypedRateLimitingQueue(limiter)
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

// scopes are the namespaces to ask for; an empty one asks for all.
func (c *Controller) scopes() []string {
	switch {
	case len(c.options.Namespaces) == 0:
		return []string{c.options.ControlNamespace}
	case slices.Contains(c.options.Namespaces, "*"):
		return []string{""}
	}
	return slices.Compact(slices.Sorted(slices.Values(c.options.Namespaces)))
}

// Run keeps the Applications until the context is done, and returns when
// everything has stopped. A Controller runs once.
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
	follow(c.sets)
	select {
	case <-c.needed:
	case <-ctx.Done():
		return nil
	}
	follow(c.rest)
	for _, one := range slices.Concat(c.sets, c.rest) {
		select {
		case <-one.Heard():
		case <-ctx.Done():
			return nil
		}
	}
	// Nothing is done before everything was read: what is not known would be
	// created again.
	for range workers {
		running.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	return nil
}

// Ready says what is missing, if not everything was read once.
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

// Refresh has the sets generated anew that read a repository. Whoever calls it
// sees to it that Facts do not believe an older answer.
func (c *Controller) Refresh(repoURL string) {
	for _, name := range c.book.reading(repoURL) {
		c.regenerate(name)
	}
}

// regenerate asks for a set to be generated and compared.
func (c *Controller) regenerate(name types.NamespacedName) {
	c.book.due(name)
	c.queue.Add(name)
}

// work takes sets from the queue. Each is with one worker at a time.
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
		c.queue.Done(name)
		if ctx.Err() != nil {
			return
		}
	}
}

// wait is when a set is generated next, zero for never. A little chance keeps
// sets from asking all at once.
func (c *Controller) wait(interval time.Duration) time.Duration {
	if interval <= 0 {
		return 0
	}
	interval = max(interval, shortest)
	return backoff.Jitter(interval, 0.1)
}

// describe names a set for people.
func describe(name types.NamespacedName) string {
	return fmt.Sprintf("ApplicationSet %s/%s", name.Namespace, name.Name)
}
