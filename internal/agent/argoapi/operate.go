package argoapi

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire/argocd"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// sync requests a sync and returns the Application with the operation.
func (s *Service) sync(ctx context.Context, in argocd.Request) (any, error) {
	request, err := syncOf(in)
	if err != nil {
		return nil, err
	}
	// The project of the request is checked before anything changes.
	if _, err := s.application(ctx, in); err != nil {
		return nil, err
	}
	if _, err := s.Applications.Sync(ctx, connect.NewRequest(request)); err != nil {
		return nil, err
	}
	return s.application(ctx, in)
}

// syncOf converts a request. Parts that would be lost are refused: a sync that
// does something else than what was requested is worse than none. Infos are for
// people, and have no effect.
func syncOf(in argocd.Request) (*runtimev1.SyncRequest, error) {
	switch {
	case in.Has("manifests"):
		return nil, notServed("a sync of local manifests is not served: push them to the repository")
	case in.Has("revisions"):
		return nil, notServed("a sync of single sources is not served: change their targetRevision in the Application")
	case in.Has("retryStrategy"):
		return nil, notServed("the retries of a sync are those of the Application: set spec.syncPolicy.retry there")
	}
	request := &runtimev1.SyncRequest{
		Ref: refOf(in), Revision: in.Text("revision"), Prune: in.Flag("prune"), DryRun: in.Flag("dryRun"), SyncOptions: in.Child("syncOptions").Texts("items"),
	}
	if strategy := in.Child("strategy"); strategy.Has("apply") {
		request.Strategy, request.Force = "apply", strategy.Child("apply").Flag("force")
	} else if strategy.Has("hook") {
		request.Strategy, request.Force = "hook", strategy.Child("hook").Child("syncStrategyApply").Flag("force")
	}
	for _, object := range in.Children("resources") {
		request.Resources = append(request.Resources, &runtimev1.ObjectRef{
			Group: object.Text("group"), Kind: object.Text("kind"), Namespace: object.Text("namespace"), Name: object.Text("name"),
		})
	}
	return request, nil
}

// rollback requests a sync to a past revision and returns the Application.
func (s *Service) rollback(ctx context.Context, in argocd.Request) (any, error) {
	if _, err := s.application(ctx, in); err != nil {
		return nil, err
	}
	// The id 0 is the first sync.
	request := &runtimev1.RollbackRequest{Ref: refOf(in), HistoryId: in.Number("id"), Exact: true, Prune: in.Flag("prune"), DryRun: in.Flag("dryRun")}
	if _, err := s.Applications.Rollback(ctx, connect.NewRequest(request)); err != nil {
		return nil, err
	}
	return s.application(ctx, in)
}

// terminate ends the running operation.
func (s *Service) terminate(ctx context.Context, in argocd.Request) (any, error) {
	if _, err := s.application(ctx, in); err != nil {
		return nil, err
	}
	_, err := s.Applications.Terminate(ctx, connect.NewRequest(&runtimev1.TerminateRequest{Ref: refOf(in)}))
	return map[string]any{}, err
}

// delete deletes an Application, with its objects unless the request excludes
// them.
func (s *Service) delete(ctx context.Context, in argocd.Request) (any, error) {
	if policy := in.Text("propagationPolicy"); policy != "" && policy != "foreground" {
		return nil, notServed("the propagation policy %s is not served: objects are deleted in the foreground", policy)
	}
	if _, err := s.application(ctx, in); err != nil {
		return nil, err
	}
	request := &runtimev1.DeleteApplicationRequest{Ref: refOf(in), Cascade: !in.Has("cascade") || in.Flag("cascade")}
	_, err := s.Applications.DeleteApplication(ctx, connect.NewRequest(request))
	return map[string]any{}, err
}

// objectOf returns the object that a request names.
func objectOf(in argocd.Request) *runtimev1.ObjectRef {
	return &runtimev1.ObjectRef{
		Group: in.Text("group"), Version: in.Text("version"), Kind: in.Text("kind"), Namespace: in.Text("namespace"), Name: in.Text("resourceName"),
	}
}

// actions returns the actions of an object that the user may run.
func (s *Service) actions(ctx context.Context, in argocd.Request) (any, error) {
	if _, err := s.application(ctx, in); err != nil {
		return nil, err
	}
	found, err := s.Applications.ListActions(ctx, connect.NewRequest(&runtimev1.ListActionsRequest{Ref: refOf(in), Object: objectOf(in)}))
	if err != nil {
		return nil, err
	}
	actions := []any{}
	for _, one := range found.Msg.GetActions() {
		parameters := []any{}
		for _, name := range one.GetParameters() {
			parameters = append(parameters, map[string]any{"name": name})
		}
		actions = append(actions, map[string]any{
			"name": one.GetName(), "displayName": one.GetDisplayName(), "disabled": one.GetDisabled() || !one.GetAllowed(), "params": parameters,
		})
	}
	return map[string]any{"actions": actions}, nil
}

// runAction runs an action of an object.
func (s *Service) runAction(ctx context.Context, in argocd.Request) (any, error) {
	request := &runtimev1.RunActionRequest{Ref: refOf(in), Object: objectOf(in), Action: in.Text("action"), Parameters: map[string]string{}}
	for _, one := range in.Children("resourceActionParameters") {
		request.Parameters[one.Text("name")] = one.Text("value")
	}
	if request.Action == "" {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the request names no action"))
	}
	_, err := s.Applications.RunAction(ctx, connect.NewRequest(request))
	return map[string]any{}, err
}
