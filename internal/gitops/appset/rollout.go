package appset

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// The states of an Application in a rollout, with Argo CD's words.
const (
	stepWaiting     = "Waiting"
	stepPending     = "Pending"
	stepProgressing = "Progressing"
	stepHealthy     = "Healthy"
)

const (
	specDiffers = "Application has pending changes (spec differs), setting status to Waiting"
	// notCompared is not one of Argo CD's messages.
	notCompared = "Application resource cannot be compared, waiting for it to become Synced and Healthy"
)

// windowRetry is how long after a sync that a sync window refused the next one is
// tried.
const windowRetry = 3 * time.Minute

// noStep is the step of an Application that no step selects. Its syncs are
// started by users.
const noStep = -1

// rollout is one evaluation of the strategy RollingSync. All Applications are
// written at once; their syncs start step by step. It is pure: what is known
// goes in, and the new states and the syncs to start come out. Nothing depends
// on a timer: every change of an Application evaluates it again.
type rollout struct {
	steps []v1alpha1.RolloutStep
	// stepOf is the step of each wanted Application that one selects.
	stepOf map[string]int
	live   map[string]record
	states map[string]v1alpha1.ApplicationSetApplicationStatus
	now    time.Time
}

// newRollout prepares an evaluation. The steps select by the labels of the
// wanted Applications; the first one that matches counts.
func newRollout(set *v1alpha1.ApplicationSet, wanted map[string]*desired, live map[string]record, now time.Time) *rollout {
	r := &rollout{
		steps: set.Spec.Strategy.RollingSync.Steps, live: live, now: now.UTC().Truncate(time.Second),
		stepOf: map[string]int{}, states: map[string]v1alpha1.ApplicationSetApplicationStatus{},
	}
	for name, one := range wanted {
		if step := slices.IndexFunc(r.steps, func(s v1alpha1.RolloutStep) bool { return selects(s, one.labels()) }); step >= 0 {
			r.stepOf[name] = step
		}
	}
	for _, state := range set.Status.ApplicationStatus {
		// One that was deleted is not part of the rollout any more.
		if _, exists := live[state.Application]; exists {
			r.states[state.Application] = state
		}
	}
	return r
}

// selects reports whether all expressions of a step match. An expression about
// a label that is missing matches unless it is In, as in Argo CD.
func selects(step v1alpha1.RolloutStep, labels map[string]string) bool {
	return !slices.ContainsFunc(step.MatchExpressions, func(e v1alpha1.RolloutExpression) bool {
		value, present := labels[e.Key]
		listed := present && slices.Contains(e.Values, value)
		return listed != (e.Operator == "In")
	})
}

// run evaluates until nothing changes any more. Each turn moves an Application
// forward, so that the number of turns is bounded.
func (r *rollout) run() {
	for range 4 {
		changed := false
		for name := range r.live {
			before := r.states[name]
			r.states[name] = r.advanced(name, before)
			changed = changed || before.Status != r.states[name].Status
		}
		if r.admit() {
			changed = true
		}
		if !changed {
			return
		}
	}
}

// advanced returns the state of an Application after what is known of it now.
func (r *rollout) advanced(name string, state v1alpha1.ApplicationSetApplicationStatus) v1alpha1.ApplicationSetApplicationStatus {
	live := r.live[name]
	move := func(status, message string) { state = r.moved(state, status, message) }
	revisions := live.revisions()
	if state.Application == "" {
		state.Application = name
		state.TargetRevisions = revisions
		move(stepWaiting, "No Application status found, defaulting status to Waiting")
	}
	state.Step = strconv.Itoa(r.stepNumber(name))
	changed := !slices.Equal(state.TargetRevisions, revisions)
	switch {
	case changed && !live.compared:
		move(stepWaiting, "Application has pending changes (revision and spec differ), setting status to Waiting")
	case changed:
		move(stepWaiting, "Application has pending changes, setting status to Waiting")
	// While it cannot be compared, a sync that was tried for it is not repeated.
	case !live.compared && state.Status != stepWaiting && (live.sync != v1alpha1.SyncUnknown || state.Status == stepHealthy):
		move(stepWaiting, specDiffers)
	}
	state.TargetRevisions = revisions
	isHealthy := live.health == v1alpha1.Healthy
	switch state.Status {
	case stepWaiting:
		// It may need no sync at all, or a user has synced it.
		if live.compared && live.sync == v1alpha1.SyncSynced && isHealthy {
			move(stepHealthy, "Application resource has synced, updating status to Healthy")
		} else if live.compared && live.sync == v1alpha1.SyncSynced {
			move(stepProgressing, "Application resource has synced, updating status to Progressing")
		}
	case stepPending:
		if hasStarted(state, live) {
			move(stepProgressing, startedMessage(live.phase))
		} else if live.failing {
			move(stepProgressing, "Application resource has error and cannot sync, updating status to Progressing")
		}
	case stepProgressing:
		switch {
		case live.sync == v1alpha1.SyncSynced && isHealthy && !live.isRunning():
			move(stepHealthy, "Application resource became Healthy, updating status from Progressing to Healthy")
		case live.sync == v1alpha1.SyncUnknown && state.Message != notCompared:
			move(stepProgressing, notCompared)
		// The sync was refused because of a sync window, which may be over.
		case live.blocked && live.sync == v1alpha1.SyncOutOfSync && !r.now.Before(live.started.Add(windowRetry)):
			move(stepWaiting, "Application has pending changes and a sync window was in the way, setting status to Waiting")
		// Its sync failed because of an error that is gone: it needs another.
		case live.sync == v1alpha1.SyncOutOfSync && state.Message == notCompared:
			move(stepWaiting, specDiffers)
		}
	}
	return state
}

