package agent

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/appset"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/reconcile"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

const (
	// controllerName is who tells Events.
	controllerName = "slipway.dev/agent"
	// termPause is how long a term that broke rests before it begins anew.
	termPause = 5 * time.Second
	// readyLook is how often a term is asked whether it is ready.
	readyLook = 200 * time.Millisecond
)

// leadership is the term that runs, if one does.
type leadership struct {
	mu   sync.Mutex
	term *term
}

// term is what the replica that leads runs. All of it is made anew for each
// term: what was known when the Lease was lost may be wrong.
type term struct {
	live    *live.Cache
	fleet   *clusters.Fleet
	apps    *reconcile.Controller
	sets    *appset.Controller
	sources *source.Sources
}

func (l *leadership) set(current *term) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = current
}

func (l *leadership) current() *term {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.term
}

// fleet is the clusters of the term that runs; nil if none does.
func (l *leadership) fleet() *clusters.Fleet {
	if current := l.current(); current != nil {
		return current.fleet
	}
	return nil
}

// credentialsChanged has repositories tried again that could not be read.
func (l *leadership) credentialsChanged() {
	if current := l.current(); current != nil {
		current.apps.CredentialsChanged()
	}
}

// pushed tells of a push, if this replica leads.
func (l *leadership) pushed(push webhook.Push) bool {
	current := l.current()
	if current == nil {
		return false
	}
	current.apps.Pushed(push)
	for _, address := range push.RepositoryURLs {
		current.sources.Forget(address)
		current.sets.Refresh(address)
	}
	return true
}

// standBy is how a replica is that waits for the Lease: ready, because it takes
// webhooks and is quick to take over.
func (a *agent) standBy() {
	a.leading.set(nil)
	a.metrics.leader.Set(0)
	a.readiness.applications.Met()
}

// lead works until the context is done. A part that breaks ends the term, and
// another begins.
func (a *agent) lead(ctx context.Context) {
	for ctx.Err() == nil {
		err := a.leadOnce(ctx)
		if ctx.Err() != nil {
			break
		}
		a.log.Error("a part of the agent ended; it begins anew", observe.KeyError, err)
		_ = backoff.Sleep(ctx, termPause) // the loop ends with the context
	}
	a.log.Info("this replica does not work any more")
}

// leadOnce runs one term.
func (a *agent) leadOnce(ctx context.Context) error {
	current, err := a.newTerm()
	if err != nil {
		return err
	}
	a.readiness.applications.Unmet("the Applications have not been read yet")
	a.metrics.leader.Set(1)
	a.log.Info("this replica works")
	parts, running := errgroup.WithContext(ctx)
	parts.Go(func() error { return current.live.Run(running) })
	parts.Go(func() error { return current.fleet.Run(running) })
	parts.Go(func() error { return current.apps.Run(running) })
	parts.Go(func() error { return current.sets.Run(running) })
	parts.Go(func() error { return a.awaitReady(running, current) })
	if a.runtime != nil {
		parts.Go(func() error { a.runtime.lead(running); return nil })
	}
	a.leading.set(current)
	a.reportSettings(ctx)
	a.mailbox.look()
	defer a.leading.set(nil)
	err = parts.Wait()
	if err == nil {
		err = errors.New("it ended without a reason")
	}
	return err
}

// awaitReady makes the agent ready when Applications and ApplicationSets were
// read.
func (a *agent) awaitReady(ctx context.Context, current *term) error {
	tick := time.NewTicker(readyLook)
	defer tick.Stop()
	for {
		err := errors.Join(current.apps.Ready(), current.sets.Ready())
		if err == nil {
			a.readiness.applications.Met()
			<-ctx.Done()
			return nil
		}
		a.readiness.applications.Unmet(err.Error())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// newTerm wires the rooms of the delivery plane.
func (a *agent) newTerm() (*term, error) {
	cluster := a.options.Cluster
	kinds := live.NewKinds(cluster)
	namespaces := a.namespaces()
	reporter := kube.Reporter{Controller: controllerName, Instance: a.options.Identity}
	var apps *reconcile.Controller
	cache := live.New(live.Options{
		Cluster: cluster, Kinds: kinds, Namespaces: a.options.Destinations, Log: a.log,
		Changed: func(label string, key tracking.Key) { apps.Changed(label, key) },
	})
	fleet := clusters.NewFleet(clusters.FleetOptions{
		Book: a.clusters, Home: cluster, Namespace: a.options.ControlNamespace, Log: a.log,
		Changed: func(label string, key tracking.Key) { apps.Changed(label, key) }, Moved: func() { apps.DestinationsChanged() },
	})
	applier := apply.New(cluster, kinds)
	applier.NoteTo(cache.NoteJSON)
	apps, err := reconcile.New(reconcile.Options{
		Cluster: cluster, Sources: a.sources, Renderer: a.renderer, Live: cache, Kinds: kinds, Applier: applier,
		Destinations:     fleet,
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
		Facts: &appset.ClusterFacts{
			Cluster: cluster, Namespace: a.options.ControlNamespace, Sources: a.sources, MaxAge: a.options.Interval,
		},
		Interval: a.options.Interval, Reporter: reporter, Log: a.log,
	})
	return &term{live: cache, fleet: fleet, apps: apps, sets: sets, sources: a.sources}, nil
}

// everyNamespace stands for all of them.
const everyNamespace = "*"

// namespaces are all that Applications are read from.
func (a *agent) namespaces() []string {
	if slices.Contains(a.options.Namespaces, everyNamespace) {
		return []string{everyNamespace}
	}
	all := append([]string{a.options.ControlNamespace}, a.options.Namespaces...)
	slices.Sort(all)
	return slices.Compact(all)
}
