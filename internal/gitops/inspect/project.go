package inspect

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/project"
)

// CompiledProject returns the project of an Application, if it allows the
// Application. Otherwise the error is a *[StateError] with the reason. The
// destination has both address and name of the cluster, whose Secret has the scope.
// Every call reads the project from the API server, so that a withdrawn right takes
// effect at once.
func (s Strict) CompiledProject(ctx context.Context, app *Application, destination v1alpha1.ApplicationDestination, scope project.ClusterScope) (*project.Project, error) {
	ctx, cancel := context.WithTimeout(ctx, RequestTimeout)
	defer cancel()
	name := app.Spec.ProjectName()
	object, err := s.Dynamic.Resource(v1alpha1.ProjectResource()).Namespace(s.ControlNamespace).Get(ctx, name, metav1.GetOptions{})
	var compiled *project.Project
	var refused []refusal.Refusal
	switch {
	case apierrors.IsNotFound(err) && name == v1alpha1.DefaultProject:
		compiled = project.Default()
	case apierrors.IsNotFound(err):
		return nil, &StateError{fmt.Sprintf("there is no AppProject %s in the namespace %s", name, s.ControlNamespace)}
	case err != nil:
		return nil, fmt.Errorf("read the AppProject %s: %w", name, err)
	default:
		given, problems, err := v1alpha1.DecodeProject(object.Object)
		if err != nil {
			return nil, fmt.Errorf("read the AppProject %s: %w", name, err)
		}
		var more []refusal.Refusal
		compiled, more = project.Compile(given)
		refused = append(problems, more...)
	}
	compiled = compiled.At(destination.Server, scope)
	if len(refused) == 0 {
		located := *app.Application
		located.Spec.Destination = destination
		refused = compiled.Check(&located, s.ControlNamespace)
	}
	if len(refused) > 0 {
		return nil, &StateError{fmt.Sprintf("the project %s does not allow %s: %s", name, app.ID(), refusal.Summary(refused))}
	}
	return compiled, nil
}
