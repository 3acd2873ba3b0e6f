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

// situation is what is known when the question is whether a sync starts that
// nobody asked for.
type situation struct {
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

// verdict is the answer.
type verdict struct {
	// start is the operation to start, or nil.
	start *v1alpha1.Operation
	// again is when the answer may be another one; zero if time does not matter.
	again time.Time
	// problem is for the condition SyncError; empty if there is none.
	problem string
	// why says, for the log, why nothing starts.
	why string
}

func waits(format string, args ...any) verdict { return verdict{why: fmt.Sprintf(format, args...)} }

func blocked(format string, args ...any) verdict {
	text := fmt.Sprintf(format, args...)
	return verdict{problem: text, why: text}
}

// decide says whether an automated sync starts. The rules are Argo CD's: only
// what is OutOfSync is synced, each revision with its parameters is tried once,
// and what drifted after that is repaired only with selfHeal.
func decide(s *situation) verdict {
	switch {
	case !s.policy.IsAutomated():
		return waits("syncs are not automated")
	case s.sync != v1alpha1.SyncOutOfSync:
		return waits("the application is %s", s.sync)
	}
	automated := s.policy.Automated
	drifted := s.drifted()
	if !automated.Prune && !slices.ContainsFunc(drifted, func(r v1alpha1.ResourceStatus) bool { return !r.RequiresPruning }) {
		return waits("only pruning is needed, and automated syncs do not prune")
	}
	if !s.window.CanSync {
		return verdict{why: "a sync window is in the way: " + s.window.Why, again: s.window.Until}
	}
	start := &v1alpha1.Operation{
		Sync:        &v1alpha1.SyncOperation{Prune: automated.Prune},
		InitiatedBy: v1alpha1.OperationInitiator{Automated: true},
		Retry:       s.policy.AutomatedRetry(),
	}
	if s.attempted() {
		answer := s.heal(start, drifted)
		if answer.start == nil {
			return answer
		}
	} else {
		start.Sync.Revision, start.Sync.Revisions = s.revision()
	}
	if automated.Prune && !automated.AllowEmpty && s.wouldWipe() {
		return blocked("the sync would wipe out all resources: set allowEmpty if that is meant")
	}
	return verdict{start: start}
}

// drifted are the resources that are not as desired.
func (s *situation) drifted() []v1alpha1.ResourceStatus {
	var drifted []v1alpha1.ResourceStatus
	for _, resource := range s.resources {
		if !resource.Hook && resource.Status == v1alpha1.SyncOutOfSync {
			drifted = append(drifted, resource)
		}
	}
	return drifted
}

// wouldWipe reports whether nothing would be left.
func (s *situation) wouldWipe() bool {
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
func (s *situation) revision() (string, []string) {
	if len(s.revisions) == 1 {
		return s.revisions[0], nil
	}
	return "", s.revisions
}

// attempted reports whether the last operation was one to these revisions with
// these parameters. One that was not for all of it does not count, unless it was
// a repair.
func (s *situation) attempted() bool {
	if s.last == nil || s.last.Operation.Sync == nil || s.last.SyncResult == nil {
		return false
	}
	sync, result := s.last.Operation.Sync, s.last.SyncResult
	if sync.DryRun || len(sync.Resources) > 0 && sync.SelfHealAttemptsCount == 0 {
		return false
	}
	return slices.Equal(resultRevisions(result), s.revisions) && sameSources(resultSources(result), s.sources)
}

// heal adds what a repair needs to an operation, or says why there is none now.
func (s *situation) heal(start *v1alpha1.Operation, drifted []v1alpha1.ResourceStatus) verdict {
	last := s.last
	switch {
	case last.Phase != v1alpha1.OperationSucceeded:
		return blocked("Failed last sync attempt to %s: %s", strings.Join(s.revisions, ", "), last.Message)
	case !s.policy.Automated.SelfHeal:
		return waits("this revision is synced already, and selfHeal is off")
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
		return verdict{why: "the last repair was a short time ago", again: at}
	}
	start.Sync.Revision, start.Sync.Revisions = s.revision()
	start.Sync.SelfHealAttemptsCount = attempts + 1
	for _, resource := range drifted {
		start.Sync.Resources = append(start.Sync.Resources, v1alpha1.SyncOperationResource{
			Group: resource.Group, Kind: resource.Kind, Namespace: resource.Namespace, Name: resource.Name,
		})
	}
	return verdict{start: start}
}

// How long repairs of the same revision wait for each other: Argo CD's numbers.
const (
	healFirst    = 2 * time.Second
	healFactor   = 3
	healLongest  = 300 * time.Second
	healCooldown = 330 * time.Second
)

// healWait is how long to wait after so many repairs.
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
