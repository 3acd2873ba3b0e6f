package backend

import (
	"fmt"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// TLSPolicy is a BackendTLSPolicy that was read.
type TLSPolicy struct {
	TLS route.UpstreamTLS
	// Authority is nil for those of the system.
	Authority *route.Authority
	// Unresolved is the first reference that cannot be used, and Rejected why no
	// connection is made; nil for none. Their reasons are those of conditions.
	Unresolved, Rejected *PolicyFault
}

// PolicyFault is a fault of a BackendTLSPolicy.
type PolicyFault struct {
	Reason  gatewayv1.PolicyConditionReason
	Message string
}

// ReadTLSPolicy resolves a BackendTLSPolicy.
func ReadTLSPolicy(view *snapshot.View, policy *gatewayv1.BackendTLSPolicy) TLSPolicy {
	validation := &policy.Spec.Validation
	read := TLSPolicy{TLS: route.UpstreamTLS{ServerName: strings.ToLower(string(validation.Hostname)), SubjectAltNames: altNames(validation.SubjectAltNames)}}
	if len(validation.CACertificateRefs) == 0 {
		if known := validation.WellKnownCACertificates; known == nil || *known != gatewayv1.WellKnownCACertificatesSystem {
			read.Rejected = &PolicyFault{gatewayv1.PolicyReasonInvalid, "validation has no authorities: set caCertificateRefs, or wellKnownCACertificates to System"}
		}
		return read
	}
	var bundle strings.Builder
	for i, ref := range validation.CACertificateRefs {
		authority, fault := policyAuthority(view, policy.Namespace, ref)
		if fault != nil {
			if read.Unresolved == nil {
				fault.Message = fmt.Sprintf("validation.caCertificateRefs[%d]: %s", i, fault.Message)
				read.Unresolved = fault
			}
			continue
		}
		bundle.WriteString(strings.TrimSpace(authority.Bundle) + "\n")
	}
	if bundle.Len() == 0 {
		read.Rejected = &PolicyFault{gatewayv1.BackendTLSPolicyReasonNoValidCACertificate, read.Unresolved.Message}
		return read
	}
	// No Secret and no ConfigMap of the table has such a name.
	read.Authority = &route.Authority{ID: route.AuthorityID{Namespace: policy.Namespace, Name: "BackendTLSPolicy_" + policy.Name}, Bundle: bundle.String()}
	read.TLS.Authority = read.Authority.ID
	return read
}

// policyAuthority returns the authorities of a reference.
func policyAuthority(view *snapshot.View, namespace string, ref gatewayv1.LocalObjectReference) (*route.Authority, *PolicyFault) {
	if ref.Group != "" || ref.Kind != gatewayv1.Kind(snapshot.ConfigMap) {
		return nil, &PolicyFault{gatewayv1.BackendTLSPolicyReasonInvalidKind, fmt.Sprintf("authorities are in a ConfigMap, and not in a %s", ref.Kind)}
	}
	authority, fault := reference.Source{View: view, Namespace: namespace}.ConfigMapAuthority(string(ref.Name))
	if fault != nil {
		return nil, &PolicyFault{gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef, fault.Message}
	}
	return authority, nil
}

// altNames returns the names as the table has them.
func altNames(written []gatewayv1.SubjectAltName) string {
	var names []string
	for _, name := range written {
		if name.Type == gatewayv1.URISubjectAltNameType {
			names = append(names, string(name.URI))
		} else {
			names = append(names, string(name.Hostname))
		}
	}
	return strings.Join(names, " ")
}

// TLSPolicyOf returns the policy of a port of a Service, nil for none: the oldest for the
// port, or for the whole Service.
func TLSPolicyOf(view *snapshot.View, service *snapshot.ServiceFacts, port string) *gatewayv1.BackendTLSPolicy {
	var whole *gatewayv1.BackendTLSPolicy
	for _, policy := range view.BackendTLSPolicies(service.Namespace) {
		for i := range policy.Spec.TargetRefs {
			target := &policy.Spec.TargetRefs[i]
			switch {
			case !TargetsService(target, service.Name):
			case target.SectionName != nil && string(*target.SectionName) == port:
				return policy
			case target.SectionName == nil && whole == nil:
				whole = policy
			}
		}
	}
	return whole
}

// TargetsService reports whether a policy is for a Service of its namespace.
func TargetsService(target *gatewayv1.LocalPolicyTargetReferenceWithSectionName, name string) bool {
	return target.Group == "" && target.Kind == gatewayv1.Kind(snapshot.Service) && string(target.Name) == name
}

// applyTLSPolicy sets the transport of a route's backend that has a BackendTLSPolicy, and
// reports whether there is one. It comes before annotations of the Service: it belongs to
// the same namespace, and says more.
func (b *builder) applyTLSPolicy() (bool, *refusal.Refusal) {
	if b.variant != RouteVariant && b.variant != GRPCVariant && b.variant != TLSVariant {
		return false, nil
	}
	policy := TLSPolicyOf(b.view, b.service, b.port.Name)
	if policy == nil {
		return false, nil
	}
	read := ReadTLSPolicy(b.view, policy)
	if read.Rejected != nil {
		return true, refusal.New("", refusal.Invalid, "the BackendTLSPolicy %s cannot be used: %s", policy.Name, read.Rejected.Message)
	}
	protocol, _ := protocolOfApp(text(b.port.AppProtocol))
	if protocol.HTTP2() && b.variant != TLSVariant || b.variant == GRPCVariant {
		protocol = route.ProtocolH2
	} else {
		protocol = route.ProtocolTLS
	}
	b.result.Backend.Transport = route.Transport{Protocol: protocol, TLS: &read.TLS}
	if read.Authority != nil {
		b.result.Authorities = []*route.Authority{read.Authority}
	}
	return true, nil
}

// addCertificate sets the certificate that is sent to the endpoints, if connections to
// them are encrypted and the Service has none of its own.
func (b *builder) addCertificate() *refusal.Refusal {
	transport := &b.result.Backend.Transport
	if b.certificate == "" || !transport.Protocol.Encrypted() {
		return nil
	}
	var settings route.UpstreamTLS
	if transport.TLS != nil {
		settings = *transport.TLS
	}
	if settings.Certificate != (route.CertificateID{}) {
		return nil
	}
	namespace, name, _ := strings.Cut(b.certificate, "_")
	certificate, fault := reference.Source{View: b.view, Namespace: namespace}.Certificate(name)
	if fault != nil {
		return fault
	}
	settings.Certificate = certificate.ID
	transport.TLS = &settings
	b.result.Certificates = append(b.result.Certificates, certificate)
	return nil
}
