// Package policy converts our own kinds to values of the routing table: filters to
// policies, a TLSOption to TLS conditions, a BackendTransport to a transport.
//
// It promises that a result without a Refusal is valid in a table, and that the same
// declaration always gives the same result. Any Refusal means that routes with the
// declaration must return 503.
//
// It refuses unknown fields, references that cannot be resolved or are not allowed,
// chains that are deep or cyclic, and passwords that are not hashed, except in a
// Secret of type kubernetes.io/basic-auth.
package policy

import (
	"fmt"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Filters builds the policies of the filters of an object. The id has kind,
// namespace and name of the object; the name of the filter becomes its variant.
// The field of a fault starts with the position of the filter:
// [1].basicAuth.secret.
func Filters(filters []v1alpha1.Filter, id route.PolicyID, source reference.Source) ([]route.Policy, []refusal.Refusal) {
	left := route.MaxPolicies
	b := builder{source: source, left: &left}
	return b.filters(filters, id)
}

// Middleware builds the policies of a Middleware. Its references are resolved from
// its own namespace, not from that of the source. The field of a fault is that of
// the object: spec.filters[1].basicAuth.secret.
func Middleware(object *snapshot.Resource, source reference.Source) ([]route.Policy, []refusal.Refusal) {
	left := route.MaxPolicies
	b := builder{source: source, left: &left}
	return b.middleware(object)
}

// builder builds the policies of one object, and of those that its chains name.
type builder struct {
	source reference.Source
	// trail lists the Middlewares from the root to this one, for the detection
	// of cycles. Each builder has its own, because builders are passed by
	// value.
	trail []snapshot.Ref
	// depth is the number of chains on the way here.
	depth int
	// left is how many more policies are allowed, those of chains included: a
	// few nested chains can expand to millions. It is a pointer, so that all
	// branches of the recursion share one budget.
	left *int
}

// middleware builds the policies of one Middleware. The trail is copied on append:
// siblings of a chain must not share its memory.
func (b builder) middleware(object *snapshot.Resource) ([]route.Policy, []refusal.Refusal) {
	var spec v1alpha1.MiddlewareSpec
	// A spec that does not decode is partly filled; no filter of it is used.
	if faults := decode(object, &spec); len(faults) > 0 {
		return nil, faults
	}
	// A name in a Middleware means an object in the namespace of the
	// Middleware, not in that of the Ingress that uses it.
	b.source = b.source.In(object.Namespace)
	b.trail = append(b.trail[:len(b.trail):len(b.trail)], refOf(object))
	id := route.PolicyID{Kind: string(object.Kind), Namespace: object.Namespace, Name: object.Name}
	policies, faults := b.filters(spec.Filters, id)
	return policies, at(faults, "spec.filters")
}

// filters builds the policies of a list of filters. Two filters of one name get
// different variants, because the identity of a policy keys its state in the edge.
func (b builder) filters(filters []v1alpha1.Filter, id route.PolicyID) ([]route.Policy, []refusal.Refusal) {
	var policies []route.Policy
	var faults []refusal.Refusal
	// seen counts the filters by name, for the variants.
	seen := map[string]int{}
	for i := range filters {
		name := filters[i].Name()
		place := fmt.Sprintf("[%d]", i)
		if *b.left--; *b.left < 0 {
			return nil, append(faults, *refusal.New(place, refusal.TooLarge,
				"there are more than %d filters, those of chains included: use fewer", route.MaxPolicies))
		}
		seen[name]++
		id.Variant = name
		if count := seen[name]; count > 1 {
			id.Variant += "-" + strconv.Itoa(count)
		}
		made, found := b.filter(&filters[i], name)
		// A policy with faults is incomplete; validating it would report the
		// same problem again in the words of the table.
		if len(found) == 0 {
			made.ID = id
			found = check(&made)
		}
		faults = append(faults, at(found, place)...)
		policies = append(policies, made)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return policies, nil
}

// check validates a policy with the rules of the routing table, so that the
// fault is reported on the declaration. The policies of a chain are validated
// already, each with its own object.
func check(made *route.Policy) []refusal.Refusal {
	if made.Chain != nil {
		return nil
	}
	// The table validates policies as part of a rule; this one has the least
	// that a rule needs.
	rule := route.Rule{
		ID: route.ID{Name: "policy"}, Policies: []route.Policy{*made}, Response: &route.Response{Status: 503},
	}
	var faults []refusal.Refusal
	for _, problem := range rule.Validate() {
		field := strings.TrimPrefix(strings.TrimPrefix(problem.Field, "policies[0]"), ".")
		faults = append(faults, *reference.RefusalOf(problem, written(field)))
	}
	return faults
}

// written maps a field path of the table to the path in the declaration, where
// the two differ. The first prefix that matches wins.
func written(field string) string {
	for _, other := range []struct{ table, declared string }{
		{"basicAuth.users", "basicAuth.secret"}, {"forwardAuth.backend", "forwardAuth.service"},
		{"errorPages.backend", "errorPages.service"}, {"mirror.backend", "mirror.service"},
		{"clientAuthorities", "clientAuth.secrets"}, {"transport.tls", "tls"}, {"tls.authority", "tls.caSecret"},
	} {
		if rest, found := strings.CutPrefix(field, other.table); found {
			return other.declared + rest
		}
	}
	return field
}

// decode decodes the spec of an object strictly. The API server has validated
// it against the CRD schema, but objects from files and from an older CRD have
// not passed the current one.
func decode(object *snapshot.Resource, spec any) []refusal.Refusal {
	var faults []refusal.Refusal
	for _, problem := range declare.Decode(object.Spec, spec) {
		fault := &refusal.Refusal{Field: problem.Field, Reason: refusal.Invalid, Message: problem.Message}
		faults = append(faults, *fault.At("spec"))
	}
	return faults
}

// at prefixes the fields of faults.
func at(faults []refusal.Refusal, field string) []refusal.Refusal {
	moved := make([]refusal.Refusal, 0, len(faults))
	for i := range faults {
		moved = append(moved, *faults[i].At(field))
	}
	return moved
}

// refOf returns the reference of an object.
func refOf(object *snapshot.Resource) snapshot.Ref {
	return snapshot.Ref{Kind: object.Kind, Namespace: object.Namespace, Name: object.Name}
}
