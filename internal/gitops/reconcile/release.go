package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/release"
)

// Releases are the parts that releases of Deployments need.
type Releases struct {
	// Traffic returns what two revisions of a Release served since the object
	// exists, by their hashes; false if no edge reported it.
	Traffic func(namespace, name, stable, canary string) (ReleaseTraffic, bool)
	// Quantiles returns median and 99th percentile of a histogram.
	Quantiles func(latency []uint64) (p50, p99 time.Duration)
	// NewJudge makes the judge of one canary. It continues with a state of an earlier judge,
	// if that is not empty and can be read.
	NewJudge func(guards slipway.ReleaseGuards, state []byte) ReleaseJudge
}

// ReleaseTraffic is what both revisions of a Release served.
type ReleaseTraffic struct{ Stable, Canary RevisionTraffic }

// RevisionTraffic is what a revision served, of the requests that were sent to it.
// Latency is the histogram that the judge reads.
type RevisionTraffic struct {
	Started  int64    `json:"-"`
	Requests int64    `json:"requests,omitempty"`
	Errors   int64    `json:"errors,omitempty"`
	Latency  []uint64 `json:"latency,omitempty"`
}

// ReleaseJudge compares two revisions. It is used by one goroutine at a time.
type ReleaseJudge interface {
	Judge(at time.Time, traffic ReleaseTraffic) release.Judgement
	// State is JSON for a judge that continues; nil for nothing.
	State() []byte
}

// releaseSession is what is kept of a Deployment's release between runs. All of
// it can be lost: judge and base continue with the state in the Release.
type releaseSession struct {
	// isRead: it is known whether there is a Release. isActive: there is.
	isRead, isActive bool
	// template is that of Git as the API server would have it, for a generation of
	// the live Deployment and a digest of the desired one.
	template, digest string
	generation       int64
	// trial identifies a canary and when its release began. first is what both
	// revisions had served by then: the Release of a revision that went back stays,
	// and so do its counts. judge compares the revisions of this trial.
	trial string
	first ReleaseTraffic
	judge ReleaseJudge
	// base has the requests of the canary at the begin of the share baseOf.
	base    int64
	baseOf  string
	silence silence
}

// releaseState is the release of a Deployment in this run.
type releaseState struct {
	own     *releaseSession
	desired *plan.Desired
	live    *unstructured.Unstructured
	last    *slipway.Release
	mark    release.Mark
	plan    release.Plan
	// isHandled: a request of a user is in the plan. isRetried: it is to try again
	// what is held back.
	isHandled, isRetried bool
}

// hasReleases reports whether Deployments of the Application can be released: by
// edges of this cluster, with a status that keeps a hold.
func (p *reconcileRun) hasReleases() bool {
	return p.Releases != nil && p.applier != nil && p.destinationCluster.isLocal() && p.hasStatusSubresource.Load()
}

// overlayReleases decides about the releases of a set's Deployments, and lays
// what follows over the desired objects. It writes nothing.
func (p *reconcileRun) overlayReleases(ctx context.Context, set *plan.Set, live map[tracking.Key]*unstructured.Unstructured, of *rendering) (map[tracking.Key]*releaseState, error) {
	if !p.hasReleases() {
		return nil, nil
	}
	states := map[tracking.Key]*releaseState{}
	for _, desired := range set.Resources() {
		found := live[desired.Key]
		if desired.Key.Group != "apps" || desired.Key.Kind != "Deployment" || found == nil || found.GetDeletionTimestamp() != nil {
			continue
		}
		state, err := p.releaseOf(ctx, set, desired, found, of)
		if err != nil {
			return nil, fmt.Errorf("release %s: %w", desired.Key, err)
		}
		if state == nil {
			continue
		}
		states[desired.Key] = state
		delete(p.session.syncedVersions, desired.Key) // it was compared with another overlay
		if overlay := state.plan.Overlay; overlay != nil {
			if err := overlay.Apply(desired.Object); err != nil {
				return nil, err
			}
		}
	}
	return states, nil
}

