package traefik

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Middleware gives the policies that a Middleware stands for, in their order.
// Those of a chain are in its place, each under the name of its own object. A
// Middleware that asks for nothing gives none.
//
// What the object names is looked for in its own namespace, whatever the
// namespace of the source.
func Middleware(object *snapshot.Resource, source reference.Source) ([]route.Policy, []snapshot.Fault) {
	return (&walk{}).middleware(object, source)
}

// walk is the way from a Middleware through its chains.
type walk struct {
	// above are the objects whose chain is being read.
	above []snapshot.Ref
	// visits counts the objects. It bounds the work: chains of chains grow
	// quickly, also where none of them leads to a policy.
	visits int
}

// step is the reading of one Middleware.
type step struct {
	*findings
	walk   *walk
	object *snapshot.Resource
	source reference.Source
}

func (w *walk) middleware(object *snapshot.Resource, source reference.Source) ([]route.Policy, []snapshot.Fault) {
	s := &step{findings: &findings{}, walk: w, object: object, source: source.In(object.Namespace)}
	spec := newRecord("spec", object.Spec, s.findings)
	kinds := slices.DeleteFunc(slices.Sorted(maps.Keys(object.Spec)), func(name string) bool { return object.Spec[name] == nil })
	switch len(kinds) {
	case 0:
		s.add("spec", snapshot.Invalid, "the Middleware does nothing: give it one of the fields that say what it does")
		return nil, s.faults
	case 1:
	default:
		s.add("spec", snapshot.Invalid, "a Middleware does one thing, and this one has %s: make one of each, and a chain of them",
			brief(strings.Join(kinds, ", ")))
		return nil, s.faults
	}
	kind := kinds[0]
	var policies []route.Policy
	if kind == "chain" {
		policies = s.chain(spec.inner(kind)) // under the names of their own objects
	} else {
		policies = s.read(kind, spec)
		for i := range policies {
			policies[i].ID = route.PolicyID{
				Kind: string(snapshot.TraefikMiddleware), Namespace: object.Namespace, Name: object.Name, Variant: kind,
			}
		}
	}
	if len(s.faults) == 0 {
		s.check("spec."+kind, policies)
	}
	if len(s.faults) > 0 {
		return nil, s.faults
	}
	return policies, nil
}

// read gives the policies of what a Middleware does.
func (s *step) read(kind string, spec *record) []route.Policy {
	if policies, known := s.readRequest(kind, spec); known {
		return policies
	}
	if instead, known := notDone(kind); known {
		spec.fault(kind, snapshot.Unsupported, "is not supported: %s", instead)
		return nil
	}
	if kind == "contentType" {
		return s.contentType(spec.inner(kind))
	}
	spec.fault(kind, snapshot.Unsupported, "no such Middleware is known: correct its name, or remove it")
	return nil
}

// readRequest is read for what we do.
func (s *step) readRequest(kind string, spec *record) (policies []route.Policy, known bool) {
	var policy *route.Policy
	switch kind {
	case "addPrefix":
		policy = addPrefix(spec.inner(kind))
	case "stripPrefix":
		policy = stripPrefix(spec.inner(kind))
	case "stripPrefixRegex":
		policy = stripPrefixRegex(spec.inner(kind))
	case "replacePath":
		policy = replacePath(spec.inner(kind))
	case "replacePathRegex":
		policy = replacePathRegex(spec.inner(kind))
	case "redirectRegex":
		policy = redirectRegex(spec.inner(kind))
	case "redirectScheme":
		policy = redirectScheme(spec.inner(kind))
	case "headers":
		return headers(spec.inner(kind)), true
	case "ipAllowList", "ipWhiteList":
		policy = ipAllowList(spec.inner(kind))
	case "basicAuth":
		policy = s.basicAuth(spec.inner(kind))
	case "forwardAuth":
		policy = s.forwardAuth(spec.inner(kind))
	case "rateLimit":
		policy = rateLimit(spec.inner(kind))
	case "inFlightReq":
		policy = inFlight(spec.inner(kind))
	case "buffering":
		policy = buffering(spec.inner(kind))
	case "circuitBreaker":
		policy = circuitBreaker(spec.inner(kind))
	case "compress":
		policy = compress(spec.inner(kind))
	case "retry":
		policy = retry(spec.inner(kind))
	case "errors":
		policy = s.errorPages(spec.inner(kind))
	case "passTLSClientCert":
		policy = passCertificate(spec.inner(kind))
	default:
		return nil, false
	}
	if policy == nil {
		return nil, true
	}
	return []route.Policy{*policy}, true
}

