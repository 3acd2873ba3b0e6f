package server

import (
	"context"
	"time"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/identity"
)

const (
	// databaseInterval is how often the database is probed.
	databaseInterval = 2 * time.Second
	// cleanupInterval is how often expired rows are deleted.
	cleanupInterval = time.Hour
)

// watchDatabase makes the platform unready while the database does not
// respond, so that load balancers use other replicas.
func (p *platform) watchDatabase(ctx context.Context, ready *observe.Condition) error {
	unavailable := false
	for backoff.Sleep(ctx, databaseInterval) == nil {
		// The probe's timeout equals its interval, so probes never overlap.
		bounded, cancel := context.WithTimeout(ctx, databaseInterval)
		err := p.store.Ready(bounded)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && unavailable:
			p.Log.Info("database reachable again")
			ready.Met()
		case err != nil && !unavailable:
			p.Log.Error("database unreachable", observe.KeyError, err)
			ready.Unmet("the database does not respond")
		}
		unavailable = err != nil
	}
	return nil
}

// cleanupLoop deletes expired sessions and audit entries.
func (p *platform) cleanupLoop(ctx context.Context) error {
	for {
		if _, err := p.store.ExpireSessions(ctx); err != nil && ctx.Err() == nil {
			p.Log.Warn("deleting expired sessions failed", observe.KeyError, err)
		}
		if p.Audit.Retention > 0 {
			if _, err := p.store.ExpireAudit(ctx, time.Now().Add(-p.Audit.Retention)); err != nil && ctx.Err() == nil {
				p.Log.Warn("deleting expired audit entries failed", observe.KeyError, err)
			}
		}
		if backoff.Sleep(ctx, cleanupInterval) != nil {
			return nil
		}
	}
}

// recordRotation writes to the audit log that the platform created a signing
// key by itself.
func (p *platform) recordRotation(ctx context.Context) {
	event := identity.Event{Action: identity.ActionRotateKeys, Target: "platform", Outcome: identity.OutcomeOK, Code: identity.CodeOK, Detail: "by age"}
	if err := (identity.System{Store: p.store, Actor: "platform"}).Record(ctx, event); err != nil {
		p.Log.Error("recording a key rotation failed", observe.KeyError, err)
	}
}
