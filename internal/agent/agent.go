package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/plugin"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/outbound"
)

// Options configures an agent.
type Options struct {
	Cluster *kube.Cluster
	// ControlNamespace has the AppProjects, the credentials and Applications.
	ControlNamespace string
	// Namespaces are further namespaces with Applications; * selects all.
	Namespaces []string
	// Destinations are the namespaces that objects may be applied to; empty is
	// the whole cluster.
	Destinations []string
	// Interval is how often repositories are polled, and Jitter the random time
	// that is added, so that they are not all polled at once.
	Interval time.Duration
	Jitter   time.Duration
	// Workers is how many Applications are reconciled in parallel.
	Workers int

	// CacheDir has the fetched repositories and charts. If it is empty, a
	// temporary directory is used and removed at the end.
	CacheDir     string
	FetchTimeout time.Duration
	// SourceLimits bound what is fetched, and the disk space of each project.
	SourceLimits source.Limits
	// Outbound decides which addresses of repositories and Git providers are
	// connected to; nil allows all.
	Outbound *outbound.Policy
	// Credential is a credential for repositories that is read from a file; nil
	// if there is none.
	Credential *FileCredential
	// Render configures the renderer. Log and Observe are set by Run.
	Render render.Options
	// Plugins are the config management plugins; nil if there are none.
	Plugins *plugin.Plugins

	// Webhooks is the listener for requests of Git hosts. Run closes it.
	Webhooks net.Listener
	// WebhookSecret is the Secret in the control namespace with the keys that
	// Git hosts sign with.
	WebhookSecret string

	// Edges configures how traffic is read from the edges.
	Edges EdgeOptions
	// Runtime registers the agent as a runtime of a platform; nil for none.
	Runtime *RuntimeOptions

	// Features are the parts that are off by default.
	Features Features

	// Lease is the Lease that replicas compete for, in the namespace of the
	// cluster's connection. If it is empty there is a single replica, which
	// always leads.
	Lease string
	// Identity is the name of this replica.
	Identity string

	// Listed is called when the leader has listed its objects, so that what only the
	// start needs can be released; nil for nothing.
	Listed func()

	Log     *slog.Logger
	Metrics *Metrics
	Health  *observe.Health
}

// Division makes every replica reconcile a share of the Applications. What else an agent
// does stays with the leader.
type Division struct {
	Enabled bool
	// Lease is after how long a replica that is gone loses its share.
	Lease time.Duration
}

// Features are parts of the agent that are off by default.
type Features struct {
	// Division divides the Applications between the replicas; it needs a Lease.
	Division Division
	// Rollouts makes the leader reconcile Rollouts and AnalysisRuns of Argo Rollouts.
	Rollouts bool
	// ImageUpdates makes the leader update images in Git, and ImageInterval is how often
	// it reads registries.
	ImageUpdates  bool
	ImageInterval time.Duration
}

// The leader renews the Lease every 8 s, at the first attempt after the interval, because
// an idle agent should cause little load. A candidate checks it after at most 2.2 retry
// periods: it observes the last renewal 4.4 s late, waits for 15 s, and checks again 4.4 s
// later. It takes over after at most 23.8 s. A leader that cannot renew stops after at most
// 14 s: the three other times together, which is what keeps two from leading.
const (
	leaseDuration = 15 * time.Second
	leaseRenew    = 5 * time.Second
	leaseRetry    = 2 * time.Second
	leaseInterval = 7 * time.Second
)

// agent is a running agent.
type agent struct {
	options     Options
	log         *slog.Logger
	metrics     *Metrics
	credentials *credential.Store
	clusters    *clusters.Registry
	secrets     *hookSecrets
	sources     *source.Sources
	renderer    *render.Renderer
	plugins     *plugin.Plugins
	health      *health.Rules
	relay       *pushRelay
	leading     leadership
	settings    argoSettings
	readiness   readiness
	// runtime has the parts that a platform needs; nil without one.
	runtime *platformRuntime

	// The goroutine that watches Secrets owns these: the Secrets whose
	// credentials are loaded, and the versions of refused Secrets that were
	// logged.
	loadedSecrets   map[types.NamespacedName]bool
	reportedSecrets map[types.UID]string
}

// readiness has the conditions that must hold before the agent is ready.
type readiness struct {
	definitions, credentials, applications *observe.Condition
}

