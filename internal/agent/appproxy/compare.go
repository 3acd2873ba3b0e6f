package appproxy

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"connectrpc.com/connect"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// diffBytes bounds the manifests of one difference.
const diffBytes = 32 << 20

// compared is a comparison of an Application, as far as its project allows.
func (s *Service) compared(ctx context.Context, app *inspect.Application, warn func(string)) (*inspect.Comparison, error) {
	if s.options.Sources == nil || s.options.Renderer == nil {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("this replica renders nothing"))
	}
	at, err := s.target(app)
	if err != nil {
		return nil, err
	}
	if err := inspect.Syncable(app); err != nil {
		return nil, err
	}
	destination := at.called(app)
	charter, err := s.strict.Charter(ctx, app, destination)
	if err != nil {
		return nil, err
	}
	comparison := &inspect.Comparison{
		Inspector: s.within(at).Inspector, App: app, Kinds: at.Kinds, ControlNamespace: s.options.ControlNamespace,
		Gate: charter.Gate(destination), Applier: at.Applier, Warn: warn,
	}
	if namespace, name, ok := charter.ServiceAccount(destination); ok {
		who := apply.Impersonation{Namespace: cmp.Or(namespace, app.Namespace), ServiceAccount: name}
		if comparison.Applier, err = at.Applier.As(who); err != nil {
			return nil, err
		}
	}
	return comparison, nil
}

// render renders what Git says, and tells the revision.
func (s *Service) render(ctx context.Context, comparison *inspect.Comparison, revision string) ([]*unstructured.Unstructured, string, error) {
	sources := append([]v1alpha1.ApplicationSource{}, comparison.App.Spec.AllSources()...)
	if revision != "" {
		if len(sources) != 1 {
			return nil, "", connect.NewError(connect.CodeInvalidArgument, errors.New("the Application has several sources, and a revision is for one"))
		}
		sources[0].TargetRevision = revision
	}
	var inputs []render.Input
	var revisions []string
	for _, wanted := range sources {
		found, err := s.options.Sources.Resolve(ctx, wanted, -1)
		if err != nil {
			return nil, "", err
		}
		revisions = append(revisions, found.Revision)
		inputs = append(inputs, render.Input{Source: wanted, Store: found.Store, Path: found.Path, Revision: found.Revision, Chart: found.Chart})
	}
	objects, err := comparison.Render(ctx, s.options.Renderer, inputs)
	return objects, strings.Join(revisions, ","), err
}

// desired is what Git says of one object; nil if it has none.
func (s *Service) desired(ctx context.Context, app *inspect.Application, key tracking.Key) (*unstructured.Unstructured, error) {
	leave, err := enter(ctx, s.rendering)
	if err != nil {
		return nil, err
	}
	defer leave()
	comparison, err := s.compared(ctx, app, nil)
	if err != nil {
		return nil, s.fault(err, app.ID())
	}
	rendered, _, err := s.render(ctx, comparison, "")
	if err != nil {
		return nil, s.fault(err, app.ID())
	}
	objects, err := comparison.Prepare(rendered)
	if err != nil {
		return nil, refusedBy(err)
	}
	for _, object := range objects {
		if object.Key == key {
			return object.Object, nil
		}
	}
	return nil, nil
}

// refusedBy is the error of objects that are not applied as they are.
func refusedBy(err error) error { return connect.NewError(connect.CodeFailedPrecondition, err) }

// Diff is what a sync would change.
func (s *Service) Diff(ctx context.Context, request *connect.Request[runtimev1.DiffRequest]) (*connect.Response[runtimev1.DiffResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	leave, err := enter(ctx, s.rendering)
	if err != nil {
		return nil, err
	}
	defer leave()
	answer := &runtimev1.DiffResponse{}
	comparison, err := s.compared(ctx, app, func(text string) { answer.Warnings = append(answer.Warnings, text) })
	if err != nil {
		return nil, s.fault(err, app.ID())
	}
	rendered, revision, err := s.render(ctx, comparison, request.Msg.GetRevision())
	if err != nil {
		return nil, s.fault(err, app.ID())
	}
	answer.Revision = revision
	if _, err := comparison.Prepare(rendered); err != nil {
		return nil, refusedBy(err)
	}
	answer.Warnings = nil // Run prepares again, and tells them again
	diffs, err := comparison.Run(ctx, rendered)
	if err != nil {
		return nil, s.fault(err, app.ID())
	}
	size := 0
	for _, diff := range diffs {
		told, err := diffOf(diff)
		if err != nil {
			return nil, s.fault(err, app.ID())
		}
		if size += len(told.GetLive()) + len(told.GetPredicted()) + len(told.GetText()); size > diffBytes {
			return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("the difference is too large for one answer: use slipway app diff with a kubeconfig"))
		}
		answer.Objects = append(answer.Objects, told)
	}
	return connect.NewResponse(answer), nil
}

// diffOf is the difference of one object as the API tells it.
func diffOf(diff inspect.ObjectDiff) (*runtimev1.ObjectDiff, error) {
	actions := map[plan.SyncState]string{plan.Synced: "same", plan.OutOfSync: "change", plan.Absent: "create", plan.Extra: "prune"}
	told := &runtimev1.ObjectDiff{Action: actions[diff.State], Text: diff.Text}
	version := ""
	for _, object := range []*unstructured.Unstructured{diff.Live, diff.Predicted} {
		if object != nil {
			version = object.GroupVersionKind().Version
		}
	}
	told.Ref = objectRef(diff.Key, version, "")
	var err error
	if told.Live, err = manifestOf(diff.Live); err != nil {
		return nil, err
	}
	told.Predicted, err = manifestOf(diff.Predicted)
	return told, err
}
