package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// session is what is kept of an Application between runs, in memory only. All
// of it can be lost: what must survive a restart is in the status. It is used
// by the worker that holds the Application's item, without a lock.
type session struct {
	// cache is that of the cluster of the last run: everything else here is
	// about that cluster.
	cache *live.Cache
	// rendering is the last one that succeeded.
	rendering *rendering
	// heldRendering is that of the revision that the Application is held at; nil
	// if there is no hold. comparedWith is the one of the last comparison.
	heldRendering, comparedWith *rendering
	// lastError is why the sources cannot be rendered at the moment; nil if
	// they can.
	lastError error
	// failedRender is a render that failed, kept for as long as the same inputs
	// would fail again.
	failedRender *render.Error
	// dependencies are what the sources of the spec need of elsewhere, as far as
	// renders have shown it.
	dependencies []render.Dependency
	// matches are the config management plugins that match sources, by the key of
	// the match; empty where none does.
	matches map[string]string

	// refreshSince is when a refresh was requested that is not done yet; zero
	// if there is none. Only polls that began later satisfy it.
	refreshSince time.Time

	// operation is the one that runs, if it is in memory.
	operation *runningOperation
	// started is when this process started the operation that runs; zero for one
	// that it only found in the status.
	started metav1.Time
	// pending is the part of the status that is not written yet.
	pending *pendingStatus
	// compared: this process has compared the Application and written the result. What
	// it finds Synced from then on is no sync that an earlier process left unrecorded.
	compared bool
	// replans is how often the plan of the operation was built again.
	replans int
	// deletion deletes the Application's objects.
	deletion *deletion

	// syncedVersions are the versions of live objects that were Synced: no dry
	// run is needed for them.
	syncedVersions map[tracking.Key]string
	// progress has since when objects are Progressing.
	progress map[tracking.Key]time.Time
	// releases are what is kept about releases of Deployments.
	releases map[tracking.Key]*releaseSession
	// fingerprint is that of the live objects of the last run; empty if that
	// run did not compare all of them.
	fingerprint string
	// failures are the runs in a row that are retried.
	failures int
}

// pendingStatus is the part of the status that is newer here than in the API
// server.
type pendingStatus struct {
	state   *v1alpha1.OperationState
	history []v1alpha1.RevisionHistory
	held    *v1alpha1.HeldRevision
	// consumed is the request that started the operation; nil for an automated
	// sync.
	consumed *v1alpha1.Operation
}

// bindDestination drops what is about another cluster than the one that the
// Application now names. An operation that ran there is started again.
func (s *session) bindDestination(at *Destination) {
	if s.cache != nil && s.cache != at.Live {
		*s = session{refreshSince: s.refreshSince, pending: s.pending, started: s.started}
	}
	s.cache = at.Live
}

// forgetComparison drops what depends on the rendering.
func (s *session) forgetComparison() {
	s.syncedVersions = nil
	s.fingerprint = ""
}

// progressing returns since when an object has been Progressing. After a
// restart it is taken from the last status, so that a deadline is not extended.
func (s *session) progressing(key tracking.Key, raw *health.Status, reported *v1alpha1.HealthStatus, expired *health.Status, now time.Time) time.Time {
	if raw == nil || raw.Code != v1alpha1.Progressing {
		delete(s.progress, key)
		return time.Time{}
	}
	since, known := s.progress[key]
	if !known {
		since = now
		if reported != nil && reported.LastTransitionTime != nil {
			switch {
			case reported.Status == raw.Code:
				since = reported.LastTransitionTime.Time
			case expired != nil && reported.Status == expired.Code && reported.Message == expired.Message:
				// It had been so for too long before we were started.
				since = time.Unix(0, 0)
			}
		}
		if s.progress == nil {
			s.progress = map[tracking.Key]time.Time{}
		}
		s.progress[key] = since
	}
	return since
}

// keepProgress drops objects that are no longer listed.
func (s *session) keepProgress(resources []v1alpha1.ResourceStatus) {
	if len(s.progress) == 0 {
		return
	}
	kept := map[tracking.Key]time.Time{}
	for i := range resources {
		key := resourceKey(&resources[i])
		if since, known := s.progress[key]; known {
			kept[key] = since
		}
	}
	s.progress = kept
}

// How soon something is tried again that failed for a reason that may be gone
// then.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
)

// pause returns the backoff after a number of failures in a row.
func pause(failures int) time.Duration {
	return backoff.Policy{First: firstPause, Longest: longestPause, JitterUp: 0.2}.Delay(failures)
}

// rendering is the result of a render, as compact JSON: decoded objects take
// ten times the memory.
type rendering struct {
	// result has no objects.
	result *render.Result
	// kubeVersion and apiVersions are what the cluster served.
	kubeVersion string
	apiVersions []string
	objects     [][]byte
	// revisions are those of the sources when it was rendered.
	revisions []string
	sources   []v1alpha1.ApplicationSource
	// digest identifies the objects.
	digest string
}

// newRendering keeps a result. Of the request it keeps only what is compared: its
// files and functions would keep everything of the run in memory.
func newRendering(request render.Request, result *render.Result) (*rendering, error) {
	kept := &rendering{kubeVersion: request.KubeVersion, apiVersions: request.APIVersions}
	for _, object := range result.Objects {
		text, err := json.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("keep what was rendered: %w", err)
		}
		kept.objects = append(kept.objects, text)
	}
	kept.digest = digestOf(kept.objects)
	bare := *result
	bare.Objects = nil
	kept.result = &bare
	for i := range request.Inputs {
		kept.revisions = append(kept.revisions, request.Inputs[i].Revision)
		kept.sources = append(kept.sources, request.Inputs[i].Source)
	}
	return kept, nil
}

// decode returns the objects as fresh copies, which the caller may change.
func (r *rendering) decode() ([]*unstructured.Unstructured, error) {
	objects := make([]*unstructured.Unstructured, 0, len(r.objects))
	for _, text := range r.objects {
		// Not UnmarshalJSON of the object: that fails for one without a kind, and
		// quotes all of it. The plan refuses such an object by name.
		var content map[string]any
		if err := utiljson.Unmarshal(text, &content); err != nil {
			return nil, errors.New("read what was rendered: it is not the JSON of an object")
		}
		objects = append(objects, &unstructured.Unstructured{Object: content})
	}
	return objects, nil
}

// seesCluster reports whether a part depends on the kinds that the cluster
// serves.
func (r *rendering) seesCluster() bool { return render.SeesCluster(r.result.Types) }

// revision is the revision of one source, or those of several.
func (r *rendering) revision() (string, []string) {
	if len(r.revisions) == 1 {
		return r.revisions[0], nil
	}
	return "", r.revisions
}
