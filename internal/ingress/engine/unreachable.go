package engine

import (
	"reflect"
	"slices"
	"strings"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/translate"
	"slipway.dev/slipway/internal/route"
)

// unreachableSource is the source of the refusals of an Ingress about rules for a
// host that no request reaches.
type unreachableSource struct {
	unit *routeUnit
	host string
}

// markPlaces marks the hosts whose rules have come, gone or moved in the order, so
// that recomputeReachable looks at them. Rules with another backend, as when the
// last endpoint goes, stay where they are and cost nothing.
func (e *Engine) markPlaces(before, after []*route.Rule) {
	if slices.EqualFunc(before, after, func(a, b *route.Rule) bool { return a.ID == b.ID && samePlace(a, b) }) {
		return
	}
	known := make(map[route.ID]*route.Rule, len(before))
	for _, rule := range before {
		known[rule.ID] = rule
	}
	for _, rule := range after {
		old := known[rule.ID]
		delete(known, rule.ID)
		if old == rule || old != nil && samePlace(old, rule) {
			continue
		}
		e.state.moved[rule.Host] = struct{}{}
		if old != nil {
			e.state.moved[old.Host] = struct{}{}
		}
	}
	for _, rule := range known {
		e.state.moved[rule.Host] = struct{}{}
	}
}

// samePlace reports whether two versions of a rule match the same requests, at the
// same place of the order.
func samePlace(a, b *route.Rule) bool {
	return a.Host == b.Host && a.Match.Path == b.Match.Path && a.Match.PathOrder == b.Match.PathOrder && a.Match.Scheme == b.Match.Scheme && a.Fallback == b.Fallback &&
		a.Priority == b.Priority && a.HostOwner == b.HostOwner && a.Created.Equal(b.Created) && slices.Equal(a.EntryPoints, b.EntryPoints) &&
		sameConditions(&a.Match, &b.Match)
}

// sameConditions reports whether two matches have the same conditions besides path and
// scheme. Rules of Ingresses have none.
func sameConditions(a, b *route.Match) bool {
	return slices.Equal(a.Methods, b.Methods) && slices.Equal(a.Headers, b.Headers) && slices.Equal(a.Query, b.Query) &&
		len(a.Further) == len(b.Further) && (len(a.Further) == 0 || reflect.DeepEqual(a.Further, b.Further))
}

// recomputeReachable refuses the rules of the marked hosts that no request reaches,
// because a rule with the same host and path comes before them. Such a rule is
// live, but its Ingress is not served as it is written, and must not look so.
func (e *Engine) recomputeReachable() {
	for host := range e.state.moved {
		claims := e.hosts[host]
		if claims == nil {
			continue
		}
		byPath := claims.rulesByPath(host)
		for u := range claims.routes.all() {
			e.refusals.set(unreachableSource{u, host}, unreachable(u, host, byPath))
		}
	}
}

// rulesByPath returns the live rules of a host by their path, each list in the order
// in which they are tried. Every rule is placed once: a tenant can have many rules
// with one path.
func (c *hostClaims) rulesByPath(host string) map[samePath][]placedRule {
	byPath := map[samePath][]placedRule{}
	for u := range c.routes.all() {
		for _, rule := range u.live {
			if rule.Host == host && mayBeCovered(rule) {
				at := samePath{rule.Match.Path, rule.Fallback}
				byPath[at] = append(byPath[at], placedRule{rule, route.OrderOf(rule)})
			}
		}
	}
	for _, rules := range byPath {
		slices.SortFunc(rules, func(a, b placedRule) int { return a.order.Compare(b.order) })
	}
	return byPath
}

// mayBeCovered reports whether a rule is one of an Ingress, and not one that the edge has
// added.
func mayBeCovered(rule *route.Rule) bool {
	switch rule.ID.Variant {
	case reservedVariant, nginx.SlashVariant, nginx.MissingVariant:
		return false
	}
	return rule.Listener == (route.ListenerID{}) && !strings.HasPrefix(rule.ID.Variant, nginx.ServerVariant)
}

// placedRule is a rule with its place in the order.
type placedRule struct {
	rule  *route.Rule
	order route.Order
}

// samePath is the part of a rule by which rules of a host are compared.
type samePath struct {
	path     route.PathMatch
	fallback bool
}

// unreachable returns the refusal of an Ingress for its rules of a host, if there is
// one. It names the first of them: an Ingress may have many rules.
func unreachable(u *routeUnit, host string, byPath map[samePath][]placedRule) []refusal.Refusal {
	var first, winner *route.Rule
	count := 0
	for _, rule := range u.live {
		if rule.Host != host || !mayBeCovered(rule) {
			continue
		}
		others := byPath[samePath{rule.Match.Path, rule.Fallback}]
		if len(others) < 2 {
			continue
		}
		if before := coveredBy(rule, others); before != nil {
			if count++; first == nil {
				first, winner = rule, before
			}
		}
	}
	if first == nil {
		return nil
	}
	more := ""
	if count > 1 {
		more = "; so it is with " + finding.Count(count-1, "more rule", "more rules") + " of this host"
	}
	return []refusal.Refusal{refusal.New(fieldOfRule(first.ID), refusal.Conflict,
		"no request reaches it: %s of %s %s/%s has the same host and path, and comes before it by %s: remove one of the two%s",
		fieldOfRule(winner.ID), winner.ID.Kind, winner.ID.Namespace, winner.ID.Name, reasonOf(winner, first), more).Of(u.ref.Object())}
}

// coveredBy returns the first rule that gets all requests of another one, or nil.
// The rules are in order, and the other one is among them.
func coveredBy(rule *route.Rule, rules []placedRule) *route.Rule {
	for _, before := range rules {
		switch {
		case before.rule == rule:
			return nil
		case covers(before.rule, rule):
			return before.rule
		}
	}
	return nil
}

// covers reports whether a rule is served wherever another one with the same host
// and path is.
func covers(rule, other *route.Rule) bool {
	if rule.Match.Scheme != "" && rule.Match.Scheme != other.Match.Scheme {
		return false
	}
	if !sameConditions(&rule.Match, &route.Match{}) && !sameConditions(&rule.Match, &other.Match) {
		return false
	}
	if len(rule.EntryPoints) == 0 {
		return true
	}
	return len(other.EntryPoints) > 0 && !slices.ContainsFunc(other.EntryPoints, func(name string) bool {
		return !slices.Contains(rule.EntryPoints, name)
	})
}

// reasonOf names the step of the order that decided.
func reasonOf(winner, rule *route.Rule) route.Criterion {
	_, criterion := route.OrderOf(winner).Decide(route.OrderOf(rule))
	return criterion
}

// fieldOfRule returns the field of a rule, also of a default backend.
func fieldOfRule(id route.ID) string {
	if id.Kind == string(snapshot.Ingress) && id.Variant == translate.DefaultVariant {
		return "spec.defaultBackend"
	}
	return ruleField(id)
}
