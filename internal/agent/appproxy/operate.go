package appproxy

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/revert"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// Limits of the objects and options that a sync names. They bound the size of
// the operation, which becomes part of the Application.
const (
	maxResources = 1000
	maxOptions   = 50
)

// Sync requests a sync on behalf of the user. The agent's reconcile loop
// executes it; the returned id finds it in the status. It returns before the
// sync starts.
func (s *Service) Sync(ctx context.Context, request *connect.Request[runtimev1.SyncRequest]) (*connect.Response[runtimev1.SyncResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	operation, err := operationOf(request.Msg, app)
	if err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	if err := s.requireOverride(ctx, app, operation.Revision); err != nil {
		return nil, err
	}
	_, mark, err := s.inspector.Sync(ctx, app, operation, requestedBy(ctx))
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	return connect.NewResponse(&runtimev1.SyncResponse{RequestedAt: timestamppb.Now(), RequestId: mark.Value}), nil
}

// requireOverride checks the right to sync another revision than the one of the
// spec.
func (s *Service) requireOverride(ctx context.Context, app *inspect.Application, revision string) error {
	if revision == "" || app.Spec.Source != nil && revision == app.Spec.Source.TargetRevision {
		return nil
	}
	can, err := s.accessOf(ctx)
	if err != nil {
		return err
	}
	return can.require(app, permission.Override)
}

// operationOf converts a request to an operation. Unlike in a stored
// Application, unknown sync options are refused: the user is there to correct
// them.
func operationOf(request *runtimev1.SyncRequest, app *inspect.Application) (*v1alpha1.SyncOperation, error) {
	if len(request.GetResources()) > maxResources || len(request.GetSyncOptions()) > maxOptions {
		return nil, fmt.Errorf("a sync names at most %d objects and %d options: leave resources empty to sync everything", maxResources, maxOptions)
	}
	sync := &v1alpha1.SyncOperation{
		Revision: request.GetRevision(), Prune: request.GetPrune(), DryRun: request.GetDryRun(), SyncOptions: request.GetSyncOptions(),
	}
	// Force belongs to either strategy, as in Argo CD.
	force := &v1alpha1.SyncStrategyForce{Force: request.GetForce()}
	switch request.GetStrategy() {
	case "", "hook":
		sync.SyncStrategy = &v1alpha1.SyncStrategy{Hook: force}
	case "apply":
		sync.SyncStrategy = &v1alpha1.SyncStrategy{Apply: force}
	default:
		return nil, fmt.Errorf("the strategy %q is neither hook nor apply", request.GetStrategy())
	}
	// Flags of the API are sync options of the operation.
	if request.GetReplace() {
		sync.SyncOptions = append(sync.SyncOptions, "Replace=true")
	}
	if request.GetApplyOutOfSyncOnly() {
		sync.SyncOptions = append(sync.SyncOptions, "ApplyOutOfSyncOnly=true")
	}
	if _, refused := v1alpha1.ParseSyncOptions(sync.SyncOptions, "sync_options"); len(refused) > 0 {
		return nil, errors.New(refusal.Summary(refused))
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

// Rollback requests a sync to a past revision. Without an id it is the sync
// before the last one.
func (s *Service) Rollback(ctx context.Context, request *connect.Request[runtimev1.RollbackRequest]) (*connect.Response[runtimev1.RollbackResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	id := request.Msg.GetHistoryId()
	// Exact allows the id 0, which is the first sync.
	if id == 0 && !request.Msg.GetExact() {
		if id, err = inspect.SyncBefore(app); err != nil {
			return nil, s.toConnectError(err, app.ID())
		}
	}
	sync, err := inspect.RollbackTo(app, id)
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	sync.Prune, sync.DryRun = request.Msg.GetPrune(), request.Msg.GetDryRun()
	_, mark, err := s.inspector.Sync(ctx, app, sync, requestedBy(ctx))
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	return connect.NewResponse(&runtimev1.RollbackResponse{HistoryId: id, Revision: sync.Revision, RequestId: mark.Value}), nil
}

// Revert writes the files of a past sync to Git, with the credentials of the
// project and in the name of the user. The right is that of a rollback, which does
// the same to the cluster.
func (s *Service) Revert(ctx context.Context, request *connect.Request[runtimev1.RevertRequest]) (*connect.Response[runtimev1.RevertResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	if s.options.Sources == nil {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("this replica reads no repositories"))
	}
	past, err := inspect.RollbackTo(app, request.Msg.GetHistoryId())
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	at, err := s.target(app)
	if err != nil {
		return nil, err
	}
	limits, err := s.limitsOf(ctx, app, at)
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	written, err := revert.Write(ctx, revert.Request{
		Sources: s.options.Sources, Project: limits.project, App: app.Application, Past: past, PullRequest: request.Msg.GetPullRequest(), User: requestedBy(ctx),
	})
	// What was written is logged also if a later repository failed.
	response := &runtimev1.RevertResponse{}
	for _, one := range written {
		s.log.Info("reverted Application in Git", "application", app.ID().String(), "repository", one.RepoURL, "branch", one.Branch, "commit", one.Commit, "pull_request", one.PullRequest, "by", requestedBy(ctx))
		response.Repositories = append(response.Repositories, &runtimev1.RevertedRepository{
			Url: one.RepoURL, Branch: one.Branch, Commit: one.Commit, PullRequest: one.PullRequest,
		})
	}
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	// A commit is compared at once, without waiting for its event.
	if !request.Msg.GetPullRequest() {
		if _, err := s.inspector.Refresh(ctx, app, false); err != nil {
			s.log.Warn("cannot request a comparison", "application", app.ID().String(), "error", err)
		}
	}
	return connect.NewResponse(response), nil
}

// Terminate ends the running operation. The reconcile loop stops at the next
// step; objects that are applied stay.
func (s *Service) Terminate(ctx context.Context, request *connect.Request[runtimev1.TerminateRequest]) (*connect.Response[runtimev1.TerminateResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	if _, err := s.inspector.Terminate(ctx, app); err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	return connect.NewResponse(&runtimev1.TerminateResponse{}), nil
}

// Refresh requests a comparison with Git now. A hard refresh also drops cached
// manifests.
func (s *Service) Refresh(ctx context.Context, request *connect.Request[runtimev1.RefreshRequest]) (*connect.Response[runtimev1.RefreshResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	if _, err := s.inspector.Refresh(ctx, app, request.Msg.GetHard()); err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	return connect.NewResponse(&runtimev1.RefreshResponse{}), nil
}

// DeleteApplication deletes an Application, with its objects if cascade is set.
func (s *Service) DeleteApplication(ctx context.Context, request *connect.Request[runtimev1.DeleteApplicationRequest]) (*connect.Response[runtimev1.DeleteApplicationResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	if err := s.inspector.Delete(ctx, app, request.Msg.GetCascade()); err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	s.log.Info("deleted Application", "application", app.ID().String(), "cascade", request.Msg.GetCascade(), "by", requestedBy(ctx))
	return connect.NewResponse(&runtimev1.DeleteApplicationResponse{}), nil
}
