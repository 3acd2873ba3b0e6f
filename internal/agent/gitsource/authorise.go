package gitsource

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	argo "slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// requireUser refuses requests without a user of the platform.
func requireUser(ctx context.Context) error {
	if claims, ok := token.ClaimsFrom(ctx); !ok || claims.UserID == "" {
		return connect.NewError(connect.CodeUnauthenticated, errors.New("this is for a user of the platform: send the request through the platform"))
	}
	return nil
}

// isAdmin reports whether the user of a request has the role admin.
func isAdmin(ctx context.Context) bool {
	claims, _ := token.ClaimsFrom(ctx)
	return claims.Role == permission.RoleAdmin
}

// authorise fails unless the fields are valid, and the user may create a Git
// Source or change one to this. Users without the role admin are confined to
// what the project allows. All of it comes before the runtime connects to
// anything for them.
func (s *Service) authorise(ctx context.Context, verb permission.Verb, given *runtimev1.GitSource) error {
	if err := requireUser(ctx); err != nil {
		return err
	}
	if err := s.validate(given); err != nil {
		return err
	}
	may, err := s.options.Rights.GitSourceRights(ctx)
	if err != nil {
		return err
	}
	app := s.application(given)
	if err := may(verb, app); err != nil || isAdmin(ctx) {
		return err
	}
	return s.options.Rights.CheckProject(ctx, app)
}

// application returns the parts of the Application of a Git Source that rights
// and projects are about.
func (s *Service) application(given *runtimev1.GitSource) *argo.Application {
	full := s.withDefaults(given)
	app := &argo.Application{Spec: argo.ApplicationSpec{
		Project:     full.GetProject(),
		Source:      &argo.ApplicationSource{RepoURL: full.GetRepoUrl(), Path: full.GetPath(), TargetRevision: full.GetRevision()},
		Destination: argo.ApplicationDestination{Server: full.GetDestinationServer(), Namespace: full.GetDestinationNamespace()},
	}}
	app.Name, app.Namespace = full.GetName(), s.options.SharedRepository.Namespace()
	return app
}

// committedSource returns the file of a Git Source that the user has a verb on.
// One that the user may not get is not found.
func (s *Service) committedSource(ctx context.Context, files sharedrepo.Files, name string, verb permission.Verb) ([]byte, error) {
	missing := connect.NewError(connect.CodeNotFound, fmt.Errorf("there is no Git Source %s in this runtime; a name cannot be changed: make a new one instead", name))
	text, found, err := files.Read(sharedrepo.GitSourceFile(s.options.SharedRepository.Runtime(), name))
	if err != nil {
		return nil, err
	}
	one, ok := parse(text)
	switch {
	// A file that is something else belongs to no project.
	case !found, !ok && !isAdmin(ctx):
		return nil, missing
	case !ok:
		return text, nil
	}
	may, err := s.options.Rights.GitSourceRights(ctx)
	if err != nil {
		return nil, err
	}
	if err := may(verb, s.application(one)); connect.CodeOf(err) == connect.CodeNotFound {
		return nil, missing
	} else if err != nil {
		return nil, err
	}
	return text, nil
}
