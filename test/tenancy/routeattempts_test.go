package tenancy

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/programs"
)

// manyHosts are HTTPRoutes of evil with thousands of hosts, at the Gateway of all namespaces.
func manyHosts() string {
	var all []string
	for i := range 128 {
		var hosts []string
		for j := range 16 {
			hosts = append(hosts, fmt.Sprintf("h%d-%d.many.evil.example", i, j))
		}
		route := httpRoute("{name: shared, namespace: slipway}", strings.Join(hosts, ", "), "backendRefs: [{name: evil, port: 80}]")
		all = append(all, strings.Replace(route, "metadata: {name: NAME}", fmt.Sprintf("metadata: {name: NAME-%d, namespace: evil}", i), 1))
	}
	return strings.Join(all, "---\n")
}

// longHeaders is an HTTPRoute of evil with as many rules as one can have, each with
// conditions on long headers and a filter that adds such.
func longHeaders() string {
	var rules []string
	for i := range 16 {
		var conditions, added []string
		for j := range 7 {
			header := fmt.Sprintf("{name: x-%d-%d, value: %s}", i, j, strings.Repeat("v", 4096))
			conditions, added = append(conditions, header), append(added, header)
		}
		rules = append(rules, fmt.Sprintf("matches: [{headers: [%s]}], filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [%s]}}], backendRefs: [{name: evil, port: 80}]",
			strings.Join(conditions, ", "), strings.Join(added, ", ")))
	}
	return httpRoute("{name: shared, namespace: slipway}", "headers.evil.example", strings.Join(rules, "}, {"))
}

// setAt is a ListenerSet of evil at a Gateway, with one listener.
func setAt(gateway, listener string) string {
	return strings.Replace(listenerSet(listener), "{name: open, namespace: slipway}", gateway, 1)
}

// routeAttempts are after bank's Services and secrets by all kinds of references, after its
// hosts at listeners of evil, and after the edge by objects that are large.
func routeAttempts() []attempt {
	const (
		set      = "{kind: ListenerSet, name: NAME}"
		shared   = "{name: shared, namespace: slipway}"
		open     = "{name: open, namespace: slipway, sectionName: http}"
		ofBank   = "{name: bank, namespace: bank, port: 80}"
		own      = "backendRefs: [{name: evil, port: 80}]"
		tlsOwn   = "backendRefs: [{name: evil, port: 443}]"
		noGrant  = "RefNotPermitted: "
		noHost   = "HostNotGranted: "
		openTLS  = openGateway + ":443"
		evilCert = "certificateRefs: [{name: evil-cert}]"
	)
	opened, onShared := openServes(), all(servedAt(sharedGateway+" route.bank.example/pay"), encrypted(sharedGateway+":443", "tls.bank.example", bank))
	return []attempt{
		{name: "grpcroute-service-of-bank", applies: streamRoute("GRPCRoute", open, "hostnames: [grpc.evil.example]", "backendRefs: ["+ofBank+"]"), reason: noGrant,
			proof: all(opened, respondsAt(openGateway+" grpc.evil.example/grpc-of-evil", "500"), unheard("/grpc-of-evil"))},
		{name: "grpcroute-mirror-to-bank", applies: streamRoute("GRPCRoute", open, "hostnames: [grpc-mirror.evil.example]",
			"filters: [{type: RequestMirror, requestMirror: {backendRef: "+ofBank+"}}], "+own), reason: noGrant,
			proof: all(opened, respondsAt(openGateway+" grpc-mirror.evil.example/mirrored-call", "502"), unheard("/mirrored-call"))},
		// Of a route and one of the other kind with a host in common the older is accepted, so
		// that they could keep all later routes of bank out: see lateRoutes.
		{name: "grpcroute-no-host", applies: streamRoute("GRPCRoute", open, "", own), reason: "Accepted: ", proof: opened},
		{name: "grpcroute-wildcard", applies: streamRoute("GRPCRoute", open, `hostnames: ["*.late.example"]`, own), reason: "Accepted: ", proof: opened},
		{name: "route-external-auth", applies: httpRoute(shared, "auth-route.evil.example", "filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: "+ofBank+"}}], "+own),
			reason: apiServer + "externalAuth: field not declared in schema", proof: onShared},
		{name: "gateway-authority-of-bank", reason: noGrant, proof: onShared,
			prepares: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bank-clients, namespace: bank}\ndata: {ca.crt: none}\n",
			applies: gatewayOf("  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: \"\", kind: ConfigMap, name: bank-clients, namespace: bank}]}}}}\n",
				"port: 443, protocol: HTTPS, tls: {"+evilCert+"}")},
		{name: "gateway-client-certificate-of-bank", reason: noGrant, proof: onShared,
			applies: gatewayOf("  tls: {backend: {clientCertificateRef: {name: bank-cert, namespace: bank}}}\n", "port: 80, protocol: HTTP")},
		{name: "tcproute-listener-of-bank", applies: streamRoute("TCPRoute", "{kind: ListenerSet, name: bank, namespace: bank, sectionName: stream}", "", own),
			reason: "NotAllowedByListeners: ", proof: opened},
		{name: "udproute-listener-of-bank", applies: streamRoute("UDPRoute", "{kind: ListenerSet, name: bank, namespace: bank, sectionName: datagrams}", "", "backendRefs: [{name: evil, port: 81}]"),
			reason: "NotAllowedByListeners: ", proof: opened},
		{name: "listener-host-of-gateway", applies: listenerSet("hostname: named.bank.example, port: 80, protocol: HTTP"), reason: "HostnameConflict: ", proof: opened},
		{name: "listener-wildcard", prepares: listenerSet(`hostname: "*.bank.example", port: 80, protocol: HTTP`), applies: httpRoute(set, `"*.bank.example"`, own),
			reason: noHost, proof: all(opened, servedAt(openGateway+" other.bank.example/"))},
		{name: "listener-other-mode", prepares: listenerSet("hostname: open-tls.bank.example, port: 443, protocol: TLS, tls: {mode: Terminate, " + evilCert + "}"),
			applies: streamRoute("TLSRoute", set, "hostnames: [open-tls.bank.example]", own), reason: noHost, proof: opened},
		{name: "listener-https-beside-tls", applies: listenerSet("hostname: open-tls.bank.example, port: 443, protocol: HTTPS, tls: {" + evilCert + "}"),
			reason: "ProtocolConflict: ", proof: opened},
		{name: "listener-datagrams-of-bank", applies: listenerSet("port: 9001, protocol: UDP"), reason: "ProtocolConflict: ", proof: opened},
		{name: "tlsroute-wildcard-open", applies: streamRoute("TLSRoute", "{name: open, namespace: slipway, sectionName: tls}", `hostnames: ["*.bank.example"]`, tlsOwn),
			reason: noHost, proof: all(opened, encrypted(openTLS, "other.bank.example", ""))},
		{name: "listenerset-not-allowed", reason: "NotAllowed: ", proof: all(onShared, closed(net.JoinHostPort(sharedGateway, "8080"))),
			applies: setAt(shared, "port: 8080, protocol: HTTP")},
		{name: "listenerset-not-allowed-route", reason: "NoMatchingParent: ", proof: all(onShared, closed(net.JoinHostPort(sharedGateway, "8081"))),
			prepares: setAt(shared, "port: 8081, protocol: HTTP"), applies: httpRoute(set, "not-allowed.evil.example", own)},
		{name: "routes-many-hosts", prepares: manyHosts(), applies: httpRoute(shared, "route.bank.example", own), reason: noHost,
			proof: all(onShared, respondsAt(sharedGateway+" h127-15.many.evil.example/", evil))},
		{name: "route-long-headers", applies: longHeaders(), reason: "Accepted: ",
			proof: all(onShared, respondsAt(sharedGateway+" headers.evil.example/", "404"))},
	}
}

