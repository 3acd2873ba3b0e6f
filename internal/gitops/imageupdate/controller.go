package imageupdate

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/feed"
	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// Options configures a Controller.
type Options struct {
	Cluster *kube.Cluster
	Sources *source.Sources
	// ControlNamespace has the AppProjects. Namespaces have the Applications; * is all.
	ControlNamespace string
	Namespaces       []string
	// Interval is how often registries are read: 2 minutes. Settle is how long a tag has
	// to be the newest before it is written: 5 seconds.
	Interval, Settle time.Duration
	// Folder has what is fetched of repositories; empty is the system's temporary one.
	Folder string
	// Pushed is called with the address of a repository after a commit; it may be nil.
	Pushed   func(repoURL string)
	Reporter kube.Reporter
	Log      *slog.Logger
}

// Times and numbers of a Controller.
const (
	defaultInterval = 2 * time.Minute
	defaultSettle   = 5 * time.Second
	// maxSettle bounds the wait while new tags keep coming, in times of Settle.
	maxSettle  = 12
	runTimeout = 5 * time.Minute
	workers    = 4
	// firstDelay spreads the first runs after a start.
	firstDelay = 2 * time.Second
)

// Controller updates images. One may run in a cluster at a time: the leader's.
type Controller struct {
	options Options
	finder  *finder
	config  *configReader
	writers gitwrite.Pool

	mu       sync.Mutex
	apps     map[types.NamespacedName]*v1alpha1.Application
	updaters map[types.NamespacedName]*updater
	jobs     map[jobKey]*record
	wake     chan struct{}
}

// record is an Application with the images that one updater or its annotations name.
type record struct {
	key jobKey
	app *v1alpha1.Application
	job job
	due time.Time
	// running: a worker has it. A change meanwhile makes it due again.
	running bool
	// fresh: tags are read again, whatever is cached.
	fresh    bool
	failures int
	// pending is what the last run found and did not write yet, since when.
	pending string
	since   time.Time
	// proposed is the branch of the last pull request. One that was closed is not
	// opened again.
	proposed string
	// reported is the last problem, which is reported once. failed is the problem of the
	// last run, for the status of its ImageUpdater.
	reported, failed string
}

// New makes a Controller.
func New(options Options) *Controller {
	options.Interval = cmp.Or(options.Interval, defaultInterval)
	options.Settle = cmp.Or(options.Settle, defaultSettle)
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	if options.Pushed == nil {
		options.Pushed = func(string) {}
	}
	return &Controller{
		options: options, finder: newFinder(options), config: &configReader{options: options},
		apps: map[types.NamespacedName]*v1alpha1.Application{}, updaters: map[types.NamespacedName]*updater{}, jobs: map[jobKey]*record{},
		wake: make(chan struct{}, 1),
	}
}

