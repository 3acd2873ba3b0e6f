package imageupdate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/feed"
	"slipway.dev/slipway/internal/observe"
)

// definitionInterval is how often the cluster is checked for the definition of
// ImageUpdaters.
const definitionInterval = 30 * time.Second

// followUpdaters watches ImageUpdaters from when the cluster has them.
func (c *Controller) followUpdaters(ctx context.Context, namespaces []string) {
	for {
		served, err := c.options.Cluster.Serves(ctx, updaterVersion, updaterResource)
		if err == nil && served {
			break
		}
		if backoff.Sleep(ctx, min(definitionInterval, c.options.Interval)) != nil {
			return
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	for _, namespace := range namespaces {
		one := feed.New(feed.Options{
			Resource: updaterGVR(), Namespace: namespace, Put: func(object *unstructured.Unstructured) { c.putUpdater(ctx, object) },
			Gone: c.goneUpdater, Log: c.options.Log,
		})
		running.Go(func() { one.Follow(ctx, c.options.Cluster) })
	}
}

// putUpdater takes an ImageUpdater from the watch.
func (c *Controller) putUpdater(ctx context.Context, object *unstructured.Unstructured) {
	given := parseUpdater(object)
	c.mu.Lock()
	known := c.updaters[given.name]
	if known != nil && known.uid == given.uid && known.generation == given.generation {
		c.mu.Unlock()
		return // only the status changed
	}
	c.updaters[given.name] = given
	c.replanNamespace(given.name.Namespace)
	c.mu.Unlock()
	c.writeUpdaterStatus(ctx, given.name)
}

// goneUpdater forgets an ImageUpdater. Those that it was in the way of come into effect.
func (c *Controller) goneUpdater(name types.NamespacedName, _ types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.updaters, name)
	c.replanNamespace(name.Namespace)
}

// replanNamespace finds the jobs of all Applications of a namespace again.
func (c *Controller) replanNamespace(namespace string) {
	for name, app := range c.apps {
		if name.Namespace == namespace {
			c.replan(app, true)
		}
	}
}

// reportUpdater keeps how the run of an ImageUpdater ended, and writes its status.
func (c *Controller) reportUpdater(ctx context.Context, of *record, result result) {
	if of.key.updater == "" {
		return
	}
	c.mu.Lock()
	of.failed = ""
	if result.err != nil {
		of.failed = result.err.Error()
	}
	c.mu.Unlock()
	c.writeUpdaterStatus(ctx, types.NamespacedName{Namespace: of.key.app.Namespace, Name: of.key.updater})
}

// maxStatusText bounds the message of a condition.
const maxStatusText = 4 << 10

// condition is that of an ImageUpdater: what is refused, what failed, or what it updates.
func (c *Controller) condition(of *updater) metav1.Condition {
	ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Refused", ObservedGeneration: of.generation}
	if len(of.refused) > 0 {
		ready.Message = refusal.Summary(of.refused)
		return ready
	}
	var refused, failed []string
	apps, images := 0, 0
	for key, one := range c.jobs {
		if key.updater != of.name.Name || key.app.Namespace != of.name.Namespace {
			continue
		}
		apps++
		images += len(one.job.settings.Images)
		if problems := slices.Concat(one.job.refused, one.job.conflicts); len(problems) > 0 {
			refused = append(refused, refusal.Summary(problems))
		} else if one.failed != "" {
			failed = append(failed, key.app.Name+": "+one.failed)
		}
	}
	switch {
	case len(refused) > 0:
		slices.Sort(refused)
		ready.Message = strings.Join(slices.Compact(refused), "; ")
	case len(failed) > 0:
		slices.Sort(failed)
		ready.Reason, ready.Message = "Failed", strings.Join(failed, "; ")
	default:
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, "Reconciled", fmt.Sprintf("%d images of %d Applications", images, apps)
	}
	ready.Message = strings.ToValidUTF8(ready.Message[:min(len(ready.Message), maxStatusText)], "")
	return ready
}

// writeUpdaterStatus writes the condition if it is another one than before.
func (c *Controller) writeUpdaterStatus(ctx context.Context, name types.NamespacedName) {
	c.mu.Lock()
	of := c.updaters[name]
	if of == nil {
		c.mu.Unlock()
		return
	}
	ready := c.condition(of)
	key := fmt.Sprintf("%d %s %s %s", of.generation, ready.Status, ready.Reason, ready.Message)
	if of.status == key {
		c.mu.Unlock()
		return
	}
	of.status = key
	c.mu.Unlock()
	ready.LastTransitionTime = metav1.Now()
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []metav1.Condition{ready}}})
	if err == nil {
		updaters := c.options.Cluster.Dynamic.Resource(updaterGVR()).Namespace(name.Namespace)
		_, err = updaters.Patch(ctx, name.Name, types.MergePatchType, body, metav1.PatchOptions{}, "status")
	}
	if err == nil || apierrors.IsNotFound(err) || ctx.Err() != nil {
		return
	}
	c.options.Log.Warn("cannot write status", "imageUpdater", name.String(), observe.KeyError, err)
	c.mu.Lock()
	defer c.mu.Unlock()
	of.status = "" // the next run writes it again
}
