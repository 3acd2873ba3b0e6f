package gateway

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// ControllerName is the controller in the GatewayClasses that the edge serves.
const ControllerName gatewayv1.GatewayController = "slipway.dev/gateway-controller"

// infrastructure is the feature of labels and annotations of spec.infrastructure.
const infrastructure gatewayv1.FeatureName = "GatewayInfrastructure"

// supportedFeatures are the features of Gateway API that are served, sorted. Only
// what is complete is listed: the conformance suite runs the tests of each.
var supportedFeatures = []gatewayv1.FeatureName{
	"BackendTLSPolicy",
	"BackendTLSPolicySANValidation",
	"GRPCRoute",
	"GRPCRouteNamedRouteRule",
	"Gateway",
	"GatewayAddressEmpty",
	"GatewayBackendClientCertificate",
	"GatewayFrontendClientCertificateValidation",
	"GatewayFrontendClientCertificateValidationInsecureFallback",
	"GatewayHTTPListenerIsolation",
	"GatewayHTTPSListenerDetectMisdirectedRequests",
	infrastructure,
	"GatewayPort8080",
	"GatewayStaticAddresses",
	"HTTPRoute",
	"HTTPRoute303RedirectStatusCode",
	"HTTPRoute307RedirectStatusCode",
	"HTTPRoute308RedirectStatusCode",
	"HTTPRouteBackendProtocolH2C",
	"HTTPRouteBackendProtocolWebSocket",
	"HTTPRouteBackendRequestHeaderModification",
	"HTTPRouteBackendTimeout",
	"HTTPRouteCORS",
	"HTTPRouteDestinationPortMatching",
	"HTTPRouteHostRewrite",
	"HTTPRouteMethodMatching",
	"HTTPRouteNamedRouteRule",
	"HTTPRouteParentRefPort",
	"HTTPRoutePathRedirect",
	"HTTPRoutePathRewrite",
	"HTTPRoutePortRedirect",
	"HTTPRouteQueryParamMatching",
	"HTTPRouteRequestMirror",
	"HTTPRouteRequestMultipleMirrors",
	"HTTPRouteRequestPercentageMirror",
	"HTTPRouteRequestTimeout",
	"HTTPRouteResponseHeaderModification",
	"HTTPRouteRetry",
	"HTTPRouteRetryBackendTimeout",
	"HTTPRouteRetryConnectionError",
	"HTTPRouteSchemeRedirect",
	"ListenerSet",
	"ReferenceGrant",
	"TCPRoute",
	"TLSRoute",
	"TLSRouteModeMixed",
	"TLSRouteModeTerminate",
	"UDPRoute",
}

// oursByClass reports whether a GatewayClass exists and names our controller.
func oursByClass(view *snapshot.View, name gatewayv1.ObjectName) bool {
	class := view.GatewayClass(string(name))
	return class != nil && class.Spec.ControllerName == ControllerName
}

// Class returns the status of a GatewayClass, and whether it is ours. With Services each
// Gateway has one with the labels and annotations of its infrastructure.
func Class(view *snapshot.View, name string, services bool) (gatewayv1.GatewayClassStatus, bool) {
	if !oursByClass(view, gatewayv1.ObjectName(name)) {
		return gatewayv1.GatewayClassStatus{}, false
	}
	class := view.GatewayClass(name)
	accepted := condition(gatewayv1.GatewayClassConditionStatusAccepted, gatewayv1.GatewayClassReasonAccepted, "")
	if class.Spec.ParametersRef != nil {
		accepted = failed(gatewayv1.GatewayClassConditionStatusAccepted, gatewayv1.GatewayClassReasonInvalidParameters,
			"spec.parametersRef is not supported: remove it")
	}
	status := gatewayv1.GatewayClassStatus{Conditions: observed(class.Generation, accepted)}
	for _, feature := range supportedFeatures {
		if feature == infrastructure && !services {
			continue
		}
		status.SupportedFeatures = append(status.SupportedFeatures, gatewayv1.SupportedFeature{Name: feature})
	}
	return status, true
}
