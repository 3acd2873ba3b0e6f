package resolve

import (
	"slices"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/annotation"
	"slipway.dev/slipway/internal/ingress/policy"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/traefik"
	"slipway.dev/slipway/internal/route"
)

// readPolicies builds the policies of all paths: filters of the annotations, with
// the Middlewares that they name in between. Any fault closes the Ingress, because
// policies restrict access.
func (r *resolver) readPolicies() {
	var policies []route.Policy
	if r.nginx != nil {
		policies = slices.Clip(r.nginx.policies)
	}
	policies = append(policies, r.filters(r.settings.before)...)
	if len(r.settings.middlewares) > route.MaxPolicies {
		r.closeAll(r.refuseHere(r.settings.middlewares[route.MaxPolicies].field, refusal.TooLarge,
			"there are %d middlewares: name at most %d", len(r.settings.middlewares), route.MaxPolicies))
	} else {
		for _, name := range r.settings.middlewares {
			policies = append(policies, r.middleware(name)...)
		}
	}
	policies = append(policies, r.filters(r.settings.after)...)
	r.resolved.Policies = policies
	r.checkPolicies()
}

// filters builds the policies that the annotations declare themselves.
func (r *resolver) filters(declared []v1alpha1.Filter) []route.Policy {
	if len(declared) == 0 {
		return nil
	}
	id := route.PolicyID{Kind: string(snapshot.Ingress), Namespace: r.resolved.Ingress.Namespace, Name: r.resolved.Ingress.Name}
	policies, faults := policy.Filters(declared, id, r.source)
	for i := range faults {
		placed := annotation.Place(declared, faults[i])
		r.closeAll(r.refuse(r.resolved.Ingress, &placed))
	}
	return policies
}

// middleware builds the policies of a Middleware that is named. Its faults are
// reported on the Middleware, and one of them on the Ingress.
func (r *resolver) middleware(name objectName) []route.Policy {
	policies, fault := r.policiesOf(name)
	if fault != nil {
		r.closeAll(fault)
	}
	return policies
}

// policiesOf builds the policies of a Middleware, or returns why it cannot be used.
func (r *resolver) policiesOf(name objectName) ([]route.Policy, *refusal.Refusal) {
	object, fault := r.find(name)
	if fault != nil {
		return nil, r.refuse(r.resolved.Ingress, fault.At(name.field))
	}
	read := policy.Middleware
	if snapshot.IsTraefik(object.Kind) {
		read = traefik.Middleware
	}
	policies, faults := read(object, r.source.In(object.Namespace))
	if len(faults) > 0 {
		return nil, r.refuseObject(object, name.field, faults)
	}
	return policies, nil
}

// refuseObject reports the faults of an object on the object, and the first one on
// the Ingress that names it.
func (r *resolver) refuseObject(object *snapshot.Resource, field string, faults []refusal.Refusal) *refusal.Refusal {
	ref := snapshot.Ref{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name}
	for i := range faults {
		r.refuse(ref, &faults[i])
	}
	return r.refuseHere(field, faults[0].Reason, "the %s cannot be used: %s", ref, faults[0].Text())
}

// find returns the object of a reference.
func (r *resolver) find(name objectName) (*snapshot.Resource, *refusal.Refusal) {
	switch name.kind {
	case snapshot.TraefikMiddleware, snapshot.TraefikTLSOption:
		return r.findTraefik(name)
	default:
		return r.source.Resource(name.kind, name.text)
	}
}

// findTraefik returns the object of a reference in Traefik's form, which is
// ambiguous: namespace and name are joined by a dash, and both can have dashes.
// The object in the Ingress's own namespace is meant, and another one only if that
// is allowed and exactly one candidate exists.
func (r *resolver) findTraefik(name objectName) (*snapshot.Resource, *refusal.Refusal) {
	candidates, fault := traefik.Candidates(name.text, r.source.Namespace)
	if fault != nil {
		return nil, fault
	}
	var found *snapshot.Resource
	var missing *refusal.Refusal
	for _, candidate := range candidates {
		if candidate.Namespace != r.source.Namespace && !r.source.CrossNamespace {
			continue
		}
		object, fault := r.resourceAt(name.kind, candidate)
		switch {
		case fault != nil && fault.Reason != refusal.NotFound:
			return nil, fault
		case fault != nil && missing == nil:
			missing = fault
		case fault != nil:
		case found != nil:
			return nil, &refusal.Refusal{Reason: refusal.Conflict, Message: quoted(name.text) + " can be " +
				found.Namespace + "/" + found.Name + " or " + object.Namespace + "/" + object.Name + ": rename one of them"}
		default:
			found = object
		}
	}
	switch {
	case found != nil:
		return found, nil
	case missing != nil:
		return nil, missing
	default:
		return nil, &refusal.Refusal{Reason: refusal.NotAllowed, Message: quoted(name.text) + " is in another namespace: use one of " +
			r.source.Namespace + ", or set " + r.source.OptionName()}
	}
}

func (r *resolver) resourceAt(kind snapshot.Kind, at traefik.Name) (*snapshot.Resource, *refusal.Refusal) {
	return r.source.In(at.Namespace).Resource(kind, at.Name)
}

// checkPolicies resolves the backends of policies, such as of forward
// authentication. A policy without its backend closes the Ingress.
func (r *resolver) checkPolicies() {
	rule := route.Rule{Policies: r.resolved.Policies}
	for id := range rule.BackendIDs {
		if summary := r.summaryOf(id); summary.Closed != nil {
			r.closeAll(r.refuseHere("metadata.annotations", summary.Closed.Reason, "the Service %s/%s of a policy cannot be used: %s", id.Namespace, id.Name, summary.Closed.Text()))
		}
	}
}
