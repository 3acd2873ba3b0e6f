package traefik

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Middleware returns the policies of a Middleware, in order. Those of a chain replace
// it, each with the identity of its own object. A Middleware without effect has none.
//
// References of the object are resolved from its own namespace, not from that of the
// source.
func Middleware(object *snapshot.Resource, source reference.Source) ([]route.Policy, []refusal.Refusal) {
	return (&walk{}).middleware(object, source)
}

// walk is the traversal of a Middleware and its chains.
type walk struct {
	// above is the stack of objects whose chain is being read, for the
	// detection of cycles and the bound on depth.
	above []snapshot.Ref
	// visits counts the objects. It bounds the work: nested chains grow
	// exponentially, even without policies.
	visits int
}

// step is the conversion of one Middleware. Its findings are those of this
// object; the walk is shared with the rest of the chain.
type step struct {
	*findings
	walk   *walk
	object *snapshot.Resource
	source reference.Source
}

// middleware converts one object. Exactly one field of the spec selects its kind.
func (w *walk) middleware(object *snapshot.Resource, source reference.Source) ([]route.Policy, []refusal.Refusal) {
	s := &step{findings: &findings{}, walk: w, object: object, source: source.In(object.Namespace)}
	spec := newRecord("spec", object.Spec, s.findings)
	// A null field counts as missing, also for objects from files, which no API
	// server has pruned.
	kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(object.Spec)), func(name string) bool { return object.Spec[name] == nil })
	switch len(kinds) {
	case 0:
		s.add("spec", refusal.Invalid, "the Middleware is empty: set one of its fields")
		return nil, s.faults
	case 1:
	default:
		s.add("spec", refusal.Invalid, "a Middleware does one thing, and this one has %s: make one of each, and a chain of them",
			brief(strings.Join(kinds, ", ")))
		return nil, s.faults
	}
	kind := kinds[0]
	var policies []route.Policy
	if kind == "chain" {
		// The policies of a chain keep the identity of their own objects, which
		// keys state such as rate limits in the edge.
		policies = s.chain(spec.inner(kind)) // under the names of their own objects
	} else {
		policies = s.read(kind, spec)
		for i := range policies {
			policies[i].ID = route.PolicyID{
				Kind: string(snapshot.TraefikMiddleware), Namespace: object.Namespace, Name: object.Name, Variant: kind,
			}
		}
	}
	// The validation of the table would report incomplete policies a second
	// time.
	if len(s.faults) == 0 {
		s.check("spec."+kind, policies)
	}
	if len(s.faults) > 0 {
		return nil, s.faults
	}
	return policies, nil
}

// read returns the policies of the selected kind. An unknown kind is a fault
// rather than no policy: it may be a filter of a newer Traefik that restricts
// access.
func (s *step) read(kind string, spec *record) []route.Policy {
	if convert := s.converter(kind); convert != nil {
		if policy := convert(spec.inner(kind)); policy != nil {
			return []route.Policy{*policy}
		}
		return nil
	}
	switch kind {
	case "headers":
		return headers(spec.inner(kind))
	case "contentType":
		return s.contentType(spec.inner(kind))
	}
	if instead, known := unsupportedKinds[kind]; known {
		spec.fault(kind, refusal.Unsupported, "is not supported: %s", instead)
	} else {
		spec.fault(kind, refusal.Unsupported, "no such Middleware is known: correct its name, or remove it")
	}
	return nil
}

// converter returns the function for a kind that becomes one policy, nil for other
// kinds. The function returns nil if the Middleware has no effect, such as a retry
// with one attempt.
func (s *step) converter(kind string) func(*record) *route.Policy { return s.converters()[kind] }

// converters returns the functions by kind.
func (s *step) converters() map[string]func(*record) *route.Policy {
	return map[string]func(*record) *route.Policy{
		"addPrefix":         addPrefix,
		"stripPrefix":       stripPrefix,
		"stripPrefixRegex":  stripPrefixRegex,
		"replacePath":       replacePath,
		"replacePathRegex":  replacePathRegex,
		"redirectRegex":     redirectRegex,
		"redirectScheme":    redirectScheme,
		"ipAllowList":       ipAllowList,
		"ipWhiteList":       ipAllowList,
		"basicAuth":         s.basicAuth,
		"forwardAuth":       s.forwardAuth,
		"rateLimit":         rateLimit,
		"inFlightReq":       inFlight,
		"buffering":         buffering,
		"circuitBreaker":    circuitBreaker,
		"compress":          compress,
		"retry":             retry,
		"errors":            s.errorPages,
		"passTLSClientCert": passCertificate,
	}
}

