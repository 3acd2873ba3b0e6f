package tenancy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
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
	crowdedGateway        = "10.244.120.25"
)

// gatewayKinds are the kinds of Gateway API with conditions that tenants make.
var gatewayKinds = []string{"Gateway", "ListenerSet", "HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute", "BackendTLSPolicy"}

// gateways are what the administrator and bank have made: a Gateway for all namespaces,
// one for bank alone, two that take listeners of all namespaces, and routes of bank at
// all but the last.
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
  rules: [{backendRefs: [{name: bank, port: 443}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: open, namespace: slipway}
spec:
  gatewayClassName: slipway
  addresses: [{value: ` + openGateway + `}]
  allowedListeners: {namespaces: {from: All}}
  listeners:
  - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: named, hostname: named.bank.example, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: crowded, namespace: slipway}
spec:
  gatewayClassName: slipway
  addresses: [{value: ` + crowdedGateway + `}]
  allowedListeners: {namespaces: {from: All}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: bank, namespace: bank}
spec:
  parentRef: {name: open, namespace: slipway}
  listeners:
  - {name: own, hostname: set.bank.example, port: 80, protocol: HTTP}
  - {name: stream, port: 9000, protocol: TCP}
  - {name: datagrams, port: 9001, protocol: UDP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: open, namespace: bank}
spec:
  parentRefs: [{name: open, namespace: slipway}, {kind: ListenerSet, name: bank}]
  hostnames: [open.bank.example, set.bank.example, named.bank.example]
  rules: [{backendRefs: [{name: bank, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: open, namespace: bank}
spec:
  parentRefs: [{kind: ListenerSet, name: bank, sectionName: stream}]
  rules: [{backendRefs: [{name: bank, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: open, namespace: bank}
spec:
  parentRefs: [{kind: ListenerSet, name: bank, sectionName: datagrams}]
  rules: [{backendRefs: [{name: bank, port: 81}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: open, namespace: bank}
spec:
  parentRefs: [{name: open, namespace: slipway, sectionName: tls}]
  hostnames: [open-tls.bank.example]
  rules: [{backendRefs: [{name: bank, port: 443}]}]
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
		tlsPort  = sharedGateway + ":443"
		tlsOwn   = "backendRefs: [{name: evil, port: 443}]"
		refused  = "HostNotGranted: "
		noGrant  = "RefNotPermitted: "
		isLonger = "matches: [{path: {type: Exact, value: /pay}}], "
	)
	onTLS := encrypted(tlsPort, "tls.bank.example", bank)
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
			reason: noGrant, proof: all(respondsAt(sharedGateway+" mirror-route.evil.example/mirrored", evil), unheard("/mirrored"))},
		{name: "gateway-secret-of-bank", reason: noGrant, proof: closed(net.JoinHostPort(tlsGateway, "443")),
			applies: gatewayOf("  addresses: [{value: "+tlsGateway+"}]\n", "port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: bank-cert, namespace: bank}]}")},
		{name: "gateway-address-of-bank", applies: gatewayOf("  addresses: [{value: "+bankGateway+"}]\n", "port: 80, protocol: HTTP"),
			reason: "AddressNotUsable: ", proof: onRoute},
		{name: "tlsroute-same-host", applies: streamRoute("TLSRoute", shared, "hostnames: [tls.bank.example]", tlsOwn), reason: refused, proof: onTLS},
		{name: "tlsroute-wildcard", applies: streamRoute("TLSRoute", shared, `hostnames: ["*.bank.example"]`, tlsOwn), reason: refused, proof: onTLS},
		{name: "tlsroute-host-of-ingress", applies: streamRoute("TLSRoute", shared, "hostnames: [bank.example]", tlsOwn), reason: refused, proof: encrypted(tlsPort, "bank.example", "")},
		{name: "route-host-of-tlsroute", applies: httpRoute(shared, "tls.bank.example", own), reason: refused, proof: servedAt(sharedGateway + " tls.bank.example/")},
		{name: "tlsroute-service-of-bank", applies: streamRoute("TLSRoute", shared, "hostnames: [tls.evil.example]", "backendRefs: [{name: bank, namespace: bank, port: 443}]"), reason: noGrant,
			proof: encrypted(tlsPort, "tls.evil.example", "")},
		{name: "tcproute-gateway-of-bank", applies: streamRoute("TCPRoute", "{name: bank, namespace: bank}", "", own), reason: "NotAllowedByListeners: ", proof: onRoute},
		{name: "listenerset-gateway-of-bank", reason: "NotAllowed: ", proof: closed(net.JoinHostPort(bankGateway, "8080")),
			applies: "apiVersion: gateway.networking.k8s.io/v1\nkind: ListenerSet\nmetadata: {name: NAME}\nspec:\n" +
				"  parentRef: {name: bank, namespace: bank}\n  listeners: [{name: own, port: 8080, protocol: HTTP}]\n"},
		{name: "gateway-address-of-edge", applies: gatewayOf("  addresses: [{value: 127.0.0.1}]\n", "port: 80, protocol: HTTP"), reason: "AddressNotUsable: ", proof: none},
	}
}

// addGatewayConditions adds the conditions of an object of Gateway API.
func (v *view) addGatewayConditions(object *unstructured.Unstructured) {
	for _, condition := range gatewayConditions(object) {
		v.texts[keyOf(object)] = append(v.texts[keyOf(object)], fmt.Sprint(condition["reason"], ": ", condition["message"]))
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
		encrypted(sharedGateway+":443", "tls.bank.example", bank)(w), openServes()(w))
}

// openServes: bank's routes are served at all listeners of the Gateway that takes those of
// all namespaces.
func openServes() proof {
	return all(respondsAt(openGateway+" open.bank.example/", bank), respondsAt(openGateway+" set.bank.example/", bank),
		respondsAt(openGateway+" named.bank.example/", bank), respondsAt(openGateway+":9000 any.example/", bank),
		encrypted(openGateway+":443", "open-tls.bank.example", bank), datagramServedBy(openGateway+":9001", bank))
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
