// Package fleet manages the runtimes of the platform's accounts:
// registration, credentials and heartbeats, reported applications, and the
// Git settings that runtimes share. It implements RuntimeService, GitService,
// ApplicationService and AgentService.
//
// It guarantees that a name belongs to one runtime, that a runtime is online
// only while its heartbeats arrive, that a report is acknowledged after it is
// stored and stored exactly once, and that a watch sends the complete state
// first and then changes, including those of other replicas. It refuses to
// rename a runtime, to delete one that is online, and to change Git settings
// that a runtime uses.
//
// It does not authorize callers: the options of its handlers do
// (internal/platform/identity).
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/outbound"
	"slipway.dev/slipway/internal/platform/apprights"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	// heartbeatInterval is the heartbeat interval that agents are given.
	heartbeatInterval = 15 * time.Second
	// MaxMessage bounds a request message of these services; a report is the
	// largest.
	MaxMessage = 4 << 20
)

// Options configures a Fleet.
type Options struct {
	Store  *store.Store
	Signer *signing.Signer
	// TunnelDomain is the parent domain of tunnel hosts; empty without
	// tunnels.
	TunnelDomain string
	// TunnelURLs returns the URLs at which agents open tunnels.
	TunnelURLs func() []string
	// Stopping ends all watches when it is closed; nil never does.
	Stopping <-chan struct{}
	Log      *slog.Logger
	Now      func() time.Time
	// Values validates chart values without the store; nil where that is not
	// available.
	Values ValuesCheck
	// Policies decides which applications callers see; nil for their roles
	// alone.
	Policies *apprights.Policies
	// Outbound decides which Git servers are connected to when users name them;
	// nil allows all.
	Outbound *outbound.Policy
	// DeploymentRetention is how long deployments are kept; 0 means forever.
	DeploymentRetention time.Duration
	// RecordTraffic stores the counts of an edge; nil where that is not
	// available.
	RecordTraffic func(ctx context.Context, runtimeID string, given *platformv1.ReportTrafficRequest) error
	// Version is the platform's version. Runtimes with an older release are
	// offered an update.
	Version string
	Metrics *Metrics
}

// Fleet implements the four services. It is safe for concurrent use.
type Fleet struct {
	options Options
	store   *store.Store
	signer  *signing.Signer
	log     *slog.Logger
	now     func() time.Time
	metrics *Metrics

	watchers  watchLimiter
	reporters reporters
}

// New returns a Fleet with defaults for optional settings.
func New(options Options) (*Fleet, error) {
	if options.Store == nil || options.Signer == nil {
		return nil, errors.New("the fleet needs a store and a signer")
	}
	// Zero values select defaults, so that tests can shorten the intervals.
	if options.TunnelURLs == nil {
		options.TunnelURLs = func() []string { return nil }
	}
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Metrics == nil {
		options.Metrics = NewMetrics(nil)
	}
	return &Fleet{
		options: options, store: options.Store, signer: options.Signer,
		log: options.Log, now: options.Now, metrics: options.Metrics,
	}, nil
}

// Handlers returns the services by path. The options must authenticate and
// authorize: the services rely on the caller in the context.
func (f *Fleet) Handlers(options ...connect.HandlerOption) map[string]http.Handler {
	handlers := map[string]http.Handler{}
	add := func(path string, handler http.Handler) { handlers[path] = handler }
	add(platformv1connect.NewRuntimeServiceHandler(runtimeService{f}, options...))
	add(platformv1connect.NewGitServiceHandler(gitService{f}, options...))
	add(platformv1connect.NewApplicationServiceHandler(applicationService{f}, options...))
	add(platformv1connect.NewAgentServiceHandler(agentService{f}, options...))
	return handlers
}

// online reports whether the last heartbeat of a runtime is recent.
func (f *Fleet) online(runtime store.Runtime) bool {
	return runtime.Online(f.now())
}

// account returns the account of the calling user.
func account(ctx context.Context) (string, error) {
	caller, ok := identity.CallerFrom(ctx)
	if !ok || caller.Runtime != nil || caller.Account.ID == "" {
		return "", connect.NewError(connect.CodeUnauthenticated, errors.New("sign in first"))
	}
	return caller.Account.ID, nil
}

// agent returns the calling runtime.
func agent(ctx context.Context) (signing.RuntimeIdentity, error) {
	caller, ok := identity.CallerFrom(ctx)
	if !ok || caller.Runtime == nil {
		return signing.RuntimeIdentity{}, connect.NewError(connect.CodeUnauthenticated, errors.New("this procedure needs the access token of a runtime"))
	}
	return *caller.Runtime, nil
}

// apiError converts an error to one of the API. Internal details are logged
// and not returned.
func (f *Fleet) apiError(err error) error {
	// The order matters: errors that already have a code keep it, and store
	// errors are translated before the generic ones.
	var coded *connect.Error
	var conflict *store.ConflictError
	var wrong *refusal.Refusal
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded):
		return coded
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, context.Canceled)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
	case errors.As(err, &conflict):
		return connect.NewError(connect.CodeAlreadyExists, conflict)
	case errors.As(err, &wrong):
		return connect.NewError(connect.CodeInvalidArgument, wrong)
	case errors.Is(err, store.ErrNotFound):
		return connect.NewError(connect.CodeNotFound, errors.New("it does not exist"))
	case errors.Is(err, store.ErrUnavailable):
		f.log.Error("database unavailable", observe.KeyError, err)
		return connect.NewError(connect.CodeUnavailable, errors.New("the platform's database is unavailable: retry later"))
	}
	f.log.Error("request failed", observe.KeyError, err)
	return connect.NewError(connect.CodeInternal, errors.New("internal error of the platform; its log has the details"))
}

// invalid returns an InvalidArgument error.
func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// failedPrecondition returns a FailedPrecondition error: the request is
// valid, but not in the current state.
func failedPrecondition(format string, args ...any) error {
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf(format, args...))
}

// named returns a runtime of an account by name.
func (f *Fleet) named(ctx context.Context, accountID, name string) (store.Runtime, error) {
	if name == "" {
		return store.Runtime{}, invalid("name a runtime")
	}
	// Names of other accounts are not found either, which does not reveal
	// whether they exist.
	runtime, err := f.store.RuntimeByName(ctx, accountID, name)
	if errors.Is(err, store.ErrNotFound) {
		return runtime, connect.NewError(connect.CodeNotFound, fmt.Errorf("the account has no runtime %q", name))
	}
	return runtime, err
}

// allRuntimes reads every runtime of an account. maxRuntimes bounds their
// number.
func (f *Fleet) allRuntimes(ctx context.Context, accountID string) ([]store.Runtime, error) {
	var all []store.Runtime
	page := store.Page{Size: store.MaxPageSize}
	for {
		sendChanged, next, err := f.store.Runtimes(ctx, accountID, page)
		if err != nil {
			return nil, err
		}
		all = append(all, sendChanged...)
		if next == "" {
			return all, nil
		}
		page.Token = next
	}
}
