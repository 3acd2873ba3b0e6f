package reconcile

import (
	"cmp"
	"context"
	"slices"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/health"
)

// writeStatus is the last step: it writes the status once, records what changed,
// and returns when the next run is due.
func (p *reconcileRun) writeStatus(ctx context.Context) result {
	seen, lastErr := p.observed, p.lastErr
	status, requeueAt := p.composeStatus(seen, lastErr)
	update := &applicationUpdate{status: status, consumed: p.rejected}
	if !p.pendingSource {
		update.refresh = p.refresh
	}
	before := p.app.Status
	if err := p.writeUpdate(ctx, update); err != nil {
		return failed(err).by(requeueAt)
	}
	if !p.pendingSource {
		p.session.refreshSince = time.Time{}
	}
	p.recordChanges(&before, seen, lastErr)
	if seen.isPartlyUnwatched() {
		requeueAt = earliest(requeueAt, time.Now().Add(p.Interval))
	}
	policy := errorPolicy{}
	if lastErr != nil {
		policy = policyFor(lastErr)
	}
	switch {
	case policy.retry:
		p.session.fingerprint = ""
		p.session.failures++
		requeueAt = earliest(requeueAt, time.Now().Add(policy.wait(p.session.failures)))
	case seen != nil && seen.set != nil && lastErr == nil:
		p.session.failures, p.session.compared = 0, true
		p.session.fingerprint = seen.fingerprint
	default:
		p.session.failures = 0
		p.session.fingerprint = ""
	}
	return proceed().by(requeueAt)
}

// writePending writes only the state of the operation. It is the one write
// before the last step: an operation that will wait is in the status before its
// first hook runs, so that a restart does not run the hook twice.
func (p *reconcileRun) writePending(ctx context.Context) error {
	return p.writeUpdate(ctx, &applicationUpdate{status: p.withOperation(p.app.Status), consumed: p.rejected})
}

// writeUpdate writes an update together with the request that was taken up. The
// pending status is cleared: it is in the API server then.
func (p *reconcileRun) writeUpdate(ctx context.Context, update *applicationUpdate) error {
	if pending := p.session.pending; pending != nil && pending.consumed != nil {
		update.consumed = pending.consumed
	}
	written, err := p.write(ctx, update)
	if err != nil {
		return err
	}
	if written {
		p.Metrics.writes.Inc()
	}
	p.session.pending = nil
	return nil
}

// withOperation is a status with the current operation and history.
func (p *reconcileRun) withOperation(status v1alpha1.ApplicationStatus) v1alpha1.ApplicationStatus {
	status.OperationState, status.History, status.Held = p.state(), p.history(), p.held()
	return status
}

// composeStatus makes the status of what was observed, and returns when a
// progress deadline ends. What could not be observed stays as it was.
func (p *reconcileRun) composeStatus(seen *observedState, lastErr error) (status v1alpha1.ApplicationStatus, requeueAt time.Time) {
	status = p.withOperation(p.app.Status)
	status.ControllerNamespace = p.ControlNamespace
	if seen != nil {
		counted := p.summarizeResources(seen)
		requeueAt = counted.requeueAt
		if seen.set == nil && len(counted.resources) == 0 {
			counted.health = health.Status{Code: v1alpha1.Unknown, Message: "the objects of the application are not known yet"}
		}
		status.Resources, status.Summary = counted.resources, counted.summary
		status.Health = *healthStatus(&p.app.Status.Health, counted.health, p.now)
	} else if status.Health.Status == "" {
		status.Health = *healthStatus(nil, health.Status{Code: v1alpha1.Unknown}, p.now)
	}
	conditions := slices.Concat(p.observedConditions(seen), p.ignoredFields(), p.holdCondition())
	if problem := cmp.Or(p.operated.syncError, p.refusedOperation()); problem != "" {
		conditions = append(conditions, condition(v1alpha1.ConditionSyncError, problem))
	}
	if lastErr == nil {
		p.setCompared(&status, seen)
		p.setSyncedObjects(&status, seen)
	} else {
		status.Sync.Status = v1alpha1.SyncUnknown
		if kind := policyFor(lastErr).condition; kind != "" {
			conditions = append(conditions, condition(kind, lastErr.Error()))
		}
	}
	status.Conditions = mergeConditions(p.app.Status.Conditions, conditions, p.now)
	return status, requeueAt
}

// setCompared sets the revision and sources that were compared, and the sync
// status. A refusal makes the status Unknown: what is refused cannot be
// compared.
func (p *reconcileRun) setCompared(status *v1alpha1.ApplicationStatus, seen *observedState) {
	of := seen.of
	if of == nil {
		return
	}
	spec := &p.app.Spec
	status.Sync = v1alpha1.SyncStatus{
		Status: v1alpha1.SyncOutOfSync,
		ComparedTo: v1alpha1.ComparedTo{
			Source: spec.Source, Sources: spec.Sources, Destination: spec.Destination, IgnoreDifferences: spec.IgnoreDifferences,
		},
	}
	switch {
	case len(seen.refusals()) > 0:
		status.Sync.Status = v1alpha1.SyncUnknown
	case seen.inSync:
		status.Sync.Status = v1alpha1.SyncSynced
	}
	types := slices.DeleteFunc(slices.Clone(of.result.Types), func(one v1alpha1.SourceType) bool { return one == "" })
	status.SourceType, status.SourceTypes = "", nil
	if len(spec.Sources) > 0 {
		status.Sync.Revisions, status.SourceTypes = of.revisions, types
		return
	}
	status.Sync.Revision, _ = of.revision()
	if len(types) > 0 {
		status.SourceType = types[0]
	}
}

// recordChanges logs and records an error that is new, and a change to or from
// Degraded. What the status had before is not repeated.
func (p *reconcileRun) recordChanges(before *v1alpha1.ApplicationStatus, seen *observedState, lastErr error) {
	after := &p.app.Status
	if lastErr == nil && len(seen.refusals()) > 0 {
		lastErr = &seen.refusals()[0]
	}
	if lastErr != nil && !hasCondition(before.Conditions, lastErr.Error()) {
		follows := policyFor(lastErr)
		p.log.Warn("comparison failed", "reason", follows.event, "error", lastErr)
		p.recordEvent(true, follows.event, lastErr.Error())
	}
	if seen != nil {
		for _, text := range seen.excluded {
			if !hasCondition(before.Conditions, text) {
				p.log.Warn("object excluded", "reason", text)
			}
		}
	}
	p.recordHold(before.Held, after.Held)
	from, to := before.Health.Status, after.Health.Status
	if from != to && (to == v1alpha1.Degraded || from == v1alpha1.Degraded) {
		p.recordEvent(to == v1alpha1.Degraded, "HealthChanged", "health was "+string(from)+" and is "+string(to)+": "+after.Health.Message)
	}
}

// hasCondition reports whether a condition has a message.
func hasCondition(conditions []v1alpha1.ApplicationCondition, message string) bool {
	return slices.ContainsFunc(conditions, func(one v1alpha1.ApplicationCondition) bool { return one.Message == truncate(message) })
}
