package notify

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// behindDelay is how long a comparison after an operation is waited for. The time of a
// comparison is written with its result only: an operation after which everything is as
// before has no newer one.
const behindDelay = 2 * time.Second

// behindStatus is a version whose status is older than its operation, and when it came.
type behindStatus struct {
	version string
	since   time.Time
}

// awaitStatus returns how long to wait for a status that is newer than the last
// operation; 0 for no longer.
func (c *Controller) awaitStatus(name types.NamespacedName, object *unstructured.Unstructured) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isRefreshed(object) {
		delete(c.behind, name)
		return 0
	}
	known, now := c.behind[name], time.Now()
	if known.version != object.GetResourceVersion() {
		c.behind[name] = behindStatus{object.GetResourceVersion(), now}
		return behindDelay
	}
	return max(0, behindDelay-now.Sub(known.since))
}

// isRefreshed reports whether the status is newer than the last operation. Between its
// end and the next comparison the status is that of before, as with Argo CD.
func isRefreshed(object *unstructured.Unstructured) bool {
	phase, _, _ := unstructured.NestedString(object.Object, "status", "operationState", "phase")
	if !v1alpha1.OperationPhase(phase).Completed() {
		return true
	}
	finished := timeAt(object, "status", "operationState", "finishedAt")
	return !finished.IsZero() && (!finished.After(timeAt(object, "status", "reconciledAt")) || !finished.After(timeAt(object, "status", "observedAt")))
}

// timeAt reads a time of an object; zero if there is none.
func timeAt(object *unstructured.Unstructured, path ...string) time.Time {
	text, _, _ := unstructured.NestedString(object.Object, path...)
	at, _ := time.Parse(time.RFC3339, text)
	return at
}

// withDeployedRevision returns an Application for triggers. While it is Synced, its
// revision is that of the last sync: a commit that changes other files of the repository
// changes the revision of the comparison, but no object, and is no reason for a message.
func withDeployedRevision(object *unstructured.Unstructured) *unstructured.Unstructured {
	status, _, _ := unstructured.NestedString(object.Object, "status", "sync", "status")
	history, _, _ := unstructured.NestedSlice(object.Object, "status", "history")
	if v1alpha1.SyncStatusCode(status) != v1alpha1.SyncSynced || len(history) == 0 {
		return object
	}
	last, _ := history[len(history)-1].(map[string]any)
	copied := object.DeepCopy()
	for _, field := range []string{"revision", "revisions"} {
		if value, has := last[field]; has {
			// The path exists, and is one of maps.
			_ = unstructured.SetNestedField(copied.Object, value, "status", "sync", field)
		}
	}
	return copied
}

// sameSubscriptions reports whether two objects have the same subscriptions.
func sameSubscriptions(x, y map[string]string) bool {
	within := func(x, y map[string]string) bool {
		for key, value := range x {
			if isSubscription(key) && y[key] != value {
				return false
			}
		}
		return true
	}
	return within(x, y) && within(y, x)
}
