package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// session is what is remembered of an Application between passes. All of it can
// be lost: what must not be is in the status.
type session struct {
	// cache has the objects of the cluster that the Application was for at the
	// last pass: what is remembered is about that one.
	cache *live.Cache
	// rendering is the last one that went well.
	rendering *rendering
	// trouble is why what is desired is not known at the moment; nil if it is.
	trouble error
	// failed is a render that failed, for as long as it would fail again.
	failed *render.Error

	// refreshing is since when somebody has been waiting for a refresh; zero if
	// nobody is.
	refreshing time.Time

	// run is the operation that runs, if it is in memory.
	run *run
	// unsaved is what has happened and is not in the status yet.
	unsaved *unsaved
	// removal is the deletion of the Application's objects.
	removal *removal

	// matched are the versions of live objects that were found to be as desired.
	matched map[tracking.Key]string
	// progress is since when objects have been Progressing.
	progress map[tracking.Key]time.Time
	// seen is a fingerprint of the live objects of the last pass; empty if that
	// was not a complete one.
	seen string
	// failures are the passes in a row that have to be done again.
	failures int
}

// unsaved is what of the status is newer here than in the API server.
type unsaved struct {
	state   *v1alpha1.OperationState
	history []v1alpha1.RevisionHistory
	// consumed is the request that the operation was started by; nil if nobody
	// asked.
	consumed *v1alpha1.Operation
}

// arrive forgets what is about another cluster than the one that the Application
// names. An operation that ran there is begun again here.
func (s *session) arrive(at *Destination) {
	if s.cache != nil && s.cache != at.Live {
		*s = session{refreshing: s.refreshing, unsaved: s.unsaved}
	}
	s.cache = at.Live
}

// settle forgets what depends on what is desired.
func (s *session) settle() {
	s.matched = nil
	s.seen = ""
}

// progressing says since when an object has been Progressing. What is not
// remembered is taken from the last status.
func (s *session) progressing(key tracking.Key, raw *health.Status, told *v1alpha1.HealthStatus, expired *health.Status, now time.Time) time.Time {
	if raw == nil || raw.Code != v1alpha1.Progressing {
		delete(s.progress, key)
		return time.Time{}
	}
	since, known := s.progress[key]
	if !known {
		since = now
		if told != nil && told.LastTransitionTime != nil {
			switch {
			case told.Status == raw.Code:
				since = told.LastTransitionTime.Time
			case expired != nil && told.Status == expired.Code && told.Message == expired.Message:
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

// keepProgress forgets objects that are not among the listed ones.
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

// pause is how long to wait after so many failures in a row.
func pause(failures int) time.Duration {
	return backoff.Policy{First: firstPause, Longest: longestPause, JitterUp: 0.2}.Delay(failures)
}

// rendering is what was rendered, as compact JSON.
type rendering struct {
	// result has no objects.
	result *render.Result
	// request is without files.
	request render.Request
	objects [][]byte
	// revisions are those of the sources when it was rendered.
	revisions []string
	sources   []v1alpha1.ApplicationSource
}

func newRendering(request render.Request, result *render.Result) (*rendering, error) {
	kept := &rendering{request: request}
	for _, object := range result.Objects {
		text, err := json.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("keep what was rendered: %w", err)
		}
		kept.objects = append(kept.objects, text)
	}
	bare := *result
	bare.Objects = nil
	kept.result = &bare
	kept.request.Inputs = slices.Clone(request.Inputs)
	for i := range kept.request.Inputs {
		input := &kept.request.Inputs[i]
		kept.revisions = append(kept.revisions, input.Revision)
		kept.sources = append(kept.sources, input.Source)
		input.Store = nil
	}
	return kept, nil
}

// decode gives the objects, as fresh copies of JSON types.
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

// usesCharts reports whether Helm rendered some of it. Only charts can ask for
// the kinds of the cluster.
func (r *rendering) usesCharts() bool { return slices.Contains(r.result.Types, v1alpha1.SourceHelm) }

// revision is the revision of one source, or those of several.
func (r *rendering) revision() (string, []string) {
	if len(r.revisions) == 1 {
		return r.revisions[0], nil
	}
	return "", r.revisions
}
