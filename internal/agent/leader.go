package agent

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/agent/traffic"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/appset"
	"slipway.dev/slipway/internal/gitops/imageupdate"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/gitops/rollout"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

const (
	// controllerName is the reporting controller of Events.
	controllerName = "slipway.dev/agent"
	// termRestartDelay is the pause before a term that failed is restarted.
	termRestartDelay = 5 * time.Second
	// readyInterval is how often the readiness of a term is checked.
	readyInterval = 200 * time.Millisecond
)

// leadership has the current term; nil if this replica does not lead.
type leadership struct {
	term atomic.Pointer[leadershipTerm]
}

// leadershipTerm is what the leader runs. Every term starts with new
// controllers and empty caches: state from before the Lease was lost may be
// stale.
type leadershipTerm struct {
	live    *live.Cache
	fleet   *clusters.Fleet
	apps    *reconcile.Controller
	sets    *appset.Controller
	counts  *traffic.ReleaseCounts
	sources *source.Sources
	// images is nil unless updates of images are enabled.
	images *imageupdate.Controller
}

// fleet returns the clusters of the current term; nil if there is none.
func (l *leadership) fleet() *clusters.Fleet {
	if current := l.term.Load(); current != nil {
		return current.fleet
	}
	return nil
}

// credentialsChanged retries the repositories that failed.
func (l *leadership) credentialsChanged() {
	if current := l.term.Load(); current != nil {
		current.apps.CredentialsChanged()
	}
}

// settingsChanged reconciles all Applications.
func (l *leadership) settingsChanged() {
	if current := l.term.Load(); current != nil {
		current.apps.SettingsChanged()
	}
}

// pushed passes a push to the controllers. It returns false if this replica
// does not lead. The cached refs are dropped before ApplicationSets are
// generated, so that they read the pushed commit.
func (l *leadership) pushed(push webhook.Push) bool {
	current := l.term.Load()
	if current == nil {
		return false
	}
	if push.Image != "" {
		if current.images != nil {
			current.images.ImagePushed(push.Image)
		}
		return true
	}
	if !push.PullRequest {
		current.apps.Pushed(push)
		for _, address := range push.RepositoryURLs {
			current.sources.Forget(address)
		}
	}
	current.sets.Refresh(push)
	return true
}

// onStoppedLeading puts the replica into standby. It is ready: it serves
// webhooks and can take over.
func (a *agent) onStoppedLeading() {
	a.leading.term.Store(nil)
	a.metrics.leader.Set(0)
	a.readiness.applications.Met()
}

// lead runs terms until the context is done, which is when the Lease is lost. A
// part that fails ends the term, and a new one starts.
func (a *agent) lead(ctx context.Context) {
	for ctx.Err() == nil {
		err := a.leadOnce(ctx)
		if ctx.Err() != nil {
			break
		}
		a.log.Error("controller failed; restarting", observe.KeyError, err)
		_ = backoff.Sleep(ctx, termRestartDelay) // the loop ends with the context
	}
	a.log.Info("stopped leading")
}

// leadOnce runs one term and returns the error that ended it.
func (a *agent) leadOnce(ctx context.Context) error {
	// New controllers for each term: the queues and caches of the last one may
	// be stale.
	current, err := a.newLeadershipTerm()
	if err != nil {
		return err
	}
	// The agent is not ready until the new term has listed its objects.
	a.readiness.applications.Unmet("the Applications have not been read yet")
	a.metrics.leader.Set(1)
	a.log.Info("became leader")
	parts, running := errgroup.WithContext(ctx)
	parts.Go(func() error { return current.live.Run(running) })
	parts.Go(func() error { return current.fleet.Run(running) })
	parts.Go(func() error { return current.apps.Run(running) })
	parts.Go(func() error { return current.sets.Run(running) })
	parts.Go(func() error { return current.counts.Run(running) })
	parts.Go(func() error { return a.awaitReady(running, current) })
	parts.Go(func() error { return a.newNotifications().Run(running) })
	parts.Go(func() error { return a.newPromotions().Run(running) })
	if a.options.Features.Rollouts {
		parts.Go(func() error { return a.newRollouts().Run(running) })
		parts.Go(func() error { return a.runAnalysis(running) })
	}
	if current.images != nil {
		parts.Go(func() error { return current.images.Run(running) })
	}
	if a.runtime != nil {
		parts.Go(func() error { a.runtime.lead(running); return nil })
	}
	a.leading.term.Store(current)
	a.reportSettings(ctx)
	// Pushes may have arrived while no replica led.
	a.relay.checkNow()
	defer a.leading.term.Store(nil)
	err = parts.Wait()
	if err == nil {
		err = errors.New("it ended without a reason")
	}
	return err
}

