package engine

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/translate"
	"slipway.dev/slipway/internal/route"
)

// hostClaims has the Ingresses that claim one host. The host belongs to the
// namespace of the oldest of them. Ingresses of other namespaces have no
// certificate and no TLS options for it: otherwise any namespace could serve its
// own certificate for the host of another. What becomes of their rules is in
// hostrules.go.
type hostClaims struct {
	routes unitSet
	// owner is the namespace that the host belongs to, and grants are those of its
	// Ingresses; recomputeHost sets them.
	owner  string
	grants []resolve.HostGrant
	// ranked is set if a route of Traefik has the host. Rules are ordered by length then.
	ranked bool
	// shared is set if the owner has the host from a listener only. Routes of other
	// namespaces that have it from one, too, count.
	shared bool
	// nginx is what rules of ingress-nginx's Ingresses depend on, nil without any.
	nginx *nginx.Host
	// mixed is set if others have the host, too.
	mixed bool
}

// replaceClaims replaces the claims of an Ingress. Hosts whose claims change are
// recomputed later in the update, once for all Ingresses.
func (e *Engine) replaceClaims(u *routeUnit, born time.Time, next *translate.Outcome) {
	same := u.born.Equal(born) && slices.Equal(u.outcome.Hosts, next.Hosts) && u.outcome.HostsImplied == next.HostsImplied && reflect.DeepEqual(u.outcome.Grants, next.Grants) &&
		reflect.DeepEqual(u.outcome.Certificates, next.Certificates) && reflect.DeepEqual(u.outcome.Options, next.Options) &&
		reflect.DeepEqual(u.outcome.Requests, next.Requests) && reflect.DeepEqual(u.outcome.NGINX, next.NGINX)
	// Most updates change only rules or endpoints, and need no work on hosts.
	if same {
		return
	}
	// Both old and new requests count: one that is gone has to be removed from
	// its Secret.
	if len(u.outcome.Requests)+len(next.Requests) > 0 {
		e.state.requesters[u] = struct{}{}
	}
	for _, host := range u.outcome.Hosts {
		e.state.hosts[host] = struct{}{}
		if claims := e.hosts[host]; claims != nil {
			// The entry of a host without Ingresses is removed in
			// recomputeHosts, because the new claims may include it again.
			claims.routes.remove(u)
		}
		e.setHostClosed(u, host, nil)
		e.refusals.set(canarySource{u, host}, nil)
		e.refusals.setClaims(u, host, nil)
		e.refusals.set(unreachableSource{u, host}, nil)
		e.state.moved[host] = struct{}{}
	}
	// The old claims are gone from all hosts now; the new ones follow.
	u.born, u.hostClaims = born, claimsByHost(next)
	for _, host := range next.Hosts {
		e.state.hosts[host] = struct{}{}
		e.state.moved[host] = struct{}{}
		claims := e.hosts[host]
		if claims == nil {
			claims = &hostClaims{}
			e.hosts[host] = claims
		}
		claims.routes.add(u)
	}
}

// ingressHostClaims are the claims of one Ingress for one host. They point into
// the outcome of the unit, which is replaced as a whole.
type ingressHostClaims struct {
	certificates []*translate.CertificateClaim
	options      []*translate.OptionsClaim
	requests     []*resolve.CertificateRequest
}

// claimsByHost groups the claims of an Ingress by host. Most Ingresses have
// rules only; for those it returns nil and allocates nothing.
func claimsByHost(outcome *translate.Outcome) map[string]ingressHostClaims {
	if len(outcome.Certificates)+len(outcome.Options)+len(outcome.Requests) == 0 {
		return nil
	}
	requests := make(map[string]ingressHostClaims, len(outcome.Hosts))
	for i := range outcome.Certificates {
		claim := &outcome.Certificates[i]
		for _, host := range claim.Hosts {
			of := requests[host]
			of.certificates = append(of.certificates, claim)
			requests[host] = of
		}
	}
	for i := range outcome.Options {
		claim := &outcome.Options[i]
		for _, host := range claim.Hosts {
			of := requests[host]
			of.options = append(of.options, claim)
			requests[host] = of
		}
	}
	for i := range outcome.Requests {
		request := &outcome.Requests[i]
		for _, host := range request.Hosts {
			of := requests[host]
			of.requests = append(of.requests, request)
			requests[host] = of
		}
	}
	return requests
}

// recomputeHosts decides between the claims of the hosts that changed, and resolves the
// Ingresses again that depend on who owns one of them. These keep their claims, so that
// the second time is the last.
func (e *Engine) recomputeHosts() {
	e.recomputeClaims()
	for len(e.state.routes) > 0 {
		e.resolve()
		e.recomputeClaims()
	}
}

