package appproxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/health"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/plugin"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/promotion"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// Limits of requests. They bound memory and the load on the API server: every
// request here is made by a person or the console, and a stuck one must not
// hold a place for ever.
const (
	maxRequestBytes  = 1 << 20
	maxResponseBytes = 48 << 20
	// requestTimeout bounds a unary request, and streamTimeout a stream. A
	// client that wants to watch for longer reconnects, which needs a fresh
	// token.
	requestTimeout = 2 * time.Minute
	streamTimeout  = time.Hour
	// maxReaders bounds the trees that are read at a time, and maxRenderers the
	// renders: both are work for the API server and for this process.
	maxReaders   = 8
	maxRenderers = 2
	// maxLogStreams bounds the log requests at a time. Each reads several
	// containers.
	maxLogStreams = 64
)

// everyNamespace selects all namespaces.
const everyNamespace = "*"

// fieldManager is the field manager of writes to Applications.
const fieldManager = "slipway-app-proxy"

// Info describes a runtime.
type Info struct {
	Name, Version, Namespace, KubernetesVersion string
	// Leading is set while this replica holds the Lease.
	Leading bool
}

// Options configures the service.
type Options struct {
	Cluster *kube.Cluster
	// ControlNamespace has the AppProjects, and the Applications that a request
	// names without a namespace.
	ControlNamespace string
	// Namespaces are further namespaces with Applications; * selects all.
	Namespaces []string
	// Sources and Renderer are the agent's. Without them nothing can be
	// compared.
	Sources  *source.Sources
	Renderer *render.Renderer
	// Plugins are the config management plugins; nil if there are none.
	Plugins *plugin.Plugins
	// Health and Settings are those of reconcile.Options.
	Health   *health.Rules
	Settings func() *customization.Settings
	// Kinds and Applier are created when they are nil.
	Kinds   *live.Kinds
	Applier *apply.Applier
	// RemoteTarget returns another cluster that Applications deploy to. Without
	// it the objects in other clusters are not served.
	RemoteTarget func(destination v1alpha1.ApplicationDestination) (Target, error)
	// Configure makes the runtime manage itself by an Application.
	Configure func(ctx context.Context) (application, commit string, err error)
	Info      func() Info
	// Owner returns the replica that reconciles an Application, by its namespace/name;
	// nil if the replicas do not divide the Applications.
	Owner func(ctx context.Context, key string) (string, error)
	// Rights returns the policy of the runtime. Without it the roles of the
	// platform and the rules in tokens count alone.
	Rights func() (*rights.Policy, error)
	// Preflight returns the input of the checks of an installed runtime.
	// Without it there are none.
	Preflight func(ctx context.Context) (preflight.World, preflight.Options, error)
	// ComponentNamespace and ComponentSelector select the runtime's own Pods.
	// The defaults are the control namespace and our label.
	ComponentNamespace string
	ComponentSelector  string
	Log                *slog.Logger
}

// Target is a cluster that Applications deploy to, with its clients.
type Target struct {
	Cluster *kube.Cluster
	Kinds   *live.Kinds
	Applier *apply.Applier
	// Server and Name are the address and the name that Applications use.
	Server, Name string
	// Scope is what the Secret of the cluster says about projects.
	Scope project.ClusterScope
}

// Service implements the API. It is safe for concurrent use.
type Service struct {
	options   Options
	log       *slog.Logger
	inspector *inspect.Inspector
	strict    inspect.Strict
	watch     *sharedWatch
	trees     *treeWatches
	scopes    *scopeWatches
	// promotions reads Promotions.
	promotions *promotion.Reader

	// These are semaphores: a request holds a slot while it does the work.
	reading, rendering, following, checking chan struct{}
	// eventViewers counts the streams of Events.
	eventViewers atomic.Int32
}

// New returns the service. It sends no request to the cluster before it
// receives one.
func New(options Options) *Service {
	if options.Kinds == nil {
		options.Kinds = live.NewKinds(options.Cluster)
	}
	if options.Applier == nil {
		options.Applier = apply.New(options.Cluster, options.Kinds)
	}
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	options.ComponentNamespace = cmp.Or(options.ComponentNamespace, options.ControlNamespace)
	options.ComponentSelector = cmp.Or(options.ComponentSelector, ComponentSelector)
	s := &Service{
		options: options, log: options.Log,
		inspector: &inspect.Inspector{Cluster: options.Cluster, Manager: fieldManager, Health: options.Health},
		reading:   make(chan struct{}, maxReaders), rendering: make(chan struct{}, maxRenderers), following: make(chan struct{}, maxLogStreams),
		checking:   make(chan struct{}, maxCheckers),
		promotions: promotion.NewReader(options.Cluster, options.Sources, options.ControlNamespace),
	}
	// strict reads the runtime's own cluster; strictFor those of other
	// destinations.
	s.strict = inspect.Strict{Inspector: s.inspector, Kinds: options.Kinds, ControlNamespace: options.ControlNamespace}
	s.watch = newSharedWatch(s.inspector, s.namespaces(), s.log)
	s.trees = &treeWatches{service: s, shown: map[tracking.App]*shownTree{}}
	s.scopes = &scopeWatches{open: map[scopeAt]*scopeWatch{}}
	return s
}

// HandlerOptions returns the interceptors and limits of these services. Other
// services at /app-proxy use the same ones.
func (s *Service) HandlerOptions() []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithInterceptors(guard{}), connect.WithReadMaxBytes(maxRequestBytes), connect.WithSendMaxBytes(maxResponseBytes),
		connect.WithRecover(s.recovered),
	}
}