// lateRoutes: a route that bank makes after those of evil is served.
func (w *world) lateRoutes(t *testing.T) {
	w.admin.must(t, `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: late, namespace: bank}
spec:
  parentRefs: [{name: open, namespace: slipway, sectionName: http}]
  hostnames: [late.bank.example, bank.late.example]
  rules: [{backendRefs: [{name: bank, port: 80}]}]
`)
	w.eventually(t, "the late route", func(context.Context) error {
		return all(respondsAt(openGateway+" late.bank.example/", bank), respondsAt(openGateway+" bank.late.example/", bank))(w)
	})
	w.unharmed(t)
}

// unharmed: no condition of bank's and the administrator's Gateways and routes says that
// something is wrong. What evil does is in the statuses of its own objects alone.
func (w *world) unharmed(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), programs.Timeout)
	defer cancel()
	seen := 0
	for _, namespace := range []string{bank, control} {
		for _, kind := range gatewayKinds {
			found, err := w.admin.Dynamic.Resource(kinds()[kind]).Namespace(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range found.Items {
				object := &found.Items[i]
				for _, condition := range gatewayConditions(object) {
					seen++
					if (condition["status"] == "True") == (condition["type"] == "Conflicted") {
						t.Errorf("%s has the condition %v", keyOf(object), condition)
					}
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("there are only %d conditions", seen)
	}
}

// gatewayConditions are the conditions of a route at its parents, those of a Gateway with its
// listeners, and those of a policy at its Gateways.
func gatewayConditions(object *unstructured.Unstructured) []map[string]any {
	parents, _, _ := unstructured.NestedSlice(object.Object, "status", "parents")
	ancestors, _, _ := unstructured.NestedSlice(object.Object, "status", "ancestors")
	listeners, _, _ := unstructured.NestedSlice(object.Object, "status", "listeners")
	var all []map[string]any
	for _, of := range slices.Concat(parents, ancestors, listeners, []any{object.Object["status"]}) {
		part, _ := of.(map[string]any)
		conditions, _, _ := unstructured.NestedSlice(part, "conditions")
		for _, one := range conditions {
			condition, _ := one.(map[string]any)
			all = append(all, condition)
		}
	}
	return all
}
