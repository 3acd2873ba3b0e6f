package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/gateway"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// A listener can request a certificate for its host name, which a route or Ingress of
// another namespace may own. Any namespace may write a listener, and the edge serves the
// challenges of all hosts, so that an authority would verify every request: whether one
// counts is decided here. It does not make its namespace the owner of the host, because
// the listener of an operator is for the routes of others.

// replaceListenerRequests replaces the requests of a Gateway in the index by host.
func (e *Engine) replaceListenerRequests(u *gatewayUnit, before, after []gateway.CertificateRequest) {
	for i := range before {
		host := before[i].Hosts[0]
		e.state.requestedHosts[host] = struct{}{}
		delete(e.gateways.requesters[host], u)
		if len(e.gateways.requesters[host]) == 0 {
			delete(e.gateways.requesters, host)
		}
	}
	for i := range after {
		host := after[i].Hosts[0]
		e.state.requestedHosts[host] = struct{}{}
		if e.gateways.requesters[host] == nil {
			e.gateways.requesters[host] = map[*gatewayUnit]struct{}{}
		}
		e.gateways.requesters[host][u] = struct{}{}
	}
}

// recomputeListenerRequests decides which requests of listeners count, for the Gateways
// that were resolved, that have other routes, or whose hosts have other claims. It runs
// after recomputeHosts.
func (e *Engine) recomputeListenerRequests() {
	dirty := map[*gatewayUnit]struct{}{}
	for u := range e.state.gateways {
		if len(u.result.Requests)+len(u.granted) > 0 {
			dirty[u] = struct{}{}
		}
	}
	if len(e.gateways.requesters) > 0 {
		for host := range e.state.requestedHosts {
			maps.Copy(dirty, e.gateways.requesters[host])
		}
		for host := range e.state.hosts {
			maps.Copy(dirty, e.gateways.requesters[host])
		}
		for ref := range e.state.reattached {
			if u := e.gateways.units[ref]; u != nil && u.result != nil && len(u.result.Requests) > 0 {
				dirty[u] = struct{}{}
			}
		}
	}
	for u := range dirty {
		e.recomputeGatewayRequests(u)
	}
}

// recomputeGatewayRequests decides which requests of the listeners of a Gateway count.
func (e *Engine) recomputeGatewayRequests(u *gatewayUnit) {
	var granted []grantedRequest
	ungranted := map[string]string{}
	for i := range u.result.Requests {
		request := &u.result.Requests[i]
		if owner := e.foreignOwner(u, request); owner != "" {
			ungranted[request.Listener] = fmt.Sprintf(
				"no certificate is requested for %s: the host belongs to namespace %s, which has the oldest Ingress, route or listener for it. "+
					"Use a host of your own, or let a route of that namespace attach to this listener", request.Hosts[0], owner)
			continue
		}
		granted = append(granted, e.addRequest(certrequest.Requester{Object: request.From, Field: request.Field}, &request.CertificateRequest))
	}
	e.replaceGranted(&u.granted, granted)
	if !maps.Equal(u.ungranted, ungranted) {
		u.ungranted = ungranted
		e.markGateway(u.ref)
	}
	// Listeners of the Gateway may serve other challenges than before.
	e.state.challenges = true
}

// foreignOwner returns the namespace that a listener may have no certificate of: the one
// that the host belongs to, unless the listener is its own, or it has attached a route
// for the host to it. A host without a route belongs to the oldest listener that requests
// a certificate. It is empty if the request counts.
func (e *Engine) foreignOwner(u *gatewayUnit, request *gateway.CertificateRequest) string {
	owner := e.firstRequester(request.Hosts[0])
	if claims := e.hosts[request.Hosts[0]]; claims != nil {
		owner = claims.owner
		for claimant := range claims.routes.all() {
			if claimant.ref.Namespace == owner && claimant.route != nil && slices.Contains(claimant.route.Attached.At(u.ref), request.Listener) {
				return ""
			}
		}
	}
	if owner == request.From.Namespace {
		return ""
	}
	return owner
}

// firstRequester returns the namespace of the oldest object with a listener that requests
// a certificate for a host.
func (e *Engine) firstRequester(host string) string {
	var first *gateway.CertificateRequest
	for u := range e.gateways.requesters[host] {
		for i := range u.result.Requests {
			request := &u.result.Requests[i]
			if request.Hosts[0] == host && (first == nil || cmp.Or(request.Created.Compare(first.Created), request.From.Compare(first.From)) < 0) {
				first = request
			}
		}
	}
	if first == nil {
		return ""
	}
	return first.From.Namespace
}

// challengeListeners returns the listeners that serve the challenges of a host, sorted:
// the HTTP listeners of the Gateways that request a certificate for it. The name of the
// host leads to their address, and not to that of an entry point.
func (e *Engine) challengeListeners(host string) []route.ListenerID {
	var ids []route.ListenerID
	for u := range e.gateways.requesters[host] {
		if !u.requests(host) {
			continue
		}
		for id, listener := range u.listeners {
			if !listener.TLS && !listener.Raw {
				ids = append(ids, id)
			}
		}
	}
	slices.SortFunc(ids, route.ListenerID.Compare)
	return ids
}

// requests reports whether a request of the Gateway for a host counts.
func (u *gatewayUnit) requests(host string) bool {
	return slices.ContainsFunc(u.result.Requests, func(request gateway.CertificateRequest) bool {
		_, denied := u.ungranted[request.Listener]
		return request.Hosts[0] == host && !denied
	})
}

// grantedRequest is a certificate request that counts: who requests the certificate of
// which Secret.
type grantedRequest struct {
	secret snapshot.Ref
	from   certrequest.Requester
}

// replaceGranted replaces the requests of a unit that count. Those that stay were added
// before, so that none is removed in between.
func (e *Engine) replaceGranted(before *[]grantedRequest, next []grantedRequest) {
	for _, old := range *before {
		if !slices.Contains(next, old) {
			e.removeRequest(old)
		}
	}
	*before = next
}
