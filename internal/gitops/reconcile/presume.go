package reconcile

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// A comparison is a dry run of each object that may differ, and costs the API server
// almost what the apply costs that follows. For an automated sync of a new commit most
// of them are not needed: where a field was in the cluster as Git had it, and Git has
// another value now, the object is OutOfSync. See decision 0086 in docs/decisions.
//
// Only the first comparison with a new rendering presumes that, and only for a sync that
// starts in the same run. If none starts, all objects are compared by dry runs, because
// the status reports them; so they are after the sync. A presumption that is wrong, such
// as by a webhook that undoes a change, is a sync that changes nothing, once.

// replacedObjects returns the objects of the rendering of before that are not the same
// in the one that is desired now; nil if nothing may be presumed. Hooks run for a
// difference that the API server has confirmed only.
func (p *reconcileRun) replacedObjects(before *rendering, set *plan.Set, of *rendering) map[tracking.Key]*unstructured.Unstructured {
	if before == nil || !p.maySync() || len(hooks(set)) > 0 {
		return nil
	}
	same := make(map[string]bool, len(of.objects))
	for _, text := range of.objects {
		same[string(text)] = true
	}
	changed := &rendering{revisions: before.revisions}
	for _, text := range before.objects {
		if !same[string(text)] {
			changed.objects = append(changed.objects, text)
		}
	}
	if len(changed.objects) == 0 {
		return nil
	}
	prepared, err := p.prepare(changed, time.Time{})
	if err != nil {
		return nil // the dry runs decide
	}
	replaced := map[tracking.Key]*unstructured.Unstructured{}
	for _, one := range prepared.Resources() {
		replaced[one.Key] = one.Object
	}
	return replaced
}

// presume returns what a live object will be like, without a request, or nil if the API
// server has to decide. A Deployment in a release is desired with parts of its last
// revision, so nothing is presumed about it.
func (p *reconcileRun) presume(seen *observedState, desired, live *unstructured.Unstructured) *unstructured.Unstructured {
	key := tracking.KeyOf(desired)
	before := seen.replaced[key]
	if before == nil || p.releases[key] != nil {
		return nil
	}
	after := apply.CertainChange(before, desired, live)
	if after == nil {
		return nil
	}
	// A change of ignored fields alone is no difference. The comparison changes what it is
	// given, hence the copy.
	state, _ := plan.Compare(desired, live, p.ignore, func(_, _ *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return after.DeepCopy(), nil
	})
	if state != plan.OutOfSync {
		return nil
	}
	seen.presumed = true
	return after
}

// isForSync reports whether an observation is only good for a sync that starts: objects
// were not read, or presumed to be OutOfSync.
func (s *observedState) isForSync() bool { return s != nil && (len(s.unread) > 0 || s.presumed) }
