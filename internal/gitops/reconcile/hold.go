package reconcile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// held is the revision that the Application is held at; nil if it follows its
// sources. A change that is not written yet goes before the status.
func (p *reconcileRun) held() *v1alpha1.HeldRevision {
	switch {
	case p.lifted:
		return nil
	case p.session.pending != nil:
		return p.session.pending.held
	}
	return p.app.Status.Held
}

// isHoldUnwritten reports whether a hold has begun that the status does not have yet.
func (p *reconcileRun) isHoldUnwritten() bool {
	unwritten := p.session.pending
	return unwritten != nil && unwritten.held != nil && !equality.Semantic.DeepEqual(unwritten.held, p.app.Status.Held)
}

// desiredRendering is what the cluster is compared with and synced to: the
// rendering of the sources, or of the revision that the Application is held at.
// It is nil before that was rendered.
func (p *reconcileRun) desiredRendering() *rendering {
	if p.held() != nil {
		return p.session.heldRendering
	}
	return p.session.rendering
}

// ensureHeld lifts the hold if the sources give other objects than those that
// are held back, and otherwise renders the revision that serves.
func (p *reconcileRun) ensureHeld(ctx context.Context) error {
	hold := p.held()
	if hold == nil {
		p.session.heldRendering = nil
		return nil
	}
	if !holdsBack(hold, p.session.rendering) {
		p.lift("the sources have changed")
		return nil
	}
	if known := p.session.heldRendering; known != nil && slices.Equal(known.revisions, hold.Revisions) && equality.Semantic.DeepEqual(known.sources, hold.Sources) {
		return nil
	}
	fresh, err := p.renderingFor(ctx, hold.Sources, hold.Revisions)
	if err != nil {
		return fmt.Errorf("render the revision that the application is held at: %w", err)
	}
	p.session.heldRendering = fresh
	return nil
}

// lift ends the hold. It is written with the status of this run.
func (p *reconcileRun) lift(why string) {
	p.log.Info("hold lifted", "revision", revisionNames(p.held().Revisions), "reason", why)
	p.lifted, p.session.heldRendering = true, nil
	if unwritten := p.session.pending; unwritten != nil {
		unwritten.history = withHeld(unwritten.history, unwritten.held, p.app.Spec.HistoryLimit())
		unwritten.held = nil
	}
}

// hold makes an Application keep a revision. The caller has started an operation
// or made the status pending in another way, so that both are written together.
func (p *reconcileRun) hold(at *rendering, reason, message string) {
	target := p.session.rendering
	p.session.pending.held = &v1alpha1.HeldRevision{
		Revisions: at.revisions, Sources: at.sources,
		Target: target.revisions, TargetInputs: inputDigest(target), TargetObjects: target.digest,
		Reason: reason, Message: truncate(message), HeldAt: *wholeSecond(p.now),
	}
	p.lifted, p.session.heldRendering = false, at
}

// updateHold lets a user's operation change the hold: a sync to what the sources
// name lifts it, and one of an automated Application to another revision is held
// there, because the next automated sync would undo it.
func (p *reconcileRun) updateHold(state *v1alpha1.OperationState, at *rendering) {
	sync := state.Operation.Sync
	if state.Operation.InitiatedBy.Automated || sync.DryRun || state.RetryCount > 0 {
		return
	}
	switch {
	case !p.leavesTarget(sync) && p.held() != nil, p.held() != nil && !p.app.Spec.SyncPolicy.IsAutomated():
		p.lift("a user syncs")
	case p.leavesTarget(sync) && p.app.Spec.SyncPolicy.IsAutomated():
		p.hold(at, v1alpha1.HeldByRollback, initiator(state)+" went back")
	}
}

// leavesTarget reports whether a sync is to something else than what the sources
// name at the moment.
func (p *reconcileRun) leavesTarget(sync *v1alpha1.SyncOperation) bool {
	given := givenRevisions(sync)
	return operationNames(sync) != nil || given != nil && !p.isCurrent(given)
}

// holdRejection returns why an automated Application cannot be held at what an
// operation syncs to; empty if it can, or need not be.
func (p *reconcileRun) holdRejection(sync *v1alpha1.SyncOperation) string {
	if !p.app.Spec.SyncPolicy.IsAutomated() || sync.DryRun || !p.leavesTarget(sync) {
		return ""
	}
	const undone = "a sync to another revision is undone at once while syncs are automated"
	switch {
	case len(sync.Resources) > 0:
		return undone + ": sync all resources, so that the application is held there"
	case !p.hasStatusSubresource.Load():
		return undone + ", and the definition of Applications in this cluster, which is that of Argo CD, cannot keep a hold: turn automated syncs off first"
	case p.session.rendering == nil:
		return undone + ", and there is no hold before the sources were rendered: turn automated syncs off first"
	}
	return ""
}

// holdsBack reports whether a rendering is what a hold is about.
func holdsBack(hold *v1alpha1.HeldRevision, target *rendering) bool {
	return target != nil && (hold.TargetInputs == inputDigest(target) || hold.TargetObjects == target.digest)
}

// inputDigest identifies the sources and revisions of a rendering.
func inputDigest(of *rendering) string {
	// Sources were decoded from JSON, and can be encoded.
	text, _ := json.Marshal(of.sources)
	return digestOf(append([][]byte{text}, []byte(strings.Join(of.revisions, "\n"))))
}

// digestOf is the digest of texts in order.
func digestOf(texts [][]byte) string {
	sum := sha256.New()
	for _, text := range texts {
		fmt.Fprintf(sum, "%d\n", len(text))
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// holdCondition describes the hold; nil if there is none.
func (p *reconcileRun) holdCondition() []v1alpha1.ApplicationCondition {
	hold := p.held()
	if hold == nil {
		return nil
	}
	target := hold.Target
	if p.session.rendering != nil {
		target = p.session.rendering.revisions
	}
	names := make([]string, 0, 1)
	for _, source := range p.app.Spec.AllSources() {
		names = append(names, cmp.Or(source.TargetRevision, "HEAD"))
	}
	return []v1alpha1.ApplicationCondition{condition(v1alpha1.ConditionHeldRevisionWarning, fmt.Sprintf(
		"%s is at %s; %s serves; %s. The next commit that changes the objects ends this, or: slipway app sync %s",
		strings.Join(names, ", "), revisionNames(target), revisionNames(hold.Revisions), hold.Message, p.id))}
}

// revisionNames are revisions for people: commits are shortened.
func revisionNames(revisions []string) string {
	names := slices.Clone(revisions)
	for i, name := range names {
		if len(name) >= 40 {
			names[i] = name[:7]
		}
	}
	return strings.Join(names, ", ")
}

// recordHold reports a hold that began or ended.
func (p *reconcileRun) recordHold(before, after *v1alpha1.HeldRevision) {
	switch {
	case after != nil && (before == nil || !equality.Semantic.DeepEqual(before, after)):
		p.recordEvent(true, "RevisionHeld", revisionNames(after.Revisions)+" serves in place of "+revisionNames(after.Target)+": "+after.Message)
	case before != nil && after == nil:
		p.recordEvent(false, "HoldLifted", "the application follows its sources again; "+revisionNames(before.Revisions)+" was held")
	}
}
