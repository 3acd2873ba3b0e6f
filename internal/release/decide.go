package release

import (
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/release/judge"
)

// Change is how the template in Git relates to the live one.
type Change int

// The changes of a template.
const (
	// Unchanged: the Deployment has the template of Git.
	Unchanged Change = iota
	// Changed: it has another one, and is not synced yet.
	Changed
	// Back: it has another one, and that of Git is the stable revision's.
	Back
)

// Revision is a ReplicaSet of the Deployment.
type Revision struct {
	Hash, UID string
	Ready     int32
}

// Counts are what a revision served since the release began, over all edges.
type Counts struct {
	Requests, Errors int64
	P50, P99         time.Duration
}

// Judgement is what the judge decided; its outcomes are those of a ReleaseDecision.
type Judgement struct{ Outcome, Reason, Message string }

// Input is everything that decides about a release.
type Input struct {
	Now    time.Time
	Name   string
	Policy *Policy
	// Last is the Release in the cluster; nil if there is none.
	Last *v1alpha1.Release
	// Mark is that of the live Deployment, Stable the revision that it names, and
	// Current the one of the live template. Both are nil if there is no such
	// ReplicaSet.
	Mark            Mark
	Stable, Current *Revision
	Change          Change
	Replicas        int32
	// ReadyTimeout is the progress deadline in Git.
	ReadyTimeout time.Duration
	// IsRolledOut: the Deployment has Pods of one revision only.
	IsRolledOut bool
	// From is the last sync, for a release that begins, and commits are those of
	// both revisions, if known.
	From                       int64
	StableCommit, CanaryCommit string
	// Known: edges reported counts. Served are the requests of the canary since its
	// share was set.
	Known              bool
	StableCount, Count Counts
	Served             int64
	Judged             Judgement
	// Unanswered are requests of the canary without a response for too long, and Restarts
	// is how often one of its containers ended.
	Unanswered int64
	Restarts   int32
	// State is kept in the status, for an agent that continues.
	State string
	// IsHeld: the Application is held back because of this release, or another
	// reason. The Release of one that was rolled back stays meanwhile.
	IsHeld bool
	// Action is what a user requests; empty for nothing.
	Action v1alpha1.ReleaseAction
}

// Plan is the result of Decide.
type Plan struct {
	// Overlay is laid over the Deployment; nil leaves it as in Git.
	Overlay *Overlay
	// Release is what the cluster should have; nil is none.
	Release *v1alpha1.Release
	// Begins: the Release is written together with the sync that begins it.
	Begins bool
	// Apply: the Deployment is written now. Otherwise it waits for a sync.
	Apply bool
	// RollBack is why everything goes back to the stable revision; empty if it does
	// not. The Release without a share of the canary is written before.
	RollBack string
	// RequeueAt is when to decide again; zero if only events matter.
	RequeueAt time.Time
}

const (
	// tick is the time between two decisions of a release that runs.
	tick = time.Second
	// heldTick is the time between two looks at the requests of users, while a
	// revision is held back.
	heldTick = 10 * time.Second
	// maxRestarts is how often a container of the canary may end. One that waits for
	// another container ends once or twice before it starts.
	maxRestarts = 2
	// kept is how long a Release stays after its end, for those who watch it.
	kept = time.Minute
	// unknownRevision stands for the revision of a canary without a ReplicaSet. No
	// Pod is part of it, so it gets no request.
	unknownRevision = "pending"
	// conditionReady has since when the canary lacks Pods.
	conditionReady = "CanaryReady"
)

// Decide returns what follows from an Input.
func Decide(in *Input) Plan {
	switch {
	case in.Mark.Stable == "" && in.begins():
		return in.begin()
	case in.Mark.Stable == "" || in.Policy == nil:
		return in.end()
	case in.Action == v1alpha1.ReleaseRetry && in.Stable != nil && in.Last != nil && in.Last.Status.Phase == v1alpha1.ReleaseRolledBack:
		return in.again()
	case in.Change == Back:
		return in.back()
	case in.Change == Changed:
		return in.replaced()
	case in.Stable == nil || in.Current != nil && in.Current.Hash == in.Stable.Hash:
		return in.promote() // there are no two revisions to choose from
	}
	return in.progress()
}

// begins reports whether the next sync begins a release. A Deployment without
// ready Pods has nothing to compare with: its fix must not wait for requests.
func (in *Input) begins() bool {
	return in.Policy != nil && in.Change != Unchanged && in.Current != nil && in.Current.Ready > 0
}

// begin prepares a release.
func (in *Input) begin() Plan {
	mark := Mark{Stable: in.Current.Hash, From: in.From}
	in.Stable = in.Current
	release := in.fresh()
	return Plan{Overlay: &Overlay{Mark: mark, Percent: in.Policy.percent(1)}, Release: release, Begins: true}
}