// unsupportedKinds has the advice for the kinds that are known and unsupported.
var unsupportedKinds = map[string]string{
	"digestAuth":        "its passwords are hashed with MD5, so use basicAuth over TLS, or forwardAuth",
	"grpcWeb":           "let the backend, or a proxy beside it, speak gRPC-Web",
	"encodedCharacters": "the entry point decides which encoded characters a path may have, for all its routes",
	"plugin":            "plugins of Traefik are programs that the edge does not run; use a Middleware that it has, or forwardAuth",
	"tap":               "copies of requests are made by the policy mirror of a Middleware of slipway.dev",
}

// contentType enables the detection of a missing Content-Type in Traefik. The edge
// never detects it, which is the behaviour of autoDetect false.
func (s *step) contentType(r *record) []route.Policy {
	_, present := r.take("autoDetect")
	if detect := r.flag("autoDetect"); detect || !present {
		s.add(r.path, refusal.Unsupported, "is not supported: the type of a response is not guessed from its content; let the backend send Content-Type")
	}
	r.rest()
	return nil
}

// chain returns the policies of the Middlewares of a chain. The visits bound
// the width and above bounds the depth; both are checked before the next object
// is read.
func (s *step) chain(r *record) []route.Policy {
	self := snapshot.Ref{Kind: snapshot.TraefikMiddleware, Namespace: s.object.Namespace, Name: s.object.Name}
	// The walk is shared, so the entry must be removed on every return.
	s.walk.above = append(s.walk.above, self)
	defer func() { s.walk.above = s.walk.above[:len(s.walk.above)-1] }()
	if len(s.walk.above) > route.MaxChainDepth {
		s.add(r.path, refusal.TooLarge, "chains are nested more than %d deep: put the Middlewares into one list", route.MaxChainDepth)
		return nil
	}
	var policies []route.Policy
	links := r.inners("middlewares")
	if len(links) == 0 {
		r.fault("middlewares", refusal.Invalid, "the chain is empty: name a Middleware")
	}
	for _, link := range links {
		if s.walk.visits++; s.walk.visits > route.MaxPolicies {
			s.add(r.path, refusal.TooLarge, "the chain leads to more than %d Middlewares: use fewer", route.MaxPolicies)
			return nil
		}
		policies = append(policies, s.link(link)...)
	}
	r.rest()
	return policies
}

// link returns the policies of one Middleware of a chain. Faults of that object
// are reported on the chain with its name, because the Ingress refers to the
// chain.
func (s *step) link(link *record) []route.Policy {
	name, namespace := link.text("name"), link.text("namespace")
	link.rest()
	// A provider such as @file names an object that is not in the cluster.
	if strings.Contains(name, "@") {
		link.fault("name", refusal.Unsupported, "%q names a provider: write the name of a Middleware, and its namespace where it is another", brief(name))
		return nil
	}
	if namespace != "" {
		name = namespace + "/" + name
	}
	object, fault := s.source.Resource(snapshot.TraefikMiddleware, name)
	if fault != nil {
		s.add(link.at("name"), fault.Reason, "%s", fault.Message)
		return nil
	}
	ref := snapshot.Ref{Kind: snapshot.TraefikMiddleware, Namespace: object.Namespace, Name: object.Name}
	if slices.Contains(s.walk.above, ref) {
		link.fault("name", refusal.Invalid, "%s/%s is in its own chain: remove it from there", ref.Namespace, ref.Name)
		return nil
	}
	policies, faults := s.walk.middleware(object, s.source)
	for _, fault := range faults {
		s.add(link.at("name"), fault.Reason, "%s/%s cannot be used: %s", object.Namespace, object.Name, fault.Text())
	}
	return policies
}

// check validates policies for the table, so that a problem is reported on the
// object instead of by the edge.
func (s *step) check(field string, policies []route.Policy) {
	// The table validates policies only as part of a rule.
	rule := route.Rule{Policies: policies}
	for _, problem := range rule.Validate() {
		place, of := strings.CutPrefix(problem.Field, "policies")
		if !of {
			continue // about the rest of the rule, which is not set here
		}
		s.add(field, reference.RefusalOf(problem, field).Reason, "%s", placed(place, problem.Message))
	}
}

// placed prefixes a problem with the last part of its field in the table, which is
// mostly the name of the field in the object.
func placed(place, message string) string {
	if _, end, found := strings.Cut(place, "."); found {
		if _, field, found := strings.Cut(end, "."); found {
			return fmt.Sprintf("%s: %s", field, message)
		}
	}
	return message
}