// newRollouts returns the controller of Rollouts. Its objects are where the agent
// delivers.
func (a *agent) newRollouts() *rollout.Controller {
	return rollout.New(rollout.Options{
		Cluster: a.options.Cluster, Namespaces: a.options.Destinations, Log: a.log.With("controller", "rollouts"),
		Reporter: kube.Reporter{Controller: controllerName, Instance: a.options.Identity},
	})
}

// awaitReady makes the agent ready when Applications and ApplicationSets were
// listed.
func (a *agent) awaitReady(ctx context.Context, current *leadershipTerm) error {
	for {
		err := errors.Join(current.apps.Ready(), current.sets.Ready())
		if err == nil {
			a.readiness.applications.Met()
			if a.options.Listed != nil {
				a.options.Listed()
			}
			<-ctx.Done()
			return nil
		}
		a.readiness.applications.Unmet(err.Error())
		if backoff.Sleep(ctx, readyInterval) != nil {
			return nil
		}
	}
}

// newLeadershipTerm creates the controllers of a term. The cache and the
// clusters notify the controller of Applications, which is created after them;
// both call it only while they run.
func (a *agent) newLeadershipTerm() (*leadershipTerm, error) {
	cluster := a.options.Cluster
	kinds := live.NewKinds(cluster)
	namespaces := a.namespaces()
	reporter := kube.Reporter{Controller: controllerName, Instance: a.options.Identity}
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
		Destinations: fleet, Health: a.health, Settings: a.settings.current, Releases: releasesBy(counts),
		ControlNamespace: a.options.ControlNamespace, Namespaces: namespaces,
		Interval: a.options.Interval, Jitter: max(a.options.Jitter, 1), // 0 would be the default
		Workers: a.options.Workers,
		Metrics: a.metrics.engine, Events: reporter, Log: a.log,
	})
	if err != nil {
		return nil, err
	}
	sets := appset.NewController(appset.ControllerOptions{
		Cluster: cluster, ControlNamespace: a.options.ControlNamespace, Namespaces: namespaces,
		Generator: a.renderer,
		Facts: &appset.ClusterFacts{
			Cluster: cluster, Namespace: a.options.ControlNamespace, Sources: a.sources, MaxAge: a.options.Interval,
			Outbound: a.options.Outbound, Pauses: &appset.Pauses{}, Responses: gitprovider.NewResponses(),
		},
		Interval: a.options.Interval, Reporter: reporter, Log: a.log,
	})
	return &leadershipTerm{live: cache, fleet: fleet, apps: apps, sets: sets, counts: counts, sources: a.sources, images: a.newImageUpdates()}, nil
}

// everyNamespace selects all namespaces.
const everyNamespace = "*"

// namespaces lists the namespaces that Applications are read from.
func (a *agent) namespaces() []string {
	if slices.Contains(a.options.Namespaces, everyNamespace) {
		return []string{everyNamespace}
	}
	all := append([]string{a.options.ControlNamespace}, a.options.Namespaces...)
	slices.Sort(all)
	return slices.Compact(all)
}
