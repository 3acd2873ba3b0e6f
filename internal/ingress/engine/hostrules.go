package engine

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"slipway.dev/slipway/api/finding"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// hostRulesSource is the source of refused rules of an Ingress for hosts of other
// namespaces.
type hostRulesSource struct{ unit *routeUnit }

// setOwner sets the owner of a host and the grants of its Ingresses, which are sorted by
// age. If one of them changes, the rules of all Ingresses of the host are placed
// again.
func (e *Engine) setOwner(host string, claims *hostClaims, owner string, units []*routeUnit) {
	var grants []resolve.HostGrant
	for _, u := range units {
		if u.ref.Namespace == owner {
			grants = append(grants, u.outcome.Grants...)
		}
	}
	shared := units[0].outcome.HostsImplied
	ranked := slices.ContainsFunc(units, func(u *routeUnit) bool { return snapshot.IsTraefikRoute(u.ref.Kind) })
	if claims.owner == owner && claims.shared == shared && claims.ranked == ranked && reflect.DeepEqual(claims.grants, grants) {
		return
	}
	if claims.owner != owner {
		e.readers.markDirty(snapshot.Ref{Kind: snapshot.IngressHost, Name: host}, &e.state)
	}
	claims.owner, claims.grants, claims.shared, claims.ranked = owner, grants, shared, ranked
	for _, u := range units {
		e.state.dirtyRules[u] = struct{}{}
		if u.route == nil {
			continue
		}
		for _, of := range u.route.Attached {
			e.markReattached(of.Gateway, u)
		}
	}
}

// placeRules returns the rules of an Ingress that are published, in a new list, each
// with the owner of its host. Rules for hosts of other namespaces are left out or
// put behind, unless they are granted. They get no 503: that would take the path
// from the owner.
func (e *Engine) placeRules(u *routeUnit) []*route.Rule {
	rules := u.outcome.Rules
	if u.outcome.NGINX != nil {
		rules = e.placeLocations(u)
	}
	if e.options.HostSharing == resolve.HostSharingOpen {
		rules = slices.DeleteFunc(slices.Clone(rules), func(rule *route.Rule) bool { return u.conflicts.at(rule.Listener) })
		for i, rule := range rules {
			// Priorities count across hosts, so that all rules need one.
			if e.traefikRoutes > 0 {
				rules[i] = ranked(rule)
			}
		}
		return rules
	}
	behind := e.options.HostSharing == resolve.HostSharingBehind
	placed := make([]*route.Rule, 0, len(rules))
	var denied deniedHosts
	for i, rule := range rules {
		if u.conflicts.at(rule.Listener) {
			continue
		}
		claims := e.hosts[rule.Host]
		// A route without a host belongs to no namespace: its Gateway decides who may
		// attach to it. It serves no host that belongs to another namespace.
		if rule.Host == "" && rule.Listener != (route.ListenerID{}) {
			claims = &hostClaims{owner: u.ref.Namespace}
		}
		place := route.HostOwner{Namespace: claims.owner, Exclusive: !behind}
		if !claims.admits(u, rule) {
			if !behind {
				denied.add(claims.owner, rule)
				continue
			}
			place.Behind = true
		}
		rule = placeRule(rule, place)
		rules[i] = rule
		if claims.ranked {
			rule = ranked(rule)
		}
		placed = append(placed, rule)
	}
	if !behind {
		placed = append(placed, e.reservations(u)...)
	}
	e.refusals.set(hostRulesSource{u}, denied.refusals(u))
	return placed
}

// placeRule returns a rule with the owner of its host. A rule without one was never
// published and is changed itself; a published rule never changes, so another place is
// that of a copy. The outcome gets the result, so that the next pass finds it placed.
func placeRule(rule *route.Rule, place route.HostOwner) *route.Rule {
	switch rule.HostOwner {
	case place:
		return rule
	case route.HostOwner{}:
		rule.HostOwner = place
		return rule
	}
	owned := *rule
	owned.HostOwner = place
	return &owned
}

// countTraefik counts a route of Traefik that began or ceased to be ours. Where priorities
// count across hosts, the first and the last of them change the order of all rules.
func (e *Engine) countTraefik(ours bool) {
	before := e.traefikRoutes > 0
	if ours {
		e.traefikRoutes++
	} else {
		e.traefikRoutes--
	}
	if before == (e.traefikRoutes > 0) || e.options.HostSharing != resolve.HostSharingOpen {
		return
	}
	for _, u := range e.routes {
		e.state.dirtyRules[u] = struct{}{}
	}
}

// ranked returns a rule of an Ingress beside routes of Traefik. These are ordered by the
// length of their rule, and so is a rule of an Ingress in Traefik. Without that a route
// for all paths would take those of an Ingress of the same host, such as the paths of
// ACME challenges.
func ranked(rule *route.Rule) *route.Rule {
	if rule.Priority != 0 || rule.Fallback || snapshot.Kind(rule.ID.Kind) != snapshot.Ingress {
		return rule
	}
	copied := *rule
	copied.Priority = int32(resolve.TraefikLength(rule.Host, rule.Match.Path))
	return &copied
}

