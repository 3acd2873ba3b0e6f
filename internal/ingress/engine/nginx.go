package engine

import (
	"reflect"
	"slices"
	"strings"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// locationSource is the source of the refusals of an Ingress of ingress-nginx about
// paths that its host makes expressions, and canarySource of those about canaries.
type (
	locationSource struct{ unit *routeUnit }
	canarySource   struct {
		unit *routeUnit
		host string
	}
)

// AsNGINX reports whether an Ingress is served as one of ingress-nginx.
func (e *Engine) AsNGINX(ref snapshot.Ref) bool {
	unit := e.routes[ref]
	return unit != nil && unit.outcome.NGINX != nil
}

// nginxDefaults returns the defaults of ingress-nginx's Ingresses.
func (e *Engine) nginxDefaults() *nginx.Settings {
	if e.options.NGINX == nil {
		return nil
	}
	return e.options.NGINX.Defaults
}

// NGINXObjects returns the objects that depend on the defaults of ingress-nginx's
// Ingresses, which are in the options: an update pass for them follows when these change.
// Hosts compare what their Ingresses contribute, so that the rest follows.
func (e *Engine) NGINXObjects() []snapshot.Ref {
	var refs []snapshot.Ref
	for ref, unit := range e.routes {
		if unit.outcome.NGINX != nil {
			refs = append(refs, ref)
		}
	}
	for id := range e.backends {
		if strings.HasPrefix(id.Variant, nginx.BackendVariant) {
			refs = append(refs, snapshot.Ref{Kind: snapshot.Service, Namespace: id.Namespace, Name: id.Name})
		}
	}
	return refs
}

// setNGINX recomputes what the rules of ingress-nginx's Ingresses for a host depend on.
// The units are sorted by age. Only those count that may have rules for the whole host:
// others would change the rules of its owner.
func (e *Engine) setNGINX(host string, claims *hostClaims, units []*routeUnit) {
	var members []nginx.Member
	mixed := false
	for _, u := range units {
		mixed = mixed || u.outcome.NGINX == nil
		if u.outcome.NGINX != nil && e.countsForHost(claims, u) {
			members = append(members, nginx.Member{Namespace: u.ref.Namespace, Name: u.ref.Name, Outcome: u.outcome.NGINX})
		}
	}
	next := nginx.NewHost(host, members)
	for _, u := range units {
		if u.outcome.NGINX != nil {
			e.refusals.set(canarySource{u, host}, lostCanaries(u, host, next))
		}
	}
	if claims.mixed == mixed && reflect.DeepEqual(claims.nginx, next) {
		return
	}
	claims.nginx, claims.mixed = next, mixed
	for _, u := range units {
		if u.outcome.NGINX != nil {
			e.state.dirtyRules[u] = struct{}{}
		}
	}
}

// countsForHost reports whether a unit may have rules for all of a host.
func (e *Engine) countsForHost(claims *hostClaims, u *routeUnit) bool {
	if e.options.HostSharing == resolve.HostSharingOpen || u.ref.Namespace == claims.owner {
		return true
	}
	return slices.ContainsFunc(claims.grants, func(grant resolve.HostGrant) bool {
		return grant.Namespace == u.ref.Namespace && len(grant.Prefixes) == 0
	})
}

// lostCanaries returns the refusals of canaries whose host has no such path.
func lostCanaries(u *routeUnit, host string, state *nginx.Host) []refusal.Refusal {
	var refusals []refusal.Refusal
	for i := range u.outcome.NGINX.Canaries {
		canary := &u.outcome.NGINX.Canaries[i]
		if canary.Host == host && !state.HasCanaryTarget(canary) {
			refusals = append(refusals, refusal.New(nginx.FieldOf("canary"), refusal.NotFound,
				"no Ingress has the path %.120q of host %q that it would be a canary of: create it, or remove the annotation", canary.Path, host).Of(u.ref.Object()))
		}
	}
	return refusal.Bounded(refusals, resolve.MaxRefusals)
}

// placeLocations returns the rules of an Ingress of ingress-nginx with the places that
// its hosts give them.
func (e *Engine) placeLocations(u *routeUnit) []*route.Rule {
	placed := make([]*route.Rule, 0, len(u.outcome.Rules))
	var refusals []refusal.Refusal
	for i, rule := range u.outcome.Rules {
		var host *nginx.Host
		if claims := e.hosts[rule.Host]; claims != nil {
			host = claims.nginx
		}
		at := &u.outcome.NGINX.Locations[i]
		if u.outcome.NGINX.Server != nil && !host.HasServer() && !at.Redirects {
			refusals = append(refusals, refusal.New(nginx.FieldOf("server-snippet"), refusal.NotAllowed,
				"it counts for a whole host, and the Ingress has only a part of %q, so its rules are not served: name a host that its namespace owns", rule.Host).Of(u.ref.Object()))
			continue
		}
		rules, problem := host.Place(rule, at)
		if problem != "" {
			refusals = append(refusals, refusal.New(fieldOfRule(rule.ID)+".path", refusal.Unsupported,
				"an Ingress of the host has use-regex or rewrite-target, so this path is an expression, too, and cannot be served: %s", problem).Of(u.ref.Object()))
		}
		placed = append(placed, rules...)
	}
	for i, name := range u.outcome.Hosts {
		claims := e.hosts[name]
		if name == "" || claims == nil {
			continue
		}
		for _, rule := range claims.nginx.ServerRules(u.ref.Namespace, u.ref.Name) {
			rule.ID.Rule, rule.Host, rule.Created = i, name, u.born
			placed = append(placed, rule)
		}
		if claims.mixed {
			continue
		}
		if missing := claims.nginx.Missing(u.ref.Namespace, u.ref.Name); missing != nil {
			missing.ID.Rule, missing.Host, missing.Created = i, name, u.born
			placed = append(placed, missing)
		}
	}
	e.refusals.set(locationSource{u}, refusal.Bounded(refusals, resolve.MaxRefusals))
	return placed
}
