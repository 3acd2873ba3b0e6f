package reconcile

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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/feed"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/jq"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/plugin"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/kube"
)

// Sources finds what a source names. It is a *source.Sources.
type Sources interface {
	Resolve(ctx context.Context, of project.Admitted, maxAge time.Duration) (*source.Resolved, error)
	AdmitDependency(limits *project.Project, wanted render.Dependency) (project.Admitted, error)
	Forget(repoURL string)
}

// Renderer renders. It is a *render.Renderer.
type Renderer interface {
	Render(ctx context.Context, request render.Request) (*render.Result, error)
}

// Options are the parts and settings of a Controller. Cluster, Sources,
// Renderer, Live, Kinds, Applier and ControlNamespace are required.
type Options struct {
	Cluster  *kube.Cluster
	Sources  Sources
	Renderer Renderer
	Live     *live.Cache
	Kinds    *live.Kinds
	Applier  *apply.Applier
	// Plugins are the config management plugins; nil if there are none.
	Plugins *plugin.Plugins
	// Ownership is the share of this process; nil is all Applications.
	Ownership Ownership
	// Destinations are other clusters to deploy to; nil if there are none.
	Destinations Destinations
	// Health has the rules of the cluster; nil has the built-in ones only.
	Health *health.Rules
	// Releases are the parts of releases of Deployments; nil is without them, and
	// every sync is a plain one.
	Releases *Releases
	// Settings are the settings about kinds of objects; nil is without any. A
	// change of either is reported to Controller.SettingsChanged.
	Settings func() *customization.Settings
	// GlobalProjects is the setting of global projects; nil is without any. A change of it is
	// reported to Controller.SettingsChanged, too.
	GlobalProjects func() *project.Globals

	// ControlNamespace has the projects, and the Applications whose tracking
	// annotation has no namespace.
	ControlNamespace string
	// Namespaces are those that Applications are read from. Empty is the control
	// namespace, and * is all.
	Namespaces []string

	// Interval is the time between two polls of a repository, and Jitter the
	// random part on top; 120 s and 60 s where they are zero.
	Interval time.Duration
	Jitter   time.Duration
	// Workers is how many Applications of a project are worked on at a time; 8
	// where it is zero.
	Workers int

	// Metrics may be nil.
	Metrics *Metrics
	// Events is the identity under which Events are written; without a
	// controller name none are.
	Events kube.Reporter
	// Log may be nil.
	Log *slog.Logger
}

// The settings of a Controller that Options do not override.
const (
	// The defaults of Options, as in Argo CD.
	DefaultInterval = 120 * time.Second
	DefaultJitter   = 60 * time.Second
	DefaultWorkers  = 8
)

const (
	// liveDebounce is how long events of an Application's objects are collected
	// into one run. A rollout sends dozens within a moment.
	liveDebounce = 50 * time.Millisecond
	// busyDebounce is the same while many Applications wait for a worker. The run would
	// wait that long in the queue; collected, the events of an Application that was just
	// synced become one run and one write, and do not delay the next sync.
	busyDebounce = time.Second
	// unwatchDelay is how long a kind stays watched that no Application has
	// objects of. An Application that is deleted and made again does not pay
	// for another list.
	unwatchDelay = time.Minute
)

// Controller reconciles Applications. It runs once. Items of its queue are
// processed by a fixed number of workers; polls of repositories and calls of
// plugins have queues and workers of their own, so that a slow server delays no
// sync.
type Controller struct {
	Options

	store *store
	// queue has the Applications, polls the repositories, and pluginQueue the calls
	// of plugins.
	queue        *queue
	polls        *queue
	pluginQueue  *queue
	repositories *repositories
	pluginCalls  *pluginCalls
	hints        dependencyHints
	events       *eventRecorder
	paths        plan.PathEvaluator
	feeds        []*feed.Feed
	// hasStatusSubresource: the status of Applications is written on its own.
	hasStatusSubresource atomic.Bool
}

