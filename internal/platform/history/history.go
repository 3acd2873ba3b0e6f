// Package history serves what the platform keeps of the past, and deletes what
// is older than the retention: deployments, the figures that follow from them,
// and the traffic of edges.
//
//	history   the service and what callers may see
//	dora      the four figures; pure
//	rollup    counts of edges become sums of minutes and hours
//	traffic   these sums as points of a chart
//	cleaner   deletes expired rows, in one of the replicas
//
// It guarantees that callers see only what concerns Applications that they may
// get, also in sums, and that figures follow from stored rows alone, by the
// definitions in docs/history.md. Each request of an edge is counted once, also
// if a report is sent again. Deployments are stored by internal/platform/fleet,
// with the reports that they come from.
//
// Requests are bounded: in the rows that are read, the series and groups that
// are kept in memory, and the size of the response, which names what it leaves
// out. There is no cache and no state beside the database, so each replica
// returns the same.
//
// See decision 0083 in docs/decisions.
package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/platform/apprights"
	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

const (
	// MaxMessage bounds a request message of the service.
	MaxMessage = 64 << 10
	// maxPages bounds the pages that one request reads.
	maxPages = 20
)

// Retention is how long rows are kept; 0 means forever.
type Retention struct {
	Deployments time.Duration
	// Traffic is that of hours; minutes are kept for a day.
	Traffic time.Duration
}

// Options configures a History.
type Options struct {
	Store *store.Store
	// Policies decides which Applications callers see.
	Policies  *apprights.Policies
	Retention Retention
	// Replica identifies this process among the replicas.
	Replica string
	Log     *slog.Logger
	Metrics *Metrics
	Now     func() time.Time
}

// History implements HistoryService. It is safe for concurrent use: after New its
// fields do not change.
type History struct {
	options Options
	store   *store.Store
	log     *slog.Logger
	now     func() time.Time
}

// New returns a History with defaults for optional settings.
func New(options Options) (*History, error) {
	if options.Store == nil || options.Replica == "" {
		return nil, errors.New("the history needs a store and the name of the replica")
	}
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Metrics == nil {
		options.Metrics = NewMetrics(nil)
	}
	return &History{options: options, store: options.Store, log: options.Log, now: options.Now}, nil
}

// Handlers returns the service by path. The options must authenticate and
// authorize: the service relies on the caller in the context.
func (h *History) Handlers(options ...connect.HandlerOption) map[string]http.Handler {
	path, handler := platformv1connect.NewHistoryServiceHandler(h, options...)
	return map[string]http.Handler{path: handler}
}

// ListDeployments lists the deployments of Applications that the caller may
// get. Rights are decided in the process and not in the query: the rules of
// projects have patterns that SQL cannot express.
func (h *History) ListDeployments(ctx context.Context, request *connect.Request[platformv1.ListDeploymentsRequest]) (*connect.Response[platformv1.ListDeploymentsResponse], error) {
	shown, filter, err := h.query(ctx, request.Msg.GetFilter())
	if err != nil {
		return nil, h.apiError(err)
	}
	page := store.Page{Size: int(request.Msg.GetPageSize()), Token: request.Msg.GetPageToken()}
	for read := 1; ; read++ {
		deployments, next, err := h.store.Deployments(ctx, shown.caller.Account.ID, filter, page)
		if err != nil {
			return nil, h.apiError(err)
		}
		response := &platformv1.ListDeploymentsResponse{NextPageToken: next}
		for i := range deployments {
			runtime, ok, err := shown.runtimeOf(ctx, &deployments[i])
			if err != nil {
				return nil, h.apiError(err)
			}
			if ok {
				response.Deployments = append(response.Deployments, message(&deployments[i], runtime))
			}
		}
		// A page of rows that the caller may not see is not the end. After some of
		// them the client continues with the token: a user who sees little of a
		// long history must not keep one request busy with all of it.
		if len(response.Deployments) > 0 || next == "" || read == maxPages {
			return connect.NewResponse(response), nil
		}
		page.Token = next
	}
}

// GetDora computes the four figures from the stored rows of each request: sums
// that are stored would be wrong for callers who see only some Applications.
func (h *History) GetDora(ctx context.Context, request *connect.Request[platformv1.GetDoraRequest]) (*connect.Response[platformv1.GetDoraResponse], error) {
	shown, filter, err := h.query(ctx, request.Msg.GetFilter())
	if err != nil {
		return nil, h.apiError(err)
	}
	// A rate needs a span with two ends.
	if filter.Until.IsZero() {
		filter.Until = h.now()
	}
	if filter.Since.IsZero() {
		filter.Since = filter.Until.Add(-defaultSpan)
	}
	if span := filter.Until.Sub(filter.Since); span <= 0 || span > maxSpan {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the span must end after it begins, and have at most %d days", maxSpan/day))
	}
	deployments, more, err := h.store.NewestDeployments(ctx, shown.caller.Account.ID, filter)
	if err != nil {
		return nil, h.apiError(err)
	}
	// Rates must be of the span that the rows cover.
	if more {
		filter.Since = deployments[len(deployments)-1].FinishedAt
	}
	figures := newFigures(filter.Since, filter.Until, request.Msg.GetGroupBy())
	// The oldest first: a failure ends with a later deployment.
	for i := len(deployments) - 1; i >= 0; i-- {
		runtime, ok, err := shown.runtimeOf(ctx, &deployments[i])
		if err != nil {
			return nil, h.apiError(err)
		}
		if ok {
			figures.add(&deployments[i], runtime)
		}
	}
	response := figures.message()
	response.Truncated = more
	return connect.NewResponse(response), nil
}

