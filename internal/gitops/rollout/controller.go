package rollout

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/feed"
	"slipway.dev/slipway/internal/kube"
)

const (
	workers = 4
	// resync is how often a Rollout is reconciled without an event: changes of the
	// Services and routes that it names are not watched.
	resync = 5 * time.Minute
	// checkInterval is how often it is checked whether the controller may start.
	checkInterval = 10 * time.Second
	// passTimeout bounds one pass.
	passTimeout = time.Minute
)

// Options configures a Controller.
type Options struct {
	Cluster *kube.Cluster
	// Namespaces have Rollouts. Empty is all.
	Namespaces []string
	// Reporter is the source of Events.
	Reporter kube.Reporter
	// Log may be nil.
	Log *slog.Logger
}

// Controller reconciles Rollouts.
type Controller struct {
	options Options
	reader  reader
	writer  writer
}

// New returns a Controller. It sends nothing before Run.
func New(options Options) *Controller {
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	return &Controller{options: options, reader: reader{options.Cluster}, writer: writer{options.Cluster}}
}

// Run reconciles until the context is done. It waits until the cluster has the kind and
// no controller of Argo Rollouts, and checks that again while it runs: the second
// controller is the one that stops.
func (c *Controller) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if !c.await(ctx) {
			return nil
		}
		running, stop := context.WithCancel(ctx)
		var parts sync.WaitGroup
		parts.Go(func() { c.reconcileUntil(running) })
		c.awaitOther(running)
		stop()
		parts.Wait()
	}
	return nil
}

// await waits until Rollouts may be reconciled. It returns false if the context is done
// before.
func (c *Controller) await(ctx context.Context) bool {
	reported := ""
	for {
		reason := c.blocked(ctx)
		if reason == "" {
			c.options.Log.Info("reconciling Rollouts")
			return true
		}
		if reason != reported {
			c.options.Log.Warn("Rollouts are not reconciled", "reason", reason)
			reported = reason
		}
		if backoff.Sleep(ctx, checkInterval) != nil {
			return false
		}
	}
}

// servesRuns: the cluster has AnalysisRuns.
func (c *Controller) servesRuns(ctx context.Context) bool {
	served, err := c.options.Cluster.Serves(ctx, v1alpha1.APIVersion, v1alpha1.AnalysisRunResource().Resource)
	return err == nil && served
}

// awaitOther returns when another controller or the kind of AnalysisRuns appears, or the
// context is done.
func (c *Controller) awaitOther(ctx context.Context) {
	withRuns := c.servesRuns(ctx)
	for {
		if backoff.Sleep(ctx, checkInterval) != nil {
			return
		}
		if reason, err := Other(ctx, c.options.Cluster, c.options.Namespaces); err == nil && reason != "" {
			c.options.Log.Warn("Rollouts are no longer reconciled", "reason", reason)
			return
		}
		// A kind that was installed since is watched after a new start.
		if c.servesRuns(ctx) != withRuns {
			return
		}
	}
}

// blocked is why Rollouts are not reconciled; empty if they may be.
func (c *Controller) blocked(ctx context.Context) string {
	served, err := c.options.Cluster.Serves(ctx, v1alpha1.APIVersion, v1alpha1.RolloutResource().Resource)
	switch {
	case err != nil:
		return err.Error()
	case !served:
		return "the cluster does not have the kind Rollout: install the CustomResourceDefinitions of Argo Rollouts"
	}
	reason, err := Other(ctx, c.options.Cluster, c.options.Namespaces)
	if err != nil {
		return err.Error()
	}
	return reason
}

// reconcileUntil watches and reconciles until the context is done.
func (c *Controller) reconcileUntil(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](100*time.Millisecond, time.Minute)
	queue := workqueue.NewTypedRateLimitingQueue(limiter)
	defer queue.ShutDown()
	namespaces := c.options.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	withRuns := c.servesRuns(ctx)
	for _, namespace := range namespaces {
		follow := func(one *feed.Feed) { parts.Go(func() { one.Follow(ctx, c.options.Cluster) }) }
		for _, one := range c.feeds(namespace, withRuns, queue, follow) {
			follow(one)
		}
	}
	for range workers {
		parts.Go(func() { c.work(ctx, queue) })
	}
	<-ctx.Done()
}

