package agent

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/agent/division"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/appset"
	"slipway.dev/slipway/internal/gitops/imageupdate"
	"slipway.dev/slipway/internal/gitops/rollout"
	"slipway.dev/slipway/internal/gitops/source"
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

// leadership has the current terms.
type leadership struct {
	// term is nil if this replica does not lead.
	term atomic.Pointer[leadershipTerm]
	// applications is nil if this replica reconciles none: it does not lead, and they are
	// not divided.
	applications atomic.Pointer[applicationsTerm]
}

// leadershipTerm is what the leader alone runs. Every term starts with new
// controllers and empty caches: state from before the Lease was lost may be
// stale.
type leadershipTerm struct {
	sets    *appset.Controller
	sources *source.Sources
	// images is nil unless updates of images are enabled.
	images *imageupdate.Controller
}

// fleet returns the clusters of the current term; nil if there is none.
func (l *leadership) fleet() *clusters.Fleet {
	if current := l.applications.Load(); current != nil {
		return current.fleet
	}
	return nil
}

// signatureKeysChanged polls the repositories with the new keys.
func (l *leadership) signatureKeysChanged() {
	if current := l.applications.Load(); current != nil {
		current.apps.SignatureKeysChanged()
	}
}

// credentialsChanged retries the repositories that failed.
func (l *leadership) credentialsChanged() {
	if current := l.applications.Load(); current != nil {
		current.apps.CredentialsChanged()
	}
}

// settingsChanged reconciles all Applications.
func (l *leadership) settingsChanged() {
	if current := l.applications.Load(); current != nil {
		current.apps.SettingsChanged()
	}
}

// polled polls what a push names for the Applications of this replica.
func (l *leadership) polled(push webhook.Push) {
	if current := l.applications.Load(); current != nil && push.Image == "" && !push.PullRequest {
		current.apps.Pushed(push)
	}
}

// pushed passes a push to the controllers of the leader. It returns false if this
// replica does not lead. The cached refs are dropped before ApplicationSets are
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
	if !a.options.Features.Division.Enabled {
		a.readiness.applications.Met()
	}
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
	var apps *applicationsTerm
	var err error
	if !a.options.Features.Division.Enabled {
		if err = a.awaitNoDivision(ctx); err != nil {
			return err
		}
		if apps, err = a.newApplicationsTerm(nil); err != nil {
			return err
		}
	}
	current := a.newLeadershipTerm()
	a.metrics.leader.Set(1)
	a.log.Info("became leader")
	parts, running := errgroup.WithContext(ctx)
	if apps != nil {
		// The agent is not ready until the new term has listed its objects.
		a.readiness.applications.Unmet("the Applications have not been read yet")
		apps.start(running, parts)
		a.leading.applications.Store(apps)
		defer a.leading.applications.Store(nil)
		parts.Go(func() error {
			return a.awaitReady(running, func() error { return errors.Join(apps.apps.Ready(), current.sets.Ready()) })
		})
	}
	parts.Go(func() error { return current.sets.Run(running) })
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
	a.reportConfig(ctx)
	a.reportParameters(ctx)
	// Pushes may have arrived while no replica led.
	a.relay.checkNow()
	defer a.leading.term.Store(nil)
	err = parts.Wait()
	if err == nil {
		err = errors.New("it ended without a reason")
	}
	return err
}

// awaitNoDivision waits for replicas that still divide the Applications.
func (a *agent) awaitNoDivision(ctx context.Context) error {
	if a.options.Lease == "" {
		return nil
	}
	return division.AwaitNone(ctx, a.options.Cluster, a.options.Lease)
}

// newRollouts returns the controller of Rollouts. Its objects are where the agent
// delivers.
func (a *agent) newRollouts() *rollout.Controller {
	return rollout.New(rollout.Options{
		Cluster: a.options.Cluster, Namespaces: a.options.Destinations, Log: a.log.With("controller", "rollouts"),
		Reporter: a.reporter(),
	})
}

// awaitReady makes the agent ready when what it reconciles was listed.
func (a *agent) awaitReady(ctx context.Context, ready func() error) error {
	for {
		err := ready()
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

// newLeadershipTerm creates the controllers of the leader.
func (a *agent) newLeadershipTerm() *leadershipTerm {
	cluster := a.options.Cluster
	sets := appset.NewController(appset.ControllerOptions{
		Cluster: cluster, ControlNamespace: a.options.ControlNamespace, Namespaces: a.namespaces(),
		Generator: a.renderer,
		Facts: &appset.ClusterFacts{
			Cluster: cluster, Namespace: a.options.ControlNamespace, Sources: a.sources, MaxAge: a.options.Interval,
			Outbound: a.options.Outbound, Pauses: &appset.Pauses{}, Responses: gitprovider.NewResponses(),
		},
		Interval: a.options.Interval, Reporter: a.reporter(), Log: a.log,
	})
	return &leadershipTerm{sets: sets, sources: a.sources, images: a.newImageUpdates()}
}

// reporter is the identity under which Events are written.
func (a *agent) reporter() kube.Reporter {
	return kube.Reporter{Controller: controllerName, Instance: a.options.Identity}
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