// GetHistoryStatus returns how long rows are kept, and whether expired ones are
// deleted in time.
func (h *History) GetHistoryStatus(ctx context.Context, _ *connect.Request[platformv1.GetHistoryStatusRequest]) (*connect.Response[platformv1.GetHistoryStatusResponse], error) {
	task, err := h.store.Task(ctx, cleanTask)
	if err != nil {
		return nil, h.apiError(err)
	}
	response := &platformv1.GetHistoryStatusResponse{CleanedAt: wire.Timestamp(task.FinishedAt), Problem: task.Problem, Behind: h.behind(task)}
	if kept := h.options.Retention.Deployments; kept > 0 {
		response.DeploymentsKept = durationpb.New(kept)
	}
	if kept := h.options.Retention.Traffic; kept > 0 {
		response.TrafficKept = durationpb.New(kept)
	}
	return connect.NewResponse(response), nil
}

// query validates a filter and returns what the caller may see. A runtime has no
// history of its own to read: its token is refused like a missing one. The
// account is that of the caller, so a name of another account's runtime is not
// found.
func (h *History) query(ctx context.Context, given *platformv1.DeploymentFilter) (*visibility, store.DeploymentFilter, error) {
	caller, ok := identity.CallerFrom(ctx)
	if !ok || caller.Runtime != nil || caller.Account.ID == "" {
		return nil, store.DeploymentFilter{}, connect.NewError(connect.CodeUnauthenticated, errors.New("sign in first"))
	}
	filter := store.DeploymentFilter{
		Project: given.GetProject(), Namespace: given.GetNamespace(), Name: given.GetName(),
		Since: timeOf(given.GetSince()), Until: timeOf(given.GetUntil()),
	}
	if given.GetRuntime() != "" {
		runtime, err := h.store.RuntimeByName(ctx, caller.Account.ID, given.GetRuntime())
		if errors.Is(err, store.ErrNotFound) {
			return nil, filter, connect.NewError(connect.CodeNotFound, fmt.Errorf("the account has no runtime %q", given.GetRuntime()))
		}
		if err != nil {
			return nil, filter, err
		}
		filter.RuntimeID = runtime.ID
	}
	return &visibility{history: h, caller: caller, runtimes: map[string]runtimePolicy{}, decided: map[application]bool{}}, filter, nil
}

// visibility decides for one request what its caller sees. It reads each
// runtime once and decides about each Application once.
type visibility struct {
	history  *History
	caller   identity.Caller
	runtimes map[string]runtimePolicy
	decided  map[application]bool
}

type runtimePolicy struct {
	name   string
	policy *apprights.Policy
}

// application identifies an Application, with the project that it had: the
// rights follow the project at the time of the row, so that moving an
// Application does not disclose its past.
type application struct{ runtimeID, project, namespace, name string }

// runtimeOf returns the name of the runtime of a deployment, and whether the
// caller may get its Application.
func (v *visibility) runtimeOf(ctx context.Context, d *store.Deployment) (string, bool, error) {
	return v.sees(ctx, application{d.RuntimeID, d.Project, d.Namespace, d.Name})
}

// sees decides about an Application and returns the name of its runtime.
func (v *visibility) sees(ctx context.Context, of application) (string, bool, error) {
	from, known := v.runtimes[of.runtimeID]
	if !known {
		// Rows and runtime are read in two transactions.
		runtime, err := v.history.store.RuntimeByID(ctx, of.runtimeID)
		if errors.Is(err, store.ErrNotFound) {
			return "", false, nil // deleted since, with its rows
		}
		if err != nil {
			return "", false, err
		}
		from = runtimePolicy{runtime.Name, v.history.options.Policies.Of(runtime)}
		v.runtimes[of.runtimeID] = from
	}
	allowed, decided := v.decided[of]
	if !decided {
		allowed = from.policy.Decide(v.caller, permission.Get, &platformv1.Application{Project: of.project, Namespace: of.namespace, Name: of.name}).Allowed
		v.decided[of] = allowed
	}
	return from.name, allowed, nil
}

// message converts a deployment.
func message(d *store.Deployment, runtime string) *platformv1.Deployment {
	return &platformv1.Deployment{
		Id: d.ID, Runtime: runtime, Namespace: d.Namespace, Name: d.Name, Project: d.Project,
		Revision: d.Revision, PreviousRevision: d.PreviousRevision, CommittedAt: wire.Timestamp(d.CommittedAt),
		StartedAt: wire.Timestamp(d.StartedAt), FinishedAt: wire.Timestamp(d.FinishedAt), RolledBackAt: wire.Timestamp(d.RolledBackAt),
		Succeeded: d.Succeeded, Rollback: d.GoingBack, Automated: d.Automated, Initiator: d.Initiator, Message: d.Message,
	}
}

// timeOf converts a timestamp of a request; an absent or invalid one is no
// bound.
func timeOf(at *timestamppb.Timestamp) time.Time {
	if !at.IsValid() {
		return time.Time{}
	}
	return at.AsTime()
}

// apiError converts an error for clients.
func (h *History) apiError(err error) error {
	var coded *connect.Error
	var wrong *refusal.Refusal
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.Is(err, context.Canceled):
		return connect.NewError(connect.CodeCanceled, context.Canceled)
	case errors.Is(err, context.DeadlineExceeded):
		return connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
	case errors.As(err, &wrong):
		return connect.NewError(connect.CodeInvalidArgument, wrong)
	case errors.Is(err, store.ErrUnavailable):
		return connect.NewError(connect.CodeUnavailable, errors.New("the platform's database is unavailable: retry later"))
	}
	h.log.Error("request for the history failed", observe.KeyError, err)
	return connect.NewError(connect.CodeInternal, errors.New("internal error of the platform; its log has the details"))
}
