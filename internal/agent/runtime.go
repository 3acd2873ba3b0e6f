package agent

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/access/router"
	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/access/tunnel"
	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/agent/clusters"
	"slipway.dev/slipway/internal/agent/gitsource"
	"slipway.dev/slipway/internal/agent/integration"
	"slipway.dev/slipway/internal/agent/join"
	"slipway.dev/slipway/internal/agent/report"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/agent/traffic"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// RuntimeOptions make an agent a runtime of a platform.
type RuntimeOptions struct {
	// Name is that of the runtime, and Cluster how people know its cluster.
	Name    string
	Cluster string
	// PlatformURL is where the platform is, and Key what the runtime is registered
	// with.
	PlatformURL    string
	AccountID      string
	Key            join.KeySource
	CAs            []byte
	AllowPlainHTTP bool

	// Mode is how the platform reaches the runtime; AccessURL and IngressClass are
	// for all modes but the tunnel.
	Mode                 mode.Mode
	AccessURL            string
	IngressClass         string
	ConfigurationRuntime bool

	Version      string
	ChartVersion string
	// Folder is for what has to be told to the platform, and for what is fetched of
	// the Shared Configuration Repository.
	Folder string
	// Chart is what the runtime is installed from; nil where that is not known.
	Chart func(context.Context) (sharedrepo.Chart, error)
	// Router is where the router listens, for what leads to it by an Ingress or a
	// mesh. Run closes it.
	Router net.Listener
	// Workflows is the server for workflows; nil if there is none.
	Workflows *url.URL
	// Edges are asked about traffic.
	Edges EdgeOptions
	// Metrics may be nil.
	Metrics *RuntimeMetrics
}

// EdgeOptions is where the edges of the cluster are, and what they share with the
// agent.
type EdgeOptions struct {
	// Addresses are asked instead of the Pods of the agent's namespace, which have
	// the Port.
	Addresses []string
	Port      int
	// SecretFile has what is shared; or else Secret, of the control namespace.
	Secret, SecretFile string
}

// RuntimeMetrics are those of the parts that make an agent a runtime.
type RuntimeMetrics struct {
	join   *join.Metrics
	report *report.Metrics
	router *router.Metrics
	tunnel *tunnel.Metrics
}

// NewRuntimeMetrics registers the metrics.
func NewRuntimeMetrics(registry *observe.Metrics) (*RuntimeMetrics, error) {
	routes, err := router.NewMetrics(registry.For("router"))
	if err != nil {
		return nil, err
	}
	return &RuntimeMetrics{
		join: join.NewMetrics(registry.For("platform")), report: report.NewMetrics(registry.For("report")),
		router: routes, tunnel: tunnel.NewMetrics(registry.For("tunnel")),
	}, nil
}

// station is what a runtime has beside the engine.
type station struct {
	*agent
	given RuntimeOptions

	membership   *join.Membership
	integrations *integration.Service
	home         *sharedrepo.Home
	gitSources   *gitsource.Service
	clusters     *clusters.Service
	connections  *clusters.Connections
	reporter     *report.Reporter
	traffic      *traffic.Service
	router       http.Handler
}

