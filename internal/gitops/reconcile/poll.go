package reconcile

import (
	"context"
	"math/rand/v2"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/source"
)

// pollers is how many repositories are polled at a time. They are not the
// workers of Applications: a Git server that does not respond must not delay
// syncs of others.
const pollers = 8

// requestPoll enqueues a repository to be polled now.
func (c *Controller) requestPoll(address string) {
	c.polls.add(item{repository: address}, reasonChange)
}

// poll resolves all revisions that Applications name of a repository, once for
// all of them, and enqueues those for which something changed.
func (c *Controller) poll(ctx context.Context, address string) {
	began := c.Now()
	found := map[sourceRef]string{}
	var failure error
	for _, named := range c.repositories.refsOf(address) {
		revision, err := c.revisionOf(ctx, named, began)
		if ctx.Err() != nil {
			return
		}
		if source.IsKind(err, source.Unreachable) || source.IsKind(err, source.Denied) {
			failure = err
			break
		}
		if err != nil {
			// It concerns that revision alone, and the run that needs it reports it.
			revision = "error: " + err.Error()
		}
		found[named] = revision
	}
	if failure != nil {
		c.Log.Debug("poll failed", "repository", address, "error", failure)
	}
	for _, id := range c.repositories.update(address, began, found, failure) {
		c.queue.add(item{app: id}, reasonSource)
	}
	c.schedule(address)
}

// revisionOf resolves one revision. A result that is newer than the start of
// the poll is reused, so that a repository gets one request.
func (c *Controller) revisionOf(ctx context.Context, named sourceRef, began time.Time) (string, error) {
	found, err := c.Sources.Resolve(ctx, v1alpha1.ApplicationSource{
		RepoURL: named.repository, Chart: named.chart, TargetRevision: named.revision,
	}, max(0, c.Now().Sub(began)))
	if err != nil {
		return "", err
	}
	return found.Revision, nil
}

// schedule sets the next poll of a repository: after the interval, and with
// backoff after a failure.
func (c *Controller) schedule(address string) {
	tries, used := c.repositories.failures(address)
	if !used {
		c.polls.forget(item{repository: address})
		return
	}
	wait := c.Interval
	if c.Jitter > 0 {
		wait += rand.N(c.Jitter)
	}
	if tries > 0 {
		wait = min(wait, pause(tries+1))
	}
	c.polls.at(item{repository: address}, reasonTimer, c.Now().Add(wait))
}
