package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/outbound"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// maxMessage bounds a request: an SSH key, known hosts and a chain of
// authorities.
const maxMessage = 512 << 10

// Options configures a Service.
type Options struct {
	Cluster *kube.Cluster
	// Namespace is the control namespace.
	Namespace string
	// Runtime is the name of the runtime.
	Runtime string
	// Settings returns the Git settings of the account; nil before the runtime
	// joined.
	Settings func() *platformv1.GitSettings
	// Changed is called when the runtime's credential changes. It may be nil.
	Changed func()
	// Outbound decides which addresses are connected to; nil allows all.
	Outbound *outbound.Policy
	Log      *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Service manages the Git integrations of a runtime. It is safe for concurrent
// use.
type Service struct {
	options Options
	// wake holds one signal at most.
	wake chan struct{}

	// mu guards the credential that the runtime was installed with.
	mu        sync.Mutex
	installed installedCredential
}

var _ runtimev1connect.IntegrationServiceHandler = (*Service)(nil)

// New returns a Service. It sends no request before it receives one.
func New(options Options) *Service {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Changed == nil {
		options.Changed = func() {}
	}
	return &Service{options: options, wake: make(chan struct{}, 1)}
}

// Handlers returns the handlers of IntegrationService by path.
func (s *Service) Handlers(more ...connect.HandlerOption) map[string]http.Handler {
	path, handler := runtimev1connect.NewIntegrationServiceHandler(s, append([]connect.HandlerOption{connect.WithReadMaxBytes(maxMessage)}, more...)...)
	return map[string]http.Handler{path: handler}
}

// secrets is the client for the Secrets of the control namespace.
func (s *Service) secrets() typedv1.SecretInterface {
	return s.options.Cluster.Client.CoreV1().Secrets(s.options.Namespace)
}

// configMaps is the client for the ConfigMaps of the control namespace.
func (s *Service) configMaps() typedv1.ConfigMapInterface {
	return s.options.Cluster.Client.CoreV1().ConfigMaps(s.options.Namespace)
}

// settings returns the account's Git settings; it is never nil.
func (s *Service) settings() *platformv1.GitSettings {
	// Before the runtime joined there are no settings.
	if s.options.Settings != nil {
		if given := s.options.Settings(); given != nil {
			return given
		}
	}
	return &platformv1.GitSettings{}
}

// requireUser returns the user of a request. It is checked here too, so that no
// other way to serve these handlers skips it.
func requireUser(ctx context.Context) (wire.RuntimeClaims, error) {
	// The router put the verified claims into the context.
	claims, ok := token.ClaimsFrom(ctx)
	if !ok || claims.UserID == "" {
		return claims, connect.NewError(connect.CodeUnauthenticated, errors.New("this is for a user of the platform: send the request through the platform"))
	}
	return claims, nil
}

// requireAdmin returns the user of a request that needs an admin. The router
// checks it too.
func requireAdmin(ctx context.Context) (wire.RuntimeClaims, error) {
	claims, err := requireUser(ctx)
	if err == nil && claims.Role != permission.RoleAdmin {
		err = connect.NewError(connect.CodePermissionDenied, errors.New("this is for admins of the account"))
	}
	return claims, err
}

// invalid is the error for a field that the user can correct.
func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// precondition is the error for a state that has to change first. Clients show
// its text and do not retry.
func precondition(format string, args ...any) error {
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf(format, args...))
}

// toConnectError maps an error to the code that decides whether a client
// retries. A connect error inside of it is returned unchanged, with its code.
func toConnectError(err error) error {
	var already *connect.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	if provider, ok := errors.AsType[*gitprovider.Error](err); ok {
		return connect.NewError(providerCode(provider), err)
	}
	if failure, ok := errors.AsType[*remote.Failure](err); ok {
		if failure.Reason == remote.Unreachable {
			return connect.NewError(connect.CodeUnavailable, err)
		}
		return connect.NewError(connect.CodeFailedPrecondition, err)
	}
	return connect.NewError(connect.CodeInternal, err)
}

// providerCode maps an error of a Git provider to a code. Clients retry
// Unavailable; all other codes need an action of the user.
func providerCode(err *gitprovider.Error) connect.Code {
	switch err.Kind {
	case gitprovider.Invalid:
		return connect.CodeInvalidArgument
	case gitprovider.NotFound:
		return connect.CodeNotFound
	case gitprovider.Conflict:
		return connect.CodeAlreadyExists
	case gitprovider.RateLimited, gitprovider.Unreachable:
		return connect.CodeUnavailable
	default:
		return connect.CodeFailedPrecondition
	}
}

// storeError is the error of a request to the API server. Only reasons that
// contain nothing of an object are quoted.
func storeError(what, name string, err error) error {
	code, text := connect.CodeInternal, string(apierrors.ReasonForError(err))
	switch {
	case apierrors.IsForbidden(err):
		code, text = connect.CodeFailedPrecondition, "the service account of the runtime may not: "+err.Error()
	case apierrors.IsNotFound(err):
		code, text = connect.CodeNotFound, "it does not exist"
	case apierrors.IsConflict(err):
		code, text = connect.CodeAborted, "it was changed concurrently: try again"
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err), text == "":
		code, text = connect.CodeUnavailable, "the API server returned an unexpected response: try again"
	}
	return connect.NewError(code, fmt.Errorf("%s %s: %s", what, name, text))
}