// newRuntime wires the rooms that a platform needs. Nothing is sent before they
// run.
func (a *agent) newRuntime(given RuntimeOptions) (*station, error) {
	if given.Metrics == nil {
		given.Metrics = &RuntimeMetrics{}
	}
	r := &station{agent: a, given: given, connections: clusters.NewConnections(a.clusters, given.Version)}
	namespace := a.options.ControlNamespace
	var err error
	r.membership, err = join.New(join.Options{
		Cluster: a.options.Cluster, Namespace: namespace, Runtime: given.Name,
		PlatformURL: given.PlatformURL, AccountID: given.AccountID, Key: given.Key, CAs: given.CAs, AllowPlainHTTP: given.AllowPlainHTTP,
		ClusterName: given.Cluster, Version: given.Version, ChartVersion: given.ChartVersion,
		AccessMode: given.Mode.Wire(), AccessURL: given.AccessURL, IngressClass: given.IngressClass,
		ConfigurationRuntime: given.ConfigurationRuntime, State: r,
		CleanSharedRepository: func(ctx context.Context) error { return r.home.Leave(ctx, r.home.Committer(), true) },
		Log:                   a.log, Metrics: given.Metrics.join,
		Reporter: kube.Reporter{Controller: controllerName, Instance: a.options.Identity},
	})
	if err != nil {
		return nil, err
	}
	r.integrations = integration.New(integration.Options{
		Cluster: a.options.Cluster, Namespace: namespace, Runtime: given.Name, Settings: r.membership.GitSettings,
		Changed: func() { r.home.Changed() }, Log: a.log,
	})
	r.home = sharedrepo.NewHome(sharedrepo.HomeOptions{
		Cluster: a.options.Cluster, Runtime: given.Name, Namespace: namespace, Settings: r.membership.GitSettings,
		Access: r.integrations.RuntimeAccess, Create: r.integrations.CreateRepository,
		Chart: given.Chart, Folder: filepath.Join(given.Folder, "shared-repository"), Log: a.log,
	})
	r.gitSources = gitsource.New(gitsource.Options{
		Home: r.home, Integrations: r.integrations, WebhookURL: r.webhookURL, WebhookSecret: a.options.WebhookSecret, Log: a.log,
	})
	r.clusters = clusters.NewService(clusters.ServiceOptions{
		Book: a.clusters, Home: a.options.Cluster, Namespace: namespace, Fleet: a.leading.fleet,
		Applications: a.listApplications, Version: given.Version, Log: a.log,
	})
	r.reporter, err = report.New(report.Options{
		Folder: filepath.Join(given.Folder, "report"), Runtime: given.Name, Client: r.membership.Client(),
		List: a.listApplications, Log: a.log, Metrics: given.Metrics.report,
	})
	r.router = r.newRouter()
	return r, err
}

// newRouter is what the platform and Git hosts reach, in every mode.
func (r *station) newRouter() http.Handler {
	options := r.agent.options
	proxy := appproxy.New(appproxy.Options{
		Cluster: options.Cluster, ControlNamespace: options.ControlNamespace, Namespaces: options.Namespaces,
		Sources: r.sources, Renderer: r.renderer, Elsewhere: r.elsewhere, Configure: r.home.Configure, Info: r.info, Preflight: r.preflight,
		ComponentNamespace: options.Cluster.Namespace, Log: r.log,
	})
	r.traffic = r.newTraffic(proxy)
	mux := http.NewServeMux()
	clusterPath, clusterHandler := runtimev1connect.NewClusterServiceHandler(r.clusters)
	mux.Handle(clusterPath, clusterHandler)
	for _, handlers := range []map[string]http.Handler{proxy.Handlers(), r.gitSources.Handlers(), r.integrations.Handlers(), r.traffic.Handlers(proxy.HandlerOptions()...)} {
		for path, handler := range handlers {
			mux.Handle(path, handler)
		}
	}
	hooks := appproxy.NewWebhooks(appproxy.WebhookOptions{
		Secrets: r.secrets.ofSource, Shared: r.secrets.of, Notify: r.heard, Count: r.metrics.heard,
	})
	verifier := token.NewVerifier(r.membership.RuntimeID, r.membership.PlatformKeys, time.Now)
	return router.New(router.Options{
		Runtime: r.given.Name, AppProxy: mux, Webhooks: hooks, Workflows: r.given.Workflows,
		Verify: verifier.Verify, Log: r.log, Metrics: r.given.Metrics.router,
	})
}

