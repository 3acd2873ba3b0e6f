package inspect

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
	compiled, refused, err := project.Load(ctx, s.Dynamic, s.ControlNamespace, name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, &StateError{fmt.Sprintf("there is no AppProject %s in the namespace %s", name, s.ControlNamespace)}
	case err != nil:
		return nil, err
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
