package reconcile

import (
	"context"
	"slices"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/health"
)

// conclude writes what was found, and says when to look again.
func (p *pass) conclude(ctx context.Context, seen *sight, trouble error) error {
	want := &draft{status: p.compose(seen, trouble), consumed: p.dropped}
	if !p.pending {
		want.refresh = p.refresh
	}
	before := p.app.Status
	if err := p.commit(ctx, want); err != nil {
		return err
	}
	if !p.pending {
		p.session.refreshing = time.Time{}
	}
	p.announce(&before, seen, trouble)
	if len(seen.unlabelled()) > 0 {
		// No watch follows them: the label is what watches are filtered by.
		p.again = earliest(p.again, p.Now().Add(p.Interval))
	}
	follows := consequence{}
	if trouble != nil {
		follows = consequenceOf(trouble)
	}
	switch {
	case follows.again:
		p.session.seen = ""
		p.session.failures++
		p.again = earliest(p.again, p.Now().Add(follows.wait(p.session.failures)))
	case seen != nil && seen.set != nil && trouble == nil:
		p.session.failures = 0
		p.session.seen = p.print
	default:
		p.session.failures = 0
		p.session.seen = ""
	}
	return nil
}

// save writes only the state of the operation.
func (p *pass) save(ctx context.Context) error {
	return p.commit(ctx, &draft{status: p.withOperation(p.app.Status), consumed: p.dropped})
}

// commit writes a draft, with the request that was taken up. What was unsaved is
// in the status then.
func (p *pass) commit(ctx context.Context, want *draft) error {
	if unsaved := p.session.unsaved; unsaved != nil && unsaved.consumed != nil {
		want.consumed = unsaved.consumed
	}
	written, err := p.write(ctx, want)
	if err != nil {
		return err
	}
	if written {
		p.Metrics.wrote()
	}
	p.session.unsaved = nil
	return nil
}

func (p *pass) withOperation(status v1alpha1.ApplicationStatus) v1alpha1.ApplicationStatus {
	status.OperationState, status.History = p.state(), p.history()
	return status
}

// compose is the status that follows from what was seen. What is not known stays
// as it was told last.
func (p *pass) compose(seen *sight, trouble error) v1alpha1.ApplicationStatus {
	status := p.withOperation(p.app.Status)
	status.ControllerNamespace = p.ControlNamespace
	if seen != nil {
		counted := p.count(seen)
		p.again = earliest(p.again, counted.again)
		if seen.set == nil && len(counted.resources) == 0 {
			counted.health = health.Status{Code: v1alpha1.Unknown, Message: "what the application has is not known"}
		}
		status.Resources, status.Summary = counted.resources, counted.summary
		status.Health = *toldHealth(&p.app.Status.Health, counted.health, p.now)
	} else if status.Health.Status == "" {
		status.Health = *toldHealth(nil, health.Status{Code: v1alpha1.Unknown}, p.now)
	}
	conditions := append(p.observedConditions(seen), p.ignoredFields()...)
	if p.problem != "" {
		conditions = append(conditions, condition(v1alpha1.ConditionSyncError, p.problem))
	}
	if trouble == nil {
		p.tellCompared(&status, seen)
	} else {
		status.Sync.Status = v1alpha1.SyncUnknown
		if kind := consequenceOf(trouble).condition; kind != "" {
			conditions = append(conditions, condition(kind, trouble.Error()))
		}
	}
	status.Conditions = settled(p.app.Status.Conditions, conditions, p.now)
	return status
}

// tellCompared says what was compared, and how it is.
func (p *pass) tellCompared(status *v1alpha1.ApplicationStatus, seen *sight) {
	of := p.session.rendering
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

// announce tells of what is worse than before, or good again.
func (p *pass) announce(before *v1alpha1.ApplicationStatus, seen *sight, trouble error) {
	after := &p.app.Status
	if trouble == nil && len(seen.refusals()) > 0 {
		trouble = seen.refusals()[0]
	}
	if trouble != nil && !hasCondition(before.Conditions, trouble.Error()) {
		follows := consequenceOf(trouble)
		p.log.Warn("the application cannot be compared", "reason", follows.event, "error", trouble)
		p.tell(true, follows.event, trouble.Error())
	}
	from, to := before.Health.Status, after.Health.Status
	if from != to && (to == v1alpha1.Degraded || from == v1alpha1.Degraded) {
		p.tell(to == v1alpha1.Degraded, "HealthChanged", "health was "+string(from)+" and is "+string(to)+": "+after.Health.Message)
	}
}

func hasCondition(conditions []v1alpha1.ApplicationCondition, message string) bool {
	return slices.ContainsFunc(conditions, func(one v1alpha1.ApplicationCondition) bool { return one.Message == cut(message) })
}
