package gateway

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	ingressreference "slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Assignment is the address of a Gateway, or why it has none.
type Assignment struct {
	Address netip.Addr
	// Reason and Message are those of the condition Programmed without an address.
	Reason  gatewayv1.GatewayConditionReason
	Message string
}

// Gateway is a resolved Gateway.
type Gateway struct {
	// Ours is false for a Gateway that does not exist or belongs to another
	// controller. Nothing else is set then.
	Ours bool
	// Listeners, Rules and Certificates are its part of the routing table.
	Listeners    []*route.Listener
	Rules        []*route.Rule
	Certificates []*route.Certificate

	object    *gatewayv1.Gateway
	listeners []listener
	// references has the condition ResolvedRefs of each listener.
	references []metav1.Condition
	assignment Assignment
}

// Resolve resolves a Gateway. The address is requested only for one that is ours.
func Resolve(view *snapshot.View, namespace, name string, assign func(*gatewayv1.Gateway) Assignment) *Gateway {
	object := view.Gateway(namespace, name)
	if object == nil || !oursByClass(view, object.Spec.GatewayClassName) {
		return &Gateway{}
	}
	g := &Gateway{Ours: true, object: object, listeners: listenersOf(object), assignment: assign(object)}
	ports := map[uint16]*route.Listener{}
	for i := range g.listeners {
		l := &g.listeners[i]
		certificates, resolved := g.resolveReferences(view, l)
		g.references = append(g.references, resolved)
		l.bare = l.tls && len(certificates) == 0
		if !l.usable() || l.bare {
			continue
		}
		g.addIsolation(i)
		at := ports[l.port]
		if at == nil {
			at = &route.Listener{ID: listenerID(object, l), Address: netip.AddrPortFrom(g.assignment.Address, l.port), TLS: l.tls}
			ports[l.port] = at
			if g.assignment.Address.IsValid() {
				g.Listeners = append(g.Listeners, at)
			}
		}
		if l.tls {
			at.Hosts = append(at.Hosts, l.hostname)
		}
		for _, certificate := range certificates {
			at.Certificates = append(at.Certificates, route.ListenerCertificate{Certificate: certificate.ID, Host: l.hostname})
		}
		g.Certificates = append(g.Certificates, certificates...)
	}
	return g
}

// addIsolation adds the rule that ends the search for a request that belongs to a
// listener with a host name. Without another listener on the port there is nothing
// that it could fall through to.
func (g *Gateway) addIsolation(i int) {
	l := &g.listeners[i]
	for j := range g.listeners {
		other := &g.listeners[j]
		if other.port != l.port || other.hostname == l.hostname || !covers(other.hostname, l.hostname) {
			continue
		}
		g.Rules = append(g.Rules, &route.Rule{
			ID:       route.ID{Kind: string(kindGateway), Namespace: g.object.Namespace, Name: g.object.Name, Rule: i},
			Listener: listenerID(g.object, l), Host: l.hostname, Fallback: true, Created: g.object.CreationTimestamp.Time,
			Response: &route.Response{Status: 404, Reason: route.ReasonConfigured, Message: "no route of the listener " + l.name + " matches"},
		})
		return
	}
}

// resolveReferences returns the certificates of a listener, and the condition about
// what it refers to: certificates and kinds of routes.
func (g *Gateway) resolveReferences(view *snapshot.View, l *listener) ([]*route.Certificate, metav1.Condition) {
	resolved := condition(gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerReasonResolvedRefs, "")
	if l.unknownKinds {
		resolved = failed(gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerReasonInvalidRouteKinds,
			"allowedRoutes.kinds has a kind that this listener cannot have: use HTTPRoute or GRPCRoute")
	}
	if !l.tls {
		return nil, resolved
	}
	if l.spec.TLS == nil || len(l.spec.TLS.CertificateRefs) == 0 {
		return nil, failed(gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerReasonInvalidCertificateRef,
			"an HTTPS listener needs a certificate: name its Secret in tls.certificateRefs")
	}
	var certificates []*route.Certificate
	for i := range l.spec.TLS.CertificateRefs {
		certificate, fault := g.certificate(view, &l.spec.TLS.CertificateRefs[i])
		if fault != nil {
			fault.Message = fmt.Sprintf("tls.certificateRefs[%d]: %s", i, fault.Message)
			resolved = *fault
			continue
		}
		certificates = append(certificates, certificate)
	}
	return certificates, resolved
}

// certificate reads the certificate of a reference, and returns a condition if it
// cannot be used.
func (g *Gateway) certificate(view *snapshot.View, ref *gatewayv1.SecretObjectReference) (*route.Certificate, *metav1.Condition) {
	fault := func(reason gatewayv1.ListenerConditionReason, format string, args ...any) (*route.Certificate, *metav1.Condition) {
		c := failed(gatewayv1.ListenerConditionResolvedRefs, reason, fmt.Sprintf(format, args...))
		return nil, &c
	}
	if or(ref.Group, "") != "" || or(ref.Kind, kindSecret) != kindSecret {
		return fault(gatewayv1.ListenerReasonInvalidCertificateRef, "a certificate is in a Secret, and not in a %s", or(ref.Kind, ""))
	}
	namespace := string(or(ref.Namespace, gatewayv1.Namespace(g.object.Namespace)))
	way := reference{
		fromKind: kindGateway, fromNamespace: g.object.Namespace, toKind: kindSecret, toNamespace: namespace, toName: ref.Name,
	}
	if !way.permitted(view) {
		return fault(gatewayv1.ListenerReasonRefNotPermitted, "the Secret %s/%s is in another namespace: create a ReferenceGrant there", namespace, ref.Name)
	}
	found, refused := ingressreference.Source{View: view, Namespace: namespace}.Certificate(string(ref.Name))
	if refused != nil {
		return fault(gatewayv1.ListenerReasonInvalidCertificateRef, "%s", refused.Message)
	}
	if _, err := tls.X509KeyPair([]byte(found.Chain), []byte(found.Key.Reveal())); err != nil {
		return fault(gatewayv1.ListenerReasonInvalidCertificateRef, "the Secret %s/%s has no certificate with its key: %s", namespace, ref.Name, err)
	}
	return found, nil
}

