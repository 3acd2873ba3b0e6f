package fleet

import (
	"context"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// maxPromoted bounds the applications of a product in one runtime.
const maxPromoted = 200

// ReadApplications returns the applications of a product in another runtime. All of them
// have to be allowed to the calling runtime: with a part of them a promotion would end
// while the others still have the version before.
func (a agentService) ReadApplications(ctx context.Context, request *connect.Request[platformv1.ReadApplicationsRequest]) (*connect.Response[platformv1.ReadApplicationsResponse], error) {
	who, err := agent(ctx)
	if err != nil {
		return nil, err
	}
	response, err := a.readApplications(ctx, who.AccountID, who.Name, request.Msg)
	if err != nil {
		return nil, a.apiError(err)
	}
	return connect.NewResponse(response), nil
}

// readApplications is ReadApplications for a runtime of an account.
func (f *Fleet) readApplications(ctx context.Context, accountID, reader string, given *platformv1.ReadApplicationsRequest) (*platformv1.ReadApplicationsResponse, error) {
	if given.GetProduct() == "" {
		return nil, invalid("name a product")
	}
	runtime, err := f.named(ctx, accountID, given.GetRuntime())
	if err != nil {
		return nil, err
	}
	filter := store.ApplicationFilter{RuntimeID: runtime.ID, Labels: map[string]string{wire.ProductLabel: given.GetProduct()}}
	found, _, next, err := f.store.Applications(ctx, accountID, filter, store.Page{Size: maxPromoted})
	if err != nil {
		return nil, err
	}
	if next != "" {
		return nil, failedPrecondition("the runtime %s has more than %d Applications with the label %s: %s; promotions need fewer", runtime.Name, maxPromoted, wire.ProductLabel, given.GetProduct())
	}
	status, err := f.reporters.get(ctx, f, runtime.ID)
	if err != nil {
		return nil, err
	}
	response := &platformv1.ReadApplicationsResponse{Stale: status.stale}
	for _, one := range found {
		message := &platformv1.Application{}
		if err := proto.Unmarshal(one.State, message); err != nil {
			return nil, err
		}
		if !status.policy.MayRead(reader, message) {
			// The names of projects and Applications are not for those who may not read them.
			return nil, connect.NewError(connect.CodePermissionDenied, fmt.Errorf(
				"the runtime %s may not read the Applications of the runtime %s: add a rule to the policy of that runtime or of the platform, with their project: p, %s, applications, get, PROJECT/*, allow",
				reader, runtime.Name, rights.RuntimeSubject(reader)))
		}
		response.Applications = append(response.Applications, message)
	}
	return response, nil
}