// serve runs what every replica runs, until the context is done: the credential,
// the router, and the tunnel.
func (r *station) serve(ctx context.Context) error {
	defer r.connections.Close()
	var parts sync.WaitGroup
	defer parts.Wait()
	running, stop := context.WithCancel(ctx)
	defer stop()
	parts.Go(func() { r.logEnd(running, "platform", r.membership.Run(running)) })
	if r.given.Mode == mode.Tunnel {
		parts.Go(func() {
			r.logEnd(running, "tunnel", tunnel.Run(running, tunnel.Options{
				URLs: r.membership.TunnelURLs, Token: r.membership.AccessToken, Handler: r.router, Runtime: r.given.Name,
				TLS: tlsWith(r.given.CAs), Log: r.log, Metrics: r.given.Metrics.tunnel,
			}))
		})
	}
	return serveHTTP(ctx, r.given.Router, &http.Server{Handler: r.router}, r.log.With(observe.KeyServer, "router"))
}

// lead runs what the elected replica runs, until the context is done: the
// heartbeat, the Shared Configuration Repository, and the reports. None of it ends
// the term: Applications are delivered without a platform too.
func (r *station) lead(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	for name, run := range map[string]func(context.Context) error{
		"platform": r.membership.Lead, "shared repository": r.home.Run, "git integrations": r.integrations.Run,
		"report": r.reporter.Run, "settings": r.followMembership, "webhooks": r.gitSources.Run, "traffic": r.traffic.Run,
	} {
		parts.Go(func() { r.logEnd(ctx, name, run(ctx)) })
	}
	parts.Go(func() { r.followApplications(ctx) })
}

func (r *station) logEnd(ctx context.Context, part string, err error) {
	if ctx.Err() == nil {
		r.log.Error("a part of the runtime ended", "part", part, observe.KeyError, err)
	}
}

// followMembership has the Shared Configuration Repository looked at when the
// account's settings come or change.
func (r *station) followMembership(ctx context.Context) error {
	for {
		select {
		case <-r.membership.Changes():
			r.home.Changed()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// webhookURL is where a Git host tells of pushes to a Git Source.
func (r *station) webhookURL(source string) string {
	base := strings.TrimSuffix(r.given.AccessURL, "/")
	if r.given.Mode == mode.Tunnel {
		host := r.membership.TunnelHost()
		if host == "" {
			return ""
		}
		base = "https://" + host
	}
	return base + wire.WebhooksPath + url.PathEscape(r.given.Name) + "/" + url.PathEscape(source)
}

// elsewhere is the clients for another cluster.
func (r *station) elsewhere(destination v1alpha1.ApplicationDestination) (appproxy.Target, error) {
	found, err := r.connections.Find(destination.Server, destination.Name)
	if err != nil {
		return appproxy.Target{}, err
	}
	return appproxy.Target{Cluster: found.Cluster, Kinds: found.Kinds, Applier: found.Applier, Server: found.Server, Name: found.Name}, nil
}

func (r *station) info() appproxy.Info {
	return appproxy.Info{
		Name: r.given.Name, Version: r.given.Version, Namespace: r.agent.options.ControlNamespace, Leading: r.leading.current() != nil,
	}
}

// listApplications is all Applications of the agent's namespaces.
func (a *agent) listApplications(ctx context.Context) ([]*v1alpha1.Application, error) {
	var apps []*v1alpha1.Application
	for _, namespace := range a.namespaces() {
		list, err := a.applicationsOf(namespace).List(ctx, listEverything())
		if err != nil {
			return nil, fmt.Errorf("list the Applications: %w", err)
		}
		for i := range list.Items {
			if app := a.decoded(&list.Items[i]); app != nil {
				apps = append(apps, app)
			}
		}
	}
	return apps, nil
}

// decoded is an Application; nil if it cannot be read as one.
func (a *agent) decoded(object *unstructured.Unstructured) *v1alpha1.Application {
	app, _, err := v1alpha1.Decode(object.Object)
	if err != nil {
		a.log.Debug("this is not an Application", "namespace", object.GetNamespace(), "name", object.GetName(), observe.KeyError, err)
		return nil
	}
	return app
}

// ofSource are the secrets of a Git Source that has its own: none has yet, so the
// shared ones count.
func (h *hookSecrets) ofSource(string, webhook.Provider) ([]string, bool) { return nil, false }
