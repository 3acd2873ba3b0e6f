package gateway

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// The kinds of objects that this package names in references and status.
const (
	kindGateway   gatewayv1.Kind = "Gateway"
	kindSet       gatewayv1.Kind = "ListenerSet"
	kindHTTPRoute gatewayv1.Kind = "HTTPRoute"
	kindGRPCRoute gatewayv1.Kind = "GRPCRoute"
	kindTLSRoute  gatewayv1.Kind = "TLSRoute"
	kindTCPRoute  gatewayv1.Kind = "TCPRoute"
	kindUDPRoute  gatewayv1.Kind = "UDPRoute"
	kindService   gatewayv1.Kind = "Service"
	kindSecret    gatewayv1.Kind = "Secret"
	kindConfigMap gatewayv1.Kind = "ConfigMap"
)

// listener is a listener of a Gateway, as its spec alone decides it. Routes attach to
// it whether or not its certificates are there.
type listener struct {
	spec *gatewayv1.Listener
	// set is the ListenerSet that it is of; nil for one of the Gateway itself.
	set *gatewayv1.ListenerSet
	// name is unique among the listeners of the Gateway and its ListenerSets.
	name     string
	port     uint16
	hostname string
	tls      bool
	// mode is how connections are passed on to TCP routes of the table; empty if they
	// are read as HTTP.
	mode route.TLSMode
	// kinds are the kinds of routes that it accepts, of those that are served.
	kinds []gatewayv1.Kind
	// unknownKinds is set if it names kinds that are not served.
	unknownKinds bool
	// unsupported is why it is not accepted, conflict why no traffic comes to it, and
	// unavailable why it has no port; empty for none.
	unsupported string
	conflict    gatewayv1.ListenerConditionReason
	unavailable string
	// bare is set if it needs a certificate and has none that can be used, and distrusts
	// if it verifies clients and has no authority for that.
	bare, distrusts bool
	// pending is that its certificate is being requested; empty if it is not.
	pending string
}

// usable reports whether traffic can come to the listener.
func (l *listener) usable() bool {
	return l.unsupported == "" && l.conflict == "" && l.unavailable == ""
}

// udp reports whether it takes datagrams.
func (l *listener) udp() bool { return l.spec.Protocol == gatewayv1.UDPProtocolType }

// terminates reports whether it decrypts connections, for which it needs a certificate.
func (l *listener) terminates() bool { return l.tls && l.mode != route.TLSPassthrough }

// listenersOf returns the listeners of a Gateway in its order, and then those of its
// ListenerSets.
func listenersOf(view *snapshot.View, gateway *gatewayv1.Gateway) []listener {
	listeners := newListeners(nil, gateway.Spec.Listeners)
	for _, set := range view.ListenerSets(gateway.Namespace, gateway.Name) {
		if allowsSet(view, gateway, set) {
			listeners = append(listeners, newListeners(set, entriesOf(set))...)
		}
	}
	markConflicts(listeners)
	return listeners
}

// newListeners reads listeners of a Gateway, or of a ListenerSet.
func newListeners(set *gatewayv1.ListenerSet, specs []gatewayv1.Listener) []listener {
	listeners := make([]listener, 0, len(specs))
	for i := range specs {
		spec := &specs[i]
		l := listener{
			spec: spec, set: set, name: listenerName(set, spec.Name), port: uint16(spec.Port),
			hostname: resolve.SpellHost(string(or(spec.Hostname, ""))),
		}
		served := l.setProtocol()
		switch {
		case len(served) == 0:
			l.unsupported = "the protocol " + string(spec.Protocol) + " is not served: use HTTP, HTTPS, TLS, TCP or UDP"
		case spec.Protocol == gatewayv1.HTTPSProtocolType && l.passesTLS():
			l.unsupported = "an HTTPS listener terminates TLS: set tls.mode to Terminate"
		default:
			l.setKinds(served)
		}
		listeners = append(listeners, l)
	}
	return listeners
}

// passesTLS reports whether the listener is to pass TLS on as it is.
func (l *listener) passesTLS() bool {
	return l.spec.TLS != nil && or(l.spec.TLS.Mode, gatewayv1.TLSModeTerminate) != gatewayv1.TLSModeTerminate
}

