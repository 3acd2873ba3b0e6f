package release

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/v1alpha1"
)

// progress continues a release whose two revisions run, or are about to.
func (in *Input) progress() Plan {
	release := in.current()
	status := &release.Status
	plan := Plan{Release: release, RequeueAt: in.Now.Add(tick)}
	in.report(release)
	// A decision to go back is final for this revision. It is repeated after a
	// restart, until the Application is held.
	if status.Phase == v1alpha1.ReleaseRolledBack {
		return in.rollBack(plan, status.Message)
	}
	in.act(status)
	short := in.missing(status.Step)
	switch {
	case in.Action == v1alpha1.ReleaseAbort:
		return in.rollBack(plan, "a user aborted the release")
	case in.Judged.Outcome == v1alpha1.DecisionFail && !in.Policy.Unjudged:
		return in.rollBack(plan, in.Judged.Message)
	case in.Unanswered > 0 && !in.Policy.Unjudged:
		return in.rollBack(plan, fmt.Sprintf("no response to %s", count(in.Unanswered, "request")))
	case in.Restarts > maxRestarts:
		return in.rollBack(plan, fmt.Sprintf("a container of the new revision ended %d times", in.Restarts))
	case in.overdue(status, short):
		return in.rollBack(plan, fmt.Sprintf("the new revision lacks %s for %s", count(short, "ready Pod"), in.readyTimeout()))
	}
	weight := canaryOf(release).Weight
	step := in.Policy.step(status.Step)
	switch {
	case short > 0:
		status.Message = fmt.Sprintf("%s, waiting for %s", share(weight), count(short, "Pod"))
	case weight != step.Weight:
		// The Pods came first: a share is never more than what they were made for.
		in.setShare(release, step.Weight)
		status.StepStartedAt = in.time()
		status.Message = share(step.Weight)
	case status.Step >= in.Policy.count():
		status.Message = "removing the Pods of the old revision"
		plan.Apply = true
		return plan
	default:
		in.hold(status, step, weight)
	}
	plan.Overlay = &Overlay{Mark: in.Mark, Percent: in.Policy.percent(status.Step)}
	plan.Apply = true
	return plan
}

// current is the Release for the live canary. One that is of another canary
// begins again.
func (in *Input) current() *v1alpha1.Release {
	canary := &Revision{Hash: unknownRevision, UID: unknownRevision}
	if in.Current != nil {
		canary = in.Current
	}
	release := in.fresh()
	if in.Last != nil && len(in.Last.Spec.Revisions) == 2 && in.Last.Status.Step > 0 &&
		(in.Last.Spec.Revisions[1].Hash == canary.Hash || in.Last.Spec.Revisions[1].Hash == unknownRevision) {
		weight := in.Last.Spec.Revisions[1].Weight
		release.Status = clone(in.Last).Status
		release.Status.Steps, release.Status.FinishedAt = in.Policy.count(), nil
		in.setShare(release, weight)
	}
	release.Spec.Revisions[1].Hash, release.Spec.Revisions[1].ReplicaSet = canary.Hash, canary.UID
	return release
}

// act carries out what a user requests, but for abort.
func (in *Input) act(status *v1alpha1.ReleaseStatus) {
	switch in.Action {
	case v1alpha1.ReleasePause:
		status.Phase = v1alpha1.ReleasePaused
	case v1alpha1.ReleaseResume:
		status.Phase = v1alpha1.ReleaseProgressing
	case v1alpha1.ReleasePromote:
		in.next(status)
	case v1alpha1.ReleasePromoteFull:
		status.Step = in.Policy.count() - 1
		in.next(status)
	}
}

// next goes to the next step.
func (in *Input) next(status *v1alpha1.ReleaseStatus) {
	status.Phase = v1alpha1.ReleaseProgressing
	status.Step, status.StepStartedAt = min(status.Step+1, in.Policy.count()), in.time()
}

