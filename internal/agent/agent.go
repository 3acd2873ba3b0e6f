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
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
)

// Options is what an agent works with.
type Options struct {
	Cluster *kube.Cluster
	// ControlNamespace has the AppProjects, the credentials and Applications.
	ControlNamespace string
	// Namespaces are more that have Applications; * is every one.
	Namespaces []string
	// Destinations are the namespaces that objects may be in; empty is the whole
	// cluster.
	Destinations []string
	// Interval and Jitter are how often Git is asked: the first, and up to the
	// second more.
	Interval time.Duration
	Jitter   time.Duration
	// Workers is how many Applications are worked on at a time.
	Workers int

	// CacheDir is for what is fetched. When it is empty, it is a new folder that
	// is deleted at the end.
	CacheDir     string
	FetchTimeout time.Duration
	// Credential is one for repositories that is in a file; nil if there is none.
	Credential *FileCredential
	// Render bounds rendering. Its Log and Observe are set here.
	Render render.Options

	// Webhooks is where Git hosts are heard. Run closes it.
	Webhooks net.Listener
	// WebhookSecret is the Secret in the control namespace with their secrets.
	WebhookSecret string

	// Runtime makes the agent a runtime of a platform; nil if there is none.
	Runtime *RuntimeOptions

	// Lease is what replicas compete for, in the namespace of the cluster's
	// connection. When it is empty there is no other replica.
	Lease string
	// Identity is this replica.
	Identity string

	Log     *slog.Logger
	Metrics *Metrics
	Health  *observe.Health
}

// The Lease is renewed half as often as by default, because an agent that has
// nothing to do should do little, and is shorter in return. A replica looks at it
// after at most 2.2 periods: it has seen the last renewal 4.4 s late, waits for 10
// s, and looks again 4.4 s later, so that it takes over after 18.8 s at most.
const (
	leaseDuration = 10 * time.Second
	leaseRenew    = 7 * time.Second
	leaseRetry    = 2 * time.Second
)

// agent is a running agent.
type agent struct {
	options   Options
	log       *slog.Logger
	metrics   *Metrics
	book      *credential.Store
	clusters  *clusters.Book
	secrets   *hookSecrets
	sources   *source.Sources
	renderer  *render.Renderer
	mailbox   *mailbox
	leading   leadership
	settings  argoSettings
	readiness readiness
	// runtime is what a platform needs; nil without one.
	runtime *station

	// The goroutine that follows Secrets owns these: the credentials that are in
	// the book, and the versions of Secrets that somebody was told about.
	known map[types.NamespacedName]bool
	told  map[types.UID]string
}

// readiness is what has to hold before the agent is ready.
type readiness struct {
	definitions, credentials, applications *observe.Condition
}

// Run runs an agent until the context is done, and ends in good order.
func Run(ctx context.Context, options Options) error {
	a := &agent{
		options: options, log: options.Log,
		metrics: options.Metrics,
		known:   map[types.NamespacedName]bool{}, told: map[types.UID]string{},
		book: &credential.Store{}, clusters: clusters.NewBook(options.Log), secrets: &hookSecrets{log: options.Log},
		readiness: readiness{
			definitions:  options.Health.Condition("definitions", "the API server has not been asked for the kinds yet"),
			credentials:  options.Health.Condition("credentials", "the credentials have not been read yet"),
			applications: options.Health.Condition("applications", "no replica leads yet"),
		},
	}
	a.mailbox = a.newMailbox()
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

	// What is read is followed until the loops have ended.
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	defer beside.Wait()
	defer stop()
	read := a.followCluster(following, &beside)
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

// closeListeners is for an agent that does not come to serve.
func (o *Options) closeListeners() error {
	if o.Runtime != nil {
		return errors.Join(o.Webhooks.Close(), o.Runtime.Router.Close())
	}
	return o.Webhooks.Close()
}

// serve runs what every replica serves. If one part of it breaks, all of it ends.
func (a *agent) serve(ctx context.Context) error {
	if a.runtime == nil {
		return a.serveWebhooks(ctx)
	}
	parts, serving := errgroup.WithContext(ctx)
	parts.Go(func() error { return a.serveWebhooks(serving) })
	parts.Go(func() error { return a.runtime.serve(serving) })
	return parts.Wait()
}

// open makes what outlives a term of leadership. The function closes it.
func (a *agent) open() (func(), error) {
	folder, removeFolder, err := cacheFolder(a.options.CacheDir)
	if err != nil {
		return nil, err
	}
	a.sources, err = source.New(source.Options{
		Folder: folder, Credentials: a.book, MaxAge: a.options.Interval, FetchTimeout: a.options.FetchTimeout,
		Log: a.log, Observe: a.metrics.engine.Fetched,
	})
	if err != nil {
		removeFolder()
		return nil, err
	}
	limits := a.options.Render
	limits.Log, limits.Observe = a.log, a.metrics.rendered
	a.renderer, err = render.New(limits)
	if err != nil {
		_ = a.sources.Close()
		removeFolder()
		return nil, err
	}
	return func() {
		if err := errors.Join(a.renderer.Close(), a.sources.Close()); err != nil {
			a.log.Warn("not everything ended in good order", observe.KeyError, err)
		}
		removeFolder()
	}, nil
}

// cacheFolder is the folder for what is fetched, for this user alone.
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

// run waits for what is needed and then leads whenever it is elected.
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
	a.standBy()
	election := kube.Election{
		Namespace: a.options.Cluster.Namespace, Name: a.options.Lease, Identity: a.options.Identity,
		Duration: leaseDuration, Renew: leaseRenew, Retry: leaseRetry,
		Failed: func(err error) { a.log.Warn("this replica cannot compete for the Lease", observe.KeyError, err) },
	}
	a.log.Info("this replica waits for the Lease", "lease", election.Namespace+"/"+election.Name, "identity", election.Identity)
	return a.options.Cluster.Elect(ctx, election, func(held context.Context) {
		a.lead(held)
		a.standBy()
	})
}
