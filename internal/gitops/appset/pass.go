package appset

import (
	"context"
	"errors"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// refreshAnnotation asks for a set to be generated anew.
const refreshAnnotation = "argocd.argoproj.io/application-set-refresh"

// setChanged is told of a set that is new or other.
func (c *Controller) setChanged(object *unstructured.Unstructured) {
	c.need()
	c.noteSet(object, fromWatch)
}

func (c *Controller) noteSet(object *unstructured.Unstructured, from origin) {
	if c.book.putSet(object, from) {
		c.queue.Add(types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
	}
}

func (c *Controller) setGone(name types.NamespacedName, _ types.UID) { c.book.dropSet(name) }

// applicationChanged is told of an Application. What others changed is put right
// at once; health can wait a little.
func (c *Controller) applicationChanged(object *unstructured.Unstructured) {
	names, what := c.book.putApplication(object, fromWatch)
	for _, name := range names {
		switch what {
		case contentNew:
			c.queue.Add(name)
		case healthNew:
			c.queue.AddAfter(name, settle)
		}
	}
}

func (c *Controller) applicationGone(name types.NamespacedName, _ types.UID) {
	for _, set := range c.book.dropApplication(name) {
		c.queue.Add(set)
	}
}

// clusterChanged is told of a cluster Secret.
func (c *Controller) clusterChanged(*unstructured.Unstructured) {
	for _, name := range c.book.ofClusters() {
		c.regenerate(name)
	}
}

func (c *Controller) clusterGone(types.NamespacedName, types.UID) { c.clusterChanged(nil) }

// pass looks at one set: it is read, generated if that is due, compared and
// told. The result is when to come again; an error is for trying again sooner.
func (c *Controller) pass(ctx context.Context, name types.NamespacedName) (time.Duration, error) {
	taken, ok := c.book.take(name)
	if !ok {
		return 0, nil
	}
	set, refused, err := v1alpha1.DecodeSet(taken.object.Object)
	if err != nil {
		// The API server would not have such an object.
		c.options.Log.Warn("cannot read an ApplicationSet", "set", describe(name), "error", err)
		return 0, nil
	}
	if isDeleting(taken.object) {
		return 0, c.release(ctx, set)
	}
	if len(refused) > 0 {
		c.book.asks(name, nil, false)
		c.book.generated(name, set.UID, nil)
		told := c.tell(ctx, set, report{reason: reasonInvalid, err: errors.New(v1alpha1.Summary(refused))})
		return 0, errors.Join(told, c.answered(ctx, taken.object))
	}
	interval := c.note(name, set)
	if taken.due || taken.desired == nil {
		if taken.desired, err = c.generate(ctx, set); err != nil {
			c.book.generated(name, set.UID, nil)
			c.book.due(name)
			told := c.tell(ctx, set, report{reason: reasonGeneration, err: err})
			return 0, errors.Join(err, told, c.answered(ctx, taken.object))
		}
		c.book.generated(name, set.UID, taken.desired)
		taken.next = c.schedule(name, interval)
	}
	reason, err := c.synchronize(ctx, set, taken.desired)
	told := c.tell(ctx, set, report{reason: reason, err: err, generated: true})
	return untilNext(taken.next), errors.Join(err, told, c.answered(ctx, taken.object))
}

// schedule says when a set is generated the next time, if it reads Git.
func (c *Controller) schedule(name types.NamespacedName, interval time.Duration) time.Time {
	var next time.Time
	if wait := c.wait(interval); wait > 0 {
		next = time.Now().Add(wait)
	}
	c.book.plan(name, next)
	return next
}

// untilNext is how long it is until then, zero for never.
func untilNext(next time.Time) time.Duration {
	if next.IsZero() {
		return 0
	}
	return max(time.Until(next), time.Millisecond)
}

// generate makes the Applications of a set, with what it may see.
func (c *Controller) generate(ctx context.Context, set *v1alpha1.ApplicationSet) (map[string]*desired, error) {
	facts, err := c.factsOf(ctx, set)
	if err != nil {
		return nil, err
	}
	applications, err := Generate(ctx, set, facts)
	if err != nil {
		return nil, err
	}
	result := make(map[string]*desired, len(applications))
	for _, application := range applications {
		if result[application.Name], err = newDesired(application); err != nil {
			return nil, err
		}
	}
	return result, nil
}

// note keeps what a set asks for, and gives how often Git is to be asked: zero
// for a set that does not read it.
func (c *Controller) note(name types.NamespacedName, set *v1alpha1.ApplicationSet) time.Duration {
	var repositories []string
	var interval time.Duration
	clusters := false
	for i := range set.Spec.Generators {
		topGenerator(&set.Spec.Generators[i], "").walk(func(g *generator) {
			clusters = clusters || g.clusters != nil
			if g.git == nil {
				return
			}
			address := g.git.RepoURL
			if strings.Contains(address, "{{") {
				address = ""
			}
			repositories = append(repositories, address)
			wanted := c.options.Interval
			if seconds := g.git.RequeueAfterSeconds; seconds != nil && *seconds > 0 {
				wanted = min(time.Duration(min(*seconds, 1<<30))*time.Second, 24*time.Hour)
			}
			if interval == 0 || wanted < interval {
				interval = wanted
			}
		})
	}
	c.book.asks(name, repositories, clusters)
	return interval
}
