package tenancy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/programs"
)

// The addresses of Gateways. All of them are local in the private network of the test.
const (
	gatewayPool = "10.244.120.16/28"
	// addressesPerNamespace is the number of them that a tenant can have.
	addressesPerNamespace = 4
	sharedGateway         = "10.244.120.20"
	bankGateway           = "10.244.120.21"
	evilGateway           = "10.244.120.22"
	tlsGateway            = "10.244.120.23"
	openGateway           = "10.244.120.24"
)

// gatewayKinds are the kinds of Gateway API with conditions that tenants make.
var gatewayKinds = []string{"Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute", "BackendTLSPolicy"}

// gateways are what the administrator and bank have made: a Gateway for all namespaces,
// one for bank alone, one that takes listeners of all namespaces, and routes of bank at
// each.
const gateways = `apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: slipway}
spec: {controllerName: slipway.dev/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shared, namespace: slipway}
spec:
  gatewayClassName: slipway
  addresses: [{value: ` + sharedGateway + `}]
  listeners:
  - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: bank, namespace: bank}
spec:
  gatewayClassName: slipway
  addresses: [{value: ` + bankGateway + `}]
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: route, namespace: bank}
spec:
  parentRefs: [{name: shared, namespace: slipway}, {name: bank}]
  hostnames: [route.bank.example]
  rules: [{backendRefs: [{name: bank, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: tls, namespace: bank}
spec:
  parentRefs: [{name: shared, namespace: slipway}]
  hostnames: [tls.bank.example]
  rules: [{backendRefs: [{name: bank, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: open, namespace: slipway}
spec:
  gatewayClassName: slipway
  addresses: [{value: ` + openGateway + `}]
  allowedListeners: {namespaces: {from: All}}
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: bank, namespace: bank}
spec:
  parentRef: {name: open, namespace: slipway}
  listeners:
  - {name: own, hostname: set.bank.example, port: 80, protocol: HTTP}
  - {name: stream, port: 9000, protocol: TCP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: open, namespace: bank}
spec:
  parentRefs: [{name: open, namespace: slipway}, {kind: ListenerSet, name: bank}]
  hostnames: [open.bank.example, set.bank.example]
  rules: [{backendRefs: [{name: bank, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: open, namespace: bank}
spec:
  parentRefs: [{kind: ListenerSet, name: bank, sectionName: stream}]
  rules: [{backendRefs: [{name: bank, port: 80}]}]
`

// defineGateways applies the definitions of Gateway API, of the module that the edge is
// built with.
func (w *world) defineGateways(t *testing.T) {
	t.Helper()
	w.cluster.DefineFiles(t, filepath.Join(programs.ModuleFolder(t, "sigs.k8s.io/gateway-api"), "config", "crd", "standard", "gateway.networking.k8s.io_[a-u]*.yaml"))
}

// httpRoute is an HTTPRoute of evil as YAML: its Gateway, its host names, and the rest of
// its one rule.
func httpRoute(gateway, hosts, rule string) string {
	return fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: NAME}
spec:
  parentRefs: [%s]
  hostnames: [%s]
  rules: [{%s}]
