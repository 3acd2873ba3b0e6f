package reconcile

import (
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// waveAnnotation has the sync wave of an object.
const waveAnnotation = "argocd.argoproj.io/sync-wave"

// resourceSummary is the list of an Application's objects with their health,
// and the health of all together.
type resourceSummary struct {
	resources []v1alpha1.ResourceStatus
	health    health.Status
	summary   v1alpha1.ApplicationSummary
	// requeueAt is when a progress deadline ends; zero if there is none.
	requeueAt time.Time
}

// summarizeResources lists the objects that were observed.
func (p *reconcileRun) summarizeResources(seen *observedState) resourceSummary {
	result := resourceSummary{}
	counter := &summarizer{pass: p, result: &result, lastHealth: map[tracking.Key]*v1alpha1.HealthStatus{}}
	for i := range p.app.Status.Resources {
		resource := &p.app.Status.Resources[i]
		counter.lastHealth[resourceKey(resource)] = resource.Health
	}
	if seen.set == nil {
		counter.fromStatus(seen)
	} else {
		counter.fromComparison(seen)
	}
	p.session.keepProgress(result.resources)
	slices.SortStableFunc(result.resources, func(a, b v1alpha1.ResourceStatus) int {
		return resourceKey(&a).Compare(resourceKey(&b))
	})
	result.health = health.Aggregate(counter.healths)
	result.summary = summarize(counter.objects)
	return result
}

// resourceKey is the identity of an entry of the status.
func resourceKey(resource *v1alpha1.ResourceStatus) tracking.Key {
	return tracking.Key{Group: resource.Group, Kind: resource.Kind, Namespace: resource.Namespace, Name: resource.Name}
}

// summarizer collects the list. lastHealth is that of the last status: the time
// of a transition is kept while the code is the same.
type summarizer struct {
	pass       *reconcileRun
	result     *resourceSummary
	lastHealth map[tracking.Key]*v1alpha1.HealthStatus
	healths    []health.Resource
	objects    []*unstructured.Unstructured
}

// fromComparison lists the desired objects, the ones to prune, and live hooks.
func (c *summarizer) fromComparison(seen *observedState) {
	desired := map[tracking.Key]*plan.Desired{}
	for _, one := range seen.set.Objects {
		desired[one.Key] = one
	}
	for _, one := range seen.compared {
		object := seen.live[one.Key]
		resource := v1alpha1.ResourceStatus{Status: v1alpha1.SyncOutOfSync, RequiresPruning: one.Prune}
		switch one.State {
		case plan.Synced:
			resource.Status = v1alpha1.SyncSynced
		case plan.UnknownSync:
			resource.Status = v1alpha1.SyncUnknown
		}
		if want := desired[one.Key]; want != nil {
			resource.Version, resource.SyncWave = want.Object.GroupVersionKind().Version, int64(want.Wave)
		} else if object != nil {
			resource.Version, resource.SyncWave = object.GroupVersionKind().Version, waveOf(object)
			resource.RequiresDeletionConfirmation = c.pass.mustConfirm(object)
		}
		c.add(one.Key, resource, object)
	}
	for _, hook := range seen.set.Objects {
		if object := seen.live[hook.Key]; hook.Hook != nil && object != nil {
			c.add(hook.Key, v1alpha1.ResourceStatus{
				Version: hook.Object.GroupVersionKind().Version, SyncWave: int64(hook.Wave), Hook: true,
			}, object)
		}
	}
}

// fromStatus lists what the last status has, with the health of now, for an
// Application that cannot be rendered.
func (c *summarizer) fromStatus(seen *observedState) {
	for _, resource := range c.pass.app.Status.Resources {
		c.add(resourceKey(&resource), resource, seen.live[resourceKey(&resource)])
	}
}

// add appends one object with its health.
func (c *summarizer) add(key tracking.Key, resource v1alpha1.ResourceStatus, object *unstructured.Unstructured) {
	resource.Group, resource.Kind, resource.Namespace, resource.Name = key.Group, key.Kind, key.Namespace, key.Name
	status := c.assess(key, object)
	resource.Health = nil
	if status != nil {
		resource.Health = healthStatus(c.lastHealth[key], *status, c.pass.now)
	}
	c.result.resources = append(c.result.resources, resource)
	c.healths = append(c.healths, health.Resource{
		Group: key.Group, Kind: key.Kind, Namespace: key.Namespace, Name: key.Name,
		Live: object != nil, Hook: resource.Hook, Ignored: health.Ignored(object), Self: key == c.pass.ownKey(), Health: status,
	})
	if object != nil {
		c.objects = append(c.objects, object)
	}
}

// assess returns the health of an object. One that is Progressing for longer
// than its deadline is Degraded.
func (c *summarizer) assess(key tracking.Key, object *unstructured.Unstructured) *health.Status {
	p := c.pass
	raw := p.Health.Of(object, p.now)
	if releasing := p.releaseHealth(key); releasing != nil {
		return releasing
	}
	expired := health.WithDeadline(raw, object, time.Unix(0, 0), p.now)
	since := p.session.progressing(key, raw, c.lastHealth[key], expired, p.now)
	if since.IsZero() {
		return raw
	}
	status := health.WithDeadline(raw, object, since, p.now)
	limit, limited := health.Deadline(object)
	if limited && status.Code == v1alpha1.Progressing {
		if deleted := object.GetDeletionTimestamp(); deleted != nil {
			since = deleted.Time
		}
		c.result.requeueAt = earliest(c.result.requeueAt, since.Add(limit))
	}
	return status
}

// healthStatus makes the entry of a status, and keeps the time of the last
// transition if the code is the same.
func healthStatus(before *v1alpha1.HealthStatus, status health.Status, now time.Time) *v1alpha1.HealthStatus {
	reported := &v1alpha1.HealthStatus{Status: status.Code, Message: status.Message}
	if before != nil && before.Status == status.Code && before.LastTransitionTime != nil {
		reported.LastTransitionTime = before.LastTransitionTime
	} else {
		reported.LastTransitionTime = wholeSecond(now)
	}
	return reported
}

// wholeSecond is a time as a status has it: without fractions, so that it reads
// back equal.
func wholeSecond(t time.Time) *metav1.Time { return &metav1.Time{Time: t.Truncate(time.Second)} }

// earliest returns the earlier of two times. Zero means that there is none, and
// loses.
func earliest(a, b time.Time) time.Time {
	switch {
	case a.IsZero():
		return b
	case b.IsZero() || a.Before(b):
		return a
	}
	return b
}

// waveOf returns the wave of a live object; one that cannot be read counts as
// 0.
func waveOf(object *unstructured.Unstructured) int64 {
	wave, err := strconv.ParseInt(object.GetAnnotations()[waveAnnotation], 10, 32)
	if err != nil {
		return 0
	}
	return wave
}

// mustConfirm reports whether the deletion of an object has to be confirmed.
func (p *reconcileRun) mustConfirm(object *unstructured.Unstructured) bool {
	var general v1alpha1.SyncOptions
	if policy := p.app.Spec.SyncPolicy; policy != nil {
		general, _ = v1alpha1.ParseSyncOptions(policy.SyncOptions, "")
	}
	own, _ := v1alpha1.ParseSyncOptionsOf(object.GetAnnotations())
	_, confirmed := own.Over(general).Prune.Allowed()
	return confirmed
}
