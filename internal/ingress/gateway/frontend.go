package gateway

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	ingressreference "slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// clientValidation returns how a Gateway verifies clients on a port, nil if it does not.
// The entry of a port replaces the default, also by none.
func clientValidation(gateway *gatewayv1.Gateway, port gatewayv1.PortNumber) *gatewayv1.FrontendTLSValidation {
	if gateway.Spec.TLS == nil || gateway.Spec.TLS.Frontend == nil {
		return nil
	}
	frontend := gateway.Spec.TLS.Frontend
	for i := range frontend.PerPort {
		if frontend.PerPort[i].Port == port {
			return frontend.PerPort[i].TLS.Validation
		}
	}
	return frontend.Default.Validation
}

// insecureFallback reports whether clients without a valid certificate are accepted on
// some port.
func (g *Gateway) insecureFallback() bool {
	for i := range g.listeners {
		l := &g.listeners[i]
		validation := clientValidation(g.object, l.spec.Port)
		if l.terminates() && validation != nil && validation.Mode == gatewayv1.AllowInsecureFallback {
			return true
		}
	}
	return false
}

// canTerminate reports whether a listener can decrypt connections as it is written. One
// that passes TLS on can keep its port open, so that routes have to know.
func (g *Gateway) canTerminate(view *snapshot.View, l *listener) bool {
	certificates, _ := g.resolveReferences(view, l)
	g.verifyClients(view, l, &route.Listener{})
	return len(certificates) > 0 && !l.distrusts
}

// verifyClients sets how a listener of the table verifies clients, and returns a
// condition about references that cannot be used. All handshakes of a port have the
// same conditions: a server name must not choose weaker ones.
func (g *Gateway) verifyClients(view *snapshot.View, l *listener, at *route.Listener) *metav1.Condition {
	validation := clientValidation(g.object, l.spec.Port)
	if validation == nil || !l.terminates() {
		return nil
	}
	var authorities []*route.Authority
	var fault *metav1.Condition
	for i := range validation.CACertificateRefs {
		authority, refused := g.authority(view, &validation.CACertificateRefs[i])
		if refused != nil {
			refused.Message = fmt.Sprintf("the Gateway's tls.frontend for port %d, caCertificateRefs[%d]: %s", l.port, i, refused.Message)
			fault = refused
			continue
		}
		authorities = append(authorities, authority)
	}
	l.distrusts = len(authorities) == 0
	at.ClientAuth, at.ClientAuthorities = route.ClientAuthVerify, nil
	if validation.Mode == gatewayv1.AllowInsecureFallback {
		// Whatever clients send is accepted, so that there is nothing to verify by.
		at.ClientAuth = route.ClientAuthRequest
		return fault
	}
	for _, authority := range authorities {
		at.ClientAuthorities = append(at.ClientAuthorities, authority.ID)
	}
	g.Authorities = append(g.Authorities, authorities...)
	return fault
}

// authority reads the authorities of a reference, and returns a condition if they cannot
// be used.
func (g *Gateway) authority(view *snapshot.View, ref *gatewayv1.ObjectReference) (*route.Authority, *metav1.Condition) {
	fault := func(reason gatewayv1.ListenerConditionReason, format string, args ...any) (*route.Authority, *metav1.Condition) {
		c := failed(gatewayv1.ListenerConditionResolvedRefs, reason, fmt.Sprintf(format, args...))
		return nil, &c
	}
	if ref.Group != "" || ref.Kind != kindConfigMap {
		return fault(gatewayv1.ListenerReasonInvalidCACertificateKind, "authorities are in a ConfigMap, and not in a %s", ref.Kind)
	}
	namespace := string(or(ref.Namespace, gatewayv1.Namespace(g.object.Namespace)))
	way := reference{
		fromKind: kindGateway, fromNamespace: g.object.Namespace, toKind: kindConfigMap, toNamespace: namespace, toName: ref.Name,
	}
	if !way.permitted(view) {
		return fault(gatewayv1.ListenerReasonRefNotPermitted, "the ConfigMap %s/%s is in another namespace: create a ReferenceGrant there", namespace, ref.Name)
	}
	found, refused := ingressreference.Source{View: view, Namespace: namespace}.ConfigMapAuthority(string(ref.Name))
	if refused != nil {
		return fault(gatewayv1.ListenerReasonInvalidCACertificateRef, "%s", refused.Message)
	}
	return found, nil
}
