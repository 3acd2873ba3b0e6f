package plan

import (
	"fmt"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/tracking"
)

// Wait is something that the operation waits for.
type Wait struct {
	Step *Step
	// For is what is waited for, for people: Deployment.apps shop/web to be
	// healthy.
	For string
}

// Decision is what can be done now.
type Decision struct {
	// Phase is Running, Succeeded or Failed. The last two are final: what is to
	// be cleared is cleared once, and Next is not called again.
	Phase Progress
	// Run are the steps that can run now, together.
	Run []*Step
	// Clear are hooks whose objects are to be deleted now.
	Clear []*Step
	// Waiting is what has to happen before anything else can be done.
	Waiting []Wait
	// Message is for people.
	Message string
}

// Next returns what can be done, given what has happened. It changes nothing, and
// may be called at any time. It reads all steps: of several events that come
// together, all are noted before it is called.
//
// The states of an operation:
//
//	blocked      refusals: it has failed before anything was done
//	clearing     old hooks of the wave are deleted, and must be gone
//	running      the kinds of the wave run, one after the other
//	waiting      the wave must be healthy, its hooks finished, its prunes gone
//	failing      hooks that still run must finish
//	compensating SyncFail hooks run
//	succeeded, failed
func (p *Plan) Next(state *State) Decision {
	switch {
	case p.Blocked:
		return Decision{Phase: Failed, Message: p.blockedMessage(len(state.marks) > 0)}
	case state.Terminated:
		return p.terminate(state)
	case p.DryRun:
		return p.nextDry(state)
	}
	waves := p.waves(func(name PhaseName) bool { return name != SyncFail })
	for i, wave := range waves {
		if decision, waits := p.advance(state, wave); waits {
			return decision
		}
		resources := p.waitsForHealth(wave, waves[i+1:])
		if wave.any(func(step *Step) bool { return step.failed(state, resources) }) {
			return p.fail(state)
		}
		if decision, waits := p.awaitWave(state, wave, resources); waits {
			return decision
		}
	}
	return Decision{Phase: Succeeded, Clear: p.spent(state), Message: p.successMessage()}
}

func (p *Plan) successMessage() string {
	switch {
	case p.deleting:
		return "successfully deleted"
	case len(p.Phases) == 0:
		return "successfully synced (nothing to do)"
	}
	return "successfully synced (all tasks run)"
}

// Fails reports whether a step has failed in a way that fails the operation. A
// resource that was applied and is Degraded does not where nothing waits for
// its health: the sync has applied it, and the health of the Application shows
// the rest.
func (p *Plan) Fails(state *State, step *Step) bool {
	if state.Mark(step.StepID).Progress != Failed {
		return false
	}
	waves := p.waves(func(name PhaseName) bool { return name != SyncFail })
	for i, wave := range waves {
		if slices.Contains(wave.Steps, step) {
			return step.failed(state, p.waitsForHealth(wave, waves[i+1:]))
		}
	}
	return true // a SyncFail hook
}

// failed reports whether a step fails the operation. That a resource is Degraded
// does only if its health is waited for.
func (s *Step) failed(state *State, resources bool) bool {
	mark := state.Mark(s.StepID)
	return mark.Progress == Failed && (resources || s.Hook != nil || mark.Result == ResultSyncFailed)
}

// blockedMessage lists the refusals. Something was done if the plan was built again
// for an operation that had begun.
func (p *Plan) blockedMessage(begun bool) string {
	const shown = 5
	what := "one or more objects are refused, nothing was done: "
	if begun {
		what = "one or more objects are refused, nothing more was done: "
	}
	var texts []string
	for _, refused := range p.Refusals {
		if len(texts) == shown {
			texts = append(texts, fmt.Sprintf("and %d more", len(p.Refusals)-shown))
			break
		}
		texts = append(texts, refused.Error())
	}
	return refusal.Shorten(what+strings.Join(texts, "; "), maxMessage)
}

// waves are those of some phases, in order.
func (p *Plan) waves(of func(PhaseName) bool) []*Wave {
	var all []*Wave
	for i := range p.Phases {
		if !of(p.Phases[i].Name) {
			continue
		}
		for j := range p.Phases[i].Waves {
			all = append(all, &p.Phases[i].Waves[j])
		}
	}
	return all
}

func (w *Wave) any(holds func(*Step) bool) bool { return slices.ContainsFunc(w.Steps, holds) }

