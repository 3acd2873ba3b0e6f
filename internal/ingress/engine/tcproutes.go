package engine

import (
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/route"
)

// tcpSet are the published TCP routes of a unit; nil without any.
type tcpSet map[route.TCPRouteID]*route.TCPRoute

// replace replaces the TCP routes and appends the difference to a delta.
func (s *tcpSet) replace(routes []*route.TCPRoute, delta *route.Delta[route.TCPRouteID, route.TCPRoute]) {
	before := *s
	*s = nil
	for _, tcp := range routes {
		if *s == nil {
			*s = make(tcpSet, len(routes))
		}
		(*s)[tcp.ID] = appendDelta(delta, tcp.ID, before[tcp.ID], tcp)
		delete(before, tcp.ID)
	}
	for id := range before {
		delta.Removed = append(delta.Removed, id)
	}
}

// placeTCP is placeRules for the routes of connections: those for server names of other
// namespaces are left out or put behind, unless they are granted.
func (e *Engine) placeTCP(u *routeUnit) []*route.TCPRoute {
	if e.options.HostSharing == resolve.HostSharingOpen {
		return u.outcome.TCPRoutes
	}
	behind := e.options.HostSharing == resolve.HostSharingBehind
	placed := make([]*route.TCPRoute, 0, len(u.outcome.TCPRoutes))
	var denied deniedHosts
	for _, tcp := range u.outcome.TCPRoutes {
		// Without a server name the Gateway decides who may attach.
		claims := &hostClaims{owner: u.ref.Namespace}
		if tcp.ServerName != "" {
			claims = e.hosts[tcp.ServerName]
		}
		owned := *tcp
		owned.HostOwner = route.HostOwner{Namespace: claims.owner, Exclusive: !behind}
		asRule := &route.Rule{ID: route.ID(tcp.ID), Host: tcp.ServerName}
		if !claims.admits(u, asRule) {
			if !behind {
				denied.add(claims.owner, asRule)
				continue
			}
			owned.HostOwner.Behind = true
		}
		placed = append(placed, &owned)
	}
	e.refusals.set(hostRulesSource{u}, denied.refusals(u))
	return placed
}
