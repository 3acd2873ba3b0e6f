// Package controller is what slipway edge runs: providers that derive a route
// table from the Ingresses of a cluster (internal/ingress) or from a file, the
// proxy that serves it (internal/edge), and around both the access log, traces,
// the last good table on disk, health, metrics and the admin API.
//
// It is the one package that imports both halves of the traffic plane: ingress
// writes a table and edge reads it, and here the two meet. The edge is ready
// when the first table of each provider is live. After that, losing the API
// server does not touch traffic.
package controller

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"sync"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/edge/overload"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/observe/roleserver"
)

// gatewayEntryPoint is the entry point of all listeners of Gateways in metrics and
// logs: there can be thousands of them.
const gatewayEntryPoint = "gateway"

// routesMissing is the reason of the readiness condition while the edge starts.
const routesMissing = "the first routes are not live yet"

// Parts has the dependencies of an edge: logger, metrics, health state and
// admin API. Serve creates them once per process.
type Parts struct {
	log     *slog.Logger
	metrics *observe.Metrics
	Health  *observe.Health
	admin   *admin.Handler
	// version identifies the program to API servers, ACME servers and trace
	// collectors.
	version string
}

// Runner is Run, or a replacement in tests.
type Runner func(ctx context.Context, options *config.Edge, parts Parts) error

// Run serves traffic until ctx ends, and then drains. It adds the condition to
// Health that must be met before traffic may come: the first routes are live.
// The health and admin servers run around it (Serve).
//
// The order is observers, proxy, providers. The proxy opens its listeners
// first, so that a taken port fails before anything is read from the cluster,
// and accepts only after the providers have their first routes.
func Run(ctx context.Context, options *config.Edge, parts Parts) error {
	routes := parts.Health.Condition("routes", routesMissing)
	points, err := entryPoints(options)
	if err != nil {
		return err
	}
	shared, err := sharedSecret(options.Shared.SecretFile)
	if err != nil {
		return err
	}
	observer, err := newObservers(ctx, options, points, parts)
	if err != nil {
		return err
	}
	defer observer.close(ctx)
	measured, listener := points, edge.EntryPoint{}
	if options.Providers.KubernetesGateway != nil {
		listener = gatewayPoint(points)
		measured = append(slices.Clip(points), listener)
	}
	loops, err := options.Loops()
	if err != nil {
		return err
	}
	if loops > 0 {
		spareProcessor()
	}
	server, err := edge.New(ctx, edge.Options{
		Loops:        loops,
		EntryPoints:  points,
		Listener:     listener,
		MemoryLimit:  overload.Limit(),
		SharedSecret: shared,
		Limits:       edge.LimitOptions{Address: options.Shared.Limits.Address, Peers: options.Shared.Limits.Peers},
		Observe:      observer.observe,
		Trace:        observer.trace(),
		Metrics:      edge.NewMetrics(parts.metrics.For("edge"), measured),
		Log:          parts.log,
	})
	if err != nil {
		return err
	}
	// The admin API responds from here on, also while the first routes are
	// missing.
	parts.admin.Attach(server)
	// Providers outlive ctx: routes are updated until the last request is
	// finished, because endpoints go away while the edge drains.
	following, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	if err := startProviders(ctx, options, providers{
		server: server, observers: observer, parts: parts, ready: routes, following: following, beside: &beside,
	}); err != nil {
		server.Close()
		return err
	}
	for _, point := range server.EntryPoints() {
		parts.log.Info("entry point takes traffic", "entryPoint", point.Name, observe.KeyAddress, point.Address)
	}
	routes.Met()
	beside.Go(func() { observer.reopen(ctx) })
	return server.Run(ctx)
}

// Serve runs the edge with its health, admin and traffic servers around it.
// This is the whole of slipway edge after its options are parsed.
func Serve(ctx context.Context, options *config.Edge, build admin.Build, log *slog.Logger, run Runner) error {
	parts := Parts{
		log: log, metrics: observe.NewMetrics(build.Version, build.Commit), Health: &observe.Health{},
		admin: admin.New(build), version: build.Version,
	}
	return roleserver.Server{
		Role: "edge", Admin: options.Admin.Address, Health: options.Health.Address,
		Mounts: []observe.Mount{{Prefix: admin.Prefix, Handler: parts.admin}},
		Log:    log, Metrics: parts.metrics, State: parts.Health,
	}.Run(ctx, func(running context.Context) error {
		return withTraffic(running, options, parts, func(serving context.Context) error { return run(serving, options, parts) })
	})
}

// spareProcessor gives Go's scheduler one more processor than there are event loops. A loop that waits for
// events keeps the one that it runs on for some milliseconds, and everything else needs
// one meanwhile; taking it away from the loop instead costs each short wait (decision 0087).
func spareProcessor() {
	if os.Getenv("GOMAXPROCS") == "" { // otherwise the operator has decided
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}