// advance tries the steps of a wave. The second result is false when all have
// been tried.
func (p *Plan) advance(state *State, wave *Wave) (Decision, bool) {
	running := Decision{Phase: Running}
	if wave.Prune {
		if waits := p.unconfirmed(state, wave); len(waits) > 0 {
			running.Waiting = waits
			return running.withMessage(), true
		}
	} else if clear, waits := p.uncleared(state, wave); len(clear)+len(waits) > 0 {
		running.Clear, running.Waiting = clear, waits
		return running.withMessage(), true
	}
	kind := ""
	for _, step := range wave.Steps {
		if kind != "" && step.Key.Kind != kind && !wave.Prune {
			break // a kind waits for those before it to be accepted
		}
		switch progress := state.Mark(step.StepID).Progress; progress {
		case Started:
			running.Waiting = append(running.Waiting, Wait{step, step.Key.String() + " to be accepted"})
			kind = step.Key.Kind
		case Pending:
			run, wait := p.runnable(state, step)
			if run {
				running.Run = append(running.Run, step)
			} else if wait != nil {
				running.Waiting = append(running.Waiting, *wait)
			} else {
				continue // what it needs has failed, and so the wave has
			}
			kind = step.Key.Kind
		}
	}
	if len(running.Run)+len(running.Waiting) == 0 {
		return Decision{}, false
	}
	return running.withMessage(), true
}

// runnable checks the definitions that a step needs. One that failed leaves
// nothing to run and nothing to wait for.
func (p *Plan) runnable(state *State, step *Step) (bool, *Wait) {
	for _, id := range step.needs {
		switch state.Mark(id).Progress {
		case Failed:
			return false, nil
		case Succeeded:
		default:
			return false, &Wait{step, id.Key.String() + " to be established"}
		}
	}
	return true, nil
}

// unconfirmed are the prunes of a wave that have to be confirmed. The whole
// wave waits for it, as in Argo CD.
func (p *Plan) unconfirmed(state *State, wave *Wave) []Wait {
	var waits []Wait
	for _, step := range wave.Steps {
		if step.Options.Confirm && !state.Confirmed && state.Mark(step.StepID).Progress == Pending {
			waits = append(waits, Wait{step, "the deletion of " + step.Key.String() + " to be confirmed"})
		}
	}
	return waits
}

// uncleared are the hooks of a wave whose last object is to be deleted first.
func (p *Plan) uncleared(state *State, wave *Wave) (clear []*Step, waits []Wait) {
	for _, step := range wave.Steps {
		mark := state.Mark(step.StepID)
		if step.Hook == nil || mark.Progress != Pending || mark.Cleared || !step.Hook.Has(BeforeHookCreation) {
			continue
		}
		if step.Live == nil && !p.ranBefore(state, step) {
			continue
		}
		if mark.Clearing {
			waits = append(waits, Wait{step, "the last " + step.Key.String() + " to be gone"})
		} else {
			clear = append(clear, step)
		}
	}
	return clear, waits
}

// ranBefore reports whether a hook was created in an earlier phase.
func (p *Plan) ranBefore(state *State, step *Step) bool {
	return slices.ContainsFunc(step.Hook.Phases, func(phase PhaseName) bool {
		return phase != step.Phase && state.Mark(StepID{phase, step.Key}).Result == ResultSynced
	})
}

// waitsForHealth reports whether the resources of a wave are waited for: if
// something follows that builds on them, or hooks run beside them. Prunes build
// only on each other, unless they are PruneLast.
func (p *Plan) waitsForHealth(wave *Wave, later []*Wave) bool {
	switch {
	case !p.stepwise:
		return false
	case p.deleting || wave.any(func(step *Step) bool { return step.Hook != nil }):
		return true
	case wave.Prune:
		return len(later) > 0
	}
	return slices.ContainsFunc(later, func(next *Wave) bool { return !next.Prune || next.PruneLast })
}

// awaitWave waits for a wave of which everything was tried and nothing failed. Its
// hooks are always waited for.
func (p *Plan) awaitWave(state *State, wave *Wave, resources bool) (Decision, bool) {
	decision := Decision{Phase: Running}
	for _, step := range wave.Steps {
		mark := state.Mark(step.StepID)
		if mark.Progress != Running || step.Hook == nil && !resources {
			continue
		}
		decision.Waiting = append(decision.Waiting, Wait{step, step.awaited(mark)})
	}
	return decision.withMessage(), len(decision.Waiting) > 0
}

