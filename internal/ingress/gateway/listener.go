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
	kindHTTPRoute gatewayv1.Kind = "HTTPRoute"
	kindGRPCRoute gatewayv1.Kind = "GRPCRoute"
	kindService   gatewayv1.Kind = "Service"
	kindSecret    gatewayv1.Kind = "Secret"
)

// listener is a listener of a Gateway, as its spec alone decides it. Routes attach to
// it whether or not its certificates are there.
type listener struct {
	spec     *gatewayv1.Listener
	name     string
	port     uint16
	hostname string
	tls      bool
	// kinds are the kinds of routes that it accepts, of those that are served.
	kinds []gatewayv1.Kind
	// unknownKinds is set if it names kinds that are not served.
	unknownKinds bool
	// unsupported is why it is not accepted, and conflict why no traffic comes to
	// it; empty for none.
	unsupported string
	conflict    gatewayv1.ListenerConditionReason
	// bare is set if it needs a certificate and has none that can be used.
	bare bool
}

// usable reports whether traffic can come to the listener.
func (l *listener) usable() bool { return l.unsupported == "" && l.conflict == "" }

// listenersOf returns the listeners of a Gateway, in its order.
func listenersOf(gateway *gatewayv1.Gateway) []listener {
	listeners := make([]listener, 0, len(gateway.Spec.Listeners))
	for i := range gateway.Spec.Listeners {
		spec := &gateway.Spec.Listeners[i]
		l := listener{
			spec: spec, name: string(spec.Name), port: uint16(spec.Port),
			hostname: resolve.SpellHost(string(or(spec.Hostname, ""))), tls: spec.Protocol == gatewayv1.HTTPSProtocolType,
		}
		switch {
		case spec.Protocol != gatewayv1.HTTPProtocolType && spec.Protocol != gatewayv1.HTTPSProtocolType:
			l.unsupported = "the protocol " + string(spec.Protocol) + " is not served yet: use HTTP or HTTPS"
		case l.tls && spec.TLS != nil && or(spec.TLS.Mode, gatewayv1.TLSModeTerminate) != gatewayv1.TLSModeTerminate:
			l.unsupported = "an HTTPS listener terminates TLS: set tls.mode to Terminate"
		case l.tls && verifiesClients(gateway.Spec.TLS, spec.Port):
			l.unsupported = "certificates of clients are not verified yet, so the listener is closed: remove tls.frontend of the Gateway"
		default:
			l.setKinds()
		}
		listeners = append(listeners, l)
	}
	markConflicts(listeners)
	return listeners
}

// verifiesClients reports whether a Gateway requires certificates of clients on a port.
func verifiesClients(config *gatewayv1.GatewayTLSConfig, port gatewayv1.PortNumber) bool {
	if config == nil || config.Frontend == nil {
		return false
	}
	for _, own := range config.Frontend.PerPort {
		if own.Port == port {
			return own.TLS.Validation != nil
		}
	}
	return config.Frontend.Default.Validation != nil
}

// setKinds sets the kinds of routes that the listener accepts; without a list these
// are all that its protocol can have.
func (l *listener) setKinds() {
	served := []gatewayv1.Kind{kindHTTPRoute, kindGRPCRoute}
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

// markConflicts marks the listeners of one port that nothing distinguishes. None of them
// is better than the others, so none is served.
func markConflicts(listeners []listener) {
	for i := range listeners {
		for j := range listeners {
			a, b := &listeners[i], &listeners[j]
			if i == j || a.port != b.port || a.unsupported != "" || b.unsupported != "" {
				continue
			}
			switch {
			case a.tls != b.tls:
				a.conflict = gatewayv1.ListenerReasonProtocolConflict
			case a.hostname == b.hostname && a.conflict == "":
				a.conflict = gatewayv1.ListenerReasonHostnameConflict
			}
		}
	}
}

// allows reports whether a route of a kind and namespace may attach.
func (l *listener) allows(view *snapshot.View, gatewayNamespace string, kind gatewayv1.Kind, namespace string) bool {
	if !slices.Contains(l.kinds, kind) {
		return false
	}
	var from gatewayv1.RouteNamespaces
	if l.spec.AllowedRoutes != nil && l.spec.AllowedRoutes.Namespaces != nil {
		from = *l.spec.AllowedRoutes.Namespaces
	}
	switch or(from.From, gatewayv1.NamespacesFromSame) {
	case gatewayv1.NamespacesFromAll:
		return true
	case gatewayv1.NamespacesFromSelector:
		// An invalid selector selects nothing.
		selector, err := metav1.LabelSelectorAsSelector(from.Selector)
		return err == nil && selector.Matches(labels.Set(view.NamespaceLabels(namespace)))
	case gatewayv1.NamespacesFromSame:
		return namespace == gatewayNamespace
	default:
		return false
	}
}

// isolated reports whether requests for a host name belong to a more specific
// listener of the same port.
func (l *listener) isolated(listeners []listener, host string) bool {
	for i := range listeners {
		other := &listeners[i]
		if other.port == l.port && other.usable() && other.hostname != l.hostname &&
			covers(l.hostname, other.hostname) && covers(other.hostname, host) {
			return true
		}
	}
	return false
}

// listenerID returns the listener of the routing table that a listener is part of.
func listenerID(gateway *gatewayv1.Gateway, l *listener) route.ListenerID {
	return route.ListenerID{Namespace: gateway.Namespace, Name: gateway.Name, Port: l.port}
}
