package appproxy

import (
	"context"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/agent/sharedrepo"
	"slipway.dev/slipway/internal/gitops/inspect"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
)

// verbKey is the context key of the verb of the called procedure.
type verbKey struct{}

// withVerb adds the verb of a procedure, which the table of permissions has, to
// the context of its request.
func withVerb(ctx context.Context, procedure string) context.Context {
	rule, _ := permission.Of(procedure)
	return WithVerb(ctx, rule.Verb)
}

// WithVerb adds the verb that the user needs on the Application of a request to
// its context. It is for callers of the methods of Service in this process, which
// no interceptor guards.
func WithVerb(ctx context.Context, verb permission.Verb) context.Context {
	return context.WithValue(ctx, verbKey{}, verb)
}

// May decides about something that is no Application, such as a project, by the
// same policies.
func (s *Service) May(ctx context.Context, resource, action, object string) (rights.Decision, error) {
	can, err := s.accessOf(ctx)
	if err != nil {
		return rights.Decision{}, err
	}
	request := can.request("")
	request.Resource, request.Action, request.Object = resource, action, object
	return can.policy.Decide(request), nil
}

// access decides for one request what its user may do with Applications.
type access struct {
	claims  wire.RuntimeClaims
	policy  *rights.Policy
	control string
}

// accessOf returns the access of a request: the role and the rules of the
// platform, which the token has, and the policy of the runtime.
func (s *Service) accessOf(ctx context.Context) (access, error) {
	claims, _ := token.ClaimsFrom(ctx)
	found := access{claims: claims, control: s.options.ControlNamespace}
	if s.options.Rights != nil {
		policy, err := s.options.Rights()
		if err != nil {
			return access{}, connect.NewError(connect.CodeUnavailable, err)
		}
		found.policy = policy
	}
	if given := claims.Policy; given != (wire.PolicyExcerpt{}) {
		excerpt := rights.Excerpt{Text: given.Text, Mode: rights.Mode(given.Mode), Default: given.Default}
		found.policy = rights.Merge(excerpt.Policy("the platform's policy"), found.policy)
	}
	return found, nil
}

// decide decides about a verb on an Application. Those of the runtime itself
// decide what else is deployed, so that changing them takes the role admin,
// whatever a policy allows.
func (a access) decide(app *inspect.Application, verb permission.Verb) rights.Decision {
	return a.decideRequest(app, verb, a.request(verb))
}

// decideAction decides about one action of a kind, as Argo CD's policies spell
// it: a user can have the right to restart and none to scale.
func (a access) decideAction(app *inspect.Application, kind schema.GroupKind, name string) rights.Decision {
	request := a.request(permission.Action)
	request.Action = strings.Join([]string{string(permission.Action), kind.Group, kind.Kind, name}, "/")
	return a.decideRequest(app, permission.Action, request)
}

// decideRequest decides about what the user requests with a verb.
func (a access) decideRequest(app *inspect.Application, verb permission.Verb, request rights.Request) rights.Decision {
	if verb != permission.Get && a.claims.Role != permission.RoleAdmin && a.ownApplication(app) {
		return rights.Decision{Why: "the Application is a part of the runtime, which is for users with the role admin"}
	}
	request.Object = rights.ApplicationObject(app.Spec.ProjectName(), app.Namespace, app.Name, a.control)
	return a.policy.Decide(request)
}

// request returns what the user requests with a verb, without the object.
func (a access) request(verb permission.Verb) rights.Request {
	request := rights.Request{Subject: a.claims.Email, Groups: a.claims.Groups, Roles: []string{rights.PlatformRole(a.claims.Role)}}
	request.Resource, request.Action = verb.Policy()
	return request
}

// ownApplication reports whether an Application is a part of the runtime: its
// own, those of its clusters, and its Git Sources.
func (a access) ownApplication(app *inspect.Application) bool {
	return app.Namespace == a.control && app.Labels[sharedrepo.EntityLabel] != ""
}

// verbs returns what the user may do with an Application, for clients that
// offer nothing else.
func (a access) verbs(app *inspect.Application) (allowed []string) {
	for _, verb := range permission.Verbs() {
		if a.decide(app, verb).Allowed {
			allowed = append(allowed, string(verb))
		}
	}
	return allowed
}

// require fails without a verb on an Application. An Application that the user
// may not get is not found, so that nothing is learnt about it.
func (a access) require(app *inspect.Application, verb permission.Verb) error {
	if !a.decide(app, permission.Get).Allowed {
		return notFound(app.ID())
	}
	return a.permit(app, verb)
}

// permit fails without a verb on an Application, which need not exist.
func (a access) permit(app *inspect.Application, verb permission.Verb) error {
	return refusalOf(app, string(verb), a.decide(app, verb))
}

// refusalOf is the error of a decision; nil if it allows.
func refusalOf(app *inspect.Application, right string, decision rights.Decision) error {
	if decision.Allowed {
		return nil
	}
	project := app.Spec.ProjectName()
	return connect.NewError(connect.CodePermissionDenied, fmt.Errorf(
		"you lack the right %s on %s/%s: %s. An admin of the account can give it, by your role or by a rule; so can a rule in %s or a role of the AppProject %s",
		right, project, app.Name, decision.Explain(), rights.ConfigMap, project))
}

// authorise checks that the user has the verb of the called procedure on an
// Application. A procedure without a verb is refused: it is about no
// Application.
func (s *Service) authorise(ctx context.Context, app *inspect.Application) error {
	found, err := s.accessOf(ctx)
	if err != nil {
		return err
	}
	verb, _ := ctx.Value(verbKey{}).(permission.Verb)
	return found.require(app, verb)
}
