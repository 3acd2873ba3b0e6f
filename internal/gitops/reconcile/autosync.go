package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/window"
)

// autoSyncInput is everything that decides whether an automated sync starts.
// decide reads nothing else, so that its rules can be tested as a table.
type autoSyncInput struct {
	policy *v1alpha1.SyncPolicy
	// sources and revisions are what was compared, in the order of the sources.
	sources   []v1alpha1.ApplicationSource
	revisions []string
	sync      v1alpha1.SyncStatusCode
	resources []v1alpha1.ResourceStatus
	// last is the last operation, which has ended, or nil.
	last   *v1alpha1.OperationState
	window window.Decision
	now    time.Time
}

// autoSyncDecision is the result of decide.
type autoSyncDecision struct {
	// start is the operation to start, or nil.
	start *v1alpha1.Operation
	// requeueAt is when the decision may change without an event, such as the
	// opening of a sync window or the end of a backoff; zero if time does not
	// matter.
	requeueAt time.Time
	// syncError is for the condition SyncError; empty if there is none.
	syncError string
	// why is the reason for the log when no sync starts.
	why string
}

// noSync is a decision not to sync that needs no attention.
func noSync(format string, args ...any) autoSyncDecision {
	return autoSyncDecision{why: fmt.Sprintf(format, args...)}
}

// blockedSync is a decision not to sync that becomes the condition SyncError.
func blockedSync(format string, args ...any) autoSyncDecision {
	text := fmt.Sprintf(format, args...)
	return autoSyncDecision{syncError: text, why: text}
}

// decide decides whether an automated sync starts. The rules are Argo CD's:
// only an Application that is OutOfSync is synced, each revision with its
// parameters is tried once, and drift after that is repaired only with
// selfHeal.
func decide(s *autoSyncInput) autoSyncDecision {
	switch {
	case !s.policy.IsAutomated():
		return noSync("syncs are not automated")
	case s.sync != v1alpha1.SyncOutOfSync:
		return noSync("the application is %s", s.sync)
	}
	automated := s.policy.Automated
	drifted := s.drifted()
	if !automated.Prune && !slices.ContainsFunc(drifted, func(r v1alpha1.ResourceStatus) bool { return !r.RequiresPruning }) {
		return noSync("only pruning is needed, and automated syncs do not prune")
	}
	if !s.window.CanSync {
		return autoSyncDecision{why: "a sync window is in the way: " + s.window.Why, requeueAt: s.window.Until}
	}
	start := &v1alpha1.Operation{
		Sync:        &v1alpha1.SyncOperation{Prune: automated.Prune},
		InitiatedBy: v1alpha1.OperationInitiator{Automated: true},
		Retry:       s.policy.AutomatedRetry(),
	}
	if s.attempted() {
		decision := s.heal(start, drifted)
		if decision.start == nil {
			return decision
		}
	} else {
		start.Sync.Revision, start.Sync.Revisions = s.revision()
	}
	if automated.Prune && !automated.AllowEmpty && s.wouldWipe() {
		return blockedSync("the sync would wipe out all resources: set allowEmpty if that is meant")
	}
	return autoSyncDecision{start: start}
}

// drifted returns the resources that are OutOfSync. Hooks have no sync state.
func (s *autoSyncInput) drifted() []v1alpha1.ResourceStatus {
	var drifted []v1alpha1.ResourceStatus
	for _, resource := range s.resources {
		if !resource.Hook && resource.Status == v1alpha1.SyncOutOfSync {
			drifted = append(drifted, resource)
		}
	}
	return drifted
}

// wouldWipe reports whether a sync with prune would leave no resource. A render
// that is empty by mistake must not delete a running application.
func (s *autoSyncInput) wouldWipe() bool {
	any := false
	for _, resource := range s.resources {
		if resource.Hook {
			continue
		}
		if !resource.RequiresPruning {
			return false
		}
		any = true
	}
	return any
}

