package appset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
)

// rollOut evaluates the strategy of a set; nil if it has none.
func (c *Controller) rollOut(set *v1alpha1.ApplicationSet, wanted map[string]*desired) *rollout {
	if !set.Spec.Strategy.IsRolling() {
		return nil
	}
	r := newRollout(set, wanted, c.ownedBy(set), time.Now())
	r.run()
	return r
}

// startSyncs requests the syncs of a rollout. Its states were written before: a
// process that ends in between finds them Pending, and requests what is missing.
func (c *Controller) startSyncs(ctx context.Context, set *v1alpha1.ApplicationSet, wanted map[string]*desired, r *rollout) error {
	if r == nil {
		return nil
	}
	var failures []error
	for _, name := range r.syncs() {
		known := r.live[name]
		operation, err := wanted[name].operation()
		if err != nil {
			return err
		}
		// The version keeps a request of a user that is not known yet.
		patch := map[string]any{
			"metadata":  map[string]any{"uid": string(known.uid), "resourceVersion": known.version},
			"operation": operation,
		}
		if _, err := c.patch(ctx, set.Namespace, name, patch); err != nil {
			failures = append(failures, fmt.Errorf("the sync of application %s cannot be requested: %w", name, err))
			continue
		}
		c.options.Log.Info("requested sync of Application", "set", set.Namespace+"/"+set.Name, "application", name, "step", r.stepNumber(name))
	}
	return errors.Join(failures...)
}

// operation is the sync of an Application in a rollout: that of its own policy,
// with Argo CD's initiator and reason.
func (d *desired) operation() (map[string]any, error) {
	content, err := decodeBody(d.body)
	if err != nil {
		return nil, err
	}
	sync, retry := map[string]any{}, any(map[string]any{"limit": int64(5)})
	spec, _ := content["spec"].(map[string]any)
	if policy, _ := spec["syncPolicy"].(map[string]any); policy != nil {
		if policy["retry"] != nil {
			retry = policy["retry"]
		}
		if policy["syncOptions"] != nil {
			sync["syncOptions"] = policy["syncOptions"]
		}
	}
	if d.prune {
		sync["prune"] = true
	}
	return map[string]any{
		"initiatedBy": map[string]any{"username": "applicationset-controller", "automated": true},
		"info":        []any{map[string]any{"name": "Reason", "value": "ApplicationSet RollingSync triggered a sync of this Application resource"}},
		"sync":        sync, "retry": retry,
	}, nil
}

// labels returns the labels of a generated Application.
func (d *desired) labels() map[string]string { return labelsIn(d.body) }

// labelsIn returns the labels of the compared part of an Application.
func labelsIn(body []byte) map[string]string {
	labels := map[string]string{}
	content, err := decodeBody(body)
	if err != nil { // it was encoded here
		return labels
	}
	metadata, _ := content["metadata"].(map[string]any)
	given, _ := metadata["labels"].(map[string]any)
	for name, value := range given {
		labels[name], _ = value.(string)
	}
	return labels
}

// ensureFinalizers adds the finalizer to a set that deletes in reverse order:
// without it Kubernetes deletes all Applications at once. A set with previews gets
// that of their comments.
func (c *Controller) ensureFinalizers(ctx context.Context, set *v1alpha1.ApplicationSet) error {
	wanted := slices.Clone(set.Finalizers)
	if set.Spec.Strategy.IsReverse() && !slices.Contains(wanted, generate.Finalizer) {
		wanted = append(wanted, generate.Finalizer)
	}
	if c.hasPreviews(set) && !slices.Contains(wanted, CommentFinalizer) {
		wanted = append(wanted, CommentFinalizer)
	}
	if len(wanted) == len(set.Finalizers) {
		return nil
	}
	if err := c.patchFinalizers(ctx, set, wanted); err != nil {
		return fmt.Errorf("the finalizers of %s/%s cannot be added: %w", set.Namespace, set.Name, err)
	}
	return nil
}

// deleteReverse deletes the Applications of the last step that has any, and
// reports whether some are left. The deletion of the last one of a step
// reconciles the set again. Those that no step selects are deleted with the set.
func (c *Controller) deleteReverse(ctx context.Context, set *v1alpha1.ApplicationSet) (bool, error) {
	last, names := noStep, []string{}
	live := c.ownedBy(set)
	for name, known := range live {
		labels := labelsIn(known.body)
		step := slices.IndexFunc(set.Spec.Strategy.RollingSync.Steps, func(s v1alpha1.RolloutStep) bool { return selects(s, labels) })
		if step > last {
			last, names = step, nil
		}
		if step == last && step != noStep {
			names = append(names, name)
		}
	}
	var failures []error
	for _, name := range slices.Sorted(slices.Values(names)) {
		if !live[name].deleting {
			failures = append(failures, c.remove(ctx, set, name, live[name]))
		}
	}
	return len(names) > 0, errors.Join(failures...)
}
