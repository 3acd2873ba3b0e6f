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
	"slipway.dev/slipway/internal/agent/argoapi"
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
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// RuntimeOptions register an agent as a runtime of a platform.
type RuntimeOptions struct {
	// Name is that of the runtime, and Cluster the display name of its cluster.
	Name    string
	Cluster string
	// PlatformURL is the address of the platform, and Key the API key that
	// registers the runtime.
	PlatformURL    string
	AccountID      string
	Key            join.KeySource
	CAs            []byte
	AllowPlainHTTP bool

	// Mode is how the platform reaches the runtime. AccessURL and IngressClass
	// are for all modes but the tunnel.
	Mode                 mode.Mode
	AccessURL            string
	IngressClass         string
	ConfigurationRuntime bool

	Version      string
	ChartVersion string
	// Folder has the spool of reports and the Shared Configuration Repository.
	Folder string
	// Chart returns the chart that the runtime is installed from; nil where
	// that is unknown.
	Chart func(context.Context) (sharedrepo.Chart, error)
	// Router is the listener of the router, for an Ingress or a mesh. Run
	// closes it.
	Router net.Listener
	// Workflows is the server of workflows; nil if there is none.
	Workflows *url.URL
	// Metrics may be nil.
	Metrics *RuntimeMetrics
}

// EdgeOptions is where the edges of the cluster are and the secret they share
// with the agent.
type EdgeOptions struct {
	// Addresses replace the discovery of Pods in the agent's namespace, which
	// listen on Port.
	Addresses []string
	Port      int
	// SecretFile has the shared secret; without it it is in Secret, in the
	// control namespace.
	Secret, SecretFile string
}

// RuntimeMetrics are the metrics of a runtime's parts.
type RuntimeMetrics struct {
	join   *join.Metrics
	report *report.Metrics
	router *router.Metrics
	tunnel *tunnel.Metrics
}

// NewRuntimeMetrics registers the metrics.
func NewRuntimeMetrics(registry *observe.Metrics) *RuntimeMetrics {
	return &RuntimeMetrics{
		join: join.NewMetrics(registry.For("platform")), report: report.NewMetrics(registry.For("report")),
		router: router.NewMetrics(registry.For("router")), tunnel: tunnel.NewMetrics(registry.For("tunnel")),
	}
}

// platformRuntime has the parts of a runtime beside the delivery engine: the
// registration, the API that the platform calls, and the controllers of the
// Shared Configuration Repository and of reports.
type platformRuntime struct {
	*agent
	runtimeOptions RuntimeOptions

	membership       *join.Membership
	integrations     *integration.Service
	sharedRepository *sharedrepo.Controller
	gitSources       *gitsource.Service
	clusters         *clusters.Service
	connections      *clusters.Connections
	reporter         *report.Reporter
	traffic          *traffic.Service
	recorder         *traffic.Recorder
	rights           *rightsPolicy
	proxy            *appproxy.Service
	router           http.Handler
}

// newRuntime wires the parts that a platform needs. They send nothing before
// they run. Callbacks between them are closures, as some refer to parts that
// are created later.
func (a *agent) newRuntime(given RuntimeOptions) (*platformRuntime, error) {
	if given.Metrics == nil {
		given.Metrics = &RuntimeMetrics{}
	}
	r := &platformRuntime{
		agent: a, runtimeOptions: given, connections: clusters.NewConnections(a.clusters, given.Version),
		rights: &rightsPolicy{refused: a.reportPolicy},
	}
	namespace := a.options.ControlNamespace
	var err error
	r.membership, err = join.New(join.Options{
		Cluster: a.options.Cluster, Namespace: namespace, Runtime: given.Name,
		PlatformURL: given.PlatformURL, AccountID: given.AccountID, Key: given.Key, CAs: given.CAs, AllowPlainHTTP: given.AllowPlainHTTP,
		ClusterName: given.Cluster, Version: given.Version, ChartVersion: given.ChartVersion,
		AccessMode: given.Mode.Wire(), AccessURL: given.AccessURL, IngressClass: given.IngressClass,
		ConfigurationRuntime: given.ConfigurationRuntime, State: r,
		CleanSharedRepository: func(ctx context.Context) error {
			return r.sharedRepository.Leave(ctx, r.sharedRepository.Committer(), true)
		},
		Log: a.log, Metrics: given.Metrics.join,
		Reporter: kube.Reporter{Controller: controllerName, Instance: a.options.Identity},
	})
	if err != nil {
		return nil, err
	}
	r.integrations = integration.New(integration.Options{
		Cluster: a.options.Cluster, Namespace: namespace, Runtime: given.Name, Settings: r.membership.GitSettings,
		Changed: func() {
			r.sharedRepository.Changed()
			r.membership.ReportSoon()
		},
		Outbound: a.options.Outbound, Log: a.log,
	})
	r.sharedRepository = sharedrepo.NewController(sharedrepo.ControllerOptions{
		Cluster: a.options.Cluster, Runtime: given.Name, Namespace: namespace, Settings: r.membership.GitSettings,
		Access: r.integrations.RuntimeAccess, UserAccess: r.integrations.UserAccess, Create: r.integrations.CreateRepository,
		Clusters: a.clusters.Servers,
		Chart:    given.Chart, Folder: filepath.Join(given.Folder, "shared-repository"), Log: a.log,
	})
	r.proxy = r.newProxy()
	r.gitSources = gitsource.New(gitsource.Options{
		SharedRepository: r.sharedRepository, Integrations: r.integrations, Rights: r.proxy, WebhookURL: r.webhookURL, WebhookSecret: a.options.WebhookSecret, Log: a.log,
	})
	r.clusters = clusters.NewService(clusters.ServiceOptions{
		Registry: a.clusters, Home: a.options.Cluster, Namespace: namespace, Fleet: a.leading.fleet,
		Applications: a.listApplications, Version: given.Version, Log: a.log,
	})
	r.reporter, err = report.New(report.Options{
		Folder: filepath.Join(given.Folder, "report"), Runtime: given.Name, Client: r.membership.Client(),
		List: a.listApplications, CommitTime: r.commitTime, Log: a.log, Metrics: given.Metrics.report,
	})
	if err != nil {
		return nil, err
	}
	r.router, err = r.newRouter()
	return r, err
}

