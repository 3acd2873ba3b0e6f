package reconcile

import (
	"context"
	"errors"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/plugin"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
)

// invalidSpec is the error of an Application that requires something that is
// not supported or not allowed.
type invalidSpec struct{ refused []refusal.Refusal }

// Error lists everything that is refused.
func (e *invalidSpec) Error() string { return refusal.Summary(e.refused) }

// errorPolicy is how an error is reported and retried.
type errorPolicy struct {
	// condition is the type of the condition that reports it.
	condition string
	// retry: the run is retried with backoff. Other errors wait for a change of
	// the Application, its project or its repository; an unreachable repository
	// is retried by polling. A slow failure waits for the longest backoff at
	// once, because each retry costs a whole render.
	retry bool
	slow  bool
	// event is the reason of the Event that reports it.
	event string
}

// policyFor is the one place that maps errors of a run to conditions, Events
// and retries. After none of them anything is pruned, and the last good state
// stays in the status.
func policyFor(err error) errorPolicy {
	var (
		invalid *invalidSpec
		remote  *source.Error
		failure *render.Error
		called  *plugin.Error
		object  *refusal.Refusal
	)
	switch {
	case errors.Is(err, context.Canceled):
		return errorPolicy{}
	case errors.As(err, &invalid):
		return errorPolicy{condition: v1alpha1.ConditionInvalidSpecError, event: "InvalidSpec"}
	case errors.As(err, &remote):
		return errorPolicy{condition: v1alpha1.ConditionComparisonError, event: "SourceFailed"}
	case errors.As(err, &failure):
		follows := errorPolicy{condition: v1alpha1.ConditionComparisonError, event: "RenderFailed"}
		switch failure.Kind {
		case render.TooSlow, render.OutOfMemory:
			follows.retry, follows.slow = true, true
		case render.WorkerDied, render.Unavailable:
			follows.retry = true
		}
		return follows
	case errors.As(err, &called):
		return errorPolicy{condition: v1alpha1.ConditionComparisonError, event: "PluginFailed", retry: true, slow: called.Slow}
	// Errors of sources and renders wrap refusals of files, so this comes after
	// them.
	case errors.As(err, &object):
		return errorPolicy{condition: v1alpha1.ConditionComparisonError, event: "ObjectRefused"}
	}
	return errorPolicy{condition: v1alpha1.ConditionComparisonError, event: "ComparisonFailed", retry: true}
}

// wait returns the backoff after a number of failures in a row.
func (c errorPolicy) wait(failures int) time.Duration {
	if c.slow {
		return longestPause
	}
	return pause(failures)
}
