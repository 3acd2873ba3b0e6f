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

// WaitOptions are how long an operation waits, for what, and what happens after
// the timeout.
type WaitOptions struct {
	// Timeout bounds the operation with everything that it waits for.
	Timeout time.Duration
	// Healthy is polled when all workloads are available, until it returns nil.
	// Its error describes what is waited for. It may be nil.
	Healthy func(ctx context.Context) error
	// Keep leaves a failed release as it is, for inspection.
	Keep bool
}

// FailedError is an operation that failed.
type FailedError struct {
	// Reason is why.
	Reason error
	// Undone describes what was done about it.
	Undone string
	// Problem is why it could not be undone; nil if it was.
	Problem error
}

// Error returns reason and outcome.
func (e *FailedError) Error() string {
	text := e.Reason.Error() + ": " + e.Undone
	if e.Problem != nil {
		text += ": " + e.Problem.Error()
	}
	return text
}

// Unwrap returns the reason.
func (e *FailedError) Unwrap() error { return e.Reason }

// errLate is the cause when the timeout of an operation is over.
var errLate = errors.New("the time is over")

// Apply applies a plan, and waits until the release is healthy. If it is not in
// time, an upgrade is rolled back and an installation is uninstalled. The
// result is a FailedError then.
func (c *Client) Apply(ctx context.Context, plan *Plan, wait WaitOptions) error {
	// The cause distinguishes the timeout from an interrupt of the caller.
	bounded, cancel := context.WithTimeoutCause(ctx, wait.Timeout, errLate)
	defer cancel()
	// The workloads are read before anything is written: a manifest that cannot
	// be decoded must not fail halfway.
	watched, err := c.workloads(plan)
	if err != nil {
		return err
	}
	done, err := c.prepare(bounded, plan)
	if err == nil {
		err = c.perform(bounded, plan, watched)
	}
	if err == nil {
		err = c.await(bounded, watched, wait.Healthy)
	}
	if err == nil {
		return nil
	}
	// Only a timeout is reported as one. After an interrupt the error stays as
	// it is.
	if errors.Is(context.Cause(bounded), errLate) {
		err = fmt.Errorf("not healthy within %s: %w", wait.Timeout, err)
	}
	if wait.Keep {
		c.markFailed(plan, err)
		return &FailedError{Reason: err, Undone: "it is left as it is"}
	}
	// The caller's context and not the bounded one, which may be over.
	return c.undo(ctx, plan, done, err)
}

// perform lets Helm write, and reports meanwhile the Jobs of hooks that it
// waits for. Helm is not interrupted, because it would go on in the background;
// only its waits are.
func (c *Client) perform(ctx context.Context, plan *Plan, watched *watch) error {
	// The reporting stops when Helm returns, and perform waits for its end, so
	// that no line follows the result.
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
	// Helm's error is only that a hook failed. The Job and its Pods have the
	// reason. The timeout may be over, so the requests get a context of their
	// own.
	looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer cancel()
	if why := watched.failures(looking); why != "" {
		return fmt.Errorf("%s (%w)", why, shortError(err))
	}
	return shortError(err)
}

// write runs Helm's install or upgrade. Helm waits for hooks only: await waits
// for the workloads, and reports why they are not available.
func (c *Client) write(ctx context.Context, plan *Plan) error {
	waiting := []helmkube.WaitOption{helmkube.WithWaitContext(ctx)}
	// Helm would return at once and write on in the background.
	uninterrupted := context.WithoutCancel(ctx)
	// Helm needs a timeout of its own for hooks: what is left of ours.
	left := requestTime
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	if plan.Install() {
		// The definitions are written by now, with the marks of the release,
		// which Helm would not set.
		install := action.NewInstall(c.config)
		install.ReleaseName, install.Namespace, install.SkipCRDs = c.place.Release, c.place.Namespace, true
		install.WaitStrategy, install.WaitOptions, install.Timeout = helmkube.HookOnlyStrategy, waiting, left
		install.Description = "installed by slipway"
		_, err := install.RunWithContext(uninterrupted, plan.spec.Chart.loaded, maps.Clone(plan.spec.Values))
		return err
	}
	if err := c.takeOver(uninterrupted, plan.after.Manifest); err != nil {
		return err
	}
	// ResetValues, because the values of the spec are complete: none of an
	// earlier revision may come back.
	upgrade := action.NewUpgrade(c.config)
	upgrade.Namespace, upgrade.ResetValues, upgrade.MaxHistory = c.place.Namespace, true, keptRevisions
	upgrade.WaitStrategy, upgrade.WaitOptions, upgrade.Timeout = helmkube.HookOnlyStrategy, waiting, left
	upgrade.Description, upgrade.ForceConflicts = "upgraded by slipway", plan.spec.TakeOver
	_, err := upgrade.RunWithContext(uninterrupted, c.place.Release, plan.spec.Chart.loaded, maps.Clone(plan.spec.Values))
	return err
}

// shortError returns an error of Helm on one line.
func shortError(err error) error {
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

// undo undoes a failed operation, with a timeout of its own. It returns a
// FailedError with the reason in every case.
func (c *Client) undo(ctx context.Context, plan *Plan, done prepared, reason error) error {
	c.report("The operation failed and is rolled back.")
	c.markFailed(plan, reason)
	// An interrupted operation is undone as well, so the context is detached
	// from the caller's.
	undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	failed := &FailedError{Reason: reason}
	if plan.Install() {
		failed.Undone = "the installation was rolled back"
		// The workloads go before the Secrets that they mount.
		_, err := c.Remove(undoing, undoTime)
		failed.Problem = errors.Join(err, c.unprepare(undoing, done))
	} else {
		failed.Undone = fmt.Sprintf("the release was rolled back to revision %d", plan.before.Version)
		failed.Problem = errors.Join(c.rollback(undoing, plan), c.unprepare(undoing, done))
	}
	// The message must not claim a state that was not reached.
	if failed.Problem != nil {
		failed.Undone = "rolling it back failed too"
	}
	return failed
}

// rollback rolls back to the last revision that was healthy.
func (c *Client) rollback(ctx context.Context, plan *Plan) error {
	all, err := c.history(ctx)
	if err != nil {
		return err
	}
	// If the deployed revision is the newest, Helm has failed before it wrote
	// anything.
	if len(all) > 0 && newest(all).Version > plan.before.Version {
		back := action.NewRollback(c.config)
		back.Version, back.Timeout, back.MaxHistory = plan.before.Version, undoTime, keptRevisions
		back.WaitStrategy, back.WaitOptions = helmkube.HookOnlyStrategy, []helmkube.WaitOption{helmkube.WithWaitContext(ctx)}
		back.Description = fmt.Sprintf("rolled back to revision %d by slipway", plan.before.Version)
		if err := back.Run(c.place.Release); err != nil {
			return fmt.Errorf("roll back to revision %d: %w", plan.before.Version, shortError(err))
		}
	}
	// Helm keeps hooks that failed, with the values in them.
	return c.deleteHooks(ctx, plan.after.Hooks)
}

// markFailed records the reason in the revision, for helm history. Best effort:
// the caller reports the reason anyway.
func (c *Client) markFailed(plan *Plan, reason error) {
	// The context of the operation may be over.
	all, err := c.history(context.Background())
	if err != nil || len(all) == 0 {
		return
	}
	last := newest(all)
	// Helm has not recorded this operation, and an earlier revision must not be
	// marked.
	if last.Version < plan.Revision {
		return
	}
	last.SetStatus(common.StatusFailed, cutLine(reason.Error()))
	_ = c.config.Releases.Update(last)
}