// awaited is what is waited for when a step was accepted.
func (s *Step) awaited(mark Mark) string {
	text := s.Key.String()
	switch {
	case s.Action == Remove:
		text += " to be gone"
	case s.Hook != nil:
		text += " to finish"
	default:
		text += " to be healthy"
	}
	if mark.Detail != "" {
		text += ": " + mark.Detail
	}
	return text
}

// fail ends the operation: after the hooks that still run, and after the
// SyncFail hooks.
func (p *Plan) fail(state *State) Decision {
	decision := Decision{Phase: Running}
	for _, step := range p.Steps() {
		mark := state.Mark(step.StepID)
		if step.Phase == SyncFail || step.Hook == nil || mark.Progress != Running {
			continue
		}
		decision.Waiting = append(decision.Waiting, Wait{step, step.awaited(mark)})
	}
	if len(decision.Waiting) > 0 {
		return decision.withMessage()
	}
	for _, wave := range p.waves(func(name PhaseName) bool { return name == SyncFail }) {
		if decision, waits := p.advance(state, wave); waits {
			return decision
		}
		if decision, waits := p.awaitWave(state, wave, false); waits {
			return decision
		}
	}
	return Decision{Phase: Failed, Clear: p.spent(state), Message: p.failureMessage(state)}
}

func (p *Plan) failureMessage(state *State) string {
	const shown = 5
	var texts []string
	more := 0
	for _, step := range p.Steps() {
		if !p.Fails(state, step) {
			continue
		}
		if len(texts) == shown {
			more++
			continue
		}
		text := step.Key.String()
		if reason := state.Mark(step.StepID).Reason(); reason != "" {
			text += ": " + reason
		}
		texts = append(texts, text)
	}
	if more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return refusal.Shorten("one or more tasks failed: "+strings.Join(texts, "; "), maxMessage)
}

// spent are the hooks that are deleted when the operation is over. A hook of
// several phases is one object, for which the last time that it ran counts.
func (p *Plan) spent(state *State) []*Step {
	latest := map[tracking.Key]*Step{}
	for _, step := range p.Steps() {
		if step.Hook != nil && state.Mark(step.StepID).Result == ResultSynced {
			latest[step.Key] = step
		}
	}
	var spent []*Step
	for _, step := range p.Steps() {
		if latest[step.Key] != step {
			continue
		}
		progress := state.Mark(step.StepID).Progress
		if progress == Succeeded && step.Hook.Has(HookSucceeded) || progress == Failed && step.Hook.Has(HookFailed) {
			spent = append(spent, step)
		}
	}
	return spent
}

// terminate ends the operation at once. Running hooks are deleted with any
// policy.
func (p *Plan) terminate(state *State) Decision {
	decision := Decision{Phase: Failed, Message: "Operation terminated"}
	for _, step := range p.Steps() {
		progress := state.Mark(step.StepID).Progress
		if step.Hook != nil && (progress == Running || progress == Started) {
			decision.Clear = append(decision.Clear, step)
		}
	}
	return decision
}

// nextDry tries everything at once, without hooks being run or anything being
// waited for.
func (p *Plan) nextDry(state *State) Decision {
	decision := Decision{Phase: Running}
	for _, step := range p.Steps() {
		switch progress := state.Mark(step.StepID).Progress; {
		case step.Options.SkipDryRun:
		case progress == Pending:
			decision.Run = append(decision.Run, step)
		case progress == Started:
			decision.Waiting = append(decision.Waiting, Wait{step, step.Key.String() + " to be accepted"})
		case progress == Failed:
			decision.Phase = Failed
		}
	}
	if len(decision.Run)+len(decision.Waiting) > 0 {
		decision.Phase = Running
		return decision.withMessage()
	}
	if decision.Phase == Failed {
		decision.Message = p.failureMessage(state)
		return decision
	}
	return Decision{Phase: Succeeded, Message: "successfully synced (dry run)"}
}

// withMessage adds the message about what runs or is waited for.
func (d Decision) withMessage() Decision {
	switch {
	case len(d.Waiting) == 1:
		d.Message = "waiting for " + d.Waiting[0].For
	case len(d.Waiting) > 1:
		d.Message = fmt.Sprintf("waiting for %s and %d more", d.Waiting[0].For, len(d.Waiting)-1)
	default:
		d.Message = "one or more tasks are running"
	}
	d.Message = refusal.Shorten(d.Message, maxMessage)
	return d
}
