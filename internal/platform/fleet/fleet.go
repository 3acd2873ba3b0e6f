// Package fleet is the runtimes of the platform's accounts: registering them, their
// credentials and heartbeats, what they report of their applications, and the Git
// settings that they share. It serves RuntimeService, GitService, ApplicationService
// and AgentService.
//
// It promises that a name is one runtime's, that a runtime is online only as long
// as its heartbeats come, that a report is answered when it is stored and is stored
// once, and that a watch sends everything first and then what changes, also of
// other replicas. It refuses to rename a runtime, to delete one that is online, and
// to change Git settings that a runtime uses.
//
// Who may call what is not decided here: the options of its handlers do
// (internal/platform/identity).
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	// DefaultOffline is how old a heartbeat may be of a runtime that is online.
	DefaultOffline = 45 * time.Second
	// DefaultHeartbeat is how often agents are asked to give a sign of life.
	DefaultHeartbeat = 15 * time.Second
	// MaxMessage bounds a message to these services; a report is the largest.
	MaxMessage = 4 << 20
)

// Options is what a Fleet works with.
type Options struct {
	Store  *store.Store
	Signer *signing.Signer
	// TunnelDomain is the domain of tunnels' host names; empty when there is none.
	TunnelDomain string
	// TunnelURLs are where agents open tunnels.
	TunnelURLs func() []string
	// Offline and Heartbeat are the defaults when zero.
	Offline, Heartbeat time.Duration
	// Stopping ends all watches; nil never does.
	Stopping <-chan struct{}
	Log      *slog.Logger
	Now      func() time.Time
	// Values checks values of a runtime's chart by themselves; nil where nobody can.
	Values ValuesCheck
	// Version is the platform's: runtimes with an older one are told of it.
	Version string
	Metrics *Metrics
}

// Fleet is the four services. It is safe for concurrent use.
type Fleet struct {
	options Options
	store   *store.Store
	signer  *signing.Signer
	log     *slog.Logger
	now     func() time.Time
	metrics *Metrics

	watchers  watcherCount
	reporters reporters
}

// New makes a Fleet.
func New(options Options) (*Fleet, error) {
	if options.Store == nil || options.Signer == nil {
		return nil, errors.New("the fleet needs a store and a signer")
	}
	if options.Offline == 0 {
		options.Offline = DefaultOffline
	}
	if options.Heartbeat == 0 {
		options.Heartbeat = DefaultHeartbeat
	}
	if options.TunnelURLs == nil {
		options.TunnelURLs = func() []string { return nil }
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Metrics == nil {
		options.Metrics = newMetrics()
	}
	return &Fleet{
		options: options, store: options.Store, signer: options.Signer,
		log: options.Log, now: options.Now, metrics: options.Metrics,
	}, nil
}

// Handlers gives the services by their paths. The options have to authenticate and
// authorise: nothing here does.
func (f *Fleet) Handlers(options ...connect.HandlerOption) map[string]http.Handler {
	handlers := map[string]http.Handler{}
	add := func(path string, handler http.Handler) { handlers[path] = handler }
	add(platformv1connect.NewRuntimeServiceHandler(runtimeService{f}, options...))
	add(platformv1connect.NewGitServiceHandler(gitService{f}, options...))
	add(platformv1connect.NewApplicationServiceHandler(applicationService{f}, options...))
	add(platformv1connect.NewAgentServiceHandler(agentService{f}, options...))
	return handlers
}

// online says whether a heartbeat is young enough.
func (f *Fleet) online(runtime store.Runtime) bool {
	return !runtime.HeartbeatAt.IsZero() && f.now().Sub(runtime.HeartbeatAt) < f.options.Offline
}

// account is the account of the user who asks.
func account(ctx context.Context) (string, error) {
	caller, ok := identity.CallerFrom(ctx)
	if !ok || caller.Runtime != nil || caller.Account.ID == "" {
		return "", connect.NewError(connect.CodeUnauthenticated, errors.New("sign in first"))
	}
	return caller.Account.ID, nil
}

// agent is the runtime that asks.
func agent(ctx context.Context) (signing.RuntimeIdentity, error) {
	caller, ok := identity.CallerFrom(ctx)
	if !ok || caller.Runtime == nil {
		return signing.RuntimeIdentity{}, connect.NewError(connect.CodeUnauthenticated, errors.New("only a runtime may ask that, with its access token"))
	}
	return *caller.Runtime, nil
}

// answer turns an error into one of the API. What is not meant for callers is
// logged and not shown.
func (f *Fleet) answer(err error) error {
	var coded *connect.Error
	var conflict *store.ConflictError
	var wrong *store.InvalidError
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
		f.log.Error("the database is not available", observe.KeyError, err)
		return connect.NewError(connect.CodeUnavailable, errors.New("the platform's database is not available: try again soon"))
	}
	f.log.Error("a request failed", observe.KeyError, err)
	return connect.NewError(connect.CodeInternal, errors.New("the platform failed; its log says why"))
}

func invalid(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

func refused(format string, args ...any) error {
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf(format, args...))
}

// named finds a runtime of an account.
func (f *Fleet) named(ctx context.Context, accountID, name string) (store.Runtime, error) {
	if name == "" {
		return store.Runtime{}, invalid("name a runtime")
	}
	runtime, err := f.store.RuntimeByName(ctx, accountID, name)
	if errors.Is(err, store.ErrNotFound) {
		return runtime, connect.NewError(connect.CodeNotFound, fmt.Errorf("the account has no runtime %q", name))
	}
	return runtime, err
}

// all reads every runtime of an account.
func (f *Fleet) all(ctx context.Context, accountID string) ([]store.Runtime, error) {
	var all []store.Runtime
	page := store.Page{Size: store.MaxPageSize}
	for {
		some, next, err := f.store.Runtimes(ctx, accountID, page)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if next == "" {
			return all, nil
		}
		page.Token = next
	}
}