// Facts are what a Gateway does not decide itself and its status has.
type Facts struct {
	// Attached is the number of routes of each listener, by its name.
	Attached map[string]int32
	// Unopened is why a port does not take connections, by port.
	Unopened map[uint16]string
}

// Status returns the status of the Gateway.
func (g *Gateway) Status(facts Facts) gatewayv1.GatewayStatus {
	generation := g.object.Generation
	var status gatewayv1.GatewayStatus
	valid, some := true, false
	for i := range g.listeners {
		of := g.listenerStatus(i, facts)
		valid, some = valid && !hasFault(of.Conditions), some || g.listeners[i].usable()
		status.Listeners = append(status.Listeners, of)
	}
	accepted := condition(gatewayv1.GatewayConditionAccepted, gatewayv1.GatewayReasonAccepted, "")
	switch {
	case !some:
		accepted = failed(gatewayv1.GatewayConditionAccepted, gatewayv1.GatewayReasonListenersNotValid, "no listener is accepted: see their conditions")
	case !valid:
		accepted = condition(gatewayv1.GatewayConditionAccepted, gatewayv1.GatewayReasonListenersNotValid, "some listeners are not served: see their conditions")
	}
	switch g.assignment.Reason {
	case gatewayv1.GatewayReasonUnsupportedAddress, gatewayv1.GatewayReasonInvalidParameters:
		accepted = failed(gatewayv1.GatewayConditionAccepted, g.assignment.Reason, g.assignment.Message)
	}
	programmed := condition(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonProgrammed, "")
	switch {
	case !g.assignment.Address.IsValid():
		programmed = failed(gatewayv1.GatewayConditionProgrammed, g.assignment.Reason, g.assignment.Message)
	case len(facts.Unopened) > 0:
		port := slices.Min(slices.Collect(maps.Keys(facts.Unopened)))
		programmed = failed(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonAddressNotUsable, fmt.Sprintf("port %d: %s", port, facts.Unopened[port]))
	case len(g.Listeners) == 0:
		programmed = failed(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonInvalid, "no listener can be served")
	}
	if g.assignment.Address.IsValid() {
		kind := gatewayv1.IPAddressType
		status.Addresses = []gatewayv1.GatewayStatusAddress{{Type: &kind, Value: g.assignment.Address.String()}}
	}
	status.Conditions = observed(generation, accepted, programmed)
	return status
}

// listenerStatus returns the status of one listener.
func (g *Gateway) listenerStatus(i int, facts Facts) gatewayv1.ListenerStatus {
	l := &g.listeners[i]
	accepted := condition(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonAccepted, "")
	programmed := condition(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonProgrammed, "")
	conflicted := failed(gatewayv1.ListenerConditionConflicted, gatewayv1.ListenerReasonNoConflicts, "")
	resolved := g.references[i]
	notServed := func(message string) {
		programmed = failed(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonInvalid, message)
	}
	switch unopened, closed := facts.Unopened[l.port]; {
	case l.unsupported != "":
		accepted = failed(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonUnsupportedProtocol, l.unsupported)
		notServed(l.unsupported)
	case l.conflict != "":
		message := fmt.Sprintf("another listener has port %d: only listeners with one protocol and different host names can share it", l.port)
		conflicted = condition(gatewayv1.ListenerConditionConflicted, l.conflict, message)
		accepted = failed(gatewayv1.ListenerConditionAccepted, l.conflict, message)
		notServed(message)
	case l.bare:
		notServed(resolved.Message)
	case !g.assignment.Address.IsValid():
		programmed = failed(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonPending, g.assignment.Message)
	case closed:
		notServed(unopened)
	}
	kinds := make([]gatewayv1.RouteGroupKind, 0, len(l.kinds))
	for _, kind := range l.kinds {
		group := gatewayv1.Group(gatewayv1.GroupName)
		kinds = append(kinds, gatewayv1.RouteGroupKind{Group: &group, Kind: kind})
	}
	return gatewayv1.ListenerStatus{
		Name: l.spec.Name, SupportedKinds: kinds, AttachedRoutes: facts.Attached[l.name],
		Conditions: observed(g.object.Generation, accepted, programmed, resolved, conflicted),
	}
}

// hasFault reports whether the conditions of a listener are not those of one that is
// served.
func hasFault(conditions []metav1.Condition) bool {
	for _, c := range conditions {
		if c.Type != string(gatewayv1.ListenerConditionProgrammed) &&
			(c.Status == metav1.ConditionTrue) == (c.Type == string(gatewayv1.ListenerConditionConflicted)) {
			return true
		}
	}
	return false
}
