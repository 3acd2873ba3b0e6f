package agent

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/agent/division"
	"slipway.dev/slipway/internal/agent/traffic"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/observe"
)

// applicationsTerm is what reconciles Applications: in the leader, or in every replica if
// they are divided. Every term starts with new controllers and empty caches.
type applicationsTerm struct {
	live   *live.Cache
	fleet  *clusters.Fleet
	apps   *reconcile.Controller
	counts *traffic.ReleaseCounts
}

// start runs the parts of the term until the context is done.
func (t *applicationsTerm) start(ctx context.Context, parts *errgroup.Group) {
	parts.Go(func() error { return t.live.Run(ctx) })
	parts.Go(func() error { return t.fleet.Run(ctx) })
	parts.Go(func() error { return t.apps.Run(ctx) })
	parts.Go(func() error { return t.counts.Run(ctx) })
}

// newApplicationsTerm creates the controller of Applications, with what it reads from. The
// ownership is nil if this replica reconciles all of them. The cache and the clusters
// notify the controller, which is created after them; both call it only while they run.
func (a *agent) newApplicationsTerm(ownership reconcile.Ownership) (*applicationsTerm, error) {
	cluster := a.options.Cluster
	kinds := live.NewKinds(cluster)
	var apps *reconcile.Controller
	// The callbacks use the variable apps, which is set below and before any of
	// them runs.
	cache := live.New(live.Options{
		Cluster: cluster, Kinds: kinds, Namespaces: a.options.Destinations, Log: a.log,
		Changed: func(label string, key tracking.Key) { apps.Changed(label, key) },
	})
	fleet := clusters.NewFleet(clusters.FleetOptions{
		Registry: a.clusters, Home: cluster, Namespace: a.options.ControlNamespace, Log: a.log,
		Changed: func(label string, key tracking.Key) { apps.Changed(label, key) }, DestinationsChanged: func() { apps.DestinationsChanged() },
	})
	applier := apply.New(cluster, kinds)
	counts := traffic.NewReleaseCounts(a.trafficOptions())
	// Responses to our writes update the cache before the watch does.
	applier.NoteTo(cache.NoteJSON)
	apps, err := reconcile.New(reconcile.Options{
		Cluster: cluster, Sources: a.sources, Renderer: a.renderer, Plugins: a.plugins, Live: cache, Kinds: kinds, Applier: applier,
		Ownership: ownership, Destinations: fleet, Health: a.health, Settings: a.settings.current, GlobalProjects: a.settings.globals.Load, Releases: releasesBy(counts),
		ControlNamespace: a.options.ControlNamespace, Namespaces: a.namespaces(),
		Interval: a.options.Interval, Jitter: max(a.options.Jitter, 1), // 0 would be the default
		Workers: a.options.Workers,
		Metrics: a.metrics.engine, Events: a.reporter(), Log: a.log,
	})
	if err != nil {
		return nil, err
	}
	return &applicationsTerm{live: cache, fleet: fleet, apps: apps, counts: counts}, nil
}

// divide reconciles the share of this replica until the context is done. A part that
// fails ends the term, and a new one starts.
func (a *agent) divide(ctx context.Context) {
	for ctx.Err() == nil {
		err := a.divideOnce(ctx)
		if ctx.Err() != nil {
			break
		}
		a.log.Error("controller failed; restarting", observe.KeyError, err)
		_ = backoff.Sleep(ctx, termRestartDelay) // the loop ends with the context
	}
}

// divideOnce runs one term of a share, and returns the error that ended it. The membership
// ends after the controller: it waits for all runs before it gives the share away.
func (a *agent) divideOnce(ctx context.Context) error {
	var current *applicationsTerm
	share := division.New(division.Options{
		Cluster: a.options.Cluster, Name: a.options.Lease, Identity: a.options.Identity, Duration: a.options.Features.Division.Lease,
		// It is called only while the division runs, when current is set.
		Changed: func() { current.apps.OwnershipChanged() },
		Observe: func(members int) { a.metrics.members.Set(float64(members)) }, Log: a.log,
	})
	current, err := a.newApplicationsTerm(share)
	if err != nil {
		return err
	}
	a.readiness.applications.Unmet("the Applications have not been read yet")
	parts, running := errgroup.WithContext(ctx)
	current.start(running, parts)
	parts.Go(func() error { return share.Run(running) })
	parts.Go(func() error { return a.awaitReady(running, current.apps.Ready) })
	a.leading.applications.Store(current)
	defer a.leading.applications.Store(nil)
	a.relay.checkNow()
	err = parts.Wait()
	if err == nil {
		err = errors.New("it ended without a reason")
	}
	return err
}

// ownerOf returns the replica that reconciles an Application; nil if one does all of it.
func (a *agent) ownerOf() func(ctx context.Context, key string) (string, error) {
	if !a.options.Features.Division.Enabled {
		return nil
	}
	return func(ctx context.Context, key string) (string, error) {
		return division.Owner(ctx, a.options.Cluster, a.options.Cluster.Namespace, a.options.Lease, key)
	}
}
