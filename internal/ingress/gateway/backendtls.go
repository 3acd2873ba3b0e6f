package gateway

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// backendCertificate returns the certificate that the edge sends to the backends of a
// Gateway, and the condition about its reference; zero and nil for a Gateway that names
// none. Without one that can be used the edge sends none: a backend that requires it
// rejects the connection.
func backendCertificate(view *snapshot.View, gateway *gatewayv1.Gateway) (route.CertificateID, *metav1.Condition) {
	config := gateway.Spec.TLS
	if config == nil || config.Backend == nil || config.Backend.ClientCertificateRef == nil {
		return route.CertificateID{}, nil
	}
	invalid := gatewayv1.ListenerConditionReason(gatewayv1.GatewayReasonInvalidClientCertificateRef)
	found, fault := certificate(view, kindGateway, gateway.Namespace, config.Backend.ClientCertificateRef, invalid)
	if fault != nil {
		fault.Message = "tls.backend.clientCertificateRef: " + fault.Message
		return route.CertificateID{}, fault
	}
	resolved := condition(gatewayv1.GatewayConditionResolvedRefs, gatewayv1.GatewayReasonResolvedRefs, "")
	return found.ID, &resolved
}
