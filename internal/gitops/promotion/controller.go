package promotion

import (
	"cmp"
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/codefresh/v1beta1"
	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/kube"
)

// Options configures a Controller.
type Options struct {
	Cluster *kube.Cluster
	Sources *source.Sources
	// ControlNamespace has the AppProjects and everything about promotions. Namespaces
	// have the Applications; * is all.
	ControlNamespace string
	Namespaces       []string
	// Interval is how often gates that depend on time are checked: 5 seconds.
	Interval time.Duration
	// Folder has what is fetched of repositories; empty is the system's temporary one.
	Folder string
	// Traffic reads the reports of the edges; nil if there are none.
	Traffic EdgeReports
	// Remote reads the Applications of a Product in another runtime; nil without a platform.
	Remote RemoteApplications
	// Pushed is called with the address of a repository after a commit; it may be nil.
	Pushed   func(repoURL string)
	Reporter kube.Reporter
	Log      *slog.Logger
}

// Times and numbers of a Controller.
const (
	defaultInterval = 5 * time.Second
	runTimeout      = 5 * time.Minute
	workers         = 4
	// firstCheck and longestCheck are the times between checks for the definitions. A
	// cluster that never has them is not asked all the time.
	firstCheck   = 10 * time.Second
	longestCheck = 2 * time.Minute
)

// retries is the backoff of a Promotion that fails.
func retries() backoff.Policy {
	return backoff.Policy{First: 2 * time.Second, Longest: 5 * time.Minute, JitterUp: 0.1}
}

// Controller carries out Promotions. One may run in a cluster at a time: the leader's.
type Controller struct {
	files
	options Options
	pool    gitwrite.Pool
	traffic trafficWindows
	remote  remoteCache
	// beginning serializes the beginnings, because promotions of a Product wait for
	// each other.
	beginning sync.Mutex

	mu      sync.Mutex
	catalog catalog
	jobs    map[string]*record
	// starts are the Products whose promotions begin by themselves, and ended the
	// Promotions that have ended.
	starts map[string]*record
	ended  map[string]endedPromotion
	wake   chan struct{}

	// needed is closed by need when the first Product or Promotion is seen. Applications
	// are watched from then on: many clusters have none, and each event of an Application
	// costs the API server and this process something.
	needed chan struct{}
	need   func()
}

// record is a Promotion that has not ended, or a Product whose promotions begin by
// themselves, which has no name. The lock of the Controller guards it, but for reported
// and started, which belong to the worker that has it.
type record struct {
	name    string
	product string
	created time.Time
	// begun: it has a status with steps.
	begun bool
	due   time.Time
	// notBefore bounds how often a Product is looked at: its Applications change all the
	// time while they are synced.
	notBefore time.Time
	// running: a worker has it. A change meanwhile makes it due again.
	running  bool
	failures int
	// reported is the last problem, which is an Event once.
	reported string
	// started is the digest of the values that a Promotion was created for. The watch
	// reports it later.
	started string
}

// New makes a Controller.
func New(options Options) *Controller {
	options.Interval = cmp.Or(options.Interval, defaultInterval)
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	if options.Pushed == nil {
		options.Pushed = func(string) {}
	}
	c := &Controller{
		files:   files{options.Cluster, options.Sources, options.ControlNamespace},
		options: options, catalog: newCatalog(), jobs: map[string]*record{},
		starts: map[string]*record{}, ended: map[string]endedPromotion{}, wake: make(chan struct{}, 1), needed: make(chan struct{}),
	}
	c.need = sync.OnceFunc(func() { close(c.needed) })
	return c
}

// promotionResource is the resource of Promotions.
func promotionResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: slipway.Group, Version: slipway.Version, Resource: slipway.ResourcePromotion}
}

// environmentResource is the resource of Environments.
func environmentResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: slipway.Group, Version: slipway.Version, Resource: slipway.ResourceEnvironment}
}

