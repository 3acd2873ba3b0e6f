// Package server is the platform as one process: it opens the store and wires the
// signer, the callers' identity, the fleet, the hub of tunnels and the gateway to
// one listener.
//
// It promises that the password of the first admin is given to one caller once and
// is never logged, that it is ready only while the database answers, and that it
// stops in good order: watches end with a reason, agents are told to move, and what
// has begun is finished within bounds. It refuses to start with a database or a key
// that does not fit.
//
// internal/cli runs it.
package server

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"time"

	"golang.org/x/sync/errgroup"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/console"
	"slipway.dev/slipway/internal/platform/fleet"
	"slipway.dev/slipway/internal/platform/gateway"
	"slipway.dev/slipway/internal/platform/hub"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
)

// Options is what a platform works with.
type Options struct {
	// Database is the store's URL; it may have a password.
	Database secret.Text
	// Key encrypts private keys in the database.
	Key secret.Text
	// Listener is where everything is served. It is closed at the end.
	Listener net.Listener
	// ControlDir is the folder of the socket for commands on the same machine: that
	// of the SQLite file. Empty is none.
	ControlDir string
	// Certificate is nil when a proxy ends TLS, or nobody does.
	Certificate *Certificate
	// RuntimeAuthorities may vouch for runtimes at their access URLs; nil leaves that to
	// those of the system.
	RuntimeAuthorities *Authorities
	// PublicURL is where browsers, command lines and agents reach the platform.
	PublicURL *url.URL
	// TunnelDomain is the domain of tunnels' host names; empty when there is none.
	TunnelDomain string
	// TunnelURL is where agents reach this replica, PeerURL where other replicas do.
	TunnelURL, PeerURL string
	TrustedProxies     []netip.Prefix
	// OIDC is nil when there is no identity provider.
	OIDC *identity.OIDCOptions
	// Account and Email are of the first start. Announce gets the password of the
	// admin who is made then.
	Account, Email string
	Announce       func(email string, password secret.Text) error
	// AuditRetention is how long the audit log is kept; 0 is for ever.
	AuditRetention time.Duration
	// Values checks values of a runtime's chart by themselves.
	Values  fleet.ValuesCheck
	Log     *slog.Logger
	Metrics *observe.Metrics
	Health  *observe.Health
	Version string
}

// parts are what a platform is made of.
type parts struct {
	Options
	store    *store.Store
	signer   *signing.Signer
	identity *identity.Identity
	fleet    *fleet.Fleet
	hub      *hub.Hub
	gateway  *gateway.Gateway
	console  *console.Console
	// stopping is closed when the platform begins to stop.
	stopping chan struct{}
}

// Run runs a platform until its context ends or something of it breaks.
func Run(ctx context.Context, options Options) error {
	// Browsers leave out the port that a scheme has anyway, so nobody here may have it.
	public := *options.PublicURL
	public.Host = identity.CanonicalHost(&public)
	options.PublicURL = &public
	defer options.Listener.Close() // it is closed already when all went well
	ready := options.Health.Condition("database", "it is not open yet")
	database, err := store.Open(ctx, store.Options{URL: options.Database.Reveal(), Log: options.Log})
	if err != nil {
		return err
	}
	p := &parts{Options: options, store: database, stopping: make(chan struct{})}
	err = p.run(ctx, ready)
	return errors.Join(err, database.Close())
}

func (p *parts) run(ctx context.Context, ready *observe.Condition) error {
	if err := p.assemble(ctx); err != nil {
		return err
	}
	if err := p.firstStart(ctx); err != nil {
		return err
	}
	control := net.Listener(nil)
	if p.ControlDir != "" {
		// The store is open: no other platform has the folder.
		listener, err := ListenControl(p.ControlDir)
		if err != nil {
			return err
		}
		control = listener
	}
	ready.Met()
	// What runs around the server ends after it: requests that have begun need it.
	around, stopAround := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAround()
	group, running := errgroup.WithContext(ctx)
	tasks, around := errgroup.WithContext(around)
	tasks.Go(func() error { return p.watchDatabase(around, ready) })
	tasks.Go(func() error { return p.keepHouse(around) })
	tasks.Go(func() error {
		return p.signer.Run(around, func(err error) {
			p.Log.Warn("the signing keys could not be looked after", observe.KeyError, err)
		})
	})
	group.Go(func() error {
		if err := p.hub.Run(running); running.Err() == nil {
			return err
		}
		return nil // it ends with its context, and says so
	})
	group.Go(func() error { return p.serve(running) })
	if control != nil {
		group.Go(func() error { return p.serveControl(running, control) })
	}
	err := group.Wait()
	stopAround()
	return errors.Join(err, tasks.Wait())
}

// assemble makes the parts; nothing is served yet.
func (p *parts) assemble(ctx context.Context) (err error) {
	if p.signer, err = signing.New(ctx, p.store, p.Key, time.Now); err != nil {
		return err
	}
	if p.console, err = console.New(); err != nil {
		return err
	}
	verifier := fleet.NewVerifier(p.store, p.signer)
	p.identity, err = identity.New(ctx, identity.Options{
		Store: p.store, Runtimes: verifier, OIDC: p.OIDC, PublicURL: p.PublicURL,
		TrustedProxies: p.TrustedProxies, Log: p.Log, Version: p.Version,
	})
	if err != nil {
		return err
	}
	p.hub, err = hub.New(hub.Options{
		Verify: verifier.VerifyRuntimeAccess, Directory: p.store, Peer: p.signer,
		ReplicaID: rand.Text(), PeerURL: p.PeerURL, TunnelURL: p.TunnelURL,
		Timing: hub.Timing{Grace: agentsMove, Drain: requestsEnd},
		Log:    p.Log, Metrics: hub.NewMetrics(p.Metrics.For("hub")),
	})
	if err != nil {
		return err
	}
	p.fleet, err = fleet.New(fleet.Options{
		Store: p.store, Signer: p.signer, TunnelDomain: p.TunnelDomain, TunnelURLs: p.hub.TunnelURLs,
		Values: p.Values, Stopping: p.stopping, Log: p.Log, Version: p.Version, Metrics: fleet.NewMetrics(p.Metrics.For("fleet")),
	})
	if err != nil {
		return err
	}
	p.gateway, err = gateway.New(gateway.Options{
		Store: p.store, Identity: p.identity, Signer: p.signer, Hub: p.hub, Direct: newDirect(p.PublicURL, p.RuntimeAuthorities),
		PublicURL: p.PublicURL, TunnelDomain: p.TunnelDomain,
		Log: p.Log, Metrics: gateway.NewMetrics(p.Metrics.For("gateway")),
	})
	return err
}

// firstStart makes the first account, and hands its password to one reader.
func (p *parts) firstStart(ctx context.Context) error {
	password, created, err := identity.Bootstrap(ctx, p.store, p.Account, p.Email)
	if err != nil || !created {
		return err
	}
	p.Log.Info("the first account and its admin were made", "account", p.Account, "email", p.Email)
	return p.Announce(p.Email, password)
}