// notDone says what to do instead of what is known and not done.
func notDone(kind string) (instead string, known bool) {
	switch kind {
	case "digestAuth":
		return "its passwords are hashed with MD5, so use basicAuth over TLS, or forwardAuth", true
	case "grpcWeb":
		return "let the backend, or a proxy beside it, speak gRPC-Web", true
	case "encodedCharacters":
		return "the entry point decides which encoded characters a path may have, for all its routes", true
	case "plugin":
		return "plugins of Traefik are programs that the edge does not run; use a Middleware that it has, or forwardAuth", true
	case "tap":
		return "copies of requests are made by the policy mirror of a Middleware of slipway.dev", true
	}
	return "", false
}

// contentType turns on that the type of an answer without one is guessed. We do
// not guess, which is what autoDetect false asks for.
func (s *step) contentType(r *record) []route.Policy {
	_, said := r.take("autoDetect")
	if detect := r.flag("autoDetect"); detect || !said {
		s.add(r.path, snapshot.Unsupported, "is not supported: the type of an answer is not guessed from its content; let the backend send Content-Type")
	}
	r.rest()
	return nil
}

// chain gives the policies of the Middlewares that a chain names.
func (s *step) chain(r *record) []route.Policy {
	self := snapshot.Ref{Kind: snapshot.TraefikMiddleware, Namespace: s.object.Namespace, Name: s.object.Name}
	s.walk.above = append(s.walk.above, self)
	defer func() { s.walk.above = s.walk.above[:len(s.walk.above)-1] }()
	if len(s.walk.above) > route.MaxChainDepth {
		s.add(r.path, snapshot.TooLarge, "chains are nested more than %d deep: put the Middlewares into one list", route.MaxChainDepth)
		return nil
	}
	var policies []route.Policy
	links := r.inners("middlewares")
	if len(links) == 0 {
		r.fault("middlewares", snapshot.Invalid, "the chain is empty: name a Middleware")
	}
	for _, link := range links {
		if s.walk.visits++; s.walk.visits > route.MaxPolicies {
			s.add(r.path, snapshot.TooLarge, "the chain leads to more than %d Middlewares: use fewer", route.MaxPolicies)
			return nil
		}
		policies = append(policies, s.link(link)...)
	}
	r.rest()
	return policies
}

// link gives the policies of one Middleware of a chain.
func (s *step) link(link *record) []route.Policy {
	name, namespace := link.text("name"), link.text("namespace")
	link.rest()
	if strings.Contains(name, "@") {
		link.fault("name", snapshot.Unsupported, "%q names a provider: write the name of a Middleware, and its namespace where it is another", brief(name))
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
		link.fault("name", snapshot.Invalid, "%s/%s is in its own chain: remove it from there", ref.Namespace, ref.Name)
		return nil
	}
	policies, faults := s.walk.middleware(object, s.source)
	for _, fault := range faults {
		s.add(link.at("name"), fault.Reason, "%s/%s cannot be used: %s", object.Namespace, object.Name, fault.Error())
	}
	return policies
}

// check holds policies to what the table demands of them, so that what the edge
// would refuse is said of the object that asks for it.
func (s *step) check(field string, policies []route.Policy) {
	rule := route.Rule{Policies: policies}
	for _, problem := range rule.Validate() {
		place, of := strings.CutPrefix(problem.Field, "policies")
		if !of {
			continue // the rule is not there yet
		}
		s.add(field, reasonOf(problem), "%s", placed(place, problem.Message))
	}
}

// placed puts the end of a place in the table before what is wrong there: its
// name mostly is that of the field.
func placed(place, message string) string {
	if _, end, found := strings.Cut(place, "."); found {
		if _, field, found := strings.Cut(end, "."); found {
			return fmt.Sprintf("%s: %s", field, message)
		}
	}
	return message
}

func reasonOf(problem route.Problem) snapshot.Reason {
	if problem.Fault == route.FaultTooMany {
		return snapshot.TooLarge
	}
	return snapshot.Invalid
}
