// Package server runs the platform as one process: it opens the store and
// connects signer, identity, fleet, hub and gateway to one listener.
//
// It guarantees that the password of the first admin is given to one caller
// once and is never logged, that the process is ready only while the database
// responds, and that it shuts down gracefully: watches end with a reason,
// agents are moved, and requests in flight complete within limits. It refuses
// to start with a database or key that does not match.
//
// internal/cli runs it.
package server

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/otlp"
	"slipway.dev/slipway/internal/outbound"
	"slipway.dev/slipway/internal/platform/apprights"
	"slipway.dev/slipway/internal/platform/console"
	"slipway.dev/slipway/internal/platform/fleet"
	"slipway.dev/slipway/internal/platform/gateway"
	"slipway.dev/slipway/internal/platform/history"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/secret"
)

// Options configures a platform.
type Options struct {
	// Database is the URL of the store; it may contain a password.
	Database secret.Text
	// Key encrypts private keys in the database.
	Key secret.Text
	// Listener accepts all connections. It is closed at the end.
	Listener net.Listener
	// ControlDir is the folder of the control socket for local commands: that
	// of the SQLite file. Empty disables it.
	ControlDir string
	// Certificate is nil if a proxy terminates TLS, or for plain HTTP.
	Certificate *Certificate
	// RuntimeCAs verifies runtimes at their access URLs; nil means the
	// system's CAs.
	RuntimeCAs *CABundle
	// PublicURL is the URL at which browsers, CLIs and agents reach the
	// platform.
	PublicURL *url.URL
	// TunnelDomain is the parent domain of tunnel hosts; empty without
	// tunnels.
	TunnelDomain string
	// TunnelURL is the URL at which agents reach this replica, PeerURL that
	// for other replicas.
	TunnelURL, PeerURL string
	TrustedProxies     []netip.Prefix
	// Outbound decides which addresses of runtimes and of the identity provider
	// are connected to; nil is the default policy.
	Outbound *outbound.Policy
	// OIDC is nil without an identity provider.
	OIDC *identity.OIDCOptions
	FirstStart
	// SignIn is how users sign in.
	SignIn identity.SignInPolicy
	// Rights is the platform's policy about Applications; nil has no rules.
	Rights *rights.Policy
	// KeyLifetimes bounds the API keys that users create.
	KeyLifetimes identity.KeyLifetimes
	// Audit is how long audit entries are kept, and where they are exported to.
	Audit AuditOptions
	// History is how long deployments and traffic are kept.
	History history.Retention
	// Values validates chart values without the store.
	Values  fleet.ValuesCheck
	Log     *slog.Logger
	Metrics *observe.Metrics
	Health  *observe.Health
	Version string
}

// FirstStart is what the first account and admin are made of. Announce receives
// the password of the admin.
type FirstStart struct {
	Account, Email string
	Announce       func(email string, password secret.Text) error
}

// AuditOptions configures the audit log.
type AuditOptions struct {
	// Retention is how long entries are kept; 0 means forever.
	Retention time.Duration
	// Logs exports entries; nil exports none. Run closes it.
	Logs *otlp.Logs
}

// platform holds the components of a running platform.
type platform struct {
	Options
	store    *store.Store
	signer   *signing.Signer
	identity *identity.Identity
	fleet    *fleet.Fleet
	hub      *hub.Hub
	gateway  *gateway.Gateway
	history  *history.History
	console  *console.Console
	// peerTLS is the TLS configuration for other replicas that connect.
	peerTLS *tls.Config
	// stopping is closed when the shutdown starts.
	stopping chan struct{}
}

// Run runs a platform until its context is done or a component fails.
func Run(ctx context.Context, options Options) error {
	// Browsers omit the default port of a scheme, so all components use the
	// canonical form.
	public := *options.PublicURL
	public.Host = identity.CanonicalHost(&public)
	options.PublicURL = &public
	if options.Outbound == nil {
		options.Outbound = outbound.New()
	}
	defer options.Listener.Close() // already closed after a regular shutdown
	ready := options.Health.Condition("database", "the database is not open yet")
	export := NewAuditExport(options.Audit.Logs)
	defer export.Close(options.Log)
	database, err := store.Open(ctx, store.Options{URL: options.Database.Reveal(), Log: options.Log, Audited: export.Emit})
	if err != nil {
		return err
	}
	export.register(options.Metrics)
	p := &platform{Options: options, store: database, stopping: make(chan struct{})}
	err = p.run(ctx, ready)
	return errors.Join(err, database.Close())
}

