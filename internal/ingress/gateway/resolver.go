package gateway

import (
	"crypto/tls"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/certrequest"
	ingressreference "slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// ResolverOption is the key in tls.options of a listener that names a certificate
// resolver of the edge.
const ResolverOption gatewayv1.AnnotationKey = "slipway.dev/certificate-resolver"

// challengePort is where authorities connect to for HTTP-01 challenges (RFC 8555, section
// 8.3).
const challengePort = 80

// CertificateRequest is a certificate that a listener requests from a resolver. Whether
// it counts depends on the owner of the host, which the engine knows.
type CertificateRequest struct {
	resolve.CertificateRequest
	// Listener is the name of the listener, see listenerName.
	Listener string
	// From is the Gateway or ListenerSet that the listener is of, and Created its age.
	From    snapshot.Ref
	Created time.Time
}

// ResolverField returns the field of a listener that names its resolver.
func ResolverField(name gatewayv1.SectionName) string {
	return fmt.Sprintf("spec.listeners[%s].tls.options", name)
}

// resolver returns the name of the resolver that gives the listener its certificate;
// empty for none. certificateRefs win, also while their Secrets are missing: one that
// cert-manager is about to write must not cost an order.
func (l *listener) resolver() string {
	if !l.terminates() || l.spec.TLS == nil || len(l.spec.TLS.CertificateRefs) > 0 {
		return ""
	}
	return resolve.ResolverName(string(l.spec.TLS.Options[ResolverOption]))
}

// issued returns the certificate that the resolver of the listener has stored; nil if
// there is none for its host. It is used even if the resolver is gone from the options:
// a certificate that is valid is better than a port that is closed.
func (l *listener) issued(view *snapshot.View, gateway *gatewayv1.Gateway) *route.Certificate {
	_, namespace := l.owner(gateway)
	found, fault := ingressreference.Source{View: view, Namespace: namespace}.Certificate(certrequest.SecretName(l.resolver(), []string{l.hostname}))
	if fault != nil {
		return nil
	}
	pair, err := tls.X509KeyPair([]byte(found.Chain), []byte(found.Key.Reveal()))
	if err != nil || !resolve.Covers(pair.Leaf, l.hostname) {
		return nil
	}
	return found
}

// requestCertificate adds the request of a listener that names a resolver, or returns a
// condition if that cannot issue the certificate. ready is set if it is stored already.
func (g *Gateway) requestCertificate(l *listener, resolvers map[string]resolve.CertificateResolver, ready bool) *metav1.Condition {
	kind, namespace := l.owner(g.object)
	configured, refused := resolve.FindResolver(resolvers, l.resolver(), namespace)
	if refused == nil {
		refused = g.unprovable(l, configured)
	}
	if refused != nil {
		fault := failed(gatewayv1.ListenerConditionResolvedRefs, requestReason(refused.Reason), refused.Message)
		return &fault
	}
	hosts := []string{l.hostname}
	request := CertificateRequest{
		CertificateRequest: resolve.CertificateRequest{
			Resolver: l.resolver(), Hosts: hosts, Secret: certrequest.SecretName(l.resolver(), hosts), Field: ResolverField(l.spec.Name),
		},
		Listener: l.name, Created: g.object.CreationTimestamp.Time,
		From: snapshot.Ref{Kind: snapshot.Gateway, Namespace: namespace, Name: g.object.Name},
	}
	if kind == kindSet {
		request.From.Kind, request.From.Name, request.Created = snapshot.ListenerSet, l.set.Name, l.set.CreationTimestamp.Time
	}
	if !ready {
		l.pending = fmt.Sprintf("the certificate for %s is being requested by the resolver %s; the listener is not served before", l.hostname, l.resolver())
		if !configured.Wildcards && !g.servesPlain(challengePort) {
			l.pending += fmt.Sprintf(". Authorities connect to port %d, and no HTTP listener of the Gateway has it", challengePort)
		}
		request.Pending = refusal.New(request.Field, refusal.NotReady, "%s", l.pending)
	}
	g.Requests = append(g.Requests, request)
	return nil
}

// unprovable returns why an authority cannot verify the host of a listener; nil if it
// can.
func (g *Gateway) unprovable(l *listener, configured resolve.CertificateResolver) *refusal.Refusal {
	_, wildcard := route.WildcardParent(l.hostname)
	switch {
	case l.hostname == "":
		return refusal.New("", refusal.Required, "a certificate of a resolver is for one host: set the hostname of the listener")
	case configured.Wildcards: // by a DNS challenge, which needs no listener
		return nil
	case wildcard:
		return refusal.New("", refusal.Invalid,
			"a certificate for %s needs a challenge by DNS, and the resolver %s has one by HTTP: name a resolver with dnsChallenge, or a Secret in tls.certificateRefs", l.hostname, l.resolver())
	case !g.servesPlain(0):
		return refusal.New("", refusal.Required,
			"the resolver %s proves a host by HTTP, and the Gateway has no HTTP listener: add one with port %d, which needs no routes, or name a resolver with dnsChallenge", l.resolver(), challengePort)
	}
	return nil
}

// servesPlain reports whether the Gateway has an HTTP listener with a port, or with any
// port for 0.
func (g *Gateway) servesPlain(port uint16) bool {
	for i := range g.listeners {
		if l := &g.listeners[i]; l.spec.Protocol == gatewayv1.HTTPProtocolType && l.usable() && (port == 0 || l.port == port) {
			return true
		}
	}
	return false
}

// requestReason returns the reason of a condition about a resolver.
func requestReason(reason refusal.Reason) gatewayv1.ListenerConditionReason {
	switch reason {
	case refusal.NotAllowed:
		return gatewayv1.ListenerReasonRefNotPermitted
	case refusal.NotFound, refusal.Unsupported:
		return gatewayv1.ListenerReasonInvalidCertificateRef
	default:
		return gatewayv1.ListenerReasonUnsupportedValue
	}
}

// waits reports whether a listener of a ListenerSet, or of the Gateway itself for nil,
// waits for its certificate.
func (g *Gateway) waits(set *gatewayv1.ListenerSet) bool {
	for i := range g.listeners {
		if l := &g.listeners[i]; l.of(set) && l.bare && l.pending != "" {
			return true
		}
	}
	return false
}
