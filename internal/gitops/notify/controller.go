package notify

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/util/workqueue"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/feed"
	"slipway.dev/slipway/internal/gitops/notify/message"
	"slipway.dev/slipway/internal/gitops/notify/service"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/outbound"
)

const (
	// workers is how many Applications are processed in parallel. A service has fewer
	// messages in flight, so that one that does not respond delays the others little.
	workers = 8
	// settingsDelay collects changes of the settings: ConfigMap and Secret are often
	// applied together.
	settingsDelay = 200 * time.Millisecond
	// The backoff of requests to the API server that fail.
	firstRetry   = 200 * time.Millisecond
	longestRetry = 30 * time.Second
)

// Evaluator evaluates triggers and renders templates. It is a *render.Renderer.
type Evaluator interface {
	Notify(ctx context.Context, project string, request message.Request) (message.Response, error)
}

// Sources looks up commits. It is a *source.Sources.
type Sources interface {
	Commit(ctx context.Context, of project.Admitted) (*source.Commit, error)
}

// Outcome is how an attempt to send a message ended.
type Outcome string

// The outcomes.
const (
	Sent      Outcome = "sent"
	Failed    Outcome = "failed"
	Abandoned Outcome = "abandoned"
)

// Options configures a Controller. Cluster, ControlNamespace and Evaluator are required.
type Options struct {
	Cluster *kube.Cluster
	// ControlNamespace has the settings and the AppProjects.
	ControlNamespace string
	// Namespaces are those that Applications are read from; * is all.
	Namespaces []string
	Evaluator  Evaluator
	// Sources has the commits; nil if they cannot be read.
	Sources Sources
	// GlobalProjects is the setting of global projects; nil is without any.
	GlobalProjects func() *project.Globals
	// Edges reads what the edges serve; nil if there are none. EdgeInterval is how often: 10
	// seconds if it is 0.
	Edges        EdgeReports
	EdgeInterval time.Duration
	// Outbound decides which addresses services may have; nil allows all.
	Outbound *outbound.Policy
	// Identity names the replica. A process that is started again has the same one.
	Identity string
	// Reporter is the source of Events.
	Reporter kube.Reporter
	// Observe counts attempts; nil for nothing.
	Observe func(service string, outcome Outcome)
	// Log may be nil.
	Log *slog.Logger
}

// Controller sends notifications. It runs once. Nothing is watched but the settings,
// until they have a service.
type Controller struct {
	options  Options
	sender   int64
	started  time.Time
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	settings atomic.Pointer[Settings]
	// changed has an item if settings or projects have changed.
	changed  chan struct{}
	services *serviceSlots
	edges    edgeWatch

	mu sync.Mutex
	// pending are the newest versions of Applications that are queued.
	pending  map[types.NamespacedName]*unstructured.Unstructured
	projects map[string]*unstructured.Unstructured
	// versions are the newest ones that were written. Events of older ones come later,
	// and have a record without what was sent since.
	versions map[types.NamespacedName]string
	// attempts are messages that failed, and unwritten those that were sent and are not
	// in the record yet.
	attempts  map[types.NamespacedName]map[string]*attempt
	unwritten map[types.NamespacedName]map[string]int64
	// behind are Applications whose status is older than their last operation.
	behind map[types.NamespacedName]behindStatus
	// reported are problems of subscriptions that have an Event.
	reported map[types.UID]string

	configMap *corev1.ConfigMap
	secret    *corev1.Secret
}

// New returns a Controller. It sends nothing before Run.
func New(options Options) *Controller {
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	if options.Observe == nil {
		options.Observe = func(string, Outcome) {}
	}
	return &Controller{
		options: options, sender: senderOf(options.Identity), changed: make(chan struct{}, 1), services: newServiceSlots(),
		pending: map[types.NamespacedName]*unstructured.Unstructured{}, projects: map[string]*unstructured.Unstructured{},
		attempts: map[types.NamespacedName]map[string]*attempt{}, unwritten: map[types.NamespacedName]map[string]int64{},
		reported: map[types.UID]string{}, versions: map[types.NamespacedName]string{}, behind: map[types.NamespacedName]behindStatus{},
		edges: edgeWatch{watched: map[types.NamespacedName]*watchedRoutes{}},
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](firstRetry, longestRetry)),
	}
}

