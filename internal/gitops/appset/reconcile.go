package appset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
)

// refreshAnnotation requests a generation.
const refreshAnnotation = "argocd.argoproj.io/application-set-refresh"

// setChanged handles an event of an ApplicationSet.
func (c *Controller) setChanged(object *unstructured.Unstructured) {
	c.need()
	c.noteSet(object, fromWatch)
}

// noteSet stores a set and queues it if it changed.
func (c *Controller) noteSet(object *unstructured.Unstructured, from origin) {
	if c.store.putSet(object, from) {
		c.queue.Add(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
	}
}

// setGone handles the deletion of a set. Its Applications are deleted by the
// garbage collector through their owner reference.
func (c *Controller) setGone(name types.NamespacedName, uid types.UID) {
	c.store.dropSet(name)
	c.reports.drop(uid)
}

// applicationChanged handles an event of an Application. Changes by others are
// reverted at once; health only concerns the status and can wait. An
// Application that moved from one set to another concerns both.
func (c *Controller) applicationChanged(object *unstructured.Unstructured) {
	names, what := c.store.putApplication(object, fromWatch)
	for _, name := range names {
		switch {
		// A rollout continues at once.
		case what == contentNew, what != nothingNew && c.store.isRolling(name):
			c.queue.Add(name)
		// The comment of a preview has the revision that it serves.
		case what == healthNew, what == stateNew && c.store.listsPulls(name):
			c.queue.AddAfter(name, statusDelay)
		}
	}
}

// applicationGone handles the deletion of an Application, which the set may
// have to create again.
func (c *Controller) applicationGone(name types.NamespacedName, _ types.UID) {
	for _, set := range c.store.dropApplication(name) {
		c.queue.Add(set)
	}
}

// clusterChanged handles an event of a cluster Secret.
func (c *Controller) clusterChanged(*unstructured.Unstructured) {
	for _, name := range c.store.setsOfClusters() {
		c.regenerate(name)
	}
}

// clusterGone handles the deletion of a cluster Secret.
func (c *Controller) clusterGone(types.NamespacedName, types.UID) { c.clusterChanged(nil) }

// pass reconciles one set: it generates the Applications if that is due,
// compares them with the cluster, writes the difference and the status. It
// returns when the next run is due; an error is retried sooner.
func (c *Controller) pass(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	taken, ok := c.store.take(name)
	if !ok {
		return 0, nil
	}
	set, refused, err := v1alpha1.DecodeSet(taken.object.Object)
	if err != nil {
		// The schema of the API server admits no such object.
		c.options.Log.Warn("cannot decode ApplicationSet", "set", describe(name), "error", err)
		return 0, nil
	}
	// Deleted sets generate nothing, even if it is invalid.
	if isDeleting(taken.object) {
		return 0, c.release(ctx, set)
	}
	if _, pending := set.Annotations[PendingAnnotation]; pending {
		return 0, nil // a change of the annotation is an event
	}
	if err := c.invalid(set, refused); err != nil {
		c.store.setInputs(name, inputs{})
		// Nothing is written until the set is valid again. Existing
		// Applications stay.
		c.store.generated(name, set.UID, nil)
		problem := c.writeStatus(ctx, set, passResult{reason: reasonInvalid, err: err})
		return 0, errors.Join(problem, c.removeRefreshAnnotation(ctx, taken.object))
	}
	if err := c.ensureFinalizers(ctx, set); err != nil {
		return 0, err
	}
	interval := c.recordInputs(name, set)
	if taken.due || taken.desired == nil {
		if taken.desired, err = c.generate(ctx, taken.object, set); err != nil {
			c.store.generated(name, set.UID, nil)
			// The retry must generate again, and not only compare.
			c.store.due(name)
			problem := c.writeStatus(ctx, set, passResult{reason: reasonGeneration, err: err})
			return 0, errors.Join(err, problem, c.removeRefreshAnnotation(ctx, taken.object))
		}
		c.store.generated(name, set.UID, taken.desired)
		// The interval starts after a successful generation.
		taken.next = c.schedule(name, interval)
	}
	reason, err := c.synchronize(ctx, set, taken.desired)
	rolling := c.rollOut(set, taken.desired)
	problem := c.writeStatus(ctx, set, passResult{reason: reason, err: err, generated: true, rollout: rolling, note: c.store.noteOf(name)})
	if problem == nil {
		problem = c.startSyncs(ctx, set, taken.desired, rolling)
	}
	if errors.Is(err, errKept) {
		err = nil
	}
	if again := c.reportPreviews(ctx, set); again > 0 {
		c.queue.AddAfter(name, again)
	}
	return rolling.until(taken.next), errors.Join(err, problem, c.removeRefreshAnnotation(ctx, taken.object))
}

// invalid returns why a set generates nothing until it is changed; nil for none.
func (c *Controller) invalid(set *v1alpha1.ApplicationSet, refused []refusal.Refusal) error {
	if len(refused) > 0 {
		return errors.New(refusal.Summary(refused))
	}
	if _, err := pullRulesOf(set); err != nil {
		return err
	}
	_, err := c.ignoreOf(set)
	return err
}

// schedule returns when a set that reads Git is generated next, and stores it.
func (c *Controller) schedule(name types.NamespacedName, interval time.Duration) time.Time {
	var next time.Time
	if wait := c.wait(interval); wait > 0 {
		next = time.Now().Add(wait)
	}
	c.store.plan(name, next)
	return next
}

// untilNext is the time until then; zero for never.
func untilNext(next time.Time) time.Duration {
	if next.IsZero() {
		return 0
	}
	return max(time.Until(next), time.Millisecond)
}

// generate returns the Applications of a set, from what it may read. Each is
// encoded as it comes: decoded, all of them would take many times the memory.
func (c *Controller) generate(ctx context.Context, object *unstructured.Unstructured, set *v1alpha1.ApplicationSet) (map[string]*desired, error) {
	facts, err := c.factsOf(ctx, set)
	if err != nil {
		return nil, err
	}
	rules, err := pullRulesOf(set)
	if err != nil {
		return nil, err
	}
	ruled := &ruledFacts{Facts: facts, rules: rules}
	// The worker gets what decides the result, and no status of others.
	wanted := map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindApplicationSet,
		"metadata": map[string]any{"name": set.Name, "namespace": set.Namespace}, "spec": object.Object["spec"],
	}
	result := map[string]*desired{}
	err = c.options.Generator.Generate(ctx, wanted, ruled, func(text []byte) error {
		application, err := c.decodeGenerated(set, text)
		if err == nil {
			result[application.Name], err = newDesired(application, set.Spec.Strategy.IsRolling())
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if c.store != nil {
		c.store.setNote(types.NamespacedName{Namespace: set.Namespace, Name: set.Name}, ruled.note())
	}
	return result, nil
}

// decodeGenerated decodes a generated Application. The generator has checked it.
// What keeps tenants apart is checked again, because a worker is not trusted
// after it has read a template.
func (c *Controller) decodeGenerated(set *v1alpha1.ApplicationSet, text []byte) (*v1alpha1.Application, error) {
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return nil, fmt.Errorf("a generated Application cannot be read: %w", err)
	}
	application, refused, err := v1alpha1.Decode(object)
	if err != nil {
		return nil, fmt.Errorf("a generated Application cannot be read: %w", err)
	}
	if len(refused) > 0 {
		return nil, fmt.Errorf("application %s: %s", application.Name, refusal.Summary(refused))
	}
	if application.Namespace != set.Namespace {
		return nil, fmt.Errorf("application %s is not in the namespace of the ApplicationSet", application.Name)
	}
	// A set of the control namespace whose project has parameters is that of an
	// administrator.
	allowed, err := projectOf(set)
	if err != nil && set.Namespace == c.options.ControlNamespace {
		return application, nil
	}
	if err != nil || application.Spec.ProjectName() != allowed {
		return nil, fmt.Errorf("application %s is not of the project of the ApplicationSet", application.Name)
	}
	return application, nil
}

// hostInterval is how often Git hosts and plugins are polled by default, as in
// Argo CD.
const hostInterval = 30 * time.Minute

// polled returns the interval of polling the input of a generator; zero for
// none.
func (c *Controller) polled(g *v1alpha1.Generator) time.Duration {
	var wanted time.Duration
	var seconds *int64
	switch {
	case g.Git != nil:
		wanted, seconds = c.options.Interval, g.Git.RequeueAfterSeconds
	case g.SCMProvider != nil:
		wanted, seconds = hostInterval, g.SCMProvider.RequeueAfterSeconds
	case g.PullRequest != nil:
		wanted, seconds = hostInterval, g.PullRequest.RequeueAfterSeconds
	case g.Plugin != nil:
		wanted, seconds = hostInterval, g.Plugin.RequeueAfterSeconds
	case g.ClusterDecisionResource != nil:
		wanted, seconds = c.options.Interval, g.ClusterDecisionResource.RequeueAfterSeconds
	}
	if seconds != nil && *seconds > 0 {
		// The limits avoid overflows and unreasonable intervals.
		wanted = min(time.Duration(min(*seconds, 1<<30))*time.Second, 24*time.Hour)
	}
	return wanted
}

// recordInputs stores what a set reads, and returns the interval of polling
// Git; zero for a set that does not read it. The shortest interval of all git
// generators counts for the whole set, because a generation runs all of them.
func (c *Controller) recordInputs(name types.NamespacedName, set *v1alpha1.ApplicationSet) time.Duration {
	var read inputs
	var interval time.Duration
	for i := range set.Spec.Generators {
		set.Spec.Generators[i].At("").Walk(func(g *v1alpha1.Generator) {
			read.add(g)
			if wanted := c.polled(g); wanted > 0 && (interval == 0 || wanted < interval) {
				interval = wanted
			}
		})
	}
	c.store.setInputs(name, read)
	return interval
}
