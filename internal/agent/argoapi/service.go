package argoapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/dynamicpb"

	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// Limits are those of package appproxy for the same work.
const (
	maxRequestBytes  = 1 << 20
	maxResponseBytes = 64 << 20
	requestTimeout   = 2 * time.Minute
	streamTimeout    = time.Hour
)

// Options configures the service.
type Options struct {
	Applications     *appproxy.Service
	Cluster          *kube.Cluster
	ControlNamespace string
	// Clusters returns the clusters that Applications deploy to.
	Clusters func(ctx context.Context) []*runtimev1.ManagedCluster
	// ConsoleURL is where links to Applications lead; clients append
	// /applications/NAME.
	ConsoleURL string
	// Version is that of the agent.
	Version string
	Log     *slog.Logger
}

// Service is the handler. It is safe for concurrent use.
type Service struct {
	Options
	served map[string]procedure
	grpc   map[string]http.Handler
}

// procedure serves a request. It sends one document, or any number for a stream;
// documents are encoded as JSON.
type procedure func(ctx context.Context, in argocd.Request, send func(document any) error) error

// unary is a procedure that returns its only document.
func unary(call func(ctx context.Context, in argocd.Request) (any, error)) procedure {
	return func(ctx context.Context, in argocd.Request, send func(any) error) error {
		document, err := call(ctx, in)
		if err != nil {
			return err
		}
		return send(document)
	}
}

// New returns the service. It fails if a procedure of the table is missing.
func New(options Options) (*Service, error) {
	s := &Service{Options: options, grpc: map[string]http.Handler{}}
	s.served = s.procedures()
	for _, one := range argocd.Procedures() {
		if s.served[one.Name] == nil {
			return nil, fmt.Errorf("%s of Argo CD's API is in the table and not served", one.Name)
		}
		s.grpc[one.Name] = s.grpcHandler(one)
	}
	return s, nil
}

// procedures are the procedures by name.
func (s *Service) procedures() map[string]procedure {
	const apps = "/application.ApplicationService/"
	return map[string]procedure{
		apps + "List": unary(s.list), apps + "Get": unary(s.get), apps + "Watch": s.watch,
		apps + "ResourceTree": unary(s.resourceTree), apps + "ManagedResources": unary(s.managedResources),
		apps + "GetManifests": unary(s.manifests), apps + "GetResource": unary(s.resource), apps + "RevisionMetadata": unary(s.revisionMetadata),
		apps + "PodLogs": s.logs,
		apps + "Sync":    unary(s.sync), apps + "Rollback": unary(s.rollback), apps + "TerminateOperation": unary(s.terminate), apps + "Delete": unary(s.delete),
		apps + "ListResourceActions": unary(s.actions), apps + "RunResourceAction": unary(s.runAction), apps + "RunResourceActionV2": unary(s.runAction),

		"/project.ProjectService/List": unary(s.projects), "/project.ProjectService/Get": unary(s.project),
		"/project.ProjectService/GetDetailedProject":     unary(s.projectDetails),
		"/repository.RepositoryService/ListRepositories": unary(s.repositories), "/repository.RepositoryService/List": unary(s.repositories),
		"/repository.RepositoryService/Get": unary(s.repository),
		"/cluster.ClusterService/List":      unary(s.listClusters), "/cluster.ClusterService/Get": unary(s.cluster),
		"/cluster.SettingsService/Get": unary(s.settings), "/session.SessionService/GetUserInfo": unary(s.userInfo),
		"/account.AccountService/CanI": unary(s.canI), "/version.VersionService/Version": unary(s.version),
	}
}

// ServeHTTP serves a request whose path has no prefix, and whose context has the
// claims of its token.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	found, values := argocd.Find(r.Method, r.URL.Path)
	switch {
	case found == nil:
		WriteError(w, r, connect.NewError(connect.CodeUnimplemented, errors.New(argocd.Unserved(r.Method, r.URL.Path))))
	case r.URL.Path == found.Name:
		s.grpc[found.Name].ServeHTTP(w, r)
	default:
		s.serveREST(w, r, found, values)
	}
}

// grpcHandler serves a procedure by gRPC and gRPC-Web.
func (s *Service) grpcHandler(of *argocd.Procedure) http.Handler {
	options := []connect.HandlerOption{
		connect.WithReadMaxBytes(maxRequestBytes), connect.WithSendMaxBytes(maxResponseBytes),
		// The argocd command accepts gzip and reads no message that has it.
		connect.WithCompressMinBytes(math.MaxInt),
		connect.WithRequestInitializer(func(_ connect.Spec, message any) error {
			*message.(*dynamicpb.Message) = *of.NewRequest()
			return nil
		}),
	}
	if of.Stream {
		return connect.NewServerStreamHandler(of.Name, func(ctx context.Context, request *connect.Request[dynamicpb.Message], stream *connect.ServerStream[dynamicpb.Message]) error {
			return s.serve(ctx, of, request.Msg, func(document []byte) error {
				message, err := of.Response(document)
				if err != nil {
					return err
				}
				return stream.Send(message)
			})
		}, options...)
	}
	return connect.NewUnaryHandler(of.Name, func(ctx context.Context, request *connect.Request[dynamicpb.Message]) (*connect.Response[dynamicpb.Message], error) {
		var response *dynamicpb.Message
		err := s.serve(ctx, of, request.Msg, func(document []byte) (err error) {
			response, err = of.Response(document)
			return err
		})
		if err != nil {
			return nil, err
		}
		return connect.NewResponse(response), nil
	}, options...)
}

// serve calls a procedure, whatever the protocol of the request. It bounds its
// duration, sets the verb that the user needs, and turns a panic into an error.
func (s *Service) serve(ctx context.Context, of *argocd.Procedure, message *dynamicpb.Message, send func(document []byte) error) (err error) {
	if _, ok := token.ClaimsFrom(ctx); !ok {
		return connect.NewError(connect.CodeUnauthenticated, errors.New("a token of the platform is needed"))
	}
	defer func() {
		if cause := recover(); cause != nil {
			s.Log.Error("request panicked", "procedure", of.Name, "cause", fmt.Sprint(cause))
			err = connect.NewError(connect.CodeInternal, errors.New("internal error: see the log of the runtime"))
		}
	}()
	timeout := requestTimeout
	if of.Stream {
		timeout = streamTimeout
	}
	ctx, cancel := context.WithTimeout(appproxy.WithVerb(ctx, of.Rule.Verb), timeout)
	defer cancel()
	return s.served[of.Name](ctx, argocd.Request{Message: message}, func(document any) error {
		content, err := json.Marshal(document)
		if err != nil {
			return err
		}
		return send(content)
	})
}

// notServed is the error for a part of a request that has no counterpart here.
func notServed(format string, values ...any) error {
	return connect.NewError(connect.CodeUnimplemented, fmt.Errorf(format, values...))
}
