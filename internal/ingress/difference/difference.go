// Package difference declares where Slipway handles requests otherwise than the
// controller that served an object before: ingress-nginx, Traefik, or any other
// controller of Ingresses.
//
// A declaration has the text for both sides, a condition on an object, and a request
// that shows it. slipway migrate report and the tables of docs/migration-nginx.md and
// docs/migration-traefik.md come from the declarations, so that the pages and the report
// agree (decision 0061). Refusals are not differences: they come from the code that
// serves.
//
// The package is pure: it gets objects with the rules that the edge has for them.
package difference

import (
	"slices"
	"strings"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/route"
)

// Source is the controller that an object is written for.
type Source string

// The sources.
const (
	NGINX   Source = "ingress-nginx"
	Traefik Source = "Traefik"
	// Plain are Ingresses of other controllers, by the Ingress specification.
	Plain Source = "Ingress"
)

// Slipway is the name of the other side.
const Slipway = "Slipway"

// Side returns the name of the side that handles requests before.
func (s Source) Side() string {
	if s == Plain {
		return "other controller"
	}
	return string(s)
}

// Difference declares one difference.
type Difference struct {
	// ID is stable: users name it to accept the difference.
	ID     string
	Source Source
	// About is the part of the object or request.
	About string
	// Before is what the other controller does, and After what Slipway does.
	Before, After string
	// Advice is what to do if the difference matters; empty if nothing can be done.
	Advice string
	// General marks a difference of all objects of the source. It is listed once and
	// does not count for an object.
	General bool
	// applies returns a request that shows the difference, nil if the object has none.
	applies func(*Subject) *Example
}

// The differences that follow from comparing the routes of all objects, not from one
// object. They have no condition.
const (
	// HostOwner: a host belongs to another namespace.
	HostOwner = "host-owner"
	// Routing: another rule serves a request.
	Routing = "routing"
	// Specification: an Ingress is not served as its specification has it.
	Specification = "specification"
)

// Computed returns the declarations of computed differences.
func Computed() []Difference {
	return []Difference{
		{
			ID: HostOwner, About: "hosts of several namespaces", Before: "every namespace can have paths of every host",
			After:  "a host belongs to the namespace of its oldest object; paths of others need a grant of it",
			Advice: "let the owner grant the host with slipway.dev/host-grants, or set hostSharing: open",
		},
		{
			ID: Routing, About: "rules of other objects", Before: "another rule serves the request", After: "priorities and expressions count within a host and its namespace",
			Advice: "give the path a host of its own, or a longer path",
		},
		{
			ID: Specification, About: "paths", Before: "as the Ingress specification has it", After: "the options of the edge change it",
			Advice: "set providers.kubernetesIngress.strictPrefixMatching to true, and remove priorities",
		},
	}
}

// Subject is an object with what the edge has made of it.
type Subject struct {
	Source      Source
	Annotations map[string]string
	// NGINX are the parsed annotations of an Ingress of ingress-nginx.
	NGINX *nginx.Settings
	// Rules are those of the object in the table, at most one for each path.
	Rules []*route.Rule
	// Uses counts the objects with a policy.
	Uses map[route.PolicyID]int
	// Middleware returns the spec of a Middleware of Traefik, nil if there is none.
	Middleware func(namespace, name string) map[string]any
	// Plain is set if the edge takes plain requests.
	Plain bool
}

// Of returns the declared differences of a source.
func Of(source Source) []Difference {
	switch source {
	case NGINX:
		return ofNGINX
	case Traefik:
		return ofTraefik()
	default:
		return ofPlain
	}
}

// Known returns the identities of all differences, sorted.
func Known() []string {
	var ids []string
	for _, list := range [][]Difference{Computed(), Of(NGINX), Of(Traefik), Of(Plain)} {
		for i := range list {
			ids = append(ids, list[i].ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Found is a difference of an object, with the request that shows it.
type Found struct {
	*Difference
	Example Example
}

// Find returns the declared differences of an object, without the general ones.
func Find(s *Subject) []Found {
	var found []Found
	list := Of(s.Source)
	for i := range list {
		d := &list[i]
		if d.General || d.applies == nil {
			continue
		}
		if example := d.applies(s); example != nil {
			found = append(found, Found{Difference: d, Example: *example})
		}
	}
	return found
}

// policies yields the policies of the object's rules that the other controller has, too:
// those of Traefik's Middlewares, chains included, or of ingress-nginx's annotations.
func (s *Subject) policies(yield func(*route.Rule, *route.Policy) bool) {
	for _, rule := range s.Rules {
		if !s.eachPolicy(rule, rule.Policies, yield) {
			return
		}
	}
}

func (s *Subject) eachPolicy(rule *route.Rule, policies []route.Policy, yield func(*route.Rule, *route.Policy) bool) bool {
	for i := range policies {
		policy := &policies[i]
		if policy.Chain != nil {
			if !s.eachPolicy(rule, policy.Chain.Policies, yield) {
				return false
			}
			continue
		}
		declared := strings.HasPrefix(policy.ID.Kind, "Middleware.traefik")
		if s.Source == NGINX {
			declared = strings.HasPrefix(policy.ID.Variant, "nginx-")
		}
		if declared && !yield(rule, policy) {
			return false
		}
	}
	return true
}

// setting reports whether a flag of the Middleware of a policy is set.
func (s *Subject) setting(policy *route.Policy, flag string) bool {
	if s.Middleware == nil {
		return false
	}
	settings, _ := s.Middleware(policy.ID.Namespace, policy.ID.Name)[policy.ID.Variant].(map[string]any)
	set, _ := settings[flag].(bool)
	return set
}

// rule returns a rule that requests are sent to: the first one with a backend.
func (s *Subject) rule() *route.Rule {
	for _, rule := range s.Rules {
		if len(rule.Backends) > 0 {
			return rule
		}
	}
	return nil
}
