package gateway

import (
	"fmt"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/route"
)

// maxPortsOfSets bounds the ports that the ListenerSets of one namespace bring to a
// Gateway, because each is a socket. It is the number of listeners of one ListenerSet.
// Listeners of ports that the Gateway has already are not counted.
const maxPortsOfSets = 64

// port is a port of a Gateway. TCP and UDP have ports of their own.
type port struct {
	number uint16
	udp    bool
}

// at returns the port of a listener.
func (l *listener) at() port { return port{l.port, l.udp()} }

// ports are the ports of a Gateway while its listeners are read. What they cost follows
// the number of listeners, also when a tenant makes thousands.
type ports struct {
	uses map[port]*portUse
	// brought counts the ports that ListenerSets of a namespace brought.
	brought map[string]int
}

// portUse are the listeners of a port, by what distinguishes them.
type portUse struct {
	all        int
	byProtocol map[gatewayv1.ProtocolType]int
	byHost     map[string]int
}

// add counts a listener.
func (u *portUse) add(l *listener) {
	u.all++
	u.byProtocol[l.spec.Protocol]++
	u.byHost[l.hostname]++
}

// conflict returns why a listener cannot have a port with others; own is set if they
// include it.
func (u *portUse) conflict(l *listener, own int) gatewayv1.ListenerConditionReason {
	switch {
	case u == nil || u.all == own:
		return ""
	case u.byProtocol[l.spec.Protocol] != u.all, l.mode == route.TLSPlain:
		return gatewayv1.ListenerReasonProtocolConflict
	case u.byHost[l.hostname] > own:
		return gatewayv1.ListenerReasonHostnameConflict
	default:
		return ""
	}
}

// useOf returns the use of a port, a new one if there is none.
func useOf(uses map[port]*portUse, at port) *portUse {
	if uses[at] == nil {
		uses[at] = &portUse{byProtocol: map[gatewayv1.ProtocolType]int{}, byHost: map[string]int{}}
	}
	return uses[at]
}

// markConflicts marks the listeners of one port that nothing distinguishes. Between objects
// the first one counts: the Gateway, then the oldest ListenerSet.
func markConflicts(listeners []listener) {
	p := &ports{map[port]*portUse{}, map[string]int{}}
	for start := 0; start < len(listeners); {
		end := start
		for end < len(listeners) && listeners[end].set == listeners[start].set {
			end++
		}
		p.mark(listeners[start:end])
		start = end
	}
}

// mark marks the listeners of one object, after those of earlier ones. Of those that
// are left none is better than the others, so that none of two is served.
func (p *ports) mark(own []listener) {
	var left []*listener
	together := map[port]*portUse{}
	for i := range own {
		l := &own[i]
		if l.unsupported != "" {
			continue
		}
		if l.conflict = p.uses[l.at()].conflict(l, 0); l.conflict == "" {
			left = append(left, l)
			useOf(together, l.at()).add(l)
		}
	}
	for _, l := range left {
		if l.conflict = together[l.at()].conflict(l, 1); l.conflict == "" && p.takes(l) {
			useOf(p.uses, l.at()).add(l)
		}
	}
}

// takes reports whether the Gateway has the port of a listener, or can have it.
func (p *ports) takes(l *listener) bool {
	if l.set == nil || p.uses[l.at()] != nil {
		return true
	}
	if p.brought[l.set.Namespace] >= maxPortsOfSets {
		l.unavailable = fmt.Sprintf("ListenerSets of the namespace %s bring %d ports to the Gateway, which is the limit: use one of these ports", l.set.Namespace, maxPortsOfSets)
		return false
	}
	p.brought[l.set.Namespace]++
	return true
}
