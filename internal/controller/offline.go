package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/edge/overload"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/manifest"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/observe"
)

const (
	// readTimeout bounds reading a cluster, for a command that a user waits
	// for.
	readTimeout = time.Minute
	// usualClass is the IngressClass and the GatewayClass of the shipped manifests.
	usualClass = "slipway"
)

// Offline is an edge without traffic: it has the routes of a cluster or of
// manifests, built by the same code as in a running edge, and can be queried
// about them. lint and explain use it. Set the exported fields, then call Load.
// It is not safe for concurrent use.
type Offline struct {
	// Files are manifests; without any a cluster is read.
	Files     []string
	Namespace string
	Options   *config.Edge
	Build     admin.Build

	server *edge.Server
	facts  *snapshot.Snapshot
	engine *engine.Engine
	Set    *manifest.Set // nil for a cluster
}

// Load builds the routes from the manifests, reading - from input, or from a
// cluster. The proxy has to open its entry points, so it listens on free
// loopback ports; nothing connects. The caller calls Close, also after an
// error.
func (o *Offline) Load(ctx context.Context, input io.Reader) error {
	var err error
	if _, err = nginxDefaults(o.Options); err != nil {
		return err
	}
	if o.server, err = o.newServer(ctx); err != nil {
		return err
	}
	o.serveGateways()
	o.serveTraefik()
	if len(o.Files) == 0 {
		return o.readCluster(ctx)
	}
	return o.readManifests(input)
}

// newServer returns a proxy with the entry points of the options. It has no options
// for listeners, so that those of Gateways are in its table and none is opened.
func (o *Offline) newServer(ctx context.Context) (*edge.Server, error) {
	points, err := entryPoints(o.Options)
	if err != nil {
		return nil, err
	}
	for i := range points {
		points[i].Address, points[i].HTTP3 = "127.0.0.1:0", false
	}
	return edge.New(ctx, edge.Options{
		EntryPoints: points, MemoryLimit: overload.Limit(),
		Metrics: edge.NewMetrics(prometheus.NewRegistry(), points), Log: slog.New(slog.DiscardHandler),
	})
}

// Close releases the listeners and goroutines of the edge.
func (o *Offline) Close() {
	if o.server != nil {
		o.server.Close()
	}
}

// readManifests builds the routes of manifests in one pass, because nothing
// changes afterwards.
func (o *Offline) readManifests(input io.Reader) error {
	set, err := manifest.Read(o.Files, o.Namespace, input)
	if err != nil {
		return err
	}
	o.Set, o.facts = set, set.Snapshot
	o.assumeClasses()
	o.engine = buildRoutes(o.facts, o.server, o.Options)
	return nil
}

// buildRoutes builds the routes of all facts and applies them to a proxy. Its feedback
// becomes refusals, as in a running edge.
func buildRoutes(facts *snapshot.Snapshot, server *edge.Server, options *config.Edge) *engine.Engine {
	built := engine.New(facts, resolveOptions(options, ""))
	result := built.All()
	feedback := ingressFeedback(server.Update(&result.Change))
	built.NoteRules(&result.Change, feedback.Problems)
	if feedback.CertificatesChanged {
		built.NoteCertificates(feedback.Certificates)
	}
	return built
}

// assumeClasses adds the classes that every cluster with this edge has, where the
// manifests leave them out. Without them the edge would ignore Ingresses and
// Gateways of these classes.
func (o *Offline) assumeClasses() {
	view := o.facts.View()
	assume := func(name, controller string) {
		if name == "" || view.Class(name) != nil {
			return
		}
		class := &networkingv1.IngressClass{}
		class.Name, class.Spec.Controller = name, controller
		o.facts.Put(class)
	}
	assume(usualClass, resolve.ControllerName)
	assume(o.Options.Providers.KubernetesIngress.IngressClass, resolve.ControllerName)
	if n := o.Options.Providers.KubernetesIngressNGINX; n != nil {
		assume(n.AnnotationClass, n.ControllerClass)
	}
	if view.GatewayClass(usualClass) == nil {
		class := &gatewayv1.GatewayClass{}
		class.Name, class.Spec.ControllerName = usualClass, gateway.ControllerName
		o.facts.Put(class)
	}
}

// readCluster reads a cluster once, with the provider of a real edge, and stops
// it when the first table is live. The status writer does not run: nothing is
// written to the cluster.
func (o *Offline) readCluster(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	provider, err := newIngressProvider(o.Options, o.server, Parts{
		log: slog.New(slog.DiscardHandler), metrics: observe.NewMetrics(o.Build.Version, o.Build.Commit), version: o.Build.Version,
	})
	if err != nil {
		return err
	}
	defer provider.cluster.Close()
	reading := make(chan error, 1)
	ended := make(chan error, 1)
	following, stop := context.WithCancel(ctx)
	defer stop()
	go func() { reading <- provider.watcher.Run(following) }()
	go func() { ended <- provider.control.Run(following) }()
	select {
	case <-provider.live:
	case <-ctx.Done():
	}
	// Both goroutines have ended before the state is read, so it needs no lock.
	stop()
	err = errors.Join(<-ended, <-reading)
	// live decides, not err: a canceled watcher returns an error as well.
	select {
	case <-provider.live:
	default:
		if failures := provider.watcher.Failures(); len(failures) > 0 {
			err = errors.New(failureText(failures))
		}
		return fmt.Errorf("the cluster cannot be read: %w", err)
	}
	o.facts, o.engine = provider.control.State()
	return nil
}
