package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/rights"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// CheckAccess decides whether the caller has a right on an Application, by the
// same policies as the calls that need it.
func (a applicationService) CheckAccess(ctx context.Context, request *connect.Request[platformv1.CheckAccessRequest]) (*connect.Response[platformv1.CheckAccessResponse], error) {
	accountID, err := account(ctx)
	if err != nil {
		return nil, err
	}
	given := request.Msg
	verb := permission.Verb(given.GetVerb())
	if !slices.Contains(permission.CheckedVerbs(), verb) {
		return nil, invalid("the verb %q does not exist: it is one of %v", given.GetVerb(), permission.CheckedVerbs())
	}
	if given.GetProject() == "" || given.GetName() == "" {
		return nil, invalid("name a project and an Application")
	}
	runtime, err := a.named(ctx, accountID, given.GetRuntime())
	if err != nil {
		return nil, a.apiError(err)
	}
	application := &platformv1.Application{
		Project: given.GetProject(), Namespace: cmp.Or(given.GetNamespace(), runtime.Namespace), Name: given.GetName(),
	}
	decision, err := a.decide(ctx, runtime, verb, application)
	if err != nil {
		return nil, a.apiError(err)
	}
	return connect.NewResponse(&platformv1.CheckAccessResponse{Allowed: decision.Allowed, Rule: decision.Rule, Why: decision.Why}), nil
}

// decide decides about a verb. Every verb but create needs the right to get the
// Application as well, and a key has no more than its scope. Only for a caller
// who may get the Application it is read whether it is a part of the runtime;
// create and update are for Git Sources, which are always, and so is delete for one
// that exists.
func (a applicationService) decide(ctx context.Context, runtime store.Runtime, verb permission.Verb, application *platformv1.Application) (rights.Decision, error) {
	caller := callerOf(ctx)
	policy := a.options.Policies.Of(runtime)
	if !identity.Scoped(caller, verb.Rule()) {
		return rights.Decision{Why: "the scopes of the API key do not include it"}, nil
	}
	if verb == permission.Create {
		return policy.Decide(caller, verb, application), nil
	}
	decision := policy.Decide(caller, permission.Get, application)
	if verb == permission.Get {
		return decision, nil
	}
	if !decision.Allowed {
		decision.Why = fmt.Sprintf("the right get on the Application is missing, without which there is no right %s: %s", verb, decision.Why)
		return decision, nil
	}
	if verb == permission.Update {
		return policy.Decide(caller, verb, application), nil
	}
	ref := store.ApplicationRef{Namespace: application.GetNamespace(), Name: application.GetName()}
	reported, err := a.store.Application(ctx, runtime.AccountID, runtime.ID, ref)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return rights.Decision{}, err
	}
	isGitSource := reported.Labels[wire.EntityLabel] == wire.EntityGitSource && ref.Namespace == runtime.Namespace
	if verb == permission.Delete && isGitSource {
		decision := policy.Decide(caller, verb, application)
		decision.Why += "; this is about the Git Source, and its Application is deleted with it"
		return decision, nil
	}
	application.Labels = reported.Labels // only these of it count
	return policy.Decide(caller, verb, application), nil
}