// releaseOf decides about the release of one Deployment; nil if it has none. One
// that is Synced and has no Release costs no request.
func (p *reconcileRun) releaseOf(ctx context.Context, set *plan.Set, desired *plan.Desired, live *unstructured.Unstructured, of *rendering) (*releaseState, error) {
	own := p.session.releases[desired.Key]
	if own == nil {
		own = &releaseSession{}
	}
	mark := release.MarkOf(live)
	policy, err := p.releasePolicy(ctx, set, desired)
	if err != nil {
		return nil, err
	}
	if policy == nil && mark.Stable == "" && !own.isActive {
		return nil, nil
	}
	if p.session.releases == nil {
		p.session.releases = map[tracking.Key]*releaseSession{}
	}
	p.session.releases[desired.Key] = own
	if err := p.predictTemplate(ctx, own, desired.Object, live); err != nil {
		return nil, err
	}
	isChanged := own.template != templateOf(live)
	if mark.Stable == "" && !p.mayBegin(of) {
		isChanged = false
	}
	if mark.Stable == "" && !isChanged && own.isRead && !own.isActive {
		return nil, nil
	}
	state := &releaseState{own: own, desired: desired, live: live, mark: mark}
	if state.last, err = p.readRelease(ctx, desired.Key); err != nil {
		return nil, err
	}
	own.isRead, own.isActive = true, state.last != nil
	if mark.Stable == "" && !isChanged {
		if state.last == nil {
			return nil, nil
		}
		policy = nil // the last release ends, and none begins
	}
	in, err := p.releaseInput(ctx, state, policy, of)
	if err != nil {
		return nil, err
	}
	state.plan = release.Decide(in)
	return state, nil
}

// mayBegin reports whether a sync of a rendering may begin a release. The way back
// to another revision does not wait for requests, and neither does the repair of
// a template that was changed in the cluster.
func (p *reconcileRun) mayBegin(of *rendering) bool {
	last := p.pastSync(-1)
	return of == p.session.rendering && !(last != nil && slices.Equal(pastRevisions(last), of.revisions) && sameSources(pastSources(last), of.sources))
}

// releaseInput collects what decides about a release.
func (p *reconcileRun) releaseInput(ctx context.Context, state *releaseState, policy *release.Policy, of *rendering) (*release.Input, error) {
	sets, err := p.replicaSets(ctx, state.live)
	if err != nil {
		return nil, err
	}
	own, current := state.own, templateOf(state.live)
	in := &release.Input{
		Now: time.Now(), Name: state.desired.Key.Name, Policy: policy, Last: state.last, Mark: state.mark,
		Replicas: replicasOf(state.live), ReadyTimeout: progressDeadline(state.desired.Object), IsRolledOut: isRolledOut(state.live),
		From: -1, CanaryCommit: commitOf(of.revisions),
	}
	if own.template != current {
		in.Change = release.Changed
	}
	for i := range sets {
		if sets[i].template == current {
			in.Current = &sets[i].Revision
		}
		if state.mark.Stable != "" && sets[i].Hash == state.mark.Stable {
			in.Stable = &sets[i].Revision
			if own.template != current && own.template == sets[i].template {
				in.Change = release.Back
			}
		}
	}
	past := p.pastSync(-1)
	if state.mark.Stable != "" && state.mark.From >= 0 {
		past = p.pastSync(state.mark.From)
	}
	if past != nil {
		in.From, in.StableCommit = past.ID, commitOf(pastRevisions(past))
	}
	in.IsHeld = p.held() != nil
	if state.last != nil {
		in.Action, state.isHandled = requestedAction(state.last)
	}
	state.isRetried = in.Action == slipway.ReleaseRetry
	if in.Stable != nil && in.Current != nil && in.Current != in.Stable {
		in.Restarts = p.restarts(ctx, state.desired.Key.Namespace, in.Current)
	}
	p.addTraffic(in, state)
	return in, nil
}