// New makes a Controller. It sends nothing before Run, and has to be run: its
// queues have goroutines that end with the context of Run.
func New(options Options) (*Controller, error) {
	if options.Cluster == nil || options.Sources == nil || options.Renderer == nil ||
		options.Live == nil || options.Kinds == nil || options.Applier == nil {
		return nil, errors.New("a controller needs a cluster, sources, a renderer, live objects, kinds and an applier")
	}
	if len(options.Namespaces) == 0 {
		options.Namespaces = []string{options.ControlNamespace}
	}
	for _, namespace := range append(slices.Clone(options.Namespaces), options.ControlNamespace) {
		if namespace == "*" {
			continue
		}
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return nil, fmt.Errorf("%q is no namespace: %s", namespace, problems[0])
		}
	}
	options.Interval = cmp.Or(options.Interval, DefaultInterval)
	options.Jitter = cmp.Or(options.Jitter, DefaultJitter)
	options.Workers = cmp.Or(max(options.Workers, 0), DefaultWorkers)
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	if options.Settings == nil {
		options.Settings = func() *customization.Settings { return &customization.Settings{} }
	}
	if options.Metrics == nil {
		options.Metrics = NewMetrics(nil)
	}
	c := &Controller{Options: options, store: newStore(options.ControlNamespace, options.GlobalProjects), repositories: newRepositories(), pluginCalls: newPluginCalls(), paths: jq.New()}
	c.queue, c.polls = newQueue(options.Workers, c.projectsOf), newQueue(pollers, c.projectsOf)
	c.pluginQueue = newQueue(pluginCallers, c.projectsOf)
	c.events = newEventRecorder(options.Cluster, options.Events, options.Metrics, options.Log, c.queue.isBusy)
	c.feeds = c.newFeeds()
	// The one of the current leadership term is counted.
	options.Metrics.controller.Store(c)
	return c, nil
}

// newFeeds are what is watched: projects, and Applications of each namespace.
func (c *Controller) newFeeds() []*feed.Feed {
	feeds := []*feed.Feed{feed.New(feed.Options{
		Resource: v1alpha1.ProjectResource(), Namespace: c.ControlNamespace, Put: c.onProject,
		Gone: func(name types.NamespacedName, _ types.UID) { c.enqueue(c.store.removeProject(name.Name)) }, Log: c.Log,
	})}
	namespaces := slices.Compact(slices.Sorted(slices.Values(c.Namespaces)))
	if slices.Contains(namespaces, "*") {
		namespaces = []string{""}
	}
	for _, namespace := range namespaces {
		feeds = append(feeds, feed.New(feed.Options{
			Resource: v1alpha1.ApplicationResource(), Namespace: namespace, Put: c.onApplication, Gone: c.onApplicationDeleted, Log: c.Log,
		}))
	}
	return feeds
}