// Run runs an agent until the context is done and shuts it down in order: the
// controllers first, then the watches they read from, then the renderer and the
// sources.
func Run(ctx context.Context, options Options) error {
	a := &agent{
		options: options, log: options.Log,
		metrics: options.Metrics, plugins: options.Plugins,
		loadedSecrets: map[types.NamespacedName]bool{}, reportedSecrets: map[types.UID]string{},
		credentials: &credential.Store{}, clusters: clusters.NewRegistry(options.Log), secrets: &hookSecrets{log: options.Log},
		readiness: readiness{
			definitions:  options.Health.Condition("definitions", "the CustomResourceDefinitions have not been checked yet"),
			credentials:  options.Health.Condition("credentials", "the credentials have not been read yet"),
			applications: options.Health.Condition("applications", "no replica leads yet"),
		},
	}
	a.relay = a.newPushRelay()
	closeParts, err := a.open()
	if err != nil {
		return errors.Join(err, options.closeListeners())
	}
	defer closeParts()
	if options.Runtime != nil {
		if a.runtime, err = a.newRuntime(*options.Runtime); err != nil {
			return errors.Join(err, options.closeListeners())
		}
	}

	// The watches outlive the controllers, which read from them until they
	// stop.
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	read := a.watchCluster(following, &beside)
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	served := make(chan error, 1)
	go func() { served <- a.serve(serving) }()

	running, stopRunning := context.WithCancel(ctx)
	defer stopRunning()
	ended := make(chan error, 1)
	go func() { ended <- a.run(running, read) }()
	select {
	case err = <-ended:
		stopServing()
		return errors.Join(err, <-served)
	case err = <-served:
		stopRunning()
		return errors.Join(err, <-ended)
	}
}

// closeListeners closes the listeners of an agent that fails to start.
func (o *Options) closeListeners() error {
	if o.Runtime != nil {
		return errors.Join(o.Webhooks.Close(), o.Runtime.Router.Close())
	}
	return o.Webhooks.Close()
}

// serve runs the servers of every replica. If one of them fails, all end.
func (a *agent) serve(ctx context.Context) error {
	if a.runtime == nil {
		return a.serveWebhooks(ctx)
	}
	parts, serving := errgroup.WithContext(ctx)
	parts.Go(func() error { return a.serveWebhooks(serving) })
	parts.Go(func() error { return a.runtime.serve(serving) })
	return parts.Wait()
}

// open creates what outlives a term of leadership: the caches of repositories
// and the render workers. The returned function closes them. They are shared by
// all terms, so that a replica which becomes leader again has a warm cache.
func (a *agent) open() (func(), error) {
	folder, removeFolder, err := cacheFolder(a.options.CacheDir)
	if err != nil {
		return nil, err
	}
	limits := a.options.Render
	limits.Log, limits.Observe = a.log, a.metrics.rendered
	a.renderer, err = render.New(limits)
	if err != nil {
		removeFolder()
		return nil, err
	}
	a.health = health.NewRules(a.renderer)
	a.sources, err = source.New(source.Options{
		Folder: folder, Credentials: a.credentials, MaxAge: a.options.Interval, FetchTimeout: a.options.FetchTimeout,
		Limits: a.options.SourceLimits, Indexes: a.renderer,
		Outbound: a.options.Outbound, Log: a.log, Observe: a.metrics.engine.Fetched, Evicted: a.metrics.engine.Evicted,
	})
	if err != nil {
		_ = a.renderer.Close()
		removeFolder()
		return nil, err
	}
	a.metrics.engine.Watch(a.sources)
	return func() {
		if err := errors.Join(a.renderer.Close(), a.sources.Close()); err != nil {
			a.log.Warn("shutdown failed", observe.KeyError, err)
		}
		removeFolder()
	}, nil
}

// cacheFolder returns the directory for fetched repositories, readable by this
// user alone, and a function that cleans it up.
func cacheFolder(named string) (string, func(), error) {
	if named == "" {
		folder, err := os.MkdirTemp("", "slipway-sources-")
		if err != nil {
			return "", nil, fmt.Errorf("make a folder for repositories: %w: name one with sources.cacheDir", err)
		}
		return folder, func() { _ = os.RemoveAll(folder) }, nil
	}
	if err := os.MkdirAll(named, 0o700); err != nil {
		return "", nil, fmt.Errorf("make the folder for repositories: %w: name another with sources.cacheDir", err)
	}
	return named, func() {}, nil
}

// run waits for the CustomResourceDefinitions and the credentials, and then
// leads whenever this replica is elected. Without the credentials every private
// repository would fail once after each start.
func (a *agent) run(ctx context.Context, read <-chan struct{}) error {
	if err := a.awaitDefinitions(ctx); err != nil {
		return err
	}
	select {
	case <-read:
		a.readiness.credentials.Met()
	case <-ctx.Done():
		return ctx.Err()
	}
	if a.options.Lease == "" {
		a.lead(ctx)
		return ctx.Err()
	}
	a.onStoppedLeading()
	election := kube.Election{
		Namespace: a.options.Cluster.Namespace, Name: a.options.Lease, Identity: a.options.Identity,
		Duration: leaseDuration, Renew: leaseRenew, Retry: leaseRetry, Interval: leaseInterval,
		Failed: func(err error) { a.log.Warn("leader election failed", observe.KeyError, err) },
	}
	a.log.Info("waiting for Lease", "lease", election.Namespace+"/"+election.Name, "identity", election.Identity)
	var shares sync.WaitGroup
	defer shares.Wait()
	if a.options.Features.Division.Enabled {
		shares.Go(func() { a.divide(ctx) })
	}
	return a.options.Cluster.Elect(ctx, election, func(held context.Context) {
		a.lead(held)
		a.onStoppedLeading()
	})
}
