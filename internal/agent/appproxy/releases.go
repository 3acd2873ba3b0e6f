package appproxy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/progressive"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// ListReleases returns the Rollouts of an Application and the Releases of its
// Deployments, with what the user may request.
func (s *Service) ListReleases(ctx context.Context, request *connect.Request[runtimev1.ListReleasesRequest]) (*connect.Response[runtimev1.ListReleasesResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	can, err := s.accessOf(ctx)
	if err != nil {
		return nil, err
	}
	states, err := s.releases(ctx, app)
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	response := &runtimev1.ListReleasesResponse{}
	for _, state := range states {
		shown := releaseState(state)
		for _, name := range state.Actions() {
			shown.Actions = append(shown.Actions, &runtimev1.ReleaseAction{
				Name: string(name), Allowed: can.decideAction(app, groupKindOf(state), rightOf(state, name)).Allowed,
			})
		}
		response.Releases = append(response.Releases, shown)
	}
	return connect.NewResponse(response), nil
}

// releases reads the namespaces in which the Application has workloads, and keeps
// what is of these.
func (s *Service) releases(ctx context.Context, app *inspect.Application) ([]*progressive.State, error) {
	workloads, namespaces := progressive.Candidates(app.Status.Resources)
	if len(namespaces) == 0 {
		return nil, nil
	}
	reader, err := s.releaseReader(app)
	if err != nil {
		return nil, err
	}
	var found []*progressive.State
	for _, namespace := range namespaces {
		listed, err := s.listReleases(ctx, reader, namespace)
		if errors.Is(err, progressive.ErrNoKinds) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, one := range listed {
			if !workloads[one.ID] {
				continue
			}
			state, err := s.release(ctx, app, one.ID)
			// It may be deleted by now, or not be of this Application.
			if connect.CodeOf(err) == connect.CodeNotFound {
				continue
			}
			if err != nil {
				return nil, err
			}
			found = append(found, state)
		}
	}
	return found, nil
}

// listReleases lists a namespace with a slot for readers.
func (s *Service) listReleases(ctx context.Context, reader *progressive.Reader, namespace string) ([]*progressive.State, error) {
	leave, err := acquire(ctx, s.reading)
	if err != nil {
		return nil, err
	}
	defer leave()
	return reader.List(ctx, namespace)
}

// release reads a release whose workload is proved to be of the Application: a
// Rollout is the workload itself, a Release is owned by its Deployment.
func (s *Service) release(ctx context.Context, app *inspect.Application, id progressive.ID) (*progressive.State, error) {
	workload := &runtimev1.ObjectRef{Group: id.Kind.Resource().Group, Kind: string(id.Kind), Namespace: id.Namespace, Name: id.Name}
	if id.Kind == progressive.KindRelease {
		workload.Group, workload.Kind = progressive.Deployments.Group, progressive.Deployments.Kind
	}
	live, err := s.liveObject(ctx, app, workload)
	if err != nil {
		return nil, err
	}
	reader, err := s.releaseReader(app)
	if err != nil {
		return nil, err
	}
	state, err := reader.Get(ctx, id)
	var absent *progressive.NotFoundError
	if errors.Is(err, progressive.ErrNoKinds) || errors.As(err, &absent) {
		return nil, releaseNotFound(app, id)
	}
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	owns := func(owner metav1.OwnerReference) bool { return owner.UID == live.GetUID() }
	if state.Object.GetUID() != live.GetUID() && !slices.ContainsFunc(state.Object.GetOwnerReferences(), owns) {
		return nil, releaseNotFound(app, id)
	}
	return state, nil
}

func releaseNotFound(app *inspect.Application, id progressive.ID) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf("%s has no %s", app.ID(), id))
}

func (s *Service) releaseReader(app *inspect.Application) (*progressive.Reader, error) {
	at, err := s.target(app)
	if err != nil {
		return nil, err
	}
	return &progressive.Reader{Cluster: at.Cluster, Manager: fieldManager}, nil
}

// RequestAction requests an action of a release of an Application.
func (s *Service) RequestAction(ctx context.Context, request *connect.Request[runtimev1.RequestActionRequest]) (*connect.Response[runtimev1.RequestActionResponse], error) {
	// What the user may request depends on the action.
	app, err := s.application(context.WithValue(ctx, verbKey{}, permission.Get), request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	can, err := s.accessOf(ctx)
	if err != nil {
		return nil, err
	}
	action := progressive.Action(request.Msg.GetAction())
	if !slices.Contains(progressive.Actions(), action) {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%q is no action of a release", request.Msg.GetAction()))
	}
	object := request.Msg.GetObject()
	id := progressive.ID{Kind: progressive.Kind(object.GetKind()), Namespace: object.GetNamespace(), Name: object.GetName()}
	if !slices.Contains(progressive.Kinds(), id.Kind) || id.Kind.Resource().Group != object.GetGroup() {
		return nil, connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("%s is no release", keyOf(object)))
	}
	state, err := s.release(ctx, app, id)
	if err != nil {
		return nil, err
	}
	kind, right := groupKindOf(state), rightOf(state, action)
	if err := refusalOf(app, fmt.Sprintf("action/%s/%s/%s", kind.Group, kind.Kind, right), can.decideAction(app, kind, right)); err != nil {
		return nil, err
	}
	reader, err := s.releaseReader(app)
	if err != nil {
		return nil, err
	}
	if err := reader.Act(ctx, state, action); err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	s.log.Info("requested an action of a release", "application", app.ID().String(), "action", string(action), "object", id.String(), "by", requestedBy(ctx))
	return connect.NewResponse(&runtimev1.RequestActionResponse{}), nil
}

func groupKindOf(state *progressive.State) schema.GroupKind {
	return schema.GroupKind{Group: state.Kind.Resource().Group, Kind: string(state.Kind)}
}

// rightOf returns the name of an action in policies. Argo CD's action for a
// Rollout that goes on is resume, so that its policies count here.
func rightOf(state *progressive.State, action progressive.Action) string {
	if state.Kind == progressive.KindRollout && action == progressive.Promote {
		return string(progressive.Resume)
	}
	return string(action)
}

// releaseState converts a state, without the actions.
func releaseState(state *progressive.State) *runtimev1.ReleaseState {
	done, _ := state.Done()
	shown := &runtimev1.ReleaseState{
		Object:   objectRef(tracking.KeyOf(state.Object), state.Object.GroupVersionKind().Version, state.Object.GetUID()),
		Strategy: state.Strategy, Phase: state.Phase, Message: state.Message,
		Step: state.Step, Steps: state.Steps, StepNames: state.StepNames, Weight: state.Weight, Done: done,
	}
	if decision := state.Decision; decision != nil {
		shown.Decision = &runtimev1.ReleaseDecision{Outcome: decision.Outcome, Reason: decision.Reason, Message: decision.Message}
		if decision.At != nil {
			shown.Decision.At = timestamppb.New(decision.At.Time)
		}
	}
	for _, revision := range state.Revisions {
		one := &runtimev1.ReleaseRevision{
			Name: revision.Name, Number: revision.Number, Hash: revision.Hash, Commit: revision.Commit,
			Images: revision.Images, Weight: revision.Weight, Ready: revision.Ready,
		}
		if counted := revision.Traffic; counted != nil {
			one.Traffic = &runtimev1.ReleaseTraffic{
				Requests: counted.Requests, Errors: counted.Errors, P50Micros: counted.P50Micros, P99Micros: counted.P99Micros,
			}
		}
		shown.Revisions = append(shown.Revisions, one)
	}
	return shown
}
