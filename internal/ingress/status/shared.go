package status

import (
	"context"
	"sync"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// Shared configures the status of Ingresses whose class another controller serves
// too, such as ingress-nginx during a migration.
type Shared struct {
	// Unpublished is set if their status is left to the other controller.
	Unpublished bool
	// LeaseNamespace and LeaseName are the Lease of the other controller's leader
	// election; empty for none. The status is written only while this replica holds
	// it, so one of the two controllers writes at a time.
	LeaseNamespace string
	LeaseName      string
}

// sharedGate admits writes of the status of shared Ingresses while it is open.
type sharedGate struct {
	mu sync.Mutex
	// open is the context of the writes; nil while the gate is closed.
	open    context.Context
	writing sync.WaitGroup
}

// set opens the gate until the context is done; the caller closes it then.
func (g *sharedGate) set(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = ctx
}

// close admits no more writes, and returns when none is in flight.
func (g *sharedGate) close() {
	g.set(nil)
	g.writing.Wait()
}

// isOpen reports whether a write would be admitted.
func (g *sharedGate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open != nil && g.open.Err() == nil
}

// enter admits a write and returns its context. The caller calls done after it.
func (g *sharedGate) enter() (ctx context.Context, done func(), admitted bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil || g.open.Err() != nil {
		return nil, nil, false
	}
	g.writing.Add(1)
	return g.open, g.writing.Done, true
}

// admit returns the context of a write, and a function to call after it. A write for
// a shared Ingress ends with the other controller's Lease, not only with ours.
func (t *leadershipTerm) admit(ctx context.Context, task statusWrite) (writing context.Context, done func(), admitted bool) {
	if !task.shared {
		return ctx, func() {}, true
	}
	return t.shared.enter()
}

// holdShared opens the gate while this replica may write the status of shared
// Ingresses: as long as it leads, or while it holds the other controller's Lease.
// It returns when the context is done and that Lease is released.
func (t *leadershipTerm) holdShared(ctx context.Context) {
	w := t.writer
	shared := w.options.Shared
	switch {
	case shared.Unpublished:
	case shared.LeaseName == "":
		t.publishShared(ctx)
	default:
		lease := shared.LeaseNamespace + "/" + shared.LeaseName
		election := kube.Election{
			Namespace: shared.LeaseNamespace, Name: shared.LeaseName, Identity: w.options.Identity,
			Duration: w.election.Duration, Renew: w.election.Renew, Retry: w.election.Retry,
			Failed: func(err error) {
				w.log.Warn("leader election of the other controller failed: the status of its Ingresses is not written", observe.KeyError, err)
			},
		}
		err := w.cluster.Elect(ctx, election, func(held context.Context) {
			w.log.Info("acquired the Lease of the other controller: writing the status of its Ingresses", "lease", lease)
			t.publishShared(held)
			w.log.Info("the status of the other controller's Ingresses is no longer written here", "lease", lease)
		})
		if err != nil {
			w.log.Error("the status of the other controller's Ingresses is not written", observe.KeyError, err)
		}
	}
}

// publishShared writes the status of shared Ingresses until the context is done, and
// returns when no write is in flight: a Lease is released after it.
func (t *leadershipTerm) publishShared(ctx context.Context) {
	w := t.writer
	w.mu.Lock()
	for _, known := range w.records {
		// The other controller wrote while it held the Lease; that is no contest.
		if known.shared {
			known.rewrites = 0
		}
	}
	w.mu.Unlock()
	t.shared.set(ctx)
	t.enqueueAll()
	<-ctx.Done()
	t.shared.close()
}