// newProxy returns the service about Applications.
func (r *platformRuntime) newProxy() *appproxy.Service {
	options := r.agent.options
	return appproxy.New(appproxy.Options{
		Cluster: options.Cluster, ControlNamespace: options.ControlNamespace, Namespaces: options.Namespaces,
		Sources: r.sources, Renderer: r.renderer, Plugins: r.plugins, Health: r.health, Settings: r.settings.current, RemoteTarget: r.remoteTarget, Configure: r.sharedRepository.Configure, Info: r.info, Preflight: r.preflight,
		ComponentNamespace: options.Cluster.Namespace, Rights: r.rights.policy, Log: r.log, Owner: r.agent.ownerOf(),
	})
}

// newRouter returns the handler that the platform and Git hosts reach, in every
// access mode. It verifies the platform's token before any service sees the
// request; webhooks are verified by their signature instead. It fails if the
// table of permissions lacks a row.
func (r *platformRuntime) newRouter() (http.Handler, error) {
	r.traffic = r.newTraffic(r.proxy)
	r.recorder = r.traffic.NewRecorder(r.membership.Client())
	mux := http.NewServeMux()
	clusterPath, clusterHandler := runtimev1connect.NewClusterServiceHandler(r.clusters)
	for _, handlers := range []map[string]http.Handler{
		{clusterPath: clusterHandler}, r.proxy.Handlers(), r.gitSources.Handlers(), r.integrations.Handlers(), r.traffic.Handlers(r.proxy.HandlerOptions()...),
	} {
		for path, handler := range handlers {
			if err := permission.Check(path); err != nil {
				return nil, err
			}
			mux.Handle(path, handler)
		}
	}
	hooks := appproxy.NewWebhooks(appproxy.WebhookOptions{
		Secrets: r.secrets.forSource, Shared: r.secrets.forProvider, Notify: r.onPush, Count: r.metrics.webhookReceived,
	})
	clients, err := r.newArgoAPI()
	if err != nil {
		return nil, err
	}
	verifier := token.NewVerifier(r.membership.RuntimeID, r.membership.PlatformKeys, time.Now)
	return router.New(router.Options{
		Runtime: r.runtimeOptions.Name, AppProxy: mux, ArgoCD: clients, Webhooks: hooks, Workflows: r.runtimeOptions.Workflows,
		Verify: verifier.Verify, Log: r.log, Metrics: r.runtimeOptions.Metrics.router,
	}), nil
}

// newArgoAPI returns the service for clients of Argo CD.
func (r *platformRuntime) newArgoAPI() (http.Handler, error) {
	return argoapi.New(argoapi.Options{
		Applications: r.proxy, Cluster: r.agent.options.Cluster, ControlNamespace: r.agent.options.ControlNamespace, Clusters: r.clusters.List,
		ConsoleURL: strings.TrimSuffix(r.runtimeOptions.PlatformURL, "/"), Version: r.runtimeOptions.Version, Log: r.log,
	})
}