// recomputeClaims decides between the claims of the hosts that changed.
func (e *Engine) recomputeClaims() {
	// The order of hosts does not matter: no host depends on the result of
	// another.
	for host := range e.state.hosts {
		claims := e.hosts[host]
		if claims == nil {
			continue
		}
		if claims.routes.count() == 0 {
			e.tls.setHost(host, nil, nil)
			delete(e.hosts, host)
			continue
		}
		e.recomputeHost(host, claims)
	}
}

// recomputeHost chooses the certificates and TLS options of a host, and refuses
// the claims that do not count. Ingresses are visited by age, so the choice does
// not depend on the order in which they were read.
func (e *Engine) recomputeHost(host string, claims *hostClaims) {
	sites := slices.SortedFunc(claims.routes.all(), compareAge)
	owner := sites[0].ref.Namespace
	e.setOwner(host, claims, owner, sites)
	e.setNGINX(host, claims, sites)
	var certificates []*route.Certificate
	var options *reference.TLSConditions
	for _, u := range sites {
		var refusals []refusal.Refusal
		// Grants are about rules: a foreign Ingress has no say about TLS.
		foreign := u.ref.Namespace != owner
		requests := u.hostClaims[host]
		for _, request := range requests.requests {
			e.state.requesters[u] = struct{}{}
			if foreign {
				refusals = append(refusals, refuse(u, request.Field, "no certificate is fetched for %s: an older Ingress of namespace %s has the host", host, owner))
			}
		}
		for _, claim := range requests.certificates {
			if foreign {
				refusals = append(refusals, refuse(u, claim.Field, "the certificate is not used for %s: an older Ingress of namespace %s has the host", host, owner))
			} else {
				certificates = append(certificates, claim.Certificate)
			}
		}
		var fault *refusal.Refusal
		for _, claim := range requests.options {
			switch {
			case foreign:
				fault = refusal.New(claim.Field, refusal.Conflict,
					"the TLS options do not count for %s: an older Ingress of namespace %s has the host", host, owner)
			// The oldest Ingress with TLS options decides; a later one must
			// agree with it, because a handshake selects options by host alone.
			case options == nil:
				options = conditionsOf(claim)
			case !reflect.DeepEqual(options.Options, conditionsOf(claim).Options):
				fault = refusal.New(claim.Field, refusal.Conflict,
					"an older Ingress has other TLS options for %s: use the same for all of its Ingresses", host)
			}
		}
		if fault != nil {
			refusals = append(refusals, fault.Of(u.ref.Object()))
		}
		e.setHostClosed(u, host, fault)
		e.refusals.setClaims(u, host, refusals)
	}
	e.tls.setHost(host, certificates, options)
}

// refusedOptions names the TLS options of the hosts of a namespace whose own are
// refused. No object can have such a name.
const refusedOptions = "_refused"

// conditionsOf returns the TLS conditions of a claim. Refused ones get an identity
// of their own, so that the edge refuses handshakes instead of using defaults.
func conditionsOf(claim *translate.OptionsClaim) *reference.TLSConditions {
	if claim.Refused == nil {
		return &claim.Conditions
	}
	return &reference.TLSConditions{Options: route.TLSOptions{
		ID: route.TLSOptionsID{Namespace: claim.Ingress.Namespace, Name: refusedOptions}, Refused: true,
	}}
}

// refuse returns a refusal of a claim. The reason is always a conflict with an older
// Ingress.
func refuse(u *routeUnit, field, format string, args ...any) refusal.Refusal {
	return refusal.New(field, refusal.Conflict, format, args...).Of(u.ref.Object())
}

// setHostClosed closes the rules of an Ingress for a host whose TLS options it
// cannot have, or opens them again with nil. Serving them with weaker options
// than written would fail open.
func (e *Engine) setHostClosed(u *routeUnit, host string, fault *refusal.Refusal) {
	before := u.closed[host]
	if before == nil && fault == nil || before != nil && fault != nil && *before == *fault {
		return
	}
	if fault == nil {
		delete(u.closed, host)
	} else {
		if u.closed == nil {
			u.closed = map[string]*refusal.Refusal{}
		}
		u.closed[host] = fault
	}
	e.state.dirtyRules[u] = struct{}{}
}

// compareAge orders Ingresses as rules are ordered: the oldest first, then by name,
// so that all replicas agree.
func compareAge(a, b *routeUnit) int {
	return cmp.Or(
		a.born.Compare(b.born),
		strings.Compare(a.ref.Namespace, b.ref.Namespace), strings.Compare(a.ref.Name, b.ref.Name),
	)
}

// claims reports whether the Ingress names a certificate.
func (u *routeUnit) claims(id route.CertificateID) bool {
	return slices.ContainsFunc(u.outcome.Certificates, func(claim translate.CertificateClaim) bool {
		return claim.Certificate.ID == id
	})
}