// Run updates images until the context is done.
func (c *Controller) Run(ctx context.Context) error {
	namespaces := slices.Compact(slices.Sorted(slices.Values(c.options.Namespaces)))
	if slices.Contains(namespaces, "*") {
		namespaces = []string{""}
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, namespace := range namespaces {
		one := feed.New(feed.Options{
			Resource: v1alpha1.ApplicationResource(), Namespace: namespace, Put: c.put, Gone: c.gone, Log: c.options.Log,
		})
		running.Go(func() { one.Follow(ctx, c.options.Cluster) })
	}
	running.Go(func() { c.followUpdaters(ctx, namespaces) })
	c.options.Log.Info("updating images in Git", "interval", c.options.Interval.String())
	slots := make(chan struct{}, workers)
	for {
		next, wait := c.next(time.Now())
		if next != nil {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
			running.Go(func() {
				defer func() { <-slots }()
				c.process(ctx, next)
			})
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-c.wake:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		timer.Stop()
	}
}

// wakeUp makes Run look at what is due.
func (c *Controller) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// put takes an Application from the watch.
func (c *Controller) put(object *unstructured.Unstructured) {
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	if object.GetDeletionTimestamp() != nil {
		c.gone(name, object.GetUID())
		return
	}
	app, _, err := v1alpha1.Decode(object.Object)
	if err != nil {
		return
	}
	// The rest of the status is large, and not used.
	status := app.Status
	app.Status = v1alpha1.ApplicationStatus{Summary: status.Summary, SourceType: status.SourceType, SourceTypes: status.SourceTypes}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.apps[name]
	c.apps[name] = app
	c.replan(app, before != nil && !equality.Semantic.DeepEqual(inputs(before), inputs(app)))
}

// replan finds the jobs of an Application again. With changed all of them are due.
func (c *Controller) replan(app *v1alpha1.Application, changed bool) {
	name := types.NamespacedName{Namespace: app.Namespace, Name: app.Name}
	planned := planJobs(app, c.sortedUpdaters())
	for key, one := range c.jobs {
		if _, still := planned[key.updater]; key.app == name && !still {
			delete(c.jobs, one.key)
		}
	}
	for who, wanted := range planned {
		key := jobKey{name, who}
		known := c.jobs[key]
		switch {
		case known == nil:
			known = &record{key: key, due: time.Now().Add(backoff.Jitter(min(firstDelay, c.options.Settle), 0.5))}
			c.jobs[key] = known
		case changed:
			known.due, known.failures = time.Now(), 0
		}
		known.app, known.job = app, wanted
	}
	if len(planned) > 0 {
		c.wakeUp()
	}
}

// sortedUpdaters are the ImageUpdaters, the oldest first.
func (c *Controller) sortedUpdaters() []*updater {
	return slices.SortedFunc(maps.Values(c.updaters), older)
}

// inputs is the part of an Application that an update depends on.
func inputs(app *v1alpha1.Application) any {
	return struct {
		Annotations map[string]string
		Labels      map[string]string
		Spec        v1alpha1.ApplicationSpec
		Images      []string
		Types       []v1alpha1.SourceType
		Type        v1alpha1.SourceType
	}{app.Annotations, app.Labels, app.Spec, app.Status.Summary.Images, app.Status.SourceTypes, app.Status.SourceType}
}

// gone forgets an Application.
func (c *Controller) gone(name types.NamespacedName, _ types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.apps, name)
	maps.DeleteFunc(c.jobs, func(key jobKey, _ *record) bool { return key.app == name })
}

// next takes the Application that is due longest, or returns how long none is.
func (c *Controller) next(now time.Time) (*record, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	wait := c.options.Interval
	var found *record
	for _, one := range c.jobs {
		if one.running {
			continue
		}
		if left := one.due.Sub(now); left > 0 {
			wait = min(wait, left)
		} else if found == nil || one.due.Before(found.due) {
			found = one
		}
	}
	if found != nil {
		found.running, found.due = true, now.Add(backoff.Jitter(c.options.Interval, 0.1))
	}
	return found, wait
}

// retries is the backoff of an Application whose update fails. Its jitter is added to the
// interval, below which no update is tried again.
func retries() backoff.Policy {
	return backoff.Policy{First: 30 * time.Second, Longest: 30 * time.Minute, JitterUp: 0.1}
}

// process runs an update and schedules the next.
func (c *Controller) process(ctx context.Context, of *record) {
	c.mu.Lock()
	app, job, fresh := of.app, of.job, of.fresh
	of.fresh = false
	c.mu.Unlock()
	bounded, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	result := (&run{Controller: c, record: of, app: app, job: job}).update(bounded, fresh)
	if ctx.Err() != nil {
		return
	}
	c.report(ctx, of, app, result)
	c.reportUpdater(ctx, of, result)
	c.mu.Lock()
	defer c.mu.Unlock()
	of.running = false
	now := time.Now()
	switch {
	case result.again > 0:
		of.due, of.fresh = now.Add(result.again), true
	case result.err != nil:
		of.failures++
		again := retries()
		of.due = now.Add(again.Spread(max(again.Base(of.failures), c.options.Interval)))
	default:
		of.failures = 0
	}
	c.wakeUp()
}

// ImagePushed makes the Applications due that name an image, after an event of its
// registry. name is registry/repository.
func (c *Controller) ImagePushed(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.jobs {
		if slices.ContainsFunc(one.job.settings.Images, func(image ImageSettings) bool { return image.Image.Name() == name }) {
			one.due, one.fresh = time.Now(), true
		}
	}
	c.wakeUp()
}

// report writes what a run did as an Event: a commit always, a problem when it is
// another one than before.
func (c *Controller) report(ctx context.Context, of *record, app *v1alpha1.Application, result result) {
	notice := kube.Notice{Regarding: referenceTo(app), Action: "UpdateImages"}
	switch {
	case result.err != nil:
		notice.Warning, notice.Reason, notice.Note = true, result.reason(), result.err.Error()
		if of.reported == notice.Note {
			return
		}
		of.reported = notice.Note
		c.options.Log.Warn("images are not updated", "namespace", app.Namespace, "application", app.Name, observe.KeyReason, notice.Reason, observe.KeyError, result.err)
	case result.note != "":
		of.reported = ""
		notice.Reason, notice.Note = "ImagesUpdated", result.note
		if result.proposed {
			notice.Reason = "ImagesProposed"
		}
		c.options.Log.Info("updated images in Git", "namespace", app.Namespace, "application", app.Name, "commit", result.commit, "changes", result.note)
	default:
		of.reported = ""
		return
	}
	if err := c.options.Cluster.Announce(ctx, c.options.Reporter, notice); err != nil && ctx.Err() == nil {
		c.options.Log.Warn("cannot write Event", observe.KeyError, err)
	}
}