// setProtocol sets what follows from the protocol, and returns the kinds of routes that
// it can have; none if it is not served.
func (l *listener) setProtocol() []gatewayv1.Kind {
	switch l.spec.Protocol {
	case gatewayv1.HTTPProtocolType:
		return []gatewayv1.Kind{kindHTTPRoute, kindGRPCRoute}
	case gatewayv1.HTTPSProtocolType:
		l.tls = true
		return []gatewayv1.Kind{kindHTTPRoute, kindGRPCRoute}
	case gatewayv1.TLSProtocolType:
		l.tls, l.mode = true, route.TLSTerminate
		if l.passesTLS() {
			l.mode = route.TLSPassthrough
		}
		return []gatewayv1.Kind{kindTLSRoute}
	case gatewayv1.TCPProtocolType:
		l.mode, l.hostname = route.TLSPlain, "" // a connection has no name
		return []gatewayv1.Kind{kindTCPRoute}
	case gatewayv1.UDPProtocolType:
		l.mode, l.hostname = route.TLSPlain, ""
		return []gatewayv1.Kind{kindUDPRoute}
	default:
		return nil
	}
}

// setKinds sets the kinds of routes that the listener accepts; without a list these
// are all that its protocol can have.
func (l *listener) setKinds(served []gatewayv1.Kind) {
	if l.spec.AllowedRoutes == nil || len(l.spec.AllowedRoutes.Kinds) == 0 {
		l.kinds = served
		return
	}
	for _, kind := range l.spec.AllowedRoutes.Kinds {
		switch {
		case or(kind.Group, gatewayv1.GroupName) != gatewayv1.GroupName || !slices.Contains(served, kind.Kind):
			l.unknownKinds = true
		case !slices.Contains(l.kinds, kind.Kind):
			l.kinds = append(l.kinds, kind.Kind)
		}
	}
}

// sharesPort reports whether two listeners have one port. TCP and UDP have ports of
// their own.
func (l *listener) sharesPort(other *listener) bool {
	return l.port == other.port && l.udp() == other.udp()
}

// owner returns the kind and namespace of the object that it is of.
func (l *listener) owner(gateway *gatewayv1.Gateway) (gatewayv1.Kind, string) {
	if l.set != nil {
		return kindSet, l.set.Namespace
	}
	return kindGateway, gateway.Namespace
}

// allows reports whether a route of a kind and namespace may attach.
func (l *listener) allows(view *snapshot.View, gateway *gatewayv1.Gateway, kind gatewayv1.Kind, namespace string) bool {
	if !slices.Contains(l.kinds, kind) {
		return false
	}
	var from gatewayv1.RouteNamespaces
	if l.spec.AllowedRoutes != nil && l.spec.AllowedRoutes.Namespaces != nil {
		from = *l.spec.AllowedRoutes.Namespaces
	}
	_, own := l.owner(gateway)
	return selects(view, or(from.From, gatewayv1.NamespacesFromSame), from.Selector, own, namespace)
}

// selects reports whether a namespace is among those that another one allows.
func selects(view *snapshot.View, from gatewayv1.FromNamespaces, selector *metav1.LabelSelector, own, namespace string) bool {
	switch from {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSelector:
		// An invalid selector selects nothing.
		parsed, err := metav1.LabelSelectorAsSelector(selector)
		return err == nil && parsed.Matches(labels.Set(view.NamespaceLabels(namespace)))
	case gatewayv1.NamespacesFromSame:
		return namespace == own
	default:
		return false
	}
}

// isolated reports whether requests for a host name of a route belong to a more
// specific listener of the same port. A ListenerSet of another namespace than that of
// the route does not take the name away: who owns the host decides.
func (l *listener) isolated(listeners []listener, host, namespace string) bool {
	for i := range listeners {
		other := &listeners[i]
		if other.set != nil && other.set.Namespace != namespace {
			continue
		}
		if other.sharesPort(l) && other.usable() && other.hostname != l.hostname &&
			covers(l.hostname, other.hostname) && covers(other.hostname, host) {
			return true
		}
	}
	return false
}

// listenerID returns the listener of the routing table that a listener is part of.
func listenerID(gateway *gatewayv1.Gateway, l *listener) route.ListenerID {
	return route.ListenerID{Namespace: gateway.Namespace, Name: gateway.Name, Port: l.port, UDP: l.udp()}
}
