package reconcile

import (
	"context"
	"errors"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
)

// invalid says that an Application asks for something that we will not do.
type invalid struct{ refused []v1alpha1.Refused }

// Error is everything that is refused.
func (e *invalid) Error() string { return v1alpha1.Summary(e.refused) }

// consequence is what follows from an error.
type consequence struct {
	// condition is the type of the condition that tells it.
	condition string
	// again says that it is tried again by itself, after a pause that grows. What
	// is not waits for a change of the Application, its repository or its
	// project; that a repository is away is the business of polling. What is slow
	// waits long at once, because it costs much.
	again bool
	slow  bool
	// event is the reason of the Event that tells it.
	event string
}

// consequenceOf is the one place that says what follows from an error of a pass.
// Nothing is pruned after any of them, and the last good state goes on being
// told.
func consequenceOf(err error) consequence {
	var (
		refusal *invalid
		remote  *source.Error
		failure *render.Error
		object  plan.Refusal
	)
	switch {
	case errors.Is(err, context.Canceled):
		return consequence{}
	case errors.As(err, &refusal):
		return consequence{condition: v1alpha1.ConditionInvalidSpecError, event: "InvalidSpec"}
	case errors.As(err, &object):
		return consequence{condition: v1alpha1.ConditionComparisonError, event: "ObjectRefused"}
	case errors.As(err, &remote):
		return consequence{condition: v1alpha1.ConditionComparisonError, event: "SourceFailed"}
	case errors.As(err, &failure):
		follows := consequence{condition: v1alpha1.ConditionComparisonError, event: "RenderFailed"}
		switch failure.Kind {
		case render.TooSlow, render.OutOfMemory:
			follows.again, follows.slow = true, true
		case render.WorkerDied, render.Unavailable:
			follows.again = true
		}
		return follows
	}
	return consequence{condition: v1alpha1.ConditionComparisonError, event: "ComparisonFailed", again: true}
}

// wait is how long to wait after so many failures in a row.
func (c consequence) wait(failures int) time.Duration {
	if c.slow {
		return longestPause
	}
	return pause(failures)
}
