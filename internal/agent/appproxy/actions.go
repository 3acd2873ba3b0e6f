package appproxy

import (
	"context"
	"fmt"
	"time"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/action"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// maxActionTries is how often an action is tried while controllers change its
// object.
const maxActionTries = 5

// ListActions returns the actions that an object has now, with what the user may
// run.
func (s *Service) ListActions(ctx context.Context, request *connect.Request[runtimev1.ListActionsRequest]) (*connect.Response[runtimev1.ListActionsResponse], error) {
	app, live, can, err := s.actionObject(ctx, request.Msg.GetRef(), request.Msg.GetObject())
	if err != nil {
		return nil, err
	}
	found, err := s.actions().Discover(ctx, live, time.Now())
	if err != nil {
		return nil, connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("the actions cannot be listed: %w", err))
	}
	response := &runtimev1.ListActionsResponse{}
	for _, one := range found {
		response.Actions = append(response.Actions, &runtimev1.ResourceAction{
			Name: one.Name, DisplayName: one.DisplayName, Disabled: one.Disabled, Parameters: one.Parameters,
			Allowed: can.decideAction(app, live.GroupVersionKind().GroupKind(), one.Name).Allowed,
		})
	}
	return connect.NewResponse(response), nil
}

// RunAction runs an action of an object. The script only computes: every object
// that it changes or creates passes the gate of the project, and all are written
// as a dry run first, with the rights of a sync.
func (s *Service) RunAction(ctx context.Context, request *connect.Request[runtimev1.RunActionRequest]) (*connect.Response[runtimev1.RunActionResponse], error) {
	app, live, can, err := s.actionObject(ctx, request.Msg.GetRef(), request.Msg.GetObject())
	if err != nil {
		return nil, err
	}
	name, kind := request.Msg.GetAction(), live.GroupVersionKind().GroupKind()
	decision := can.decideAction(app, kind, name)
	if err := refusalOf(app, fmt.Sprintf("action/%s/%s/%s", kind.Group, kind.Kind, name), decision); err != nil {
		return nil, err
	}
	changes, err := s.runAction(ctx, app, live, request.Msg)
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	response := &runtimev1.RunActionResponse{}
	for _, change := range changes {
		response.Objects = append(response.Objects, objectRef(tracking.KeyOf(change.Object), change.Object.GroupVersionKind().Version, ""))
	}
	s.log.Info("ran action", "application", app.ID().String(), "action", name, "object", tracking.KeyOf(live).String(), "by", requestedBy(ctx))
	return connect.NewResponse(response), nil
}

// runAction computes and writes the changes of an action. An object that has
// changed since it was read, such as in its status, is read again.
func (s *Service) runAction(ctx context.Context, app *inspect.Application, live *unstructured.Unstructured, request *runtimev1.RunActionRequest) ([]action.Change, error) {
	for try := 1; ; try++ {
		changes, err := s.actions().Plan(ctx, live, request.GetAction(), request.GetParameters(), time.Now())
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("the action %s failed: %w", request.GetAction(), err))
		}
		begun, err := s.writeChanges(ctx, app, live, changes)
		if err == nil {
			return changes, nil
		}
		// What is created once must not be created again.
		if begun || try == maxActionTries || !apierrors.IsConflict(err) {
			return nil, err
		}
		if live, err = s.liveObject(ctx, app, request.GetObject()); err != nil {
			return nil, err
		}
	}
}

// actions returns the actions of this runtime.
func (s *Service) actions() *action.Set {
	set := &action.Set{Runner: s.options.Renderer, Settings: &customization.Settings{}}
	if s.options.Settings != nil {
		set.Settings = s.options.Settings()
	}
	return set
}

// actionObject returns the object of a request about actions, which its user may
// read. What the user may run depends on the action.
func (s *Service) actionObject(ctx context.Context, ref *runtimev1.ApplicationRef, object *runtimev1.ObjectRef) (*inspect.Application, *unstructured.Unstructured, access, error) {
	app, err := s.application(context.WithValue(ctx, verbKey{}, permission.Get), ref)
	if err != nil {
		return nil, nil, access{}, err
	}
	can, err := s.accessOf(ctx)
	if err != nil {
		return nil, nil, access{}, err
	}
	live, err := s.liveObject(ctx, app, object)
	return app, live, can, err
}

// liveObject reads an object of an Application, which has to exist.
func (s *Service) liveObject(ctx context.Context, app *inspect.Application, object *runtimev1.ObjectRef) (*unstructured.Unstructured, error) {
	live, err := s.object(ctx, app, object)
	if err == nil && live == nil {
		err = connect.NewError(connect.CodeNotFound, fmt.Errorf("%s has no %s in the cluster", app.ID(), keyOf(object)))
	}
	return live, err
}

// writeChanges writes the changes of an action: all as a dry run first, so that
// one that is refused leaves nothing half done. It returns whether one of several
// was written before an error.
func (s *Service) writeChanges(ctx context.Context, app *inspect.Application, live *unstructured.Unstructured, changes []action.Change) (begun bool, err error) {
	at, err := s.target(app)
	if err != nil {
		return false, err
	}
	limits, err := s.limitsOf(ctx, app, at)
	if err != nil {
		return false, err
	}
	for _, change := range changes {
		if refused := limits.gate.Allows(tracking.KeyOf(change.Object), change.Object, app.Namespace); refused != nil {
			return false, *refused
		}
	}
	for _, dryRun := range []bool{true, false} {
		for i, change := range changes {
			if err := writeChange(ctx, limits.applier, live, change, apply.Options{DryRun: dryRun}); err != nil {
				return !dryRun && i > 0, err
			}
		}
	}
	return false, nil
}

// writeChange writes one change.
func writeChange(ctx context.Context, applier *apply.Applier, live *unstructured.Unstructured, change action.Change, options apply.Options) error {
	if !change.Create {
		return applier.Patch(ctx, live, change.Object, options)
	}
	step := &plan.Step{StepID: plan.StepID{Key: tracking.KeyOf(change.Object)}, Action: plan.CreateOnly, Object: change.Object}
	_, err := applier.Apply(ctx, step, options)
	return err
}
