package release

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"helm.sh/helm/v4/pkg/action"
	helmkube "helm.sh/helm/v4/pkg/kube"
	"helm.sh/helm/v4/pkg/release/common"
)

// Patience is how long an operation waits, for what, and what happens when that does
// not come.
type Patience struct {
	// Timeout bounds the operation with everything that it waits for.
	Timeout time.Duration
	// Healthy is asked when all workloads are available, until it gives nil. Its
	// error says what is waited for. It may be nil.
	Healthy func(ctx context.Context) error
	// Keep leaves a failed release as it is, for who wants to look at it.
	Keep bool
}

// FailedError is an operation that was not successful.
type FailedError struct {
	// Reason is why.
	Reason error
	// Undone says what was done about it.
	Undone string
	// Problem is what kept it from being undone; nil when it was.
	Problem error
}

// Error says all of it.
func (e *FailedError) Error() string {
	text := e.Reason.Error() + ": " + e.Undone
	if e.Problem != nil {
		text += ": " + e.Problem.Error()
	}
	return text
}

// Unwrap gives the reason.
func (e *FailedError) Unwrap() error { return e.Reason }

// errLate is the end of an operation's time.
var errLate = errors.New("the time is over")

// Apply does what a plan says, and waits until it is healthy. When it is not in time,
// an upgrade goes back to the revision before and an installation is uninstalled.
func (c *Client) Apply(ctx context.Context, plan *Plan, patience Patience) error {
	bounded, cancel := context.WithTimeoutCause(ctx, patience.Timeout, errLate)
	defer cancel()
	watched, err := c.workloads(plan)
	if err != nil {
		return err
	}
	done, err := c.prepare(bounded, plan)
	if err == nil {
		err = c.perform(bounded, plan, watched)
	}
	if err == nil {
		err = c.await(bounded, watched, patience.Healthy)
	}
	if err == nil {
		return nil
	}
	if errors.Is(context.Cause(bounded), errLate) {
		err = fmt.Errorf("not healthy within %s: %w", patience.Timeout, err)
	}
	if patience.Keep {
		c.markFailed(plan, err)
		return &FailedError{Reason: err, Undone: "it is left as it is"}
	}
	return c.undo(ctx, plan, done, err)
}

// perform has Helm write, and tells meanwhile what it waits for: the Jobs of hooks.
// Helm itself is not interrupted, because it would go on in the background; its
// waiting is.
func (c *Client) perform(ctx context.Context, plan *Plan, watched *watch) error {
	following, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watched.follow(following)
	}()
	err := c.write(ctx, plan)
	stop()
	<-ended
	if err == nil {
		return nil
	}
	// What Helm says of a hook is only that it failed.
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer cancel()
	if why := watched.failures(looking); why != "" {
		return fmt.Errorf("%s (%w)", why, shortError(err))
	}
	return shortError(err)
}

func (c *Client) write(ctx context.Context, plan *Plan) error {
	waiting := []helmkube.WaitOption{helmkube.WithWaitContext(ctx)}
	uninterrupted := context.WithoutCancel(ctx)
	left := requestTime
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	if plan.Install() {
		install := action.NewInstall(c.config)
		install.ReleaseName, install.Namespace, install.SkipCRDs = c.place.Release, c.place.Namespace, true
		install.WaitStrategy, install.WaitOptions, install.Timeout = helmkube.HookOnlyStrategy, waiting, left
		install.Description = "installed by slipway"
		_, err := install.RunWithContext(uninterrupted, plan.wish.Chart.loaded, maps.Clone(plan.wish.Values))
		return err
	}
	upgrade := action.NewUpgrade(c.config)
	upgrade.Namespace, upgrade.ResetValues, upgrade.MaxHistory = c.place.Namespace, true, keptRevisions
	upgrade.WaitStrategy, upgrade.WaitOptions, upgrade.Timeout = helmkube.HookOnlyStrategy, waiting, left
	upgrade.Description = "upgraded by slipway"
	_, err := upgrade.RunWithContext(uninterrupted, c.place.Release, plan.wish.Chart.loaded, maps.Clone(plan.wish.Values))
	return err
}

// shortError is an error of Helm on one line.
func shortError(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

// undo takes a failed operation back, in its own time.
func (c *Client) undo(ctx context.Context, plan *Plan, done prepared, reason error) error {
	c.tell("It has failed, and is taken back.")
	c.markFailed(plan, reason)
	undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	failed := &FailedError{Reason: reason}
	if plan.Install() {
		failed.Undone = "the installation was taken back"
		_, err := c.Remove(undoing, undoTime)
		failed.Problem = errors.Join(err, c.unprepare(undoing, done))
	} else {
		failed.Undone = fmt.Sprintf("the release was rolled back to revision %d", plan.before.Version)
		failed.Problem = errors.Join(c.rollback(undoing, plan), c.unprepare(undoing, done))
	}
	if failed.Problem != nil {
		failed.Undone = "it was to be taken back, which failed too"
	}
	return failed
}

// rollback goes back to the revision that was in order.
func (c *Client) rollback(ctx context.Context, plan *Plan) error {
	all, err := c.history(ctx)
	if err != nil {
		return err
	}
	if len(all) > 0 && newest(all).Version > plan.before.Version {
		back := action.NewRollback(c.config)
		back.Version, back.Timeout, back.MaxHistory = plan.before.Version, undoTime, keptRevisions
		back.WaitStrategy, back.WaitOptions = helmkube.HookOnlyStrategy, []helmkube.WaitOption{helmkube.WithWaitContext(ctx)}
		back.Description = fmt.Sprintf("rolled back to revision %d by slipway", plan.before.Version)
		if err := back.Run(c.place.Release); err != nil {
			return fmt.Errorf("roll back to revision %d: %w", plan.before.Version, shortError(err))
		}
	}
	return c.deleteHooks(ctx, plan.after.Hooks)
}

// markFailed has helm history say why. It is no more than a help: what is told here
// matters.
func (c *Client) markFailed(plan *Plan, reason error) {
	all, err := c.history(context.Background())
	if err != nil || len(all) == 0 {
		return
	}
	last := newest(all)
	if last.Version < plan.Revision {
		return
	}
	last.SetStatus(common.StatusFailed, cutLine(reason.Error()))
	_ = c.config.Releases.Update(last)
}