// queueOf is the queue of Rollouts.
type queueOf = workqueue.TypedRateLimitingInterface[types.NamespacedName]

// feeds watch Rollouts, their ReplicaSets and, where the cluster has the kind, their
// AnalysisRuns. follow starts the feeds of workloads that Rollouts refer to.
func (c *Controller) feeds(namespace string, withRuns bool, queue queueOf, follow func(*feed.Feed)) []*feed.Feed {
	var workloads *referrers
	workloads = newReferrers(func(resource schema.GroupVersionResource) {
		enqueue := func(name types.NamespacedName, _ types.UID) {
			for _, one := range workloads.to(workloadKey{resource: resource, namespace: name.Namespace, name: name.Name}) {
				queue.Add(one)
			}
		}
		put := func(object *unstructured.Unstructured) {
			enqueue(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}, "")
		}
		follow(feed.New(feed.Options{Resource: resource, Namespace: namespace, MetadataOnly: true, Put: put, Gone: enqueue, Log: c.options.Log}))
	})
	enqueue := func(object *unstructured.Unstructured) {
		workloads.put(object)
		queue.Add(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
	}
	enqueueOwner := func(object *unstructured.Unstructured) {
		if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == v1alpha1.KindRollout {
			queue.Add(types.NamespacedName{Namespace: object.GetNamespace(), Name: owner.Name})
		}
	}
	gone := func(types.NamespacedName, types.UID) {}
	feeds := []*feed.Feed{
		feed.New(feed.Options{Resource: rolloutsKind, Namespace: namespace, Put: enqueue, Gone: workloads.remove, Log: c.options.Log}),
		feed.New(feed.Options{Resource: replicaSets, Namespace: namespace, Selector: labelHash, Put: enqueueOwner, Gone: gone, Log: c.options.Log}),
	}
	if withRuns {
		feeds = append(feeds, feed.New(feed.Options{
			Resource: v1alpha1.AnalysisRunResource(), Namespace: namespace, Selector: labelHash, Put: enqueueOwner, Gone: gone, Log: c.options.Log,
		}))
	}
	return feeds
}

// work processes the queue, which gives each Rollout to one worker at a time.
func (c *Controller) work(ctx context.Context, queue queueOf) {
	for {
		name, stop := queue.Get()
		if stop {
			return
		}
		again, err := c.reconcile(ctx, name)
		switch {
		case ctx.Err() != nil:
		case apierrors.IsConflict(err):
			// The Rollout changed while the pass ran: the next one sees that.
			queue.AddRateLimited(name)
		case err != nil:
			c.options.Log.Warn("cannot reconcile Rollout", "namespace", name.Namespace, "name", name.Name, "error", err)
			queue.AddRateLimited(name)
		default:
			queue.Forget(name)
			queue.AddAfter(name, again)
		}
		queue.Done(name)
	}
}

// reconcile does one pass, and returns when the next is due.
func (c *Controller) reconcile(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	object, seen, err := c.reader.observe(ctx, name)
	if err != nil || seen == nil {
		return resync, err
	}
	decision := Decide(*seen)
	if err := c.writer.do(ctx, object, decision); err != nil {
		return 0, err
	}
	for _, event := range decision.Events {
		c.announce(ctx, object, event)
	}
	if decision.Again == 0 || decision.Again > resync {
		return resync, nil
	}
	return decision.Again, nil
}

// announce writes an Event. One that fails is only logged: the status has it, too.
func (c *Controller) announce(ctx context.Context, object *unstructured.Unstructured, event Event) {
	err := c.options.Cluster.Announce(ctx, c.options.Reporter, kube.Notice{
		Regarding: corev1.ObjectReference{
			APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(),
		},
		Warning: event.Warning, Reason: event.Reason, Action: "Reconcile", Note: event.Note,
	})
	if err != nil {
		c.options.Log.Debug("cannot write Event", "error", err)
	}
}