`, gateway, hosts, rule)
}

// streamRoute is a TLSRoute or TCPRoute of evil as YAML: its Gateway, more fields, and
// its one rule.
func streamRoute(kind, gateway, fields, rule string) string {
	return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: %s\nmetadata: {name: NAME}\nspec:\n  parentRefs: [%s]\n  %s\n  rules: [{%s}]\n", kind, gateway, fields, rule)
}

// gatewayOf is a Gateway of evil with more fields and one listener.
func gatewayOf(fields, listener string) string {
	return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: NAME}\nspec:\n  gatewayClassName: slipway\n%s  listeners: [{name: own, %s}]\n",
		fields, listener)
}

// gatewayAttempts are after bank's hosts, Services and Secrets by Gateway API.
func gatewayAttempts() []attempt {
	const (
		shared   = "{name: shared, namespace: slipway}"
		own      = "backendRefs: [{name: evil, port: 80}]"
		ofBank   = "{name: bank, namespace: bank, port: 80}"
		refused  = "HostNotGranted: "
		noGrant  = "RefNotPermitted: "
		isLonger = "matches: [{path: {type: Exact, value: /pay}}], "
	)
	onRoute := servedAt(sharedGateway+" route.bank.example/pay", bankGateway+" route.bank.example/pay")
	return []attempt{
		{name: "route-same-host", applies: httpRoute(shared, "route.bank.example", isLonger+own), reason: refused, proof: onRoute},
		{name: "route-host-of-ingress", applies: httpRoute(shared, "bank.example", own), reason: refused, proof: servedAt(sharedGateway+" bank.example/pay", " bank.example/pay")},
		{name: "route-wildcard", applies: httpRoute(shared, `"*.bank.example"`, own), reason: refused,
			proof: servedAt(sharedGateway+" route.bank.example/pay", sharedGateway+" other.bank.example/", " www.bank.example/")},
		{name: "route-one-of-hosts", applies: httpRoute(shared, "of.evil.example, route.bank.example", isLonger+own), reason: refused, proof: onRoute},
		{name: "ingress-host-of-route", applies: rule(highest, "route.bank.example", "Exact", "/pay"), reason: notGranted, proof: all(onRoute, servedAt(" route.bank.example/pay"))},
		{name: "route-own-grant", prepares: "apiVersion: gateway.networking.k8s.io/v1\nkind: ReferenceGrant\nmetadata: {name: NAME, namespace: evil}\nspec:\n" +
			"  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: evil}]\n  to: [{group: gateway.networking.k8s.io, kind: HTTPRoute}, {group: \"\", kind: Service}]\n",
			applies: httpRoute(shared, "route.bank.example", isLonger+own), reason: refused, proof: onRoute},
		{name: "route-gateway-of-bank", applies: httpRoute("{name: bank, namespace: bank}", "gateway.evil.example", own), reason: "NotAllowedByListeners: ",
			proof: servedAt(bankGateway + " gateway.evil.example/")},
		{name: "route-no-host-gateway-of-bank", applies: httpRoute("{name: bank, namespace: bank}", "", own), reason: "NotAllowedByListeners: ", proof: onRoute},
		{name: "route-service-of-bank", applies: httpRoute(shared, "service.evil.example", "backendRefs: ["+ofBank+"]"), reason: noGrant,
			proof: respondsAt(sharedGateway+" service.evil.example/", "500")},
		{name: "route-mirror-to-bank", applies: httpRoute(shared, "mirror-route.evil.example", "filters: [{type: RequestMirror, requestMirror: {backendRef: "+ofBank+"}}], "+own),
			reason: noGrant, proof: respondsAt(sharedGateway+" mirror-route.evil.example/", evil)},
		{name: "gateway-secret-of-bank", reason: noGrant, proof: closed(net.JoinHostPort(tlsGateway, "443")),
			applies: gatewayOf("  addresses: [{value: "+tlsGateway+"}]\n", "port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: bank-cert, namespace: bank}]}")},
		{name: "gateway-address-of-bank", applies: gatewayOf("  addresses: [{value: "+bankGateway+"}]\n", "port: 80, protocol: HTTP"),
			reason: "AddressNotUsable: ", proof: onRoute},
		{name: "tlsroute-same-host", applies: streamRoute("TLSRoute", shared, "hostnames: [tls.bank.example]", own), reason: refused, proof: none},
		{name: "tlsroute-host-of-ingress", applies: streamRoute("TLSRoute", shared, "hostnames: [bank.example]", own), reason: refused, proof: none},
		{name: "route-host-of-tlsroute", applies: httpRoute(shared, "tls.bank.example", own), reason: refused, proof: servedAt(sharedGateway + " tls.bank.example/")},
		{name: "tlsroute-service-of-bank", applies: streamRoute("TLSRoute", shared, "hostnames: [tls.evil.example]", "backendRefs: ["+ofBank+"]"), reason: noGrant, proof: none},
		{name: "tcproute-gateway-of-bank", applies: streamRoute("TCPRoute", "{name: bank, namespace: bank}", "", own), reason: "NotAllowedByListeners: ", proof: onRoute},
		{name: "listenerset-gateway-of-bank", reason: "NotAllowed: ", proof: closed(net.JoinHostPort(bankGateway, "8080")),
			applies: "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: NAME}\nspec:\n" +
				"  parentRef: {name: bank, namespace: bank}\n  listeners: [{name: own, port: 8080, protocol: HTTP}]\n"},
		{name: "gateway-address-of-edge", applies: gatewayOf("  addresses: [{value: 127.0.0.1}]\n", "port: 80, protocol: HTTP"), reason: "AddressNotUsable: ", proof: none},
	}
}

// addGatewayConditions adds the conditions of a route at its parents, those of a Gateway
// with its listeners, and those of a policy at its Gateways.
func (v *view) addGatewayConditions(object *unstructured.Unstructured) {
	parents, _, _ := unstructured.NestedSlice(object.Object, "status", "parents")
	ancestors, _, _ := unstructured.NestedSlice(object.Object, "status", "ancestors")
	listeners, _, _ := unstructured.NestedSlice(object.Object, "status", "listeners")
	for _, of := range slices.Concat(parents, ancestors, listeners, []any{object.Object["status"]}) {
		part, _ := of.(map[string]any)
		conditions, _, _ := unstructured.NestedSlice(part, "conditions")
		for _, one := range conditions {
			condition, _ := one.(map[string]any)
			v.texts[keyOf(object)] = append(v.texts[keyOf(object)], fmt.Sprint(condition["reason"], ": ", condition["message"]))
		}
	}
}

// askAt sends a request for "ADDRESS HOST/PATH" to a Gateway; without an address it is
// the entry point of Ingresses.
func (w *world) askAt(target string) (string, error) {
	address, target, _ := strings.Cut(target, " ")
	if address == "" {
		return w.ask(target)
	}
	return w.request("http://"+address, target)
}

// servedAt: no request reaches evil.
func servedAt(targets ...string) proof {
	return func(w *world) error {
		for _, target := range targets {
			if got, err := w.askAt(target); err != nil || got == evil || got == "503" {
				return fmt.Errorf("%s is served by %s: %w", target, got, err)
			}
		}
		return nil
	}
}

// respondsAt: a request gets this tenant or status.
func respondsAt(target, want string) proof {
	return func(w *world) error {
		if got, err := w.askAt(target); err != nil || got != want {
			return fmt.Errorf("%s gets %s, want %s: %w", target, got, want, err)
		}
		return nil
	}
}

// closed: no listener takes connections.
func closed(address string) proof {
	return func(*world) error {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return nil
		}
		return errors.Join(fmt.Errorf("%s is open", address), conn.Close())
	}
}

// gatewaysServe: bank's routes are served at all Gateways.
func gatewaysServe(w *world) error {
	return errors.Join(respondsAt(sharedGateway+" route.bank.example/", bank)(w), respondsAt(bankGateway+" route.bank.example/", bank)(w),
		respondsAt(openGateway+" open.bank.example/", bank)(w), respondsAt(openGateway+" set.bank.example/", bank)(w), respondsAt(openGateway+":9000 any.example/", bank)(w))
}

// ownRoutes: evil has its own hosts at the shared Gateway, and its own Gateway. A route
// without a host serves none of bank's, also where bank has no route.
func (w *world) ownRoutes(t *testing.T) {
	for _, one := range []attempt{
		{name: "own-route", applies: httpRoute("{name: shared, namespace: slipway}", "own-route.evil.example", "backendRefs: [{name: evil, port: 80}]")},
		{name: "own-gateway", applies: gatewayOf("  addresses: [{value: "+evilGateway+"}]\n", "port: 80, protocol: HTTP")},
		{name: "own-all", applies: httpRoute("{name: own-gateway}, {name: shared, namespace: slipway}", "", "backendRefs: [{name: evil, port: 80}]")},
	} {
		w.tenant.must(t, one.fill().applies)
	}
	for target, want := range map[string]string{
		sharedGateway + " own-route.evil.example/": evil, sharedGateway + " unknown.example/": evil, evilGateway + " unknown.example/": evil,
		sharedGateway + " route.bank.example/": bank, bankGateway + " route.bank.example/": bank, " route.bank.example/": bank,
		bankGateway + " unknown.example/": fmt.Sprint(http.StatusNotFound), sharedGateway + " bank.example/": fmt.Sprint(http.StatusNotFound),
		evilGateway + " route.bank.example/": fmt.Sprint(http.StatusNotFound), evilGateway + " tls.bank.example/": fmt.Sprint(http.StatusNotFound),
	} {
		w.eventually(t, target, func(context.Context) error { return respondsAt(target, want)(w) })
	}
}
