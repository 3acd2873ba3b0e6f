package appproxy

import (
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
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/wire/runtimev1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// What is done at a time, and for how long.
const (
	requestBytes = 1 << 20
	answerBytes  = 48 << 20
	// requestTime bounds a request with one answer, and streamTime one with many:
	// who looks longer asks again, with a new token.
	requestTime = 2 * time.Minute
	streamTime  = time.Hour
	// readers is how many trees are read at a time, and renderers how much is
	// rendered: both are work for the API server, and for this process.
	readers   = 8
	renderers = 2
	// followers is how many logs are read at a time, of some containers each.
	followers = 64
)

// everyNamespace stands for all of them.
const everyNamespace = "*"

// fieldManager is who changes Applications, for the API server.
const fieldManager = "slipway-app-proxy"

// Info is what a runtime says of itself.
type Info struct {
	Name, Version, Namespace, KubernetesVersion string
	// Leading: this replica does the work.
	Leading bool
}

// Options is what the service works with.
type Options struct {
	Cluster *kube.Cluster
	// ControlNamespace has the AppProjects, and Applications that are named without
	// a namespace.
	ControlNamespace string
	// Namespaces are more that have Applications; * is every one.
	Namespaces []string
	// Sources and Renderer are the agent's. Without them nothing is compared.
	Sources  *source.Sources
	Renderer *render.Renderer
	// Kinds and Applier are made if there are none.
	Kinds   *live.Kinds
	Applier *apply.Applier
	// Elsewhere finds another cluster that Applications deploy to. Without it, what
	// is in other clusters is not read.
	Elsewhere func(destination v1alpha1.ApplicationDestination) (Target, error)
	// Configure makes the runtime an Application of itself.
	Configure func(ctx context.Context) (application, commit string, err error)
	Info      func() Info
	// Preflight gives what the checks of an installed runtime look at. Without it
	// there are none.
	Preflight func(ctx context.Context) (preflight.World, preflight.Options, error)
	// ComponentNamespace and ComponentSelector find the runtime's own Pods: those
	// of the control namespace with our label if they are empty.
	ComponentNamespace string
	ComponentSelector  string
	Log                *slog.Logger
}

// Target is a cluster that Applications deploy to.
type Target struct {
	Cluster *kube.Cluster
	Kinds   *live.Kinds
	Applier *apply.Applier
	// Server and Name are what Applications call it.
	Server, Name string
}

// Service answers. It is safe for concurrent use.
type Service struct {
	options   Options
	log       *slog.Logger
	inspector *inspect.Inspector
	strict    inspect.Strict
	watch     *sharedWatch
	trees     *treeWatches
	scopes    *scopeWatches

	reading, rendering, following, checking chan struct{}
	// eventViewers counts who follows events.
	eventViewers atomic.Int32
}

// New makes the service. It asks nothing before the first request.
func New(options Options) *Service {
	if options.Kinds == nil {
		options.Kinds = live.NewKinds(options.Cluster)
	}
	if options.Applier == nil {
		options.Applier = apply.New(options.Cluster, options.Kinds)
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.ComponentNamespace == "" {
		options.ComponentNamespace = options.ControlNamespace
	}
	if options.ComponentSelector == "" {
		options.ComponentSelector = ComponentSelector
	}
	s := &Service{
		options: options, log: options.Log,
		inspector: &inspect.Inspector{Cluster: options.Cluster, Manager: fieldManager},
		reading:   make(chan struct{}, readers), rendering: make(chan struct{}, renderers), following: make(chan struct{}, followers),
		checking: make(chan struct{}, checkers),
	}
	s.strict = inspect.Strict{Inspector: s.inspector, Kinds: options.Kinds, ControlNamespace: options.ControlNamespace}
	s.watch = newSharedWatch(s.inspector, s.namespaces(), s.log)
	s.trees = &treeWatches{service: s, shown: map[tracking.App]*shownTree{}}
	s.scopes = &scopeWatches{open: map[scopeAt]*scopeWatch{}}
	return s
}

// HandlerOptions are those of the services here: who may ask, and how much. Others
// at /app-proxy can have the same.
func (s *Service) HandlerOptions() []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithInterceptors(guard{}), connect.WithReadMaxBytes(requestBytes), connect.WithSendMaxBytes(answerBytes),
		connect.WithRecover(s.recovered),
	}
}

// Handlers are the services by their paths, without /app-proxy.
func (s *Service) Handlers() map[string]http.Handler {
	options := s.HandlerOptions()
	handlers := map[string]http.Handler{}
	path, handler := runtimev1connect.NewApplicationServiceHandler(s, options...)
	handlers[path] = handler
	path, handler = runtimev1connect.NewRuntimeServiceHandler(s, options...)
	handlers[path] = handler
	return handlers
}

