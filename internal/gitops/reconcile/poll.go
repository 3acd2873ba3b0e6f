package reconcile

import (
	"context"
	"math/rand/v2"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/source"
)

// pollers is how many repositories are looked at at a time. They are not the
// workers of Applications: a server that does not answer must not hold these up.
const pollers = 8

// look asks for a look at a repository now.
func (c *Controller) look(address string) { c.polls.add(task{repository: address}, becauseAsked) }

// poll looks at a repository once for all Applications that use it, and has
// those looked at for which there is something new.
func (c *Controller) poll(ctx context.Context, address string) {
	began := c.Now()
	found := map[wish]string{}
	var failure error
	for _, named := range c.repositories.wished(address) {
		revision, err := c.revisionOf(ctx, named, began)
		if ctx.Err() != nil {
			return
		}
		if source.IsKind(err, source.Unreachable) || source.IsKind(err, source.Denied) {
			failure = err
			break
		}
		if err != nil {
			// It is about that revision alone. The pass that needs it tells.
			revision = "error: " + err.Error()
		}
		found[named] = revision
	}
	if failure != nil {
		c.Log.Debug("a repository cannot be read", "repository", address, "error", failure)
	}
	for _, id := range c.repositories.note(address, began, found, failure) {
		c.queue.add(task{app: id}, becauseSource)
	}
	c.schedule(address)
}

// revisionOf asks for one revision. Answers that came since the look began are
// believed, so that a repository is asked once.
func (c *Controller) revisionOf(ctx context.Context, named wish, began time.Time) (string, error) {
	found, err := c.Sources.Resolve(ctx, v1alpha1.ApplicationSource{
		RepoURL: named.repository, Chart: named.chart, TargetRevision: named.revision,
	}, max(0, c.Now().Sub(began)))
	if err != nil {
		return "", err
	}
	return found.Revision, nil
}

// schedule says when a repository is looked at next: after the interval, and
// sooner if it could not be read.
func (c *Controller) schedule(address string) {
	tries, used := c.repositories.retry(address)
	if !used {
		c.polls.forget(task{repository: address})
		return
	}
	wait := c.Interval
	if c.Jitter > 0 {
		wait += rand.N(c.Jitter)
	}
	if tries > 0 {
		wait = min(wait, pause(tries+1))
	}
	c.polls.at(task{repository: address}, becauseTime, c.Now().Add(wait))
}
