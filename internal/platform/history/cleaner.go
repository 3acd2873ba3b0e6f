package history

import (
	"context"
	"errors"
	"time"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/store"
)

const (
	// cleanTask is the name of the task in the database.
	cleanTask = "history.clean"
	// cleanInterval is how often expired rows are deleted, and how long a
	// replica keeps the task to itself.
	cleanInterval = 10 * time.Minute
	// behindAfter is when rows that should be gone are worth a warning: several
	// attempts failed.
	behindAfter = 6 * cleanInterval
)

// errTaken means that a batch took longer than the lease. The other replica
// records the result.
var errTaken = errors.New("another replica has taken over")

// Run deletes expired rows until the context is done. The replicas share the
// task: one of them does it, and another one when that one is gone.
func (h *History) Run(ctx context.Context) error {
	for {
		if _, err := h.Clean(ctx); err != nil && ctx.Err() == nil {
			h.log.Warn("deleting expired history failed; retrying", observe.KeyError, err)
		}
		if backoff.Sleep(ctx, cleanInterval) != nil {
			return nil
		}
	}
}

// Clean deletes expired rows in batches, unless another replica has the task,
// and reports whether this one had it. The time is read once: rows that expire
// meanwhile are for the next run, so that it ends.
func (h *History) Clean(ctx context.Context) (mine bool, err error) {
	now := h.now()
	mine, err = h.claim(ctx)
	if err != nil || !mine {
		return mine, err
	}
	err = h.deleteExpired(ctx, now)
	h.options.Metrics.cleaned(err, now)
	if ctx.Err() != nil {
		return true, ctx.Err() // the next attempt continues
	}
	if finished := h.store.FinishTask(ctx, cleanTask, h.options.Replica, err); err == nil {
		err = finished
	}
	return true, err
}

// claim takes or renews the task.
func (h *History) claim(ctx context.Context) (bool, error) {
	return h.store.ClaimTask(ctx, cleanTask, h.options.Replica, cleanInterval)
}

// deleteExpired deletes batch by batch, each in its own transaction, so that
// reports are not blocked. The claim is renewed with each: a table that grew for
// months takes longer than one lease.
func (h *History) deleteExpired(ctx context.Context, now time.Time) error {
	for _, table := range []struct {
		kept   time.Duration
		expire func(context.Context, time.Time) (bool, error)
	}{
		{h.options.Retention.Deployments, h.store.ExpireDeployments},
		{h.options.Retention.Traffic, func(ctx context.Context, before time.Time) (bool, error) {
			return h.store.ExpireTraffic(ctx, store.TrafficHour, before)
		}},
		// The hours have the sums of these already.
		{minutesKept, func(ctx context.Context, before time.Time) (bool, error) {
			return h.store.ExpireTraffic(ctx, store.TrafficMinute, before)
		}},
		{edgesKept, h.store.ExpireTrafficEdges},
	} {
		for more := table.kept > 0; more; {
			var err error
			if more, err = table.expire(ctx, now.Add(-table.kept)); err != nil {
				return err
			}
			switch mine, err := h.claim(ctx); {
			case err != nil:
				return err
			case !mine:
				return errTaken
			}
		}
	}
	return nil
}

// behind reports whether rows are deleted later than they should be. A platform
// that was just started has not had the time.
func (h *History) behind(task store.Task) bool {
	return task.Holder != "" && !task.FinishedAt.IsZero() && h.now().Sub(task.FinishedAt) > behindAfter
}
