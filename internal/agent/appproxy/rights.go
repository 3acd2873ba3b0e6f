package appproxy

import (
	"context"
	"fmt"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/wire/permission"
)

// verbKey is the context key of the verb of the called procedure.
type verbKey struct{}

// withVerb adds the verb of a procedure, which the table of permissions has, to
// the context of its request.
func withVerb(ctx context.Context, procedure string) context.Context {
	rule, _ := permission.Of(procedure)
	return context.WithValue(ctx, verbKey{}, rule.Verb)
}

// authorise checks that the user has the verb of the called procedure on an
// Application. The router has checked the role already; only here the
// Application is known.
func (s *Service) authorise(ctx context.Context, app *inspect.Application) error {
	verb, _ := ctx.Value(verbKey{}).(permission.Verb)
	claims, _ := token.ClaimsFrom(ctx)
	switch {
	case !verb.Rule().Role(claims.Role):
		return denied("%s", verb.Rule().Missing(claims.Role))
	case verb != permission.Get && claims.Role != permission.RoleAdmin && s.ownApplication(app):
		return denied("the Application %s is a part of the runtime, and the right %s on it requires the role admin: contact an admin of the account", app.Name, verb)
	}
	return nil
}

// ownApplication reports whether an Application is a part of the runtime: its
// own, those of its clusters, and its Git Sources. They decide what else is
// deployed.
func (s *Service) ownApplication(app *inspect.Application) bool {
	return app.Namespace == s.options.ControlNamespace && app.Labels[sharedrepo.EntityLabel] != ""
}

// denied is the error for a right that the user does not have.
func denied(format string, args ...any) error {
	return connect.NewError(connect.CodePermissionDenied, fmt.Errorf(format, args...))
}
