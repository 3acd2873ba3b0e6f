package fleet

import (
	"context"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	// maxLabels bounds the labels of a list filter.
	maxLabels = 20
	// maxQuery bounds the name query of a list filter.
	maxQuery = 253
)

// applicationService implements ApplicationService.
type applicationService struct{ *Fleet }

// ListApplications lists the applications that runtimes reported and the caller
// may get. A page may have fewer than requested.
func (a applicationService) ListApplications(ctx context.Context, request *connect.Request[platformv1.ListApplicationsRequest]) (*connect.Response[platformv1.ListApplicationsResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	given := request.Msg
	filter, err := a.filter(ctx, accountID, given)
	if err != nil {
		return nil, a.apiError(err)
	}
	page := store.Page{Size: int(given.GetPageSize()), Token: given.GetPageToken()}
	shown := shownApplications{fleet: a.Fleet, caller: callerOf(ctx)}
	for {
		applications, total, next, err := a.store.Applications(ctx, accountID, filter, page)
		if err != nil {
			return nil, a.apiError(err)
		}
		response := &platformv1.ListApplicationsResponse{NextPageToken: next, Total: int32(min(total, 1<<31-1))}
		for _, application := range applications {
			message, err := shown.message(ctx, application)
			if err != nil {
				return nil, a.apiError(err)
			}
			if message != nil {
				response.Applications = append(response.Applications, message)
			}
		}
		// The total would disclose how many others there are.
		if len(response.Applications) < len(applications) || !permission.Get.Rule().Role(string(shown.caller.User.Role)) {
			response.Total = int32(len(response.Applications))
		}
		if len(response.Applications) > 0 || next == "" {
			return connect.NewResponse(response), nil
		}
		page.Token = next
	}
}

// callerOf returns the caller of a request.
func callerOf(ctx context.Context) identity.Caller {
	caller, _ := identity.CallerFrom(ctx)
	return caller
}

// filter validates and converts the filter of a list.
func (f *Fleet) filter(ctx context.Context, accountID string, given *platformv1.ListApplicationsRequest) (store.ApplicationFilter, error) {
	filter := store.ApplicationFilter{
		Namespace: given.GetNamespace(), Cluster: given.GetCluster(), Sync: given.GetSync(), Health: given.GetHealth(),
		Query: given.GetQuery(), Labels: map[string]string{},
	}
	if len(filter.Query) > maxQuery || len(given.GetLabels()) > maxLabels {
		return filter, invalid("a query has at most %d characters, and a list at most %d labels", maxQuery, maxLabels)
	}
	for _, label := range given.GetLabels() {
		key, value, found := strings.Cut(label, "=")
		// A label that is given twice with different values can never match.
		if before, twice := filter.Labels[key]; !found || key == "" || (twice && before != value) {
			return filter, invalid("write each label once, as key=value")
		}
		filter.Labels[key] = value
	}
	if given.GetRuntime() != "" {
		runtime, err := f.named(ctx, accountID, given.GetRuntime())
		if err != nil {
			return filter, err
		}
		filter.RuntimeID = runtime.ID
	}
	return filter, nil
}

// shownApplications converts applications for a caller. It resolves the status of
// runtimes for one list or update, each at most once, so that all rows of a
// runtime agree.
type shownApplications struct {
	fleet  *Fleet
	caller identity.Caller
	known  map[string]reporterStatus
}

// message converts an application to its API message; nil if the caller may not
// get it.
func (s *shownApplications) message(ctx context.Context, application store.Application) (*platformv1.Application, error) {
	message := &platformv1.Application{}
	if err := proto.Unmarshal(application.State, message); err != nil {
		return nil, err
	}
	from, err := s.of(ctx, application.RuntimeID)
	if err != nil {
		return nil, err
	}
	message.Runtime, message.Stale = from.name, from.stale
	if message.Rights = from.policy.Verbs(s.caller, message); len(message.Rights) == 0 {
		return nil, nil
	}
	return message, nil
}

// of returns the status of a runtime.
func (s *shownApplications) of(ctx context.Context, runtimeID string) (reporterStatus, error) {
	if from, ok := s.known[runtimeID]; ok {
		return from, nil
	}
	from, err := s.fleet.reporters.get(ctx, s.fleet, runtimeID)
	if err != nil {
		return reporterStatus{}, err
	}
	if s.known == nil {
		s.known = map[string]reporterStatus{}
	}
	s.known[runtimeID] = from
	return from, nil
}