// hold waits for what ends a step, or goes to the next one.
func (in *Input) hold(status *v1alpha1.ReleaseStatus, step Step, weight int32) {
	waited := in.Now.Sub(heldSince(status))
	needed := step.Requests - in.Served
	switch {
	case status.Phase == v1alpha1.ReleasePaused, step.Pause:
		status.Phase = v1alpha1.ReleasePaused
		status.Message = share(weight) + ", paused until it is promoted"
	case waited < step.Hold:
		status.Message = fmt.Sprintf("%s, for another %s", share(weight), (step.Hold - waited).Round(time.Second))
	case !in.Known && (step.Requests > 0 || !in.Policy.Unjudged && weight > 0):
		status.Message = share(weight) + ", waiting for counts of an edge"
	case needed > 0:
		status.Message = fmt.Sprintf("%s, waiting for %s", share(weight), count(needed, "request"))
	case !in.Policy.Unjudged && weight > 0 && in.Judged.Outcome != v1alpha1.DecisionPass:
		status.Message = fmt.Sprintf("%s, %s", share(weight), in.Judged.Message)
	default:
		in.next(status)
		status.Message = fmt.Sprintf("%s, waiting for Pods of the next step", share(weight))
	}
}

// heldSince is when the time of a step began: with its share, and again when Pods were
// missing meanwhile.
func heldSince(status *v1alpha1.ReleaseStatus) time.Time {
	since := status.StepStartedAt.Time
	for i := range status.Conditions {
		if ready := &status.Conditions[i]; ready.Type == conditionReady && ready.LastTransitionTime.After(since) {
			since = ready.LastTransitionTime.Time
		}
	}
	return since
}

// missing is the number of ready Pods that the canary lacks in a step.
func (in *Input) missing(step int32) int32 {
	ready := int32(0)
	if in.Current != nil {
		ready = in.Current.Ready
	}
	return max(in.Policy.size(step, in.Replicas)-ready, 0)
}

// overdue reports whether the canary lacks Pods for too long. Since when is in a
// condition, so that a restart does not extend it.
func (in *Input) overdue(status *v1alpha1.ReleaseStatus, short int32) bool {
	wanted := metav1.Condition{Type: conditionReady, Status: metav1.ConditionTrue, Reason: "Ready", LastTransitionTime: *in.time()}
	if short > 0 {
		wanted.Status, wanted.Reason = metav1.ConditionFalse, "MissingPods"
	}
	for i := range status.Conditions {
		if status.Conditions[i].Type != conditionReady {
			continue
		}
		if status.Conditions[i].Status != wanted.Status {
			status.Conditions[i] = wanted
		}
		return short > 0 && in.Now.Sub(status.Conditions[i].LastTransitionTime.Time) > in.readyTimeout()
	}
	status.Conditions = append(status.Conditions, wanted)
	return false
}

// readyTimeout is how long Pods of the canary may be missing.
func (in *Input) readyTimeout() time.Duration {
	if in.Policy.ReadyTimeout > 0 {
		return in.Policy.ReadyTimeout
	}
	return in.ReadyTimeout
}

// rollBack takes the share of the canary away. Its Pods stay until the
// Application is synced to the revision before.
func (in *Input) rollBack(plan Plan, why string) Plan {
	in.setShare(plan.Release, 0)
	plan.Release.Status.Phase, plan.Release.Status.Message = v1alpha1.ReleaseRolledBack, why
	plan.RollBack = why
	plan.Overlay = &Overlay{Mark: in.Mark, Percent: in.Policy.percent(plan.Release.Status.Step)}
	return plan
}

// report writes the counts and the decision of the judge into the status.
func (in *Input) report(release *v1alpha1.Release) {
	status := &release.Status
	status.Revisions = nil
	for i, counts := range []Counts{in.StableCount, in.Count} {
		revision, set := &release.Spec.Revisions[i], in.Stable
		if i == 1 {
			set = in.Current
		}
		one := v1alpha1.ReleaseRevisionStatus{
			Name: revision.Name, Hash: revision.Hash, Commit: revision.Commit, Weight: revision.Weight,
			Requests: counts.Requests, Errors: counts.Errors, P50Micros: counts.P50.Microseconds(), P99Micros: counts.P99.Microseconds(),
		}
		if set != nil {
			one.Ready = set.Ready
		}
		status.Revisions = append(status.Revisions, one)
	}
	status.State = in.State
	if in.Judged.Outcome == "" {
		return
	}
	at := in.time()
	if last := status.Decision; last != nil && last.Outcome == in.Judged.Outcome && last.Reason == in.Judged.Reason {
		at = last.At
	}
	status.Decision = &v1alpha1.ReleaseDecision{Outcome: in.Judged.Outcome, Reason: in.Judged.Reason, Message: in.Judged.Message, At: at}
}