// fresh is a Release in which the canary has no share.
func (in *Input) fresh() *v1alpha1.Release {
	release := &v1alpha1.Release{}
	if in.Last != nil {
		release = clone(in.Last)
	}
	release.Name = in.Name
	release.Spec = v1alpha1.ReleaseSpec{
		Workload: v1alpha1.Workload{APIVersion: "apps/v1", Kind: "Deployment", Name: in.Name},
		Revisions: []v1alpha1.ReleaseRevision{
			{Name: v1alpha1.RevisionStable, Hash: in.Stable.Hash, ReplicaSet: in.Stable.UID, Weight: whole, Commit: in.StableCommit},
			{Name: v1alpha1.RevisionCanary, Hash: unknownRevision, ReplicaSet: unknownRevision, Commit: in.CanaryCommit},
		},
		Match: in.Policy.Match, By: in.Policy.By,
	}
	started := in.time()
	release.Status = v1alpha1.ReleaseStatus{
		Phase: v1alpha1.ReleaseProgressing, Step: 1, Steps: in.Policy.count(), StartedAt: started, StepStartedAt: started,
		Message: "waiting for the Pods of the new revision",
	}
	return release
}

// clone is a copy that shares nothing. A Release is decoded from JSON, so that it
// can be encoded.
func clone(release *v1alpha1.Release) *v1alpha1.Release {
	text, _ := json.Marshal(release)
	copied := &v1alpha1.Release{}
	_ = json.Unmarshal(text, copied)
	return copied
}

// time is now, as a status has it.
func (in *Input) time() *metav1.Time { return &metav1.Time{Time: in.Now.Truncate(time.Second)} }

// end follows a Deployment back to one revision, after which the Release is
// removed.
func (in *Input) end() Plan {
	if in.Last == nil {
		return Plan{}
	}
	release := clone(in.Last)
	switch {
	case !in.IsRolledOut:
		if release.Status.Phase != v1alpha1.ReleaseRolledBack { // its message is the reason
			release.Status.Message = "removing the Pods of the other revision"
		}
		return Plan{Release: release, RequeueAt: in.Now.Add(tick)}
	case release.Status.FinishedAt == nil:
		release.Status.FinishedAt = in.time()
		if canary := canaryOf(release); canary == nil || canary.Weight < whole {
			release.Status.Phase = v1alpha1.ReleaseRolledBack
		} else {
			release.Status.Phase, release.Status.Message = v1alpha1.ReleaseSucceeded, "promoted"
		}
	case in.IsHeld && release.Status.Phase == v1alpha1.ReleaseRolledBack:
		return Plan{Release: release, RequeueAt: in.Now.Add(heldTick)}
	case !in.Now.Before(release.Status.FinishedAt.Add(kept)):
		return Plan{}
	}
	return Plan{Release: release, RequeueAt: release.Status.FinishedAt.Add(kept)}
}

// canaryOf is the canary of a Release; nil if it has none.
func canaryOf(release *v1alpha1.Release) *v1alpha1.ReleaseRevision {
	if len(release.Spec.Revisions) < 2 {
		return nil
	}
	return &release.Spec.Revisions[1]
}

// back takes the share of the canary away and waits for the sync to the stable
// revision, of which all Pods run.
func (in *Input) back() Plan {
	if in.Last == nil || in.Stable == nil {
		return Plan{RequeueAt: in.Now.Add(tick)}
	}
	release := clone(in.Last)
	in.setShare(release, 0)
	if release.Status.Phase != v1alpha1.ReleaseRolledBack {
		release.Status.Phase, release.Status.Message = v1alpha1.ReleaseRolledBack, "the stable revision is the desired one again"
	}
	return Plan{Release: release, RequeueAt: in.Now.Add(tick)}
}

// again begins the release again before the Deployment went back. The counts and the
// judge are still those of the first trial, so nothing is compared yet; the share
// follows from the next decision, by which the hold is lifted.
func (in *Input) again() Plan {
	return Plan{Release: in.fresh(), RequeueAt: in.Now.Add(tick)}
}

// replaced waits for the sync of another template, which becomes the canary.
func (in *Input) replaced() Plan {
	plan := Plan{Overlay: &Overlay{Mark: in.Mark, Percent: in.Policy.percent(1)}, RequeueAt: in.Now.Add(tick)}
	if in.Stable != nil {
		plan.Release = in.fresh()
		plan.Release.Status.Message = "waiting for the sync of another revision"
		if in.Last != nil {
			plan.Release.Status.StartedAt, plan.Release.Status.StepStartedAt = in.Last.Status.StartedAt, in.Last.Status.StepStartedAt
		}
	}
	return plan
}

// promote lets the Deployment controller take the old Pods away.
func (in *Input) promote() Plan {
	plan := Plan{Apply: true, RequeueAt: in.Now.Add(tick)}
	if in.Last != nil {
		plan.Release = clone(in.Last)
		plan.Release.Status.Message = "removing the Pods of the old revision"
	}
	return plan
}

// setShare sets the share of the canary.
func (in *Input) setShare(release *v1alpha1.Release, weight int32) {
	for i := range release.Spec.Revisions {
		switch release.Spec.Revisions[i].Name {
		case v1alpha1.RevisionStable:
			release.Spec.Revisions[i].Weight = whole - weight
		case v1alpha1.RevisionCanary:
			release.Spec.Revisions[i].Weight = weight
		}
	}
}

// share describes the canary for people.
func share(weight int32) string { return fmt.Sprintf("canary %d %%", weight) }

// count is a number with its noun.
func count[N int32 | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return judge.Number(uint64(max(n, 0))) + " " + noun + "s"
}