// serve runs the parts of every replica until the context is done: the
// credential, the router, and the tunnel. Every replica has a tunnel, so that
// the platform reaches the runtime while the leader changes.
func (r *platformRuntime) serve(ctx context.Context) error {
	defer r.connections.Close()
	var parts sync.WaitGroup
	defer parts.Wait()
	running, stop := context.WithCancel(ctx)
	defer stop()
	parts.Go(func() { r.logEnd(running, "platform", r.membership.Run(running)) })
	parts.Go(func() { r.rights.watch(running, r.agent) })
	if r.runtimeOptions.Mode == mode.Tunnel {
		parts.Go(func() {
			r.awaitTunnelURLs(running)
			r.logEnd(running, "tunnel", tunnel.Run(running, tunnel.Options{
				URLs: r.membership.TunnelURLs, Token: r.membership.AccessToken, Handler: r.router, Runtime: r.runtimeOptions.Name,
				TLS: tlsWith(r.runtimeOptions.CAs), Log: r.log, Metrics: r.runtimeOptions.Metrics.tunnel,
			}))
		})
	}
	return serveHTTP(ctx, r.runtimeOptions.Router, &http.Server{Handler: r.router}, r.log.With(observe.KeyServer, "router"))
}

// awaitTunnelURLs returns when the platform has announced where tunnels connect. An
// attempt before that could only fail, and its backoff would delay the first tunnel of
// a runtime that is online already.
func (r *platformRuntime) awaitTunnelURLs(ctx context.Context) {
	for {
		changed := r.membership.Changes()
		if len(r.membership.TunnelURLs()) > 0 {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// lead runs the parts of the leader until the context is done: the heartbeat,
// the Shared Configuration Repository, and reports. None of them ends the term:
// Applications are delivered without a platform too.
func (r *platformRuntime) lead(ctx context.Context) {
	var parts sync.WaitGroup
	defer parts.Wait()
	for name, run := range map[string]func(context.Context) error{
		"platform": r.membership.Lead, "shared repository": r.sharedRepository.Run, "git integrations": r.integrations.Run,
		"report": r.reporter.Run, "settings": r.watchMembership, "webhooks": r.gitSources.Run, "traffic": r.traffic.Run,
		"traffic history": r.recorder.Run,
	} {
		parts.Go(func() { r.logEnd(ctx, name, run(ctx)) })
	}
	parts.Go(func() { r.watchApplications(ctx) })
}

// logEnd logs a part that ends before the context is done.
func (r *platformRuntime) logEnd(ctx context.Context, part string, err error) {
	if ctx.Err() == nil {
		r.log.Error("runtime part ended", "part", part, observe.KeyError, err)
	}
}

// watchMembership reconciles the Git credentials and the Shared Configuration
// Repository when the account's settings change.
func (r *platformRuntime) watchMembership(ctx context.Context) error {
	for {
		select {
		case <-r.membership.Changes():
			r.integrations.Wake()
			r.sharedRepository.Changed()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// webhookURL returns the address that a Git host sends pushes of a Git Source
// to; empty while the tunnel has no host name.
func (r *platformRuntime) webhookURL(source string) string {
	base := strings.TrimSuffix(r.runtimeOptions.AccessURL, "/")
	if r.runtimeOptions.Mode == mode.Tunnel {
		host := r.membership.TunnelHost()
		if host == "" {
			return ""
		}
		base = "https://" + host
	}
	return base + wire.WebhooksPath + url.PathEscape(r.runtimeOptions.Name) + "/" + url.PathEscape(source)
}

// remoteTarget returns the clients of another cluster.
func (r *platformRuntime) remoteTarget(destination v1alpha1.ApplicationDestination) (appproxy.Target, error) {
	found, err := r.connections.Find(destination.Server, destination.Name)
	if err != nil {
		return appproxy.Target{}, err
	}
	return appproxy.Target{Cluster: found.Cluster, Kinds: found.Kinds, Applier: found.Applier, Server: found.Server, Name: found.Name, Scope: found.Scope}, nil
}

// info describes this replica for the API.
func (r *platformRuntime) info() appproxy.Info {
	return appproxy.Info{
		Name: r.runtimeOptions.Name, Version: r.runtimeOptions.Version, Namespace: r.agent.options.ControlNamespace, Leading: r.leading.term.Load() != nil,
	}
}

// listApplications lists the Applications of all of the agent's namespaces.
func (a *agent) listApplications(ctx context.Context) ([]*v1alpha1.Application, error) {
	var apps []*v1alpha1.Application
	for _, namespace := range a.namespaces() {
		list, err := a.applicationsOf(namespace).List(ctx, listEverything())
		if err != nil {
			return nil, fmt.Errorf("list the Applications: %w", err)
		}
		for i := range list.Items {
			if app := a.decodeApplication(&list.Items[i]); app != nil {
				apps = append(apps, app)
			}
		}
	}
	return apps, nil
}

// decodeApplication returns an Application; nil if the object cannot be
// decoded.
func (a *agent) decodeApplication(object *unstructured.Unstructured) *v1alpha1.Application {
	app, _, err := v1alpha1.Decode(object.Object)
	if err != nil {
		a.log.Debug("cannot decode Application", "namespace", object.GetNamespace(), "name", object.GetName(), observe.KeyError, err)
		return nil
	}
	return app
}

// forSource returns the secrets of a Git Source that has its own. None has yet,
// so the shared ones count.
func (h *hookSecrets) forSource(string, webhook.Provider) ([]string, bool) { return nil, false }
