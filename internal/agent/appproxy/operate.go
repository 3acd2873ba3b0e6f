package appproxy

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// What a sync may name.
const (
	maxResources = 1000
	maxOptions   = 50
)

// Sync asks for a sync, in the name of who asks.
func (s *Service) Sync(ctx context.Context, request *connect.Request[runtimev1.SyncRequest]) (*connect.Response[runtimev1.SyncResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	operation, err := operationOf(request.Msg, app)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	_, mark, err := s.inspector.Sync(ctx, app, operation, askedBy(ctx))
	if err != nil {
		return nil, s.fault(err, app.ID())
	}
	return connect.NewResponse(&runtimev1.SyncResponse{RequestedAt: timestamppb.Now(), RequestId: mark.Value}), nil
}

// operationOf is what a request asks for.
func operationOf(request *runtimev1.SyncRequest, app *inspect.Application) (*v1alpha1.SyncOperation, error) {
	if len(request.GetResources()) > maxResources || len(request.GetSyncOptions()) > maxOptions {
		return nil, fmt.Errorf("a sync names at most %d objects and %d options: leave resources empty to sync everything", maxResources, maxOptions)
	}
	sync := &v1alpha1.SyncOperation{
		Revision: request.GetRevision(), Prune: request.GetPrune(), DryRun: request.GetDryRun(), SyncOptions: request.GetSyncOptions(),
	}
	force := &v1alpha1.SyncStrategyForce{Force: request.GetForce()}
	switch request.GetStrategy() {
	case "", "hook":
		sync.SyncStrategy = &v1alpha1.SyncStrategy{Hook: force}
	case "apply":
		sync.SyncStrategy = &v1alpha1.SyncStrategy{Apply: force}
	default:
		return nil, fmt.Errorf("the strategy %q is neither hook nor apply", request.GetStrategy())
	}
	if request.GetReplace() {
		sync.SyncOptions = append(sync.SyncOptions, "Replace=true")
	}
	if request.GetApplyOutOfSyncOnly() {
		sync.SyncOptions = append(sync.SyncOptions, "ApplyOutOfSyncOnly=true")
	}
	if _, refused := v1alpha1.ParseSyncOptions(sync.SyncOptions, "sync_options"); len(refused) > 0 {
		return nil, errors.New(v1alpha1.Summary(refused))
	}
	if request.GetRevision() != "" && len(app.Spec.Sources) > 0 {
		return nil, errors.New("the Application has several sources, and a revision is for one: change their targetRevision")
	}
	for _, object := range request.GetResources() {
		if object.GetKind() == "" || object.GetName() == "" {
			return nil, errors.New("an object of resources needs a kind and a name")
		}
		sync.Resources = append(sync.Resources, v1alpha1.SyncOperationResource{
			Group: object.GetGroup(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
		})
	}
	return sync, nil
}

// Rollback asks for a sync to a past one.
func (s *Service) Rollback(ctx context.Context, request *connect.Request[runtimev1.RollbackRequest]) (*connect.Response[runtimev1.RollbackResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	id := request.Msg.GetHistoryId()
	if id == 0 && !request.Msg.GetExact() {
		if id, err = inspect.SyncBefore(app); err != nil {
			return nil, s.fault(err, app.ID())
		}
	}
	sync, err := inspect.RollbackTo(app, id)
	if err != nil {
		return nil, s.fault(err, app.ID())
	}
	sync.Prune, sync.DryRun = request.Msg.GetPrune(), request.Msg.GetDryRun()
	_, mark, err := s.inspector.Sync(ctx, app, sync, askedBy(ctx))
	if err != nil {
		return nil, s.fault(err, app.ID())
	}
	return connect.NewResponse(&runtimev1.RollbackResponse{HistoryId: id, Revision: sync.Revision, RequestId: mark.Value}), nil
}

// Terminate ends the operation that runs.
func (s *Service) Terminate(ctx context.Context, request *connect.Request[runtimev1.TerminateRequest]) (*connect.Response[runtimev1.TerminateResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	if _, err := s.inspector.Terminate(ctx, app); err != nil {
		return nil, s.fault(err, app.ID())
	}
	return connect.NewResponse(&runtimev1.TerminateResponse{}), nil
}

// Refresh has an Application looked at anew.
func (s *Service) Refresh(ctx context.Context, request *connect.Request[runtimev1.RefreshRequest]) (*connect.Response[runtimev1.RefreshResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	if _, err := s.inspector.Refresh(ctx, app, request.Msg.GetHard()); err != nil {
		return nil, s.fault(err, app.ID())
	}
	return connect.NewResponse(&runtimev1.RefreshResponse{}), nil
}

// DeleteApplication deletes an Application; its resources too, if cascade.
func (s *Service) DeleteApplication(ctx context.Context, request *connect.Request[runtimev1.DeleteApplicationRequest]) (*connect.Response[runtimev1.DeleteApplicationResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	if err := s.inspector.Delete(ctx, app, request.Msg.GetCascade()); err != nil {
		return nil, s.fault(err, app.ID())
	}
	s.log.Info("an Application is deleted", "application", app.ID().String(), "cascade", request.Msg.GetCascade(), "by", askedBy(ctx))
	return connect.NewResponse(&runtimev1.DeleteApplicationResponse{}), nil
}
