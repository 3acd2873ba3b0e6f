package server

import (
	"context"
	"time"

	"slipway.dev/slipway/internal/observe"
)

const (
	// databaseEvery is how often it is asked whether the database answers.
	databaseEvery = 2 * time.Second
	// housekeepEvery is how often what has expired is removed.
	housekeepEvery = time.Hour
)

// watchDatabase keeps the platform ready only while the database answers.
func (p *parts) watchDatabase(ctx context.Context, ready *observe.Condition) error {
	ticks := time.NewTicker(databaseEvery)
	defer ticks.Stop()
	away := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
		asking, cancel := context.WithTimeout(ctx, databaseEvery)
		err := p.store.Ready(asking)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil && away:
			p.Log.Info("the database answers again")
			ready.Met()
		case err != nil && !away:
			p.Log.Error("the database does not answer", observe.KeyError, err)
			ready.Unmet("it does not answer")
		}
		away = err != nil
	}
}

// keepHouse removes what has expired.
func (p *parts) keepHouse(ctx context.Context) error {
	ticks := time.NewTicker(housekeepEvery)
	defer ticks.Stop()
	for {
		if _, err := p.store.ExpireSessions(ctx); err != nil && ctx.Err() == nil {
			p.Log.Warn("sessions that have expired could not be removed", observe.KeyError, err)
		}
		if p.AuditRetention > 0 {
			if _, err := p.store.ExpireAudit(ctx, time.Now().Add(-p.AuditRetention)); err != nil && ctx.Err() == nil {
				p.Log.Warn("old entries of the audit log could not be removed", observe.KeyError, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}