// predictTemplate finds the template of Git as the API server would have it. The
// dry run is repeated only if either side changed.
func (p *reconcileRun) predictTemplate(ctx context.Context, own *releaseSession, desired, live *unstructured.Unstructured) error {
	text, err := json.Marshal(desired.Object)
	if err != nil {
		return fmt.Errorf("encode the desired object: %w", err)
	}
	digest := digestOf([][]byte{text})
	if own.digest == digest && own.generation == live.GetGeneration() {
		return nil
	}
	predicted, err := p.applier.Predict(ctx, objectOptions(&p.app.Spec, nil).Unvalidated)(desired, live)
	var fault *apply.Error
	switch {
	case errors.As(err, &fault) && fault.Kind != apply.Transient && fault.Kind != apply.Conflict:
		own.template, own.digest = templateOf(live), "" // the comparison reports it
		return nil
	case err != nil:
		return err
	}
	own.template, own.digest, own.generation = templateOf(predicted), digest, live.GetGeneration()
	return nil
}

// templateOf is the Pod template of a Deployment or ReplicaSet as text, without
// what the Deployment controller adds.
func templateOf(object *unstructured.Unstructured) string {
	template, _, _ := unstructured.NestedMap(object.Object, "spec", "template") // a copy
	unstructured.RemoveNestedField(template, "metadata", "labels", hashLabel)
	unstructured.RemoveNestedField(template, "metadata", "creationTimestamp")
	text, _ := json.Marshal(template)
	return string(text)
}

// hashLabel is the label of Pods and ReplicaSets by which the Deployment
// controller distinguishes revisions.
const hashLabel = "pod-template-hash"

// replicasOf is the size of a Deployment.
func replicasOf(deployment *unstructured.Unstructured) int32 {
	replicas, found, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	if !found {
		return 1
	}
	return int32(replicas)
}

// progressDeadline is that of a Deployment in Git, or Kubernetes' default.
func progressDeadline(deployment *unstructured.Unstructured) time.Duration {
	seconds, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "progressDeadlineSeconds")
	return time.Duration(cmp.Or(seconds, 600)) * time.Second
}

// isRolledOut reports whether all Pods of a Deployment are of one revision and
// available.
func isRolledOut(deployment *unstructured.Unstructured) bool {
	number := func(field string) int64 {
		value, _, _ := unstructured.NestedInt64(deployment.Object, "status", field)
		return value
	}
	wanted := int64(replicasOf(deployment))
	return number("observedGeneration") >= deployment.GetGeneration() && number("updatedReplicas") == wanted &&
		number("replicas") == wanted && number("availableReplicas") == wanted
}

// commitForm is what the edge takes as the commit of a revision.
var commitForm = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

// commitOf is the commit of one source; empty for several, or for something that
// is no commit.
func commitOf(revisions []string) string {
	if len(revisions) != 1 || !commitForm.MatchString(revisions[0]) {
		return ""
	}
	return revisions[0]
}

// pastSync is the entry of the history with an id; a negative id is the last one.
func (p *reconcileRun) pastSync(id int64) *v1alpha1.RevisionHistory {
	history := p.history()
	if id < 0 && len(history) > 0 {
		return &history[len(history)-1]
	}
	for i := range history {
		if history[i].ID == id {
			return &history[i]
		}
	}
	return nil
}

// pastRevisions and pastSources are those of an entry of the history.
func pastRevisions(entry *v1alpha1.RevisionHistory) []string {
	if len(entry.Revisions) > 0 {
		return entry.Revisions
	}
	return []string{entry.Revision}
}

func pastSources(entry *v1alpha1.RevisionHistory) []v1alpha1.ApplicationSource {
	if entry.Source != nil {
		return []v1alpha1.ApplicationSource{*entry.Source}
	}
	return entry.Sources
}