// revision is the revision of one source, or those of several.
func (s *autoSyncInput) revision() (string, []string) {
	if len(s.revisions) == 1 {
		return s.revisions[0], nil
	}
	return "", s.revisions
}

// attempted reports whether the last operation was one to these revisions with
// these parameters. One that was not for all of it does not count, unless it was
// a repair.
func (s *autoSyncInput) attempted() bool {
	if s.last == nil || s.last.Operation.Sync == nil || s.last.SyncResult == nil {
		return false
	}
	sync, result := s.last.Operation.Sync, s.last.SyncResult
	if sync.DryRun || len(sync.Resources) > 0 && sync.SelfHealAttemptsCount == 0 {
		return false
	}
	return slices.Equal(resultRevisions(result), s.revisions) && sameSources(resultSources(result), s.sources)
}

// heal turns an operation into a repair of the resources that drifted, or
// returns why there is none now. Repairs of the same revision back off: another
// controller that writes the same fields would otherwise fight with selfHeal
// without end.
func (s *autoSyncInput) heal(start *v1alpha1.Operation, drifted []v1alpha1.ResourceStatus) autoSyncDecision {
	last := s.last
	switch {
	case last.Phase != v1alpha1.OperationSucceeded:
		return blockedSync("Failed last sync attempt to %s: %s", strings.Join(s.revisions, ", "), last.Message)
	case !s.policy.Automated.SelfHeal:
		return noSync("this revision is synced already, and selfHeal is off")
	}
	var ended time.Time
	if last.FinishedAt != nil {
		ended = last.FinishedAt.Time
	}
	// Only repairs that follow each other closely wait longer and longer.
	attempts := last.Operation.Sync.SelfHealAttemptsCount
	if s.now.Sub(ended) >= healCooldown {
		attempts = 0
	}
	if at := ended.Add(healWait(attempts)); attempts > 0 && at.After(s.now) {
		return autoSyncDecision{why: "the last repair was a short time ago", requeueAt: at}
	}
	start.Sync.Revision, start.Sync.Revisions = s.revision()
	start.Sync.SelfHealAttemptsCount = attempts + 1
	for _, resource := range drifted {
		start.Sync.Resources = append(start.Sync.Resources, v1alpha1.SyncOperationResource{
			Group: resource.Group, Kind: resource.Kind, Namespace: resource.Namespace, Name: resource.Name,
		})
	}
	return autoSyncDecision{start: start}
}

// How long repairs of the same revision wait for each other: Argo CD's numbers.
const (
	healFirst    = 2 * time.Second
	healFactor   = 3
	healLongest  = 300 * time.Second
	healCooldown = 330 * time.Second
)

// healWait returns the backoff after a number of repairs in a row.
func healWait(attempts int64) time.Duration {
	wait := healFirst
	for i := int64(1); i < attempts && wait < healLongest; i++ {
		wait *= healFactor
	}
	return min(wait, healLongest)
}

// resultRevisions are the revisions of a sync, in the order of its sources.
func resultRevisions(result *v1alpha1.SyncOperationResult) []string {
	if len(result.Revisions) > 0 {
		return result.Revisions
	}
	return []string{result.Revision}
}

// resultSources returns the sources of a sync, in order; nil for a state of an
// Argo CD that did not record them.
func resultSources(result *v1alpha1.SyncOperationResult) []v1alpha1.ApplicationSource {
	if len(result.Sources) > 0 {
		return result.Sources
	}
	if result.Source != nil {
		return []v1alpha1.ApplicationSource{*result.Source}
	}
	return nil
}

// sameSources compares sources without the revisions that they name: which ones
// that were is compared apart.
func sameSources(a, b []v1alpha1.ApplicationSource) bool {
	return slices.EqualFunc(a, b, func(one, other v1alpha1.ApplicationSource) bool {
		one.TargetRevision, other.TargetRevision = "", ""
		return equality.Semantic.DeepEqual(one, other)
	})
}
