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

// waveAnnotation is where an object has its wave.
const waveAnnotation = "argocd.argoproj.io/sync-wave"

// census is the list of an Application's objects, and how they are together.
type census struct {
	resources []v1alpha1.ResourceStatus
	health    health.Status
	summary   v1alpha1.ApplicationSummary
	// again is when a deadline ends; zero if there is none.
	again time.Time
}

// count lists the objects that were seen.
func (p *pass) count(seen *sight) census {
	result := census{}
	counter := &counter{pass: p, result: &result, told: map[tracking.Key]*v1alpha1.HealthStatus{}}
	for i := range p.app.Status.Resources {
		resource := &p.app.Status.Resources[i]
		counter.told[resourceKey(resource)] = resource.Health
	}
	if seen.set == nil {
		counter.asTold(seen)
	} else {
		counter.asCompared(seen)
	}
	p.session.keepProgress(result.resources)
	slices.SortStableFunc(result.resources, func(a, b v1alpha1.ResourceStatus) int {
		return resourceKey(&a).Compare(resourceKey(&b))
	})
	result.health = health.Aggregate(counter.healths)
	result.summary = summarize(counter.objects)
	return result
}

func resourceKey(resource *v1alpha1.ResourceStatus) tracking.Key {
	return tracking.Key{Group: resource.Group, Kind: resource.Kind, Namespace: resource.Namespace, Name: resource.Name}
}

type counter struct {
	pass    *pass
	result  *census
	told    map[tracking.Key]*v1alpha1.HealthStatus
	healths []health.Resource
	objects []*unstructured.Unstructured
}

// asCompared lists what is desired, and what is to be pruned.
func (c *counter) asCompared(seen *sight) {
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

// asTold lists what the last status did, with the health of now: what is desired
// is not known.
func (c *counter) asTold(seen *sight) {
	for _, resource := range c.pass.app.Status.Resources {
		c.add(resourceKey(&resource), resource, seen.live[resourceKey(&resource)])
	}
}

func (c *counter) add(key tracking.Key, resource v1alpha1.ResourceStatus, object *unstructured.Unstructured) {
	resource.Group, resource.Kind, resource.Namespace, resource.Name = key.Group, key.Kind, key.Namespace, key.Name
	status := c.judge(key, object)
	resource.Health = nil
	if status != nil {
		resource.Health = toldHealth(c.told[key], *status, c.pass.now)
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

// judge says how an object is. What has been Progressing for too long is
// Degraded.
func (c *counter) judge(key tracking.Key, object *unstructured.Unstructured) *health.Status {
	p := c.pass
	raw := health.Of(object, p.now)
	expired := health.WithDeadline(raw, object, time.Unix(0, 0), p.now)
	since := p.session.progressing(key, raw, c.told[key], expired, p.now)
	if since.IsZero() {
		return raw
	}
	status := health.WithDeadline(raw, object, since, p.now)
	limit, limited := health.Deadline(object)
	if limited && status.Code == v1alpha1.Progressing {
		if deleted := object.GetDeletionTimestamp(); deleted != nil {
			since = deleted.Time
		}
		c.result.again = earliest(c.result.again, since.Add(limit))
	}
	return status
}

// toldHealth keeps the time of what was told last if it is the same code.
func toldHealth(before *v1alpha1.HealthStatus, status health.Status, now time.Time) *v1alpha1.HealthStatus {
	told := &v1alpha1.HealthStatus{Status: status.Code, Message: status.Message}
	if before != nil && before.Status == status.Code && before.LastTransitionTime != nil {
		told.LastTransitionTime = before.LastTransitionTime
	} else {
		told.LastTransitionTime = second(now)
	}
	return told
}

// second is a time as it is kept in a status, which has whole seconds.
func second(t time.Time) *metav1.Time { return &metav1.Time{Time: t.Truncate(time.Second)} }

// earliest is the earlier of two times, of which each may be missing.
func earliest(a, b time.Time) time.Time {
	switch {
	case a.IsZero():
		return b
	case b.IsZero() || a.Before(b):
		return a
	}
	return b
}

func waveOf(object *unstructured.Unstructured) int64 {
	wave, err := strconv.ParseInt(object.GetAnnotations()[waveAnnotation], 10, 32)
	if err != nil {
		return 0
	}
	return wave
}

// mustConfirm reports whether somebody has to confirm that an object is pruned.
func (p *pass) mustConfirm(object *unstructured.Unstructured) bool {
	var general v1alpha1.SyncOptions
	if policy := p.app.Spec.SyncPolicy; policy != nil {
		general, _ = v1alpha1.ParseSyncOptions(policy.SyncOptions, "")
	}
	own, _ := v1alpha1.ParseSyncOptionsOf(object.GetAnnotations())
	_, confirmed := own.Over(general).Prune.Allowed()
	return confirmed
}