// Run reconciles until the context is done. Only one Controller may reconcile an
// Application at a time: the caller holds the Lease and ends the context when it
// loses it, or the Ownership divides the Applications.
func (c *Controller) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	for _, one := range c.feeds {
		running.Go(func() { one.Follow(ctx, c.Cluster) })
	}
	running.Go(func() { c.events.run(ctx) })
	running.Go(func() { c.queue.run(ctx) })
	running.Go(func() { c.polls.run(ctx) })
	running.Go(func() { c.pluginQueue.run(ctx) })
	running.Go(func() { c.followPlugins(ctx) })
	// Without its project every Application would be refused, so no worker starts before all projects are listed.
	for _, one := range c.feeds {
		select {
		case <-one.Listed():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.detectStatusSubresource(ctx)
	c.Log.Info("reconciling", "applications", len(c.store.all()), "workers", c.Workers)
	// One more than a project may have: others never wait for a project that is
	// slow.
	for range c.Workers + 1 {
		running.Go(func() { c.work(ctx, c.queue) })
	}
	for range pollers + 1 {
		running.Go(func() { c.work(ctx, c.polls) })
	}
	for range pluginCallers + 1 {
		running.Go(func() { c.work(ctx, c.pluginQueue) })
	}
	<-ctx.Done()
	return ctx.Err()
}

// Ready returns what is missing until all Applications and projects were listed
// once.
func (c *Controller) Ready() error {
	for _, one := range c.feeds {
		if err := one.Ready(); err != nil {
			return err
		}
	}
	return nil
}

// Changed enqueues the Application whose object changed, by its label. It is
// the callback of live.Options.
func (c *Controller) Changed(label string, _ tracking.Key) {
	id, known := c.store.byLabel(label)
	if !known || !c.owns(id) {
		return
	}
	wait := liveDebounce
	if c.queue.isBusy() {
		wait = busyDebounce
	}
	c.queue.within(item{app: id}, reasonLive, time.Now().Add(wait))
}

// Pushed polls the repositories that a push names. It is the callback of
// webhook.Handler.
func (c *Controller) Pushed(push webhook.Push) {
	for _, at := range c.repositories.addresses(false) {
		if push.From(at.String()) {
			c.Sources.Forget(at.String())
			c.requestPoll(at)
		}
	}
}

// CredentialsChanged polls the repositories that could not be read, after the
// Secrets with credentials changed.
func (c *Controller) CredentialsChanged() {
	for _, at := range c.repositories.addresses(true) {
		c.Sources.Forget(at.String()) // the cached failure is of the old credentials
		c.requestPoll(at)
	}
}

// SignatureKeysChanged polls all repositories: a commit that was
// refused may be signed by a key that is known now, and the other way round.
func (c *Controller) SignatureKeysChanged() {
	for _, at := range c.repositories.addresses(false) {
		c.requestPoll(at)
	}
}

// work processes the items of a queue until it is shut down.
func (c *Controller) work(ctx context.Context, from *queue) {
	for {
		next, why, open := from.take()
		if !open {
			return
		}
		if ctx.Err() == nil {
			c.process(ctx, next, why)
		}
		from.done(next)
	}
}

// process dispatches an item by its kind.
func (c *Controller) process(ctx context.Context, next item, why reason) {
	switch {
	case next.unwatch:
		if kinds, known := c.store.neededKinds(c.owns); known {
			for _, one := range c.destinations() {
				one.Live.Retain(kinds)
			}
		}
	case !next.repository.IsZero():
		c.poll(ctx, next.repository)
	case next.call != "":
		c.runPluginCall(ctx, next.app, next.call)
	default:
		c.reconcile(ctx, next.app, why)
	}
}

// projectsOf returns the projects that wait for an item.
func (c *Controller) projectsOf(one item) []string {
	if one.repository.IsZero() {
		return c.store.projectOf(one.app)
	}
	var projects []string
	for _, reader := range c.repositories.readersOf(one.repository) {
		projects = append(projects, reader.project)
	}
	return projects
}

// enqueue adds Applications whose project or destination changed.
func (c *Controller) enqueue(apps []tracking.App) {
	for _, id := range apps {
		if c.owns(id) {
			c.queue.add(item{app: id}, reasonChange)
		}
	}
}

// SettingsChanged enqueues all Applications: their health, their differences and
// the limits of their projects may be others now.
func (c *Controller) SettingsChanged() {
	c.store.globalsChanged()
	for id := range c.store.activity() {
		if c.owns(id) {
			c.queue.add(item{app: id}, reasonChange)
		}
	}
}

// onApplication takes an Application from the watch. The echo of our own write
// is dropped before it is decoded: with a thousand Applications most events are
// such echoes.
func (c *Controller) onApplication(object *unstructured.Unstructured) {
	id := tracking.App{Namespace: object.GetNamespace(), Name: object.GetName()}
	if c.store.has(id, object.GetUID(), object.GetResourceVersion()) {
		return // the echo of our own write, which need not be decoded
	}
	if !c.owns(id) && !c.store.isActive(id) {
		c.skim(object)
		return
	}
	app, refused, err := c.store.decode(object.Object)
	if err != nil {
		c.Log.Warn("dropped invalid Application", "namespace", object.GetNamespace(), "name", object.GetName(), "error", err)
		return
	}
	if why := c.store.put(app, refused); why != 0 {
		c.queue.add(item{app: id}, why)
	}
}

// onApplicationDeleted forgets an Application, and schedules the removal of
// watches that only it needed.
func (c *Controller) onApplicationDeleted(name types.NamespacedName, uid types.UID) {
	id := tracking.App{Namespace: name.Namespace, Name: name.Name}
	c.store.remove(id, uid)
	c.repositories.forget(id)
	c.pluginCalls.forget(id)
	c.queue.forget(item{app: id})
	c.queue.within(item{unwatch: true}, reasonTimer, time.Now().Add(unwatchDelay))
}

// onProject takes a project from the watch, and enqueues its Applications.
func (c *Controller) onProject(object *unstructured.Unstructured) {
	given, refused, err := v1alpha1.DecodeProject(object.Object)
	if err != nil {
		c.Log.Warn("dropped invalid AppProject", "name", object.GetName(), "error", err)
		return
	}
	c.enqueue(c.store.putProject(given, refused))
}