// moved is a state after a transition.
func (r *rollout) moved(state v1alpha1.ApplicationSetApplicationStatus, status, message string) v1alpha1.ApplicationSetApplicationStatus {
	at := metav1.NewTime(r.now)
	state.Status, state.Message, state.LastTransitionTime = status, message, &at
	return state
}

// startedMessage describes a sync that has started, with Argo CD's words.
func startedMessage(phase v1alpha1.OperationPhase) string {
	switch {
	case phase == v1alpha1.OperationSucceeded:
		return "Application resource completed a sync successfully, updating status from Pending to Progressing"
	case phase.Completed():
		return "Application resource completed a sync, updating status from Pending to Progressing"
	}
	return "Application resource became Progressing, updating status from Pending to Progressing"
}

// hasStarted reports whether a sync has started since the Application is
// Pending, by the rollout or a user. The times have seconds only: admit makes
// the time of Pending later than the start of any sync before.
func hasStarted(state v1alpha1.ApplicationSetApplicationStatus, live record) bool {
	return !live.started.IsZero() && state.LastTransitionTime != nil && !live.started.Before(state.LastTransitionTime.Time)
}

// stepNumber is the number of a step as it is shown: from one.
func (r *rollout) stepNumber(name string) int {
	if step, selected := r.stepOf[name]; selected {
		return step + 1
	}
	return noStep
}

// admit moves Applications of the current step from Waiting to Pending, as many
// as maxUpdate allows, and reports whether it moved any. The current step is the
// first with an Application that is not Healthy, or does not exist yet.
func (r *rollout) admit() (moved bool) {
	for step := range r.steps {
		members, updating, complete := 0, 0, true
		for name, of := range r.stepOf {
			if of != step {
				continue
			}
			members++
			switch r.states[name].Status {
			case stepPending, stepProgressing:
				updating++
				complete = false
			case stepHealthy:
			default:
				complete = false
			}
		}
		if complete {
			continue
		}
		for _, name := range r.waiting(step) {
			if updating >= maxUpdate(r.steps[step].MaxUpdate, members) {
				break
			}
			state := r.moved(r.states[name], stepPending, "Application moved to Pending status, watching for the Application resource to start Progressing")
			if started := r.live[name].started; !started.IsZero() && !started.Before(r.now) {
				after := metav1.NewTime(started.Add(time.Second))
				state.LastTransitionTime = &after
			}
			r.states[name] = state
			updating++
			moved = true
		}
		return moved
	}
	return false
}

// waiting returns the Applications of a step that can become Pending, by name.
// One whose comparison is older than its spec waits for the next: it may need
// no sync.
func (r *rollout) waiting(step int) (names []string) {
	for name, of := range r.stepOf {
		live, exists := r.live[name]
		if of == step && exists && !live.deleting && r.states[name].Status == stepWaiting && (live.compared || live.sync == v1alpha1.SyncUnknown) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// maxUpdate is how many of the Applications of a step may be updated at once. A
// percentage is rounded down, to one at least unless it is 0%.
func maxUpdate(limit *intstr.IntOrString, members int) int {
	if limit == nil {
		return members
	}
	count, err := intstr.GetScaledValueFromIntOrPercent(limit, members, false)
	if err != nil { // refused when the set is decoded
		return 0
	}
	if limit.Type == intstr.String && limit.StrVal != "0%" {
		return max(count, 1)
	}
	return count
}

// syncs returns the Applications whose sync has to start: those that are
// Pending and for which none was requested. A sync that runs ends first.
func (r *rollout) syncs() (names []string) {
	for name, state := range r.states {
		live := r.live[name]
		_, selected := r.stepOf[name]
		if state.Status == stepPending && selected && !live.requested && !live.deleting && !live.isRunning() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// until returns when the set is reconciled next; zero for never. Only a sync
// window ends without an event.
func (r *rollout) until(next time.Time) time.Duration {
	if r == nil {
		return untilNext(next)
	}
	for name, state := range r.states {
		if live := r.live[name]; live.blocked && state.Status == stepProgressing {
			if again := live.started.Add(windowRetry); next.IsZero() || again.Before(next) {
				next = again
			}
		}
	}
	return untilNext(next)
}

// list returns the states by name, for the status.
func (r *rollout) list() []v1alpha1.ApplicationSetApplicationStatus {
	list := make([]v1alpha1.ApplicationSetApplicationStatus, 0, len(r.states))
	for _, state := range r.states {
		list = append(list, state)
	}
	slices.SortFunc(list, func(a, b v1alpha1.ApplicationSetApplicationStatus) int {
		return strings.Compare(a.Application, b.Application)
	})
	return list
}

// condition is RolloutProgressing, with Argo CD's reasons and messages.
func (r *rollout) condition() v1alpha1.ApplicationSetCondition {
	current := len(r.steps)
	for name, step := range r.stepOf {
		if r.states[name].Status != stepHealthy {
			current = min(current, step)
		}
	}
	if current == len(r.steps) {
		return v1alpha1.ApplicationSetCondition{
			Type: v1alpha1.SetConditionRolloutProgressing, Status: "False", Reason: "ApplicationSetRolloutComplete", Message: "ApplicationSet Rollout has completed",
		}
	}
	return v1alpha1.ApplicationSetCondition{
		Type: v1alpha1.SetConditionRolloutProgressing, Status: "True", Reason: "ApplicationSetModified",
		Message: "ApplicationSet is performing rollout of step " + strconv.Itoa(current+1),
	}
}