// admits reports whether a rule counts for the host: it is one of the owner, or the
// owner has granted it.
func (c *hostClaims) admits(u *routeUnit, rule *route.Rule) bool {
	if u.ref.Namespace == c.owner || c.shared && u.outcome.HostsImplied {
		return true
	}
	return slices.ContainsFunc(c.grants, func(grant resolve.HostGrant) bool {
		return grant.Namespace == u.ref.Namespace && grant.Covers(rule.Match.Path)
	})
}

// reservedVariant distinguishes the rule that reserves a host, and matchesNothing is
// its path.
const (
	reservedVariant = "host"
	matchesNothing  = `[^\x00-\x{10FFFF}]`
)

// reservations returns a rule for each host that the Ingress owns without a rule
// for it, such as one of spec.tls alone. It matches no request and keeps the host
// from the wildcards of other namespaces, which would be served with the
// certificate of the owner.
func (e *Engine) reservations(u *routeUnit) []*route.Rule {
	var reserved []*route.Rule
	ruled := map[string]bool{}
	for _, rule := range u.outcome.Rules {
		ruled[rule.Host] = true
	}
	for i, host := range u.outcome.Hosts {
		if ruled[host] || e.hosts[host].owner != u.ref.Namespace {
			continue
		}
		reserved = append(reserved, &route.Rule{
			ID: route.ID{
				Kind: kindOfRule(u.ref), Namespace: u.ref.Namespace, Name: u.ref.Name, Rule: i, Variant: reservedVariant,
			},
			Host: host, Created: u.born, HostOwner: route.HostOwner{Namespace: u.ref.Namespace, Exclusive: true},
			Match: route.Match{Path: route.PathMatch{Type: route.PathRegexp, Value: matchesNothing}},
			Response: &route.Response{
				Status: 404, Reason: route.ReasonConfigured, Message: "the Ingress has this host without a rule for it",
			},
		})
	}
	return reserved
}

// deniedHosts are the hosts of other namespaces that an Ingress has rules for, in
// the order of these.
type deniedHosts struct {
	hosts []deniedHost
	index map[string]int
}

// deniedHost is a host with its refused rules.
type deniedHost struct {
	host, owner string
	rules       []*route.Rule
}

// add adds a refused rule.
func (d *deniedHosts) add(owner string, rule *route.Rule) {
	at, known := d.index[rule.Host]
	if !known {
		if d.index == nil {
			d.index = map[string]int{}
		}
		at = len(d.hosts)
		d.index[rule.Host] = at
		d.hosts = append(d.hosts, deniedHost{host: rule.Host, owner: owner})
	}
	d.hosts[at].rules = append(d.hosts[at].rules, rule)
}

// refusals returns a refusal for each host, up to the limit of an Ingress.
func (d *deniedHosts) refusals(u *routeUnit) []refusal.Refusal {
	var refusals []refusal.Refusal
	for i := range d.hosts {
		if i == resolve.MaxRefusals {
			refusals = append(refusals, refusal.New("", refusal.TooLarge,
				"%d more hosts belong to other namespaces and are not listed", len(d.hosts)-i).Of(u.ref.Object()))
			break
		}
		refusals = append(refusals, d.hosts[i].refusal(u))
	}
	return refusals
}

// refusal names the owner of the host and the annotation that would grant the
// rules.
func (d *deniedHost) refusal(u *routeUnit) refusal.Refusal {
	what := "the host " + d.host
	if d.host == "" {
		what = "traffic without a host of its own"
	}
	if snapshot.IsGatewayRoute(u.ref.Kind) {
		return refusal.New(fieldOfRule(d.rules[0].ID), refusal.HostNotGranted,
			"%s belongs to namespace %s, which has the oldest Ingress or route for it, so %s not served: "+
				"use a host of your own, or let the owner grant it with a ReferenceGrant from %ss of namespace %s to its own routes",
			what, d.owner, finding.Count(len(d.rules), "rule of this route is", "rules of this route are"), u.ref.Object().Kind, u.ref.Namespace).Of(u.ref.Object())
	}
	kind := u.ref.Object().Kind
	return refusal.New(fieldOfRule(d.rules[0].ID), refusal.HostNotGranted,
		"%s belongs to namespace %s, which has the oldest Ingress for it, so %s not served: "+
			"use a host of your own, or let the owner grant it with the annotation slipway.dev/host-grants: %q on its Ingress",
		what, d.owner, finding.Count(len(d.rules), "rule of this "+kind+" is", "rules of this "+kind+" are"), d.wanted(u.ref.Namespace)).Of(u.ref.Object())
}

// wanted returns the grant that would cover the rules: their paths if these are few and
// literal, and otherwise the whole host.
func (d *deniedHost) wanted(namespace string) string {
	const most, mostBytes = 4, 200
	var prefixes []string
	for _, rule := range d.rules {
		prefix := rule.Match.Path.Literal()
		grant := resolve.HostGrant{Prefixes: []string{prefix}}
		if prefix == "/" || !grant.Covers(rule.Match.Path) || strings.Contains(prefix, ",") {
			return namespace
		}
		if !slices.Contains(prefixes, prefix) {
			prefixes = append(prefixes, prefix)
		}
	}
	if list := strings.Join(prefixes, ","); len(prefixes) <= most && len(list) <= mostBytes {
		return fmt.Sprintf("%s=%s", namespace, list)
	}
	return namespace
}
