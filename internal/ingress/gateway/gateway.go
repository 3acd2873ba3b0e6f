package gateway

import (
	"crypto/tls"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/api/refusal"
	ingressreference "slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// Assignment is the address of a Gateway, or why it has none.
type Assignment struct {
	// Address is where the edge listens.
	Address netip.Addr
	// Targets are the ports that it listens on, in the place of those of the Gateway; nil
	// if these are the same.
	Targets map[route.ListenerID]uint16
	// Reason and Message are those of the condition Programmed if it does not hold.
	Reason  gatewayv1.GatewayConditionReason
	Message string

	// The rest is set with Targets: their text for the status, the Service of the
	// Gateway, and the addresses of that.
	allocated string
	service   *Service
	published []gatewayv1.GatewayStatusAddress
}

// addresses returns the addresses of the status.
func (a *Assignment) addresses() []gatewayv1.GatewayStatusAddress {
	if a.Targets != nil || !a.Address.IsValid() {
		return a.published
	}
	kind := gatewayv1.IPAddressType
	return []gatewayv1.GatewayStatusAddress{{Type: &kind, Value: a.Address.String()}}
}

// Gateway is a resolved Gateway.
type Gateway struct {
	// Ours is false for a Gateway that does not exist or belongs to another
	// controller. Nothing else is set then.
	Ours bool
	// Listeners, Rules, TCPRoutes, Certificates and Authorities are its part of the
	// routing table.
	Listeners    []*route.Listener
	Rules        []*route.Rule
	TCPRoutes    []*route.TCPRoute
	Certificates []*route.Certificate
	Authorities  []*route.Authority
	// Requests are the certificates that its listeners request from resolvers.
	Requests []CertificateRequest

	object    *gatewayv1.Gateway
	listeners []listener
	// references has the condition ResolvedRefs of each listener.
	references []metav1.Condition
	// toBackends is the condition about the certificate for backends; nil without one.
	toBackends *metav1.Condition
	assignment Assignment
}

// Resolve resolves a Gateway. The address is requested only for one that is ours.
// Listeners can request certificates from the resolvers.
func Resolve(
	view *snapshot.View, namespace, name string, resolvers map[string]resolve.CertificateResolver, assign func(*gatewayv1.Gateway) Assignment,
) *Gateway {
	object := view.Gateway(namespace, name)
	if object == nil || !oursByClass(view, object.Spec.GatewayClassName) {
		return &Gateway{}
	}
	g := &Gateway{Ours: true, object: object, listeners: listenersOf(view, object), assignment: assign(object)}
	_, g.toBackends = backendCertificate(view, object)
	ports := map[route.ListenerID]*route.Listener{}
	for i := range g.listeners {
		l := &g.listeners[i]
		certificates, resolved := g.resolveReferences(view, l)
		if l.resolver() != "" && l.usable() {
			fault := g.requestCertificate(l, resolvers, len(certificates) > 0)
			if fault != nil && resolved.Status == metav1.ConditionTrue {
				resolved = *fault
			}
		}
		var clients route.Listener // of which only how it verifies clients is used
		if fault := g.verifyClients(view, l, &clients); fault != nil && resolved.Status == metav1.ConditionTrue {
			resolved = *fault
		}
		g.references = append(g.references, resolved)
		l.bare = l.terminates() && len(certificates) == 0
		if !l.usable() || l.bare || l.distrusts {
			continue
		}
		g.addIsolation(i)
		id := listenerID(object, l)
		at := ports[id]
		if at == nil {
			at = &route.Listener{ID: id, Address: g.assignment.at(id), TLS: l.tls, Raw: l.mode != ""}
			ports[id] = at
			if at.Address.IsValid() {
				g.Listeners = append(g.Listeners, at)
			}
		}
		if clients.ClientAuth != "" { // one that passes TLS on has none, and shares the port
			at.ClientAuth, at.ClientAuthorities = clients.ClientAuth, clients.ClientAuthorities
		}
		if l.tls && !at.Raw {
			at.Hosts = append(at.Hosts, l.hostname)
		}
		for _, certificate := range certificates {
			at.Certificates = append(at.Certificates, route.ListenerCertificate{Certificate: certificate.ID, Host: l.hostname})
		}
		g.Certificates = append(g.Certificates, certificates...)
	}
	return g
}

// Waits reports whether the Gateway has no address because others have it, or as many as
// it would need.
func (g *Gateway) Waits() bool {
	return g.assignment.Reason == gatewayv1.GatewayReasonAddressNotAssigned || g.assignment.Reason == gatewayv1.GatewayReasonAddressNotUsable
}

// addIsolation adds the rule that ends the search for a request that belongs to a
// listener with a host name. Without another listener on the port there is nothing
// that it could fall through to.
func (g *Gateway) addIsolation(i int) {
	l := &g.listeners[i]
	for j := range g.listeners {
		other := &g.listeners[j]
		if !other.usable() || !other.sharesPort(l) || other.hostname == l.hostname || !covers(other.hostname, l.hostname) {
			continue
		}
		id := route.ID{Kind: string(kindGateway), Namespace: g.object.Namespace, Name: g.object.Name, Rule: i}
		if l.mode != "" {
			g.TCPRoutes = append(g.TCPRoutes, g.closing(route.TCPRouteID(id), l))
			return
		}
		g.Rules = append(g.Rules, &route.Rule{
			ID:       id,
			Listener: listenerID(g.object, l), Host: l.hostname, HostRank: math.MinInt32, Fallback: true, Created: g.object.CreationTimestamp.Time,
			Response: &route.Response{Status: 404, Reason: route.ReasonConfigured, Message: "no route of the listener " + l.name + " matches"},
		})
		return
	}
}

// closing returns the TCP route that closes the connections of a listener that no route
// of it takes. It comes after all of them.
func (g *Gateway) closing(id route.TCPRouteID, l *listener) *route.TCPRoute {
	return &route.TCPRoute{
		ID: id, Listener: listenerID(g.object, l), ServerName: l.hostname, TLS: l.mode, Priority: math.MinInt32,
		Created: g.object.CreationTimestamp.Time, Backends: []route.BackendRef{{Status: statusUnresolved, Weight: 1}},
	}
}

// resolveReferences returns the certificates of a listener, and the condition about
// what it refers to: certificates and kinds of routes.
func (g *Gateway) resolveReferences(view *snapshot.View, l *listener) ([]*route.Certificate, metav1.Condition) {
	resolved := condition(gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerReasonResolvedRefs, "")
	if l.unknownKinds {
		resolved = failed(gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerReasonInvalidRouteKinds,
			"allowedRoutes.kinds has a kind that a listener of this protocol cannot have: remove it")
	}
	if !l.terminates() {
		return nil, resolved
	}
	var certificates []*route.Certificate
	if l.resolver() != "" {
		if found := l.issued(view, g.object); found != nil {
			certificates = append(certificates, found)
		}
		return certificates, resolved
	}
	if l.spec.TLS == nil || len(l.spec.TLS.CertificateRefs) == 0 {
		return nil, failed(gatewayv1.ListenerConditionResolvedRefs, gatewayv1.ListenerReasonInvalidCertificateRef,
			"a listener that terminates TLS needs a certificate: name its Secret in tls.certificateRefs, or a resolver in tls.options by the key "+string(ResolverOption))
	}
	for i := range l.spec.TLS.CertificateRefs {
		kind, namespace := l.owner(g.object)
		certificate, fault := certificate(view, kind, namespace, &l.spec.TLS.CertificateRefs[i], gatewayv1.ListenerReasonInvalidCertificateRef)
		if fault != nil {
			fault.Message = fmt.Sprintf("tls.certificateRefs[%d]: %s", i, fault.Message)
			resolved = *fault
			continue
		}
		certificates = append(certificates, certificate)
	}
	return certificates, resolved
}

// certificate reads the certificate of a reference of an object, and returns a condition
// if it cannot be used. The reason invalid is that of one which is permitted.
func certificate(view *snapshot.View, kind gatewayv1.Kind, own string, ref *gatewayv1.SecretObjectReference, invalid gatewayv1.ListenerConditionReason) (*route.Certificate, *metav1.Condition) {
	fault := func(reason gatewayv1.ListenerConditionReason, format string, args ...any) (*route.Certificate, *metav1.Condition) {
		c := failed(gatewayv1.ListenerConditionResolvedRefs, reason, fmt.Sprintf(format, args...))
		return nil, &c
	}
	if or(ref.Group, "") != "" || or(ref.Kind, kindSecret) != kindSecret {
		return fault(invalid, "a certificate is in a Secret, and not in a %s", or(ref.Kind, ""))
	}
	namespace := string(or(ref.Namespace, gatewayv1.Namespace(own)))
	way := reference{
		fromKind: kind, fromNamespace: own, toKind: kindSecret, toNamespace: namespace, toName: ref.Name,
	}
	if !way.permitted(view) {
		return fault(gatewayv1.ListenerReasonRefNotPermitted, "the Secret %s/%s is in another namespace: create a ReferenceGrant there", namespace, ref.Name)
	}
	found, refused := ingressreference.Source{View: view, Namespace: namespace}.Certificate(string(ref.Name))
	if refused != nil {
		return fault(invalid, "%s", refused.Message)
	}
	if _, err := tls.X509KeyPair([]byte(found.Chain), []byte(found.Key.Reveal())); err != nil {
		return fault(invalid, "the Secret %s/%s has no certificate with its key: %s", namespace, ref.Name, err)
	}
	return found, nil
}

// Facts are what a Gateway does not decide itself and its status has.
type Facts struct {
	// Attached is the number of routes of each listener, by its name.
	Attached map[string]int32
	// Unopened is why a port does not take connections.
	Unopened map[route.ListenerID]string
	// Ungranted is why no certificate is requested for a listener, by its name: its host
	// belongs to another namespace.
	Ungranted map[string]string
}

// Status returns the status of the Gateway.
func (g *Gateway) Status(facts Facts) gatewayv1.GatewayStatus {
	generation := g.object.Generation
	var status gatewayv1.GatewayStatus
	if sets := g.attachedSets(); g.object.Spec.AllowedListeners != nil || sets > 0 {
		status.AttachedListenerSets = &sets
	}
	valid, some := true, false
	for i := range g.listeners {
		if g.listeners[i].set != nil {
			continue
		}
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
	case g.assignment.Reason != "":
		programmed = failed(gatewayv1.GatewayConditionProgrammed, g.assignment.Reason, g.assignment.Message)
	case len(facts.Unopened) > 0:
		first := slices.MinFunc(slices.Collect(maps.Keys(facts.Unopened)), route.ListenerID.Compare)
		programmed = failed(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonAddressNotUsable, fmt.Sprintf("port %d: %s", first.Port, facts.Unopened[first]))
	case len(g.Listeners) == 0 && g.waits(nil):
		programmed = failed(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonPending, "no listener can be served yet: see their conditions")
	case len(g.Listeners) == 0:
		programmed = failed(gatewayv1.GatewayConditionProgrammed, gatewayv1.GatewayReasonInvalid, "no listener can be served")
	}
	status.Addresses = g.assignment.addresses()
	conditions := []metav1.Condition{accepted, programmed}
	if g.assignment.Targets != nil {
		conditions = append(conditions, g.assignment.condition())
	}
	if g.insecureFallback() {
		conditions = append(conditions, condition(gatewayv1.GatewayConditionInsecureFrontendValidationMode, gatewayv1.GatewayReasonConfigurationChanged,
			"clients are accepted without a valid certificate on some port: set tls.frontend to the mode AllowValidOnly"))
	}
	if g.toBackends != nil {
		conditions = append(conditions, *g.toBackends)
	}
	status.Conditions = observed(generation, conditions...)
	return status
}

// listenerStatus returns the status of one listener.
func (g *Gateway) listenerStatus(i int, facts Facts) gatewayv1.ListenerStatus {
	l := &g.listeners[i]
	accepted := condition(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonAccepted, "")
	programmed := condition(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonProgrammed, "")
	conflicted := failed(gatewayv1.ListenerConditionConflicted, gatewayv1.ListenerReasonNoConflicts, "")
	resolved := g.references[i]
	ungranted, denied := facts.Ungranted[l.name]
	if denied {
		resolved = failed(gatewayv1.ListenerConditionResolvedRefs, refusal.HostNotGranted, ungranted)
	}
	notServed := func(message string) {
		programmed = failed(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonInvalid, message)
	}
	switch unopened, closed := facts.Unopened[listenerID(g.object, l)]; {
	case l.unsupported != "":
		accepted = failed(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonUnsupportedProtocol, l.unsupported)
		notServed(l.unsupported)
	case l.conflict != "":
		message := fmt.Sprintf("another listener has port %d: only listeners with one protocol and different host names can share it", l.port)
		conflicted = condition(gatewayv1.ListenerConditionConflicted, l.conflict, message)
		accepted = failed(gatewayv1.ListenerConditionAccepted, l.conflict, message)
		notServed(message)
		if l.set != nil {
			programmed.Reason = string(l.conflict)
		}
	case l.unavailable != "":
		accepted = failed(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonPortUnavailable, l.unavailable)
		notServed(l.unavailable)
	case l.distrusts:
		accepted = failed(gatewayv1.ListenerConditionAccepted, gatewayv1.ListenerReasonNoValidCACertificate, resolved.Message)
		notServed(resolved.Message)
	case l.bare && l.pending != "" && !denied:
		programmed = failed(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonPending, l.pending)
	case l.bare:
		notServed(resolved.Message)
	case !g.assignment.at(listenerID(g.object, l)).IsValid():
		programmed = failed(gatewayv1.ListenerConditionProgrammed, gatewayv1.ListenerReasonPending, g.assignment.Message)
	case closed:
		notServed(unopened)
	}
	generation := g.object.Generation
	if l.set != nil {
		generation = l.set.Generation
	}
	kinds := make([]gatewayv1.RouteGroupKind, 0, len(l.kinds))
	for _, kind := range l.kinds {
		group := gatewayv1.Group(gatewayv1.GroupName)
		kinds = append(kinds, gatewayv1.RouteGroupKind{Group: &group, Kind: kind})
	}
	return gatewayv1.ListenerStatus{
		Name: l.spec.Name, SupportedKinds: kinds, AttachedRoutes: facts.Attached[l.name],
		Conditions: observed(generation, accepted, programmed, resolved, conflicted),
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
