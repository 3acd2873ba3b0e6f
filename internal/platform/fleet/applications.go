package fleet

import (
	"context"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	// mostLabels bounds the labels that a list is filtered by.
	mostLabels = 20
	// longestQuery bounds the part of a name that a list is filtered by.
	longestQuery = 253
)

// applicationService is ApplicationService.
type applicationService struct{ *Fleet }

// ListApplications lists what the runtimes reported.
func (a applicationService) ListApplications(ctx context.Context, request *connect.Request[platformv1.ListApplicationsRequest]) (*connect.Response[platformv1.ListApplicationsResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	given := request.Msg
	filter, err := a.filter(ctx, accountID, given)
	if err != nil {
		return nil, a.answer(err)
	}
	page := store.Page{Size: int(given.GetPageSize()), Token: given.GetPageToken()}
	applications, total, next, err := a.store.Applications(ctx, accountID, filter, page)
	if err != nil {
		return nil, a.answer(err)
	}
	answer := &platformv1.ListApplicationsResponse{NextPageToken: next, Total: int32(min(total, 1<<31-1))}
	ages := staleness{fleet: a.Fleet}
	for _, application := range applications {
		message, err := ages.message(ctx, application)
		if err != nil {
			return nil, a.answer(err)
		}
		answer.Applications = append(answer.Applications, message)
	}
	return connect.NewResponse(answer), nil
}

// filter reads what a list is about.
func (f *Fleet) filter(ctx context.Context, accountID string, given *platformv1.ListApplicationsRequest) (store.ApplicationFilter, error) {
	filter := store.ApplicationFilter{
		Namespace: given.GetNamespace(), Cluster: given.GetCluster(), Sync: given.GetSync(), Health: given.GetHealth(),
		Query: given.GetQuery(), Labels: map[string]string{},
	}
	if len(filter.Query) > longestQuery || len(given.GetLabels()) > mostLabels {
		return filter, invalid("a query has at most %d characters, and a list at most %d labels", longestQuery, mostLabels)
	}
	for _, label := range given.GetLabels() {
		key, value, found := strings.Cut(label, "=")
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

// staleness knows which runtimes' reports may be old, asking for each once.
type staleness struct {
	fleet *Fleet
	known map[string]reporter
}

// message is an application as callers see it.
func (s *staleness) message(ctx context.Context, application store.Application) (*platformv1.Application, error) {
	message := &platformv1.Application{}
	if err := proto.Unmarshal(application.State, message); err != nil {
		return nil, err
	}
	from, err := s.of(ctx, application.RuntimeID)
	if err != nil {
		return nil, err
	}
	message.Runtime, message.Stale = from.name, from.stale
	return message, nil
}

func (s *staleness) of(ctx context.Context, runtimeID string) (reporter, error) {
	if from, ok := s.known[runtimeID]; ok {
		return from, nil
	}
	from, err := s.fleet.reporters.get(ctx, s.fleet, runtimeID)
	if err != nil {
		return reporter{}, err
	}
	if s.known == nil {
		s.known = map[string]reporter{}
	}
	s.known[runtimeID] = from
	return from, nil
}