// Run sends notifications until the context is done, and returns when everything has
// stopped. A message that is being sent is finished first, and recorded.
func (c *Controller) Run(ctx context.Context) error {
	c.started = time.Now()
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown()
	settled := c.followSettings(ctx, &running)
	for range workers {
		running.Go(func() { c.work(ctx) })
	}
	select {
	case <-settled:
	case <-ctx.Done():
		return nil
	}
	c.runFeeds(ctx)
	return nil
}

// followSettings watches the ConfigMap and the Secret. The channel is closed when each
// was read once.
func (c *Controller) followSettings(ctx context.Context, running *sync.WaitGroup) <-chan struct{} {
	core, home := c.options.Cluster.Client.CoreV1(), c.options.ControlNamespace
	var first sync.WaitGroup
	once := func() func() {
		first.Add(1)
		return sync.OnceFunc(first.Done)
	}
	mapRead, secretRead := once(), once()
	failed := func(what string) func(error) {
		last := ""
		return func(err error) {
			if kind := kube.FailureKind(err); kind != last && err != nil && ctx.Err() == nil {
				c.options.Log.Warn("the settings of notifications cannot be read; retrying", "what", what, observe.KeyError, err)
				last = kind
			}
		}
	}
	// Without a first read, the end of the context ends the wait for it.
	running.Go(func() {
		defer mapRead()
		_ = kube.Follow(ctx, core.ConfigMaps(home), kube.Named(ConfigMap), failed(ConfigMap), func(found []*corev1.ConfigMap) {
			c.mu.Lock()
			c.configMap = only(found)
			c.mu.Unlock()
			mapRead()
			c.markChanged()
		})
	})
	running.Go(func() {
		defer secretRead()
		_ = kube.Follow(ctx, core.Secrets(home), kube.Named(Secret), failed(Secret), func(found []*corev1.Secret) {
			c.mu.Lock()
			c.secret = only(found)
			c.mu.Unlock()
			secretRead()
			c.markChanged()
		})
	})
	read := make(chan struct{})
	running.Go(func() {
		first.Wait()
		close(read)
	})
	return read
}

// only returns the object of a name, or nil.
func only[T any](found []*T) *T {
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// markChanged makes the feeds start again.
func (c *Controller) markChanged() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// runFeeds watches Applications while there is a service. After a change of the settings
// they are listed again: each may have subscribers now.
func (c *Controller) runFeeds(ctx context.Context) {
	for ctx.Err() == nil {
		c.drainChange(ctx)
		c.applySettings(ctx)
		watching, stop := context.WithCancel(ctx)
		var running sync.WaitGroup
		if c.settings.Load().Active() {
			running.Go(func() { c.follow(watching) })
			if c.options.Edges != nil {
				running.Go(func() { c.followEdges(watching) })
			}
		}
		select {
		case <-c.changed:
			c.markChanged() // for drainChange, which waits for more
		case <-ctx.Done():
		}
		stop()
		running.Wait()
	}
	if last := c.settings.Load(); last != nil {
		last.clients.Close()
	}
}

// drainChange takes a change, and waits a moment for another one.
func (c *Controller) drainChange(ctx context.Context) {
	select {
	case <-c.changed:
	case <-ctx.Done():
		return
	}
	select {
	case <-time.After(settingsDelay):
	case <-ctx.Done():
	}
	select {
	case <-c.changed:
	default:
	}
}

// applySettings reads the settings. What failed before is tried again: an operator may
// have repaired it.
func (c *Controller) applySettings(ctx context.Context) {
	c.mu.Lock()
	configMap, secret := c.configMap, c.secret
	c.attempts = map[types.NamespacedName]map[string]*attempt{}
	c.mu.Unlock()
	read := Read(configMap, secret, service.NewClients(c.options.Outbound))
	if before := c.settings.Swap(read); before != nil {
		before.clients.Close()
	}
	if configMap != nil {
		c.reportSettings(ctx, configMap, read.Problems)
	}
	if read.Active() {
		c.options.Log.Info("sending notifications", "services", len(read.Services), "triggers", len(read.Triggers), "templates", len(read.Templates))
	}
}

// follow watches projects, and then Applications: subscriptions of projects have to be
// known first.
func (c *Controller) follow(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	projects := feed.New(feed.Options{
		Resource: v1alpha1.ProjectResource(), Namespace: c.options.ControlNamespace, Log: c.options.Log,
		Put: c.projectChanged, Gone: c.projectGone,
	})
	running.Go(func() { projects.Follow(ctx, c.options.Cluster) })
	select {
	case <-projects.Listed():
	case <-ctx.Done():
		return
	}
	for _, namespace := range c.options.Namespaces {
		if namespace == "*" {
			namespace = ""
		}
		apps := feed.New(feed.Options{
			Resource: v1alpha1.ApplicationResource(), Namespace: namespace, Log: c.options.Log,
			Put: c.appChanged, Gone: c.appGone,
		})
		running.Go(func() { apps.Follow(ctx, c.options.Cluster) })
	}
}

// projectChanged stores a project. Applications are listed again if other subscribers
// count now.
func (c *Controller) projectChanged(object *unstructured.Unstructured) {
	unstructured.RemoveNestedField(object.Object, "status")
	c.mu.Lock()
	before := c.projects[object.GetName()]
	c.projects[object.GetName()] = object
	c.mu.Unlock()
	if before != nil && !sameSubscriptions(before.GetAnnotations(), object.GetAnnotations()) {
		c.markChanged()
	}
}

func (c *Controller) projectGone(name types.NamespacedName, _ types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.projects, name.Name)
}