// run starts the components. Background tasks end after the server, because
// requests in flight need them.
func (p *platform) run(ctx context.Context, ready *observe.Condition) error {
	if err := p.build(ctx); err != nil {
		return err
	}
	// The first account exists before the listener serves requests.
	if err := p.bootstrap(ctx); err != nil {
		return err
	}
	control := net.Listener(nil)
	if p.ControlDir != "" {
		// The store holds its lock, so no other platform uses the folder.
		listener, err := ListenControl(p.ControlDir)
		if err != nil {
			return err
		}
		control = listener
	}
	// From here on load balancers may send traffic.
	ready.Met()
	taskCtx, stopTasks := context.WithCancel(context.WithoutCancel(ctx))
	defer stopTasks()
	group, running := errgroup.WithContext(ctx)
	tasks, taskCtx := errgroup.WithContext(taskCtx)
	tasks.Go(func() error { return p.watchDatabase(taskCtx, ready) })
	tasks.Go(func() error { return p.cleanupLoop(taskCtx) })
	tasks.Go(func() error { return p.history.Run(taskCtx) })
	tasks.Go(func() error {
		return p.signer.Run(taskCtx, func() { p.recordRotation(taskCtx) }, func(err error) {
			p.Log.Warn("signing key maintenance failed", observe.KeyError, err)
		})
	})
	group.Go(func() error {
		if err := p.hub.Run(running); running.Err() == nil {
			return err
		}
		return nil // ended by the context
	})
	group.Go(func() error { return p.serve(running) })
	if control != nil {
		group.Go(func() error { return p.serveControl(running, control) })
	}
	// Tasks are stopped after the servers: draining requests still need keys
	// and the database.
	err := group.Wait()
	stopTasks()
	return errors.Join(err, tasks.Wait())
}

// build creates the components; nothing is served yet.
func (p *platform) build(ctx context.Context) (err error) {
	if p.signer, err = signing.New(ctx, p.store, p.Key, time.Now); err != nil {
		return err
	}
	if p.console, err = console.New(p.PublicURL); err != nil {
		return err
	}
	// Identity and hub verify agents with the same object, so a revocation
	// affects both.
	verifier := fleet.NewVerifier(p.store, p.signer)
	if p.OIDC != nil && p.OIDC.Transport == nil {
		p.OIDC.Transport = providerTransport(p.Outbound, p.OIDC.Issuer)
	}
	p.identity, err = identity.New(ctx, identity.Options{
		Store: p.store, Key: p.Key, Runtimes: verifier, OIDC: p.OIDC, PublicURL: p.PublicURL,
		TrustedProxies: p.TrustedProxies, SignIn: p.SignIn, KeyLifetimes: p.KeyLifetimes, Log: p.Log, Version: p.Version,
	})
	if err != nil {
		return err
	}
	var toPeers *tls.Config
	if p.peerTLS, toPeers, err = peerTLS(p.Key); err != nil {
		return err
	}
	// A new ID per process: entries of an earlier process expire by themselves.
	replica := rand.Text()
	p.hub, err = hub.New(hub.Options{
		Verify: verifier.VerifyRuntimeAccess, Directory: p.store, Peer: p.signer, PeerTLS: toPeers,
		ReplicaID: replica, PeerURL: p.PeerURL, TunnelURL: p.TunnelURL,
		Timing: hub.Timing{Grace: agentGrace, Drain: requestDrain},
		Log:    p.Log, Metrics: hub.NewMetrics(p.Metrics.For("hub")),
	})
	if err != nil {
		return err
	}
	policies := apprights.New(p.Rights)
	p.history, err = history.New(history.Options{
		Store: p.store, Policies: policies, Retention: p.History, Replica: replica, Log: p.Log, Metrics: history.NewMetrics(p.Metrics.For("history")),
	})
	if err != nil {
		return err
	}
	p.fleet, err = fleet.New(fleet.Options{
		Policies: policies, DeploymentRetention: p.History.Deployments, RecordTraffic: p.history.RecordTraffic,
		Store: p.store, Signer: p.signer, TunnelDomain: p.tunnelAuthority(), TunnelURLs: p.hub.TunnelURLs,
		Values: p.Values, Outbound: p.Outbound, Stopping: p.stopping, Log: p.Log, Version: p.Version, Metrics: fleet.NewMetrics(p.Metrics.For("fleet")),
	})
	if err != nil {
		return err
	}
	p.gateway, err = gateway.New(gateway.Options{
		Store: p.store, Identity: p.identity, Signer: p.signer, Hub: p.hub, Direct: newDirect(allowLocal(p.Outbound, p.PublicURL.Hostname()), p.RuntimeCAs),
		PublicURL: p.PublicURL, TunnelDomain: p.TunnelDomain, Policies: policies,
		Log: p.Log, Metrics: gateway.NewMetrics(p.Metrics.For("gateway")),
	})
	return err
}

// bootstrap creates the first account and announces its password.
func (p *platform) bootstrap(ctx context.Context) error {
	password, created, err := identity.Bootstrap(ctx, p.store, p.Account, p.Email, p.SignIn)
	if err != nil || !created {
		return err
	}
	p.Log.Info("first account and admin created", "account", p.Account, "email", p.Email)
	if password.IsZero() {
		p.Log.Info("passwords are disabled: the first admin signs in through the identity provider", "email", p.Email)
		return nil
	}
	return p.Announce(p.Email, password)
}

// tunnelAuthority returns the tunnel domain with the port of the public URL.
// Tunnel hosts are served by the same listener, so that webhooks of Git hosts
// need the same port.
func (p *platform) tunnelAuthority() string {
	if port := p.PublicURL.Port(); p.TunnelDomain != "" && port != "" {
		return p.TunnelDomain + ":" + port
	}
	return p.TunnelDomain
}