// Handlers returns the services by path, without the prefix /app-proxy.
func (s *Service) Handlers() map[string]http.Handler {
	options := s.HandlerOptions()
	handlers := map[string]http.Handler{}
	// All services have the same guard and limits.
	path, handler := runtimev1connect.NewApplicationServiceHandler(s, options...)
	handlers[path] = handler
	path, handler = runtimev1connect.NewRuntimeServiceHandler(s, options...)
	handlers[path] = handler
	path, handler = runtimev1connect.NewReleaseServiceHandler(s, options...)
	handlers[path] = handler
	path, handler = runtimev1connect.NewPromotionServiceHandler(s, options...)
	handlers[path] = handler
	return handlers
}

// recovered turns a panic into an error, so that one request cannot end the
// agent. The client gets no detail of it.
func (s *Service) recovered(_ context.Context, spec connect.Spec, _ http.Header, cause any) error {
	s.log.Error("request panicked", "procedure", spec.Procedure, "cause", fmt.Sprint(cause))
	return connect.NewError(connect.CodeInternal, errors.New("internal error: see the log of the runtime"))
}

// guard refuses requests without claims and bounds the duration of the others.
type guard struct{}

// WrapUnary applies requestTimeout.
func (guard) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if err := requireClaims(ctx); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(withVerb(ctx, request.Spec().Procedure), requestTimeout)
		defer cancel()
		return next(ctx, request)
	}
}

// WrapStreamingClient is part of the interface. A server does not use it.
func (guard) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler applies streamTimeout.
func (guard) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, stream connect.StreamingHandlerConn) error {
		if err := requireClaims(ctx); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(withVerb(ctx, stream.Spec().Procedure), streamTimeout)
		defer cancel()
		return next(ctx, stream)
	}
}

// requireClaims fails without the claims that the router puts into the context.
func requireClaims(ctx context.Context) error {
	if _, ok := token.ClaimsFrom(ctx); !ok {
		return connect.NewError(connect.CodeUnauthenticated, errors.New("a token of the platform is needed"))
	}
	return nil
}

// requestedBy returns the user of a request, for the history of an Application.
// The first claim that identifies the user for a reader wins.
func requestedBy(ctx context.Context) string {
	claims, _ := token.ClaimsFrom(ctx)
	// The email is what users recognize in a history.
	for _, name := range []string{claims.Email, claims.Name, claims.UserID} {
		if name != "" {
			return name
		}
	}
	return "platform"
}

// namespaces lists the namespaces that Applications are served from.
func (s *Service) namespaces() []string {
	if slices.Contains(s.options.Namespaces, everyNamespace) {
		return []string{everyNamespace}
	}
	all := append([]string{s.options.ControlNamespace}, s.options.Namespaces...)
	slices.Sort(all)
	return slices.Compact(all)
}

// resolveRef returns the identity of the Application that a request names.
func (s *Service) resolveRef(ref *runtimev1.ApplicationRef) (tracking.App, error) {
	place := tracking.App{Namespace: ref.GetNamespace(), Name: ref.GetName()}
	if place.Name == "" {
		return place, connect.NewError(connect.CodeInvalidArgument, errors.New("the request names no Application: give ref.name"))
	}
	place.Namespace = cmp.Or(place.Namespace, s.options.ControlNamespace)
	// The same error as for an Application that does not exist: the existence
	// of other namespaces is not disclosed.
	if !s.servesNamespace(place.Namespace) {
		return place, notFound(place)
	}
	return place, nil
}

// servesNamespace reports whether Applications of a namespace are the agent's.
func (s *Service) servesNamespace(namespace string) bool {
	all := s.namespaces()
	return slices.Contains(all, everyNamespace) || slices.Contains(all, namespace)
}

// application reads the Application that a request names, and checks that the
// user has the right that the called procedure needs.
func (s *Service) application(ctx context.Context, ref *runtimev1.ApplicationRef) (*inspect.Application, error) {
	place, err := s.resolveRef(ref)
	if err != nil {
		return nil, err
	}
	app, err := s.inspector.Get(ctx, place)
	if err != nil {
		return nil, s.toConnectError(err, place)
	}
	return app, s.authorise(ctx, app)
}

// target returns the cluster that has the objects of an Application.
func (s *Service) target(app *inspect.Application) (Target, error) {
	destination := project.Complete(app.Spec.Destination)
	if destination.Server == project.LocalServer {
		return Target{
			Cluster: s.options.Cluster, Kinds: s.options.Kinds, Applier: s.options.Applier, Server: project.LocalServer, Name: project.LocalName,
		}, nil
	}
	// Without remote clients the objects cannot be read; the Application itself
	// can.
	if s.options.RemoteTarget == nil {
		return Target{}, connect.NewError(connect.CodeFailedPrecondition, errors.New("the objects of the Application are in another cluster, which is not read here"))
	}
	found, err := s.options.RemoteTarget(destination)
	if err != nil {
		return Target{}, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the cluster of the Application cannot be read: %w", err))
	}
	return found, nil
}

// strictFor returns a reader that shows of a cluster only the objects of
// Applications.
func (s *Service) strictFor(at Target) inspect.Strict {
	return inspect.Strict{
		Inspector: &inspect.Inspector{Cluster: at.Cluster, Manager: fieldManager, Health: s.options.Health}, Kinds: at.Kinds, ControlNamespace: s.options.ControlNamespace,
	}
}

// destination is the destination of an Application with both address and name
// of the cluster, as projects match either.
func (t Target) destination(app *inspect.Application) v1alpha1.ApplicationDestination {
	return v1alpha1.ApplicationDestination{Server: t.Server, Name: t.Name, Namespace: app.Spec.Destination.Namespace}
}

// acquire takes a slot of a semaphore, and waits for one as long as the request
// lasts. The returned function releases it.
func acquire(ctx context.Context, places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("the runtime has too much to do: try again later"))
	}
}
