package diagnosecmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

const gateways = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: infra}
spec:
  gatewayClassName: slipway
  listeners:
  - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: shop}}}}}
  - {name: https, port: 443, protocol: HTTPS, hostname: shop.example, tls: {certificateRefs: [{name: cert}]}}
  - {name: same, port: 80, protocol: HTTPS, tls: {certificateRefs: [{name: cert}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: open, namespace: infra}
spec:
  gatewayClassName: slipway
  addresses: [{value: 203.0.113.7}]
  listeners:
  - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {kubernetes.io/metadata.name: shop}}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: shop}
spec:
  parentRefs: [{name: open, namespace: infra}]
  hostnames: [shop.example]
  rules:
  - matches: [{path: {value: /cart}}]
    backendRefs: [{name: cart, port: 80}]
  - matches: [{path: {value: /gone}}]
    backendRefs: [{name: gone, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: intruder, namespace: other}
spec:
  parentRefs: [{name: open, namespace: infra}]
  rules: [{backendRefs: [{name: cart, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: lost, namespace: shop}
spec:
  parentRefs: [{name: elsewhere}]
  rules: [{backendRefs: [{name: cart, port: 80, wait: 1}]}]
` + cart

// TestGateways: lint lists the conditions that Gateways and routes would have, and what
// may be in the cluster is a warning. explain finds the listener of a URL. Both need
// neither a cluster nor an option, and open no port.
func TestGateways(t *testing.T) {
	clitest.Clean(t)
	file := filepath.Join(t.TempDir(), "gateways.yaml")
	must.Do(t, os.WriteFile(file, []byte(gateways), 0o600))
	got := clitest.Run(t, "lint -f "+file)
	lines := strings.Join(strings.Fields(got.Stdout), " ")
	for _, want := range []string{
		"Gateway.gateway.networking.k8s.io infra/public spec.listeners[http]: another listener has port 80",
		"Gateway.gateway.networking.k8s.io infra/public spec.listeners[https]: tls.certificateRefs[0]: there is no Secret infra/cert",
		"HTTPRoute.gateway.networking.k8s.io shop/cart spec.parentRefs[open]: spec.rules[1].backendRefs[0]: there is no Service shop/gone",
		"HTTPRoute.gateway.networking.k8s.io other/intruder spec.parentRefs[open]: allowedRoutes of the listeners does not include",
		"HTTPRoute.gateway.networking.k8s.io shop/lost spec.parentRefs[0]: the manifests have no Gateway shop/elsewhere, so the route is not checked",
		`HTTPRoute.gateway.networking.k8s.io shop/lost unknown field "wait"`,
		"2 Gateways and routes would be served, 2 not as written, 1 of other controllers or without their Gateway",
	} {
		if !strings.Contains(lines, want) {
			t.Errorf("%q is missing: %s", want, got.Stdout)
		}
	}
	// The two listeners of a port, the intruder, the unknown field.
	if got.Code != 1 || strings.Count(got.Stdout, "error  ") != 4 || strings.Count(got.Stdout, "warning  ") != 5 {
		t.Errorf("got %+v", got)
	}
	for url, want := range map[string]string{
		"http://shop.example/cart/x":   "HTTPRoute shop/cart[0][0] serves it",
		"http://shop.example:80/cartx": "404",
	} {
		if got := clitest.Run(t, "explain "+url+" --entry-point infra/open:80 -f "+file); got.Code != 0 || !strings.Contains(got.Stdout, want) {
			t.Errorf("%s: %q is missing: %+v", url, want, got)
		}
	}
	if got := clitest.Run(t, "explain http://shop.example/cart -f "+file); got.Code != 0 || !strings.Contains(got.Stdout, "10.1.2.3") {
		t.Errorf("without a listener: %+v", got)
	}
}

const requestingListeners = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: infra}
spec:
  gatewayClassName: slipway
  allowedListeners: {namespaces: {from: All}}
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: shop, port: 443, protocol: HTTPS, hostname: shop.example, tls: {options: {slipway.dev/certificate-resolver: le}}}
  - {name: unknown, port: 443, protocol: HTTPS, hostname: unknown.example, tls: {options: {slipway.dev/certificate-resolver: missing}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more, namespace: shop}
spec:
  parentRef: {name: public, namespace: infra}
  listeners:
  - {name: all, port: 443, protocol: HTTPS, hostname: "*.example", tls: {options: {slipway.dev/certificate-resolver: le}}}
`

// TestListenerCertificates: lint lists the listeners that get no certificate from a
// resolver, also those of ListenerSets. One that waits for it is no problem, and explain
// names it.
func TestListenerCertificates(t *testing.T) {
	clitest.Clean(t)
	dir := t.TempDir()
	file, options := filepath.Join(dir, "gateways.yaml"), filepath.Join(dir, "edge.yml")
	must.Do(t, os.WriteFile(file, []byte(requestingListeners), 0o600))
	must.Do(t, os.WriteFile(options, []byte("entryPoints: {web: {address: \":8080\"}, websecure: {address: \":8443\", http: {tls: true}}}\n"+
		"certificatesResolvers: {le: {acme: {httpChallenge: {entryPoint: web}}}}\nproviders: {kubernetesIngress: {}}\n"), 0o600))
	got := clitest.Run(t, "lint -f "+file+" --config-file "+options)
	lines := strings.Join(strings.Fields(got.Stdout), " ")
	for _, want := range []string{
		`Gateway.gateway.networking.k8s.io infra/public spec.listeners[unknown]: there is no resolver "missing": the options of the edge have le`,
		"ListenerSet.gateway.networking.k8s.io shop/more spec.listeners[all]: a certificate for *.example needs a challenge by DNS",
	} {
		if !strings.Contains(lines, want) {
			t.Errorf("%q is missing: %s", want, got.Stdout)
		}
	}
	if got.Code != 1 || strings.Contains(lines, "shop.example") || strings.Count(got.Stdout, "error  ") != 1 || strings.Count(got.Stdout, "warning  ") != 1 {
		t.Errorf("got %+v", got)
	}
	got = clitest.Run(t, "explain https://shop.example/ -f "+file+" --config-file "+options)
	if want := "infra/public spec.listeners[shop]: the certificate for shop.example is being requested by the resolver le"; got.Code != 0 || !strings.Contains(got.Stdout, want) {
		t.Errorf("%q is missing: %+v", want, got)
	}
}
