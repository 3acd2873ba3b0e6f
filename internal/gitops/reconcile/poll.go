package reconcile

import (
	"context"
	"math/rand/v2"
	"time"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/address"
)

// pollers is how many repositories of a project are polled at a time. They are
// not the workers of Applications: a Git server that does not respond must not
// delay syncs of others.
const pollers = 8

// requestPoll enqueues a repository to be polled now.
func (c *Controller) requestPoll(at address.Address) {
	c.polls.add(item{repository: at}, reasonChange)
}

// poll resolves all revisions that Applications name of a repository, once for
// all of them, and enqueues those for which something changed. Projects whose
// credential is the same share one request; what fails for one project does not
// fail for the others.
func (c *Controller) poll(ctx context.Context, at address.Address) {
	began := time.Now()
	for _, key := range c.repositories.readersOf(at) {
		found, failure := c.pollFor(ctx, key, began)
		if ctx.Err() != nil {
			return
		}
		for _, id := range c.repositories.update(key, began, found, failure) {
			c.queue.add(item{app: id}, reasonSource)
		}
	}
	c.schedule(at)
}

// pollFor resolves the revisions that the Applications of one project name.
func (c *Controller) pollFor(ctx context.Context, key repositoryKey, began time.Time) (map[sourceRef]string, error) {
	found := map[sourceRef]string{}
	for named, admitted := range c.repositories.refsOf(key) {
		revision, err := c.revisionOf(ctx, admitted, began)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !source.IsOfChart(err) && (source.IsKind(err, source.Unreachable) || source.IsKind(err, source.Denied)) {
			c.Log.Debug("poll failed", "repository", key.address, "project", key.project, "error", err)
			return found, err
		}
		if err != nil {
			// It concerns that revision or chart alone, and the run that needs it
			// reports it.
			revision = "error: " + err.Error()
		}
		found[named] = revision
	}
	return found, nil
}

// revisionOf resolves one revision. A result that is newer than the start of
// the poll is reused, so that a repository gets one request.
func (c *Controller) revisionOf(ctx context.Context, of project.Admitted, began time.Time) (string, error) {
	found, err := c.Sources.Resolve(ctx, of, max(0, time.Now().Sub(began)))
	if err != nil {
		return "", err
	}
	return found.Revision, nil
}

// schedule sets the next poll of a repository: after the interval, and with
// backoff after a failure.
func (c *Controller) schedule(at address.Address) {
	tries, used := c.repositories.failures(at)
	if !used {
		c.polls.forget(item{repository: at})
		return
	}
	wait := c.Interval
	if c.Jitter > 0 {
		wait += rand.N(c.Jitter)
	}
	if tries > 0 {
		wait = min(wait, pause(tries+1))
	}
	c.polls.at(item{repository: at}, reasonTimer, time.Now().Add(wait))
}
