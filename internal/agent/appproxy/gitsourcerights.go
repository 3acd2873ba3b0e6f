package appproxy

import (
	"context"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/wire/permission"
)

// GitSourceRights returns a function that fails unless the user of the request
// has a verb on the Application of a Git Source. The rights are those on the
// Applications of its project: the Application is passed without the label of
// the runtime's own, which only admins change as Applications.
func (s *Service) GitSourceRights(ctx context.Context) (func(verb permission.Verb, app *v1alpha1.Application) error, error) {
	found, err := s.accessOf(ctx)
	if err != nil {
		return nil, err
	}
	return func(verb permission.Verb, app *v1alpha1.Application) error {
		given := &inspect.Application{Application: app}
		// There is nothing to hide about an Application that does not exist.
		if verb == permission.Create {
			return found.permit(given, verb)
		}
		return found.require(given, verb)
	}, nil
}

// MayCreateGitSources reports whether a rule, or the role, could allow the user
// of the request to create a Git Source in some project.
func (s *Service) MayCreateGitSources(ctx context.Context) (bool, error) {
	found, err := s.accessOf(ctx)
	return err == nil && found.policy.May(found.request(permission.Create)), err
}

// CheckProject fails unless the AppProject of an Application allows its source
// and its destination.
func (s *Service) CheckProject(ctx context.Context, app *v1alpha1.Application) error {
	given := &inspect.Application{Application: app}
	at, err := s.target(given)
	if err == nil {
		_, err = s.strict.CompiledProject(ctx, given, at.destination(given), at.Scope)
	}
	return s.toConnectError(err, given.ID())
}