// recovered keeps one request that broke from ending the agent.
func (s *Service) recovered(_ context.Context, spec connect.Spec, _ http.Header, cause any) error {
	s.log.Error("a request broke", "procedure", spec.Procedure, "cause", fmt.Sprint(cause))
	return connect.NewError(connect.CodeInternal, errors.New("the runtime made a mistake: see its log"))
}

// guard refuses requests without claims, and bounds the time of the others.
type guard struct{}

// WrapUnary bounds requests with one answer.
func (guard) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if err := claimed(ctx); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(ctx, requestTime)
		defer cancel()
		return next(ctx, request)
	}
}

// WrapStreamingClient is not used by a server.
func (guard) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler bounds requests with many answers.
func (guard) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, stream connect.StreamingHandlerConn) error {
		if err := claimed(ctx); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, streamTime)
		defer cancel()
		return next(ctx, stream)
	}
}

func claimed(ctx context.Context) error {
	if _, ok := token.ClaimsFrom(ctx); !ok {
		return connect.NewError(connect.CodeUnauthenticated, errors.New("a token of the platform is needed"))
	}
	return nil
}

// askedBy is who asks, for the history of an Application.
func askedBy(ctx context.Context) string {
	claims, _ := token.ClaimsFrom(ctx)
	for _, name := range []string{claims.Email, claims.Name, claims.UserID} {
		if name != "" {
			return name
		}
	}
	return "platform"
}

// namespaces are those that Applications are read from.
func (s *Service) namespaces() []string {
	if slices.Contains(s.options.Namespaces, everyNamespace) {
		return []string{everyNamespace}
	}
	all := append([]string{s.options.ControlNamespace}, s.options.Namespaces...)
	slices.Sort(all)
	return slices.Compact(all)
}

// place is the Application that a request names, if it is one of the agent's.
func (s *Service) place(ref *runtimev1.ApplicationRef) (tracking.App, error) {
	place := tracking.App{Namespace: ref.GetNamespace(), Name: ref.GetName()}
	if place.Name == "" {
		return place, connect.NewError(connect.CodeInvalidArgument, errors.New("the request names no Application: give ref.name"))
	}
	if place.Namespace == "" {
		place.Namespace = s.options.ControlNamespace
	}
	if !s.reads(place.Namespace) {
		// As for one that does not exist: others' namespaces are none of the asker's
		// business.
		return place, notFound(place)
	}
	return place, nil
}

// reads reports whether Applications of a namespace are the agent's.
func (s *Service) reads(namespace string) bool {
	all := s.namespaces()
	return slices.Contains(all, everyNamespace) || slices.Contains(all, namespace)
}

// application reads the Application that a request names.
func (s *Service) application(ctx context.Context, ref *runtimev1.ApplicationRef) (*inspect.Application, error) {
	place, err := s.place(ref)
	if err != nil {
		return nil, err
	}
	app, err := s.inspector.Get(ctx, place)
	if err != nil {
		return nil, s.fault(err, place)
	}
	return app, nil
}

// target is the cluster that has the objects of an Application.
func (s *Service) target(app *inspect.Application) (Target, error) {
	destination := project.Complete(app.Spec.Destination)
	if destination.Server == project.LocalServer {
		return Target{
			Cluster: s.options.Cluster, Kinds: s.options.Kinds, Applier: s.options.Applier, Server: project.LocalServer, Name: project.LocalName,
		}, nil
	}
	if s.options.Elsewhere == nil {
		return Target{}, connect.NewError(connect.CodeFailedPrecondition, errors.New("the objects of the Application are in another cluster, which is not read here"))
	}
	found, err := s.options.Elsewhere(destination)
	if err != nil {
		return Target{}, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the cluster of the Application cannot be read: %w", err))
	}
	return found, nil
}

// within sees of a cluster what belongs to Applications.
func (s *Service) within(at Target) inspect.Strict {
	return inspect.Strict{
		Inspector: &inspect.Inspector{Cluster: at.Cluster, Manager: fieldManager}, Kinds: at.Kinds, ControlNamespace: s.options.ControlNamespace,
	}
}

// called is the destination of an Application, with both names of the cluster.
func (t Target) called(app *inspect.Application) v1alpha1.ApplicationDestination {
	return v1alpha1.ApplicationDestination{Server: t.Server, Name: t.Name, Namespace: app.Spec.Destination.Namespace}
}

// enter waits for a place among those who do some work.
func enter(ctx context.Context, places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("the runtime has too much to do: try again later"))
	}
}