// appChanged queues an Application that has subscribers.
func (c *Controller) appChanged(object *unstructured.Unstructured) {
	settings := c.settings.Load()
	if !settings.Active() {
		return
	}
	byTrigger, problems := settings.subscriptionsOf(object.GetLabels(), object.GetAnnotations(), c.projectOf(object).GetAnnotations())
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	c.watchRoutes(name, object, byTrigger)
	if len(byTrigger) == 0 && len(problems) == 0 {
		return
	}
	c.mu.Lock()
	c.pending[name] = object
	c.mu.Unlock()
	c.queue.Add(name)
}

// appGone forgets an Application.
func (c *Controller) appGone(name types.NamespacedName, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.edges.forget(name)
	delete(c.pending, name)
	delete(c.versions, name)
	delete(c.behind, name)
	delete(c.attempts, name)
	delete(c.unwritten, name)
	delete(c.reported, uid)
}

// projectOf returns the project of an Application. One that does not exist is empty.
func (c *Controller) projectOf(object *unstructured.Unstructured) *unstructured.Unstructured {
	name, _, _ := unstructured.NestedString(object.Object, "spec", "project")
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.projects[cmp.Or(name, v1alpha1.DefaultProject)]; found != nil {
		return found
	}
	return &unstructured.Unstructured{Object: map[string]any{}}
}

// take returns the newest version of an Application that came in; nil if there is none.
// It is stale if we have written a newer one, whose event is on its way.
func (c *Controller) take(name types.NamespacedName) (found *unstructured.Unstructured, stale bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found = c.pending[name]
	delete(c.pending, name)
	if found == nil || c.versions[name] == "" {
		return found, false
	}
	order, err := resourceversion.CompareResourceVersion(found.GetResourceVersion(), c.versions[name])
	return found, err == nil && order < 0
}

// setVersion keeps the version of our last write.
func (c *Controller) setVersion(name types.NamespacedName, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions[name] = version
}

// work processes the queue, which gives each Application to one worker at a time.
func (c *Controller) work(ctx context.Context) {
	for {
		name, stop := c.queue.Get()
		if stop {
			return
		}
		if ctx.Err() != nil {
			c.queue.Done(name)
			continue
		}
		again, err := c.process(ctx, name)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if !apierrors.IsConflict(err) { // the Application changed, and is read again
				c.options.Log.Warn("notifications failed; retrying", "namespace", name.Namespace, "application", name.Name, observe.KeyError, err)
			}
			c.queue.AddRateLimited(name)
		default:
			c.queue.Forget(name)
			if again > 0 {
				c.queue.AddAfter(name, again)
			}
		}
		c.queue.Done(name)
	}
}
