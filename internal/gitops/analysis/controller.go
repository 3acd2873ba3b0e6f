package analysis

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"slipway.dev/slipway/api/rollouts/v1alpha1"
	"slipway.dev/slipway/internal/gitops/feed"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/outbound"
)

const (
	// workers is how many runs are reconciled in parallel, and namespaceWorkers how
	// many of one namespace: a provider that does not respond delays no other
	// namespace.
	workers          = 16
	namespaceWorkers = 4
	// busyDelay is the pause of a run whose namespace has all its workers.
	busyDelay = 200 * time.Millisecond
	// The backoff of requests to the API server that fail.
	firstRetry   = 200 * time.Millisecond
	longestRetry = 30 * time.Second
)

// Options configures a Controller.
type Options struct {
	Cluster *kube.Cluster
	// Namespaces have AnalysisRuns; empty is all.
	Namespaces []string
	// Evaluator evaluates responses and conditions.
	Evaluator Evaluator
	// Outbound decides which addresses metrics may name; nil allows all.
	Outbound *outbound.Policy
	// Edges reads the counts of edges; nil if there are none.
	Edges EdgeReports
	// Reporter is the source of Events.
	Reporter kube.Reporter
	// Log may be nil.
	Log *slog.Logger
}

// Controller carries out AnalysisRuns. State is in their status alone, so that another
// process can continue.
type Controller struct {
	options   Options
	providers *providers
	runs      []*feed.Feed
	// jobs are watched once there is a metric with one.
	jobs       []*feed.Feed
	jobsWanted chan struct{}
	wantOnce   func()
	queue      workqueue.TypedRateLimitingInterface[types.NamespacedName]
	// subresource is set if the API server has analysisruns/status. The definition
	// of Argo Rollouts does not.
	subresource bool
	started     atomic.Bool

	mu sync.Mutex
	// busy are the workers of each namespace.
	busy map[string]int
}

// NewController returns a Controller. It sends nothing before Run.
func NewController(options Options) *Controller {
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	c := &Controller{options: options, jobsWanted: make(chan struct{}), busy: map[string]int{}}
	c.providers = &providers{
		cluster: options.Cluster, evaluator: options.Evaluator, clients: newClients(options.Outbound), edges: options.Edges,
		windows: newWindows(), now: time.Now,
	}
	c.wantOnce = sync.OnceFunc(func() { close(c.jobsWanted) })
	c.queue = workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, longestRetry))
	namespaces := options.Namespaces
	if len(namespaces) == 0 {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		c.runs = append(c.runs, feed.New(feed.Options{
			Resource: v1alpha1.AnalysisRunResource(), Namespace: namespace, Put: c.runChanged, Gone: c.runGone, Log: options.Log,
		}))
		c.jobs = append(c.jobs, feed.New(feed.Options{
			Resource: batchv1.SchemeGroupVersion.WithResource("jobs"), Namespace: namespace, Selector: runUIDLabel,
			Put: c.jobChanged, Gone: func(types.NamespacedName, types.UID) {}, Log: options.Log,
		}))
	}
	return c
}

// now is the time.
func (c *Controller) now() time.Time { return c.providers.now() }

// Run carries out AnalysisRuns until the context is done, and returns when everything
// has stopped. The API server has to serve the kind. A Controller runs once.
func (c *Controller) Run(ctx context.Context) error {
	if c.started.Swap(true) {
		return errors.New("a controller of AnalysisRuns runs once: make a new one")
	}
	var err error
	if c.subresource, err = c.options.Cluster.Serves(ctx, v1alpha1.APIVersion, v1alpha1.AnalysisRunResource().Resource+"/status"); err != nil {
		return err
	}
	var running sync.WaitGroup
	defer c.providers.clients.close()
	defer running.Wait()
	defer c.queue.ShutDown()
	for _, one := range c.runs {
		running.Go(func() { one.Follow(ctx, c.options.Cluster) })
	}
	for range workers {
		running.Go(func() { c.work(ctx) })
	}
	select {
	case <-c.jobsWanted:
	case <-ctx.Done():
		return nil
	}
	for _, one := range c.jobs {
		running.Go(func() { one.Follow(ctx, c.options.Cluster) })
	}
	<-ctx.Done()
	return nil
}

// runChanged queues a run. Those that are completed and stay are left alone: there can
// be many.
func (c *Controller) runChanged(object *unstructured.Unstructured) {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	_, expires, _ := unstructured.NestedMap(object.Object, "spec", "ttlStrategy")
	if v1alpha1.AnalysisPhase(phase).Completed() && !expires {
		return
	}
	c.queue.Add(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
}

func (c *Controller) runGone(_ types.NamespacedName, uid types.UID) {
	c.providers.windows.forget(uid, "")
}

// wantJobs starts the watch of Jobs if a metric has one.
func (c *Controller) wantJobs(metrics []v1alpha1.Metric) {
	if slices.ContainsFunc(metrics, func(m v1alpha1.Metric) bool { return m.Provider.Job != nil }) {
		c.wantOnce()
	}
}

// jobChanged queues the run of a Job that ended.
func (c *Controller) jobChanged(object *unstructured.Unstructured) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range conditions {
		condition, _ := one.(map[string]any)
		switch kind, _ := condition["type"].(string); batchv1.JobConditionType(kind) {
		case batchv1.JobComplete, batchv1.JobFailed:
			// The namespace of the Job and not that of an annotation: Jobs of one
			// namespace do not wake runs of another.
			if name := object.GetAnnotations()[runNameAnnotation]; name != "" {
				c.queue.Add(types.NamespacedName{Namespace: object.GetNamespace(), Name: name})
			}
			return
		}
	}
}

// enter takes a worker for a namespace. It is false if the namespace has all that it may.
func (c *Controller) enter(namespace string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[namespace] >= namespaceWorkers {
		return false
	}
	c.busy[namespace]++
	return true
}

// leave gives the worker back.
func (c *Controller) leave(namespace string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[namespace]--; c.busy[namespace] == 0 {
		delete(c.busy, namespace)
	}
}

// work processes the queue, which gives each run to one worker at a time. A failed run
// is retried with backoff.
func (c *Controller) work(ctx context.Context) {
	for {
		name, stop := c.queue.Get()
		if stop {
			return
		}
		if !c.enter(name.Namespace) {
			c.queue.AddAfter(name, busyDelay)
			c.queue.Done(name)
			continue
		}
		again, err := c.reconcile(ctx, name)
		c.leave(name.Namespace)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if !apierrors.IsConflict(err) { // the run changed, and is read again
				c.options.Log.Warn("AnalysisRun failed; retrying", "namespace", name.Namespace, "name", name.Name, observe.KeyError, err)
			}
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
