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
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// maxDiffBytes bounds the manifests of one diff.
const maxDiffBytes = 32 << 20

// newComparison prepares a comparison of an Application within the limits of
// its project, so that the result is that of a sync.
func (s *Service) newComparison(ctx context.Context, app *inspect.Application, warn func(string)) (*inspect.Comparison, error) {
	if s.options.Sources == nil || s.options.Renderer == nil {
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("this replica renders nothing"))
	}
	at, err := s.target(app)
	if err != nil {
		return nil, err
	}
	// The comparison of an Application with unsupported fields would show a
	// wrong result.
	if err := inspect.Syncable(app); err != nil {
		return nil, err
	}
	limits, err := s.limitsOf(ctx, app, at)
	if err != nil {
		return nil, err
	}
	comparison := &inspect.Comparison{
		Inspector: s.strictFor(at).Inspector, App: app, Kinds: at.Kinds, ControlNamespace: s.options.ControlNamespace,
		Project: limits.project, Gate: limits.gate, Applier: limits.applier, Warn: warn,
		Resolve: s.options.Sources.Dependencies(limits.project, -1), Plugins: s.options.Plugins,
	}
	if s.options.Settings != nil {
		comparison.Settings, comparison.Server = s.options.Settings(), at.Server
	}
	return comparison, nil
}

// limits are those of an Application: its project, what that allows to touch, and
// an applier with the rights that it has.
type limits struct {
	project *project.Project
	gate    plan.Gate
	applier *apply.Applier
}

// limitsOf returns the limits that a sync of an Application has. Where the project
// names a ServiceAccount the applier impersonates it.
func (s *Service) limitsOf(ctx context.Context, app *inspect.Application, at Target) (limits, error) {
	destination := at.destination(app)
	compiled, err := s.strict.CompiledProject(ctx, app, destination, at.Scope)
	if err != nil {
		return limits{}, err
	}
	found := limits{project: compiled, gate: compiled.Gate(destination, s.isLocal(ctx, at)), applier: at.Applier}
	if namespace, name, ok := compiled.ServiceAccount(destination); ok {
		who := apply.Impersonation{Namespace: cmp.Or(namespace, app.Namespace), ServiceAccount: name}
		found.applier, err = at.Applier.As(who)
	}
	return found, err
}

// isLocal reports whether a cluster is the runtime's own, under any address, or
// may be: the control namespace is protected there.
func (s *Service) isLocal(ctx context.Context, at Target) bool {
	if at.Server == project.LocalServer {
		return true
	}
	home, err := s.options.Cluster.UID(ctx)
	if err != nil {
		return true
	}
	uid, err := at.Cluster.UID(ctx)
	return err != nil || uid == home
}

// render resolves and renders the sources. It returns the objects and their
// revisions, joined by commas.
func (s *Service) render(ctx context.Context, comparison *inspect.Comparison, revision string) ([]*unstructured.Unstructured, string, error) {
	sources := append([]v1alpha1.ApplicationSource{}, comparison.App.Spec.AllSources()...)
	if revision != "" {
		// One revision cannot be assigned to several sources.
		if len(sources) != 1 {
			return nil, "", connect.NewError(connect.CodeInvalidArgument, errors.New("the Application has several sources, and a revision is for one"))
		}
		sources[0].TargetRevision = revision
	}
	var inputs []render.Input
	var revisions []string
	for _, wanted := range sources {
		// Cached refs are good enough for a preview.
		admitted, err := comparison.Project.Admit(wanted)
		if err != nil {
			return nil, "", connect.NewError(connect.CodeFailedPrecondition, err)
		}
		found, err := s.options.Sources.Resolve(ctx, admitted, -1)
		if err != nil {
			return nil, "", err
		}
		revisions = append(revisions, found.Revision)
		inputs = append(inputs, render.Input{Source: wanted, Store: found.Store, Path: found.Path, Revision: found.Revision, Chart: found.Chart})
	}
	objects, err := comparison.Render(ctx, s.options.Renderer, inputs)
	return objects, strings.Join(revisions, ","), err
}

// desired returns the object that Git declares; nil if it declares none.
// Rendering is expensive, so it waits for one of a few slots and gives up with
// the request.
func (s *Service) desired(ctx context.Context, app *inspect.Application, key tracking.Key) (*unstructured.Unstructured, error) {
	leave, err := acquire(ctx, s.rendering)
	if err != nil {
		return nil, err
	}
	defer leave()
	comparison, err := s.newComparison(ctx, app, nil)
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	rendered, _, err := s.render(ctx, comparison, "")
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	objects, err := comparison.Prepare(rendered)
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	for _, object := range objects {
		if object.Key == key {
			return object.Object, nil
		}
	}
	return nil, nil
}

// Diff returns what a sync would change. It reads from Git and the cluster and
// changes neither. The size of the response is bounded; a larger diff is an
// error and not a partial one, which could look complete.
func (s *Service) Diff(ctx context.Context, request *connect.Request[runtimev1.DiffRequest]) (*connect.Response[runtimev1.DiffResponse], error) {
	app, err := s.application(ctx, request.Msg.GetRef())
	if err != nil {
		return nil, err
	}
	leave, err := acquire(ctx, s.rendering)
	if err != nil {
		return nil, err
	}
	defer leave()
	response := &runtimev1.DiffResponse{}
	comparison, err := s.newComparison(ctx, app, func(text string) { response.Warnings = append(response.Warnings, text) })
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	rendered, revision, err := s.render(ctx, comparison, request.Msg.GetRevision())
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	response.Revision = revision
	diffs, err := comparison.Run(ctx, rendered)
	if err != nil {
		return nil, s.toConnectError(err, app.ID())
	}
	size := 0
	for _, diff := range diffs {
		message, err := diffOf(diff)
		if err != nil {
			return nil, s.toConnectError(err, app.ID())
		}
		if size += len(message.GetLive()) + len(message.GetPredicted()) + len(message.GetText()); size > maxDiffBytes {
			return nil, connect.NewError(connect.CodeResourceExhausted, errors.New("the difference is too large for one response: use slipway app diff APP --direct"))
		}
		response.Objects = append(response.Objects, message)
	}
	return connect.NewResponse(response), nil
}

// diffOf converts the diff of one object to its message.
func diffOf(diff inspect.ObjectDiff) (*runtimev1.ObjectDiff, error) {
	actions := map[plan.SyncState]string{plan.Synced: "same", plan.OutOfSync: "change", plan.Absent: "create", plan.Extra: "prune"}
	message := &runtimev1.ObjectDiff{Action: actions[diff.State], Text: diff.Text}
	version := ""
	// The predicted object wins, as it has the version that Git declares.
	for _, object := range []*unstructured.Unstructured{diff.Live, diff.Predicted} {
		if object != nil {
			version = object.GroupVersionKind().Version
		}
	}
	message.Ref = objectRef(diff.Key, version, "")
	var err error
	if message.Live, err = manifestOf(diff.Live); err != nil {
		return nil, err
	}
	message.Predicted, err = manifestOf(diff.Predicted)
	return message, err
}