// Run carries out Promotions until the context is done. Without the definitions of
// Promotions it waits for them.
func (c *Controller) Run(ctx context.Context) error {
	// A cluster that was upgraded without the definitions has no Promotions: the watches
	// would fail in a loop.
	if err := c.awaitDefinitions(ctx); err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	if err := c.followAll(ctx, &running); err != nil {
		return err
	}
	// The loop hands out what is due and sleeps until the next time. Several workers run,
	// because a repository that does not respond must not delay other products.
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

// awaitDefinitions waits until the cluster serves what promotions are made of.
func (c *Controller) awaitDefinitions(ctx context.Context) error {
	pause := backoff.Policy{First: firstCheck, Longest: longestCheck, JitterUp: 0.1}
	for checks := 1; ; checks++ {
		// Both groups are needed: the definitions of codefresh.io can be left out of an
		// installation.
		own, err := c.options.Cluster.Serves(ctx, slipway.Group+"/"+slipway.Version, slipway.ResourcePromotion)
		if err == nil && own {
			theirs, err := c.options.Cluster.Serves(ctx, v1beta1.APIVersion, v1beta1.ProductResource().Resource)
			if err == nil && theirs {
				return nil
			}
		}
		if err := backoff.Sleep(ctx, pause.Delay(checks)); err != nil {
			return err
		}
	}
}

// putParsed takes an object of one of Codefresh's kinds from a watch.
func putParsed[T any](c *Controller, into *map[string]parsed[T], decode func(map[string]any) (T, []refusal.Refusal, error)) func(*unstructured.Unstructured) {
	return func(object *unstructured.Unstructured) {
		// An object with refusals is kept: a Promotion that uses it reports them, and one that
		// does not is unaffected.
		made, refused, err := decode(object.Object)
		if err != nil {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		(*into)[object.GetName()] = parsed[T]{made, refused}
		c.allDue()
	}
}

// goneFrom forgets an object.
func goneFrom[T any](c *Controller, from *map[string]T) func(types.NamespacedName) {
	return func(name types.NamespacedName) {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(*from, name.Name)
		c.allDue()
	}
}

// putEnvironment takes an Environment from the watch.
func (c *Controller) putEnvironment(object *unstructured.Unstructured) {
	made := &slipway.Environment{}
	if convert(object, made) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.catalog.environments[made.Name] = made
	c.allDue()
}

// convert reads an object of one of our kinds, which the API server has checked.
func convert(object *unstructured.Unstructured, into any) error {
	text, err := object.MarshalJSON()
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// putApplication takes an Application of a Product from the watch.
func (c *Controller) putApplication(object *unstructured.Unstructured) {
	name := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	if productOf(object) == "" || object.GetDeletionTimestamp() != nil {
		c.goneApplication(name)
		return
	}
	// Refusals of an Application are those of the reconciler, which leaves its status
	// Unknown: the gates stay closed then.
	app, _, err := v1alpha1.Decode(object.Object)
	if err != nil {
		return
	}
	// The history is large, and not used.
	app.Status.History, app.Status.OperationState = nil, nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.catalog.apps[name] = app
	c.productDue(productOf(app))
}

// goneApplication forgets an Application.
func (c *Controller) goneApplication(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.catalog.apps[name]; known != nil {
		delete(c.catalog.apps, name)
		c.productDue(productOf(known))
	}
}

// putPromotion takes a Promotion from the watch.
func (c *Controller) putPromotion(object *unstructured.Unstructured) {
	c.need()
	made := &slipway.Promotion{}
	if convert(object, made) != nil {
		return
	}
	if made.DeletionTimestamp != nil || isFinished(made) {
		c.gonePromotion(types.NamespacedName{Name: made.Name})
		c.putEnded(made)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A Promotion of before the start of this process may have begun: its status has the
	// steps, and others of its Product wait for it.
	known := c.jobs[made.Name]
	if known == nil {
		known = &record{name: made.Name}
		c.jobs[made.Name] = known
	}
	known.product, known.created, known.due = made.Spec.Product, made.CreationTimestamp.Time, time.Now()
	known.begun = known.begun || len(made.Status.Steps) > 0
	c.wakeUp()
}

// gonePromotion forgets a Promotion. Others of its Product may begin.
func (c *Controller) gonePromotion(name types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.ended, name.Name)
	known := c.jobs[name.Name]
	if known == nil {
		return
	}
	delete(c.jobs, name.Name)
	c.traffic.forget(name.Name)
	c.productDue(known.product)
}

// isFinished reports whether a Promotion has ended.
func isFinished(of *slipway.Promotion) bool {
	switch of.Status.Phase {
	case slipway.PromotionSucceeded, slipway.PromotionFailed, slipway.PromotionAborted:
		return true
	}
	return false
}

// allDue makes all Promotions due, and productDue those of a Product. The lock must be
// held.
func (c *Controller) allDue() {
	for one := range c.records() {
		one.due = time.Now()
	}
	c.wakeUp()
}

func (c *Controller) productDue(product string) {
	for one := range c.records() {
		if one.product == product {
			one.due = time.Now()
		}
	}
	c.wakeUp()
}

// records are the Promotions, and the Products whose promotions begin by themselves.
func (c *Controller) records() iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for _, all := range []map[string]*record{c.jobs, c.starts} {
			for _, one := range all {
				if !yield(one) {
					return
				}
			}
		}
	}
}

// wakeUp makes Run look at what is due.
func (c *Controller) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// next takes the Promotion that is due longest, or returns how long none is.
func (c *Controller) next(now time.Time) (*record, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The timer is only a bound: watches wake the loop up.
	wait := time.Hour
	var found *record
	for one := range c.records() {
		if one.running {
			continue
		}
		if left := later(one.due, one.notBefore).Sub(now); left > 0 {
			wait = min(wait, left)
		} else if found == nil || one.due.Before(found.due) || one.due.Equal(found.due) && one.created.Before(found.created) {
			found = one
		}
	}
	if found != nil {
		// A change while it runs sets due again, so that it is not lost.
		found.running, found.due = true, now.Add(time.Hour)
		if found.name == "" {
			found.notBefore = now.Add(c.options.Interval)
		}
	}
	return found, wait
}

// process advances a Promotion as far as it goes, and schedules the next run.
func (c *Controller) process(ctx context.Context, of *record) {
	bounded, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	// The timeout bounds a Git server that sends slowly. What was not recorded by then is
	// found again in the next run.
	var again time.Duration
	var err error
	if of.name == "" {
		again, err = c.startIfDue(bounded, of)
	} else {
		again, err = c.advance(bounded, of)
	}
	if ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of.running = false
	now := time.Now()
	switch {
	case err != nil:
		// The backoff grows with the failures in a row; a change of an object, such as a
		// repaired credential, makes it due at once.
		of.failures++
		of.due = earlier(of.due, now.Add(retries().Delay(of.failures)))
	default:
		of.failures = 0
		if again > 0 {
			of.due = earlier(of.due, now.Add(again))
		}
	}
	c.wakeUp()
}

// earlier is the first of two times.
func earlier(x, y time.Time) time.Time {
	if x.Before(y) {
		return x
	}
	return y
}

// later is the last of two times.
func later(x, y time.Time) time.Time {
	if x.After(y) {
		return x
	}
	return y
}

// view is the catalog at one moment.
func (c *Controller) view() catalog {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.catalog.clone()
}

// readPromotion reads a Promotion from the API server: a copy of before could have
// another state.
func (c *Controller) readPromotion(ctx context.Context, name string) (*slipway.Promotion, error) {
	object, err := c.options.Cluster.Dynamic.Resource(promotionResource()).Namespace(c.options.ControlNamespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	made := &slipway.Promotion{}
	return made, convert(object, made)
}
