package reconcile

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// result is what a step returns: whether the run goes on, and by when the
// Application needs another run.
type result struct {
	// skipped ends the run without a write; the timer that was set stays.
	skipped bool
	// err ends the run, which is retried with backoff.
	err error
	// requeueAt is when the next run is due at the latest; zero if only events
	// matter. The earliest of all steps counts.
	requeueAt time.Time
}

// proceed continues with the next step.
func proceed() result { return result{} }

// skipped ends the run: there is nothing to do.
func skipped() result { return result{skipped: true} }

// failed ends the run with an error. Nil proceeds.
func failed(err error) result { return result{err: err} }

// by adds a time at which the next run is due.
func (r result) by(at time.Time) result {
	r.requeueAt = earliest(r.requeueAt, at)
	return r
}

// step is one part of a reconcile run. The name is for the log.
type step struct {
	name string
	run  func(context.Context) result
}

// steps are the steps of the run, in order. Each reads what earlier ones put
// into the outputs; only the last one writes the status. An error because of which
// the Application cannot be compared does not end the run: health is still
// observed, a running operation continues, and the status reports the error.
func (p *reconcileRun) steps() []step {
	if p.app.DeletionTimestamp != nil {
		return []step{{"delete", p.reconcileDeletion}}
	}
	return []step{
		{"skip echo", p.skipEcho},
		{"compile spec", p.compileSpec},
		{"render sources", p.renderSources},
		{"observe cluster", p.observeCluster},
		{"advance releases", p.advanceReleases},
		{"run operation", p.runOperation},
		{"observe changes", p.observeChanges},
		{"decide next", p.decideNext},
		{"write status", p.writeStatus},
	}
}

// runSteps runs the steps until one ends the run. A step that panics fails the
// run, and not the process: the other Applications go on.
func (p *reconcileRun) runSteps(ctx context.Context) (outcome result) {
	current := ""
	defer func() {
		if fault := recover(); fault != nil {
			outcome.err = fmt.Errorf("internal error: %v", fault)
			p.log.Error("reconcile panicked", "step", current, "fault", fault, "stack", string(debug.Stack()))
		}
	}()
	for _, step := range p.steps() {
		current = step.name
		one := step.run(ctx)
		outcome = result{skipped: one.skipped, err: one.err, requeueAt: earliest(outcome.requeueAt, one.requeueAt)}
		if one.skipped || one.err != nil {
			break
		}
	}
	return outcome
}

// skipEcho ends a run that was caused by events of objects alone when these are
// as they were: most such events are the echo of our own writes.
func (p *reconcileRun) skipEcho(context.Context) result {
	if p.isEcho() {
		return skipped()
	}
	p.prepareSession()
	p.steady = p.session.lastError == nil && p.session.fingerprint != "" && !p.isOperating()
	return proceed()
}

// compileSpec checks the spec against what is supported and what the project
// allows.
func (p *reconcileRun) compileSpec(context.Context) result {
	p.lastErr = p.compile()
	return proceed()
}

// renderSources makes sure that what the sources have now is rendered. The run
// ends here if a poll brought the files that were rendered before, or if the
// repository has to be polled first and no operation needs the run.
func (p *reconcileRun) renderSources(ctx context.Context) result {
	if p.lastErr != nil {
		// What the project allowed before is not polled any longer.
		p.repositories.forget(p.id)
		return proceed()
	}
	rendered, err := p.ensureDesired(ctx)
	p.lastErr = err
	p.pendingSource = errors.Is(err, errPending)
	if err == nil {
		p.lastErr = p.ensureHeld(ctx)
	}
	sameFiles := p.lastErr == nil && !p.lifted && p.steady && !rendered && p.refresh == "" && p.reasons.only(reasonSource)
	if sameFiles || p.pendingSource && (!p.isOperating() || p.session.rendering == nil) {
		return skipped()
	}
	return proceed()
}

// observeCluster reads the live objects and compares them with what is desired.
func (p *reconcileRun) observeCluster(ctx context.Context) result {
	seen, err := p.observe(ctx, p.comparable())
	p.observed = seen
	if p.lastErr == nil {
		p.lastErr = err
	}
	return proceed()
}

// runOperation starts or continues an operation. A hold is in the status before the
// first object goes back: an agent that ends in between would sync forward again.
func (p *reconcileRun) runOperation(ctx context.Context) result {
	if p.isHoldUnwritten() {
		p.queue.add(item{app: p.id}, reasonTimer)
		return proceed()
	}
	done, err := p.operate(ctx)
	p.operated = done
	return failed(err).by(done.requeueAt)
}

// observeChanges observes the cluster again if the operation wrote to it, changed
// what is desired, or did neither and the observation is only good for a sync.
func (p *reconcileRun) observeChanges(ctx context.Context) result {
	if p.operated.changed || p.lastErr == nil && p.session.comparedWith != p.comparable() || p.observed.isForSync() {
		p.observeCluster(ctx)
	}
	return failed(ctx.Err())
}

// decideNext decides what follows an operation that ended in this run: a
// remaining error is written together with its end, and the next automated sync
// starts in a run of its own.
func (p *reconcileRun) decideNext(context.Context) result {
	if p.pendingSource {
		p.lastErr = p.session.lastError
		return proceed()
	}
	if p.lastErr != nil || !p.operated.ended {
		return proceed()
	}
	decision := p.decide(p.observed)
	p.operated.syncError = decision.syncError
	if decision.start != nil {
		p.queue.add(item{app: p.id}, reasonTimer)
	}
	return proceed().by(decision.requeueAt)
}
