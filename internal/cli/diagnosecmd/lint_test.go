package diagnosecmd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

const shop = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: cart, namespace: shop}
spec:
  tls: [{hosts: [shop.example], secretName: cert}]
  rules:
  - host: shop.example
    http:
      paths:
      - {path: /cart, pathType: Prefix, backend: {service: {name: cart, port: {name: http}}}}
      - {path: /gone, pathType: Prefix, backend: {service: {name: gone, port: {number: 80}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: limited
  namespace: shop
  annotations: {slipway.dev/rate-limt: 10/1s}
spec:
  rules:
  - host: limited.example
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: cart, port: {number: 80}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: theirs, namespace: shop}
spec:
  ingressClassName: nginx
  rules: [{host: theirs.example}]
` + cart

// cart is a Service with an endpoint.
const cart = `---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: cart-1, namespace: shop, labels: {kubernetes.io/service-name: cart}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.2.3]}]
`

func writeShop(t *testing.T) string {
	t.Helper()
	clitest.Clean(t)
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(shop), 0o600))
	return dir
}

// Lint reports what the edge would refuse, and separates what may be in the cluster
// from what is wrong wherever it is.
func TestLint(t *testing.T) {
	dir := writeShop(t)
	got := clitest.Run(t, "lint --output json -f "+dir)
	var findings []struct{ Severity, File, Object, Field, Message string }
	if err := json.Unmarshal([]byte(got.Stdout), &findings); err != nil {
		t.Fatalf("%v: %+v", err, got)
	}
	severities := map[string]string{}
	for _, finding := range findings {
		severities[finding.Object+" "+finding.Field] = finding.Severity
		if filepath.Base(finding.File) != "shop.yaml" || finding.Message == "" {
			t.Errorf("got %+v", finding)
		}
	}
	want := map[string]string{
		"Ingress shop/cart spec.tls[0].secretName":                         "warning",
		"Ingress shop/cart spec.rules[0].http.paths[1].backend.service":    "warning",
		"Ingress shop/limited metadata.annotations[slipway.dev/rate-limt]": "error",
	}
	for at, severity := range want {
		if severities[at] != severity {
			t.Errorf("%s is %q, want %q: %v", at, severities[at], severity, severities)
		}
	}
	if got.Code != 1 || len(severities) != len(want) || !strings.Contains(got.Stderr, "1 error") {
		t.Errorf("exit code %d, %d findings, %s", got.Code, len(severities), got.Stderr)
	}
	if got := clitest.Run(t, "lint --strict -f "+dir); got.Code != 1 || !strings.Contains(got.Stderr, "3 error") ||
		!strings.Contains(got.Stdout, "0 Ingresses would be served, 2 not as written, 1 of other classes") {
		t.Errorf("strict: %+v", got)
	}
}

// TestLintPitfalls: what looks in order and is not has a finding. The first object
// is the example of Traefik's documentation.
func TestLintPitfalls(t *testing.T) {
	clitest.Clean(t)
	file := filepath.Join(t.TempDir(), "all.yaml")
	must.Do(t, os.WriteFile(file, []byte(pitfalls), 0o600))
	got := clitest.Run(t, "lint -f "+file)
	for _, want := range []string{
		"Ingress production/foo Kubernetes has no Ingress of extensions/v1beta1",
		"Ingress default/older Kubernetes has no Ingress of networking.k8s.io/v1beta1",
		"metadata.annotations[nginx.ingress.kubernetes.io/auth-url]: it is an annotation of ingress-nginx and has no effect here, so the Ingress is served without this protection: set slipway.dev/forward-auth",
		"Ingress default/second spec.rules[0].http.paths[0]: no request reaches it: spec.rules[0].http.paths[0] of Ingress default/first has the same host and path",
		"2 Ingresses would be served, 1 not as written, 0 of other classes",
	} {
		if !strings.Contains(strings.Join(strings.Fields(got.Stdout), " "), want) {
			t.Errorf("%q is missing: %s", want, got.Stdout)
		}
	}
	if got.Code != 1 || !strings.Contains(got.Stderr, "3 errors") || strings.Contains(got.Stdout, "proxy-read-timeout") || strings.Contains(got.Stdout, "ssl-redirect") {
		t.Errorf("got %+v", got)
	}
	if got := clitest.Run(t, "lint --strict -f "+file); !strings.Contains(got.Stderr, "4 errors") {
		t.Errorf("strict: %+v", got)
	}
}

const pitfalls = `kind: Ingress
apiVersion: extensions/v1beta1
metadata: {name: "foo", namespace: production}
spec:
  rules:
  - host: foo.com
    http: {paths: [{path: /bar, backend: {serviceName: service1, servicePort: 80}}]}
---
apiVersion: networking.k8s.io/v1beta1
kind: Ingress
metadata: {name: older}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: guarded
  annotations:
    nginx.ingress.kubernetes.io/auth-url: http://auth/
    nginx.ingress.kubernetes.io/ssl-redirect: "false"
    nginx.ingress.kubernetes.io/proxy-read-timeout: "10"
spec:
  rules: [{host: guarded.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: svc, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: first, creationTimestamp: "2026-01-01T00:00:00Z", annotations: {slipway.dev/tls: only}}
spec:
  rules: [{host: twice.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: svc, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: second
  creationTimestamp: "2026-01-02T00:00:00Z"
  annotations: {traefik.ingress.kubernetes.io/router.entrypoints: websecure, traefik.ingress.kubernetes.io/router.tls: "true"}
spec:
  rules: [{host: twice.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: svc, port: {number: 80}}}}]}}]
---
apiVersion: v1
kind: Service
metadata: {name: svc}
spec: {ports: [{port: 80}]}
`

func TestLintUsage(t *testing.T) {
	clitest.Clean(t)
	for line, want := range map[string]string{
		"lint":                                "name manifests with -f",
		"lint -f - --output xml":              "neither text nor json",
		"lint -f x --config-file nowhere.yml": "nowhere.yml",
	} {
		if got := clitest.Run(t, line); got.Code != 2 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: %+v, want exit code 2 and %q", line, got, want)
		}
	}
	if got := clitest.Run(t, "lint -f no-such-directory"); got.Code != 1 || !strings.Contains(got.Stderr, "no-such-directory") {
		t.Errorf("got %+v", got)
	}
}

// Explain names the Ingress, the Service and the endpoints, or states why none
// serves the request.
func TestExplain(t *testing.T) {
	dir := writeShop(t)
	tests := []struct {
		url  string
		want []string
	}{
		{"http://shop.example/cart/1", []string{"Ingress shop/cart[0][0] serves it", "backend shop/cart:80", "10.1.2.3:8080"}},
		{"https://shop.example/gone", []string{"Ingress shop/cart[0][1] serves it", "responds with 503 itself: there is no Service shop/gone", "clients get the default one", "spec.tls[0].secretName"}},
		{"http://limited.example/", []string{"responds with 503 itself", "did you mean slipway.dev/rate-limit"}},
		{"http://theirs.example/", []string{"No rule matches it: 404", `Ingress shop/theirs has this host, but its class "nginx" is not served by this edge`}},
		{"http://unknown.example/", []string{"No rule matches it: 404"}},
	}
	for _, test := range tests {
		got := clitest.Run(t, "explain "+test.url+" -f "+dir)
		for _, want := range test.want {
			if got.Code != 0 || !strings.Contains(got.Stdout, want) {
				t.Errorf("%s does not say %q: %+v", test.url, want, got)
			}
		}
	}
	var explanation struct {
		Status int
		Rule   struct{ Name string }
	}
	got := clitest.Run(t, "explain --output json http://shop.example/gone -f "+dir)
	if err := json.Unmarshal([]byte(got.Stdout), &explanation); err != nil || explanation.Status != 503 || explanation.Rule.Name != "cart" {
		t.Errorf("%v: %+v", err, got)
	}
	if got := clitest.Run(t, "explain shop.example -f "+dir); got.Code != 2 {
		t.Errorf("not a URL: %+v", got)
	}
}

// tenants are Ingresses of two namespaces for one host, with their ages.
const tenants = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: site, namespace: shop, creationTimestamp: "2026-01-01T00:00:00Z"}
spec:
  rules:
  - host: shop.example
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: cart, port: {number: 80}}}}]}
  - http: {paths: [{path: /first, pathType: Prefix, backend: {service: {name: cart, port: {number: 80}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: guest, namespace: blog, creationTimestamp: "2026-02-01T00:00:00Z", annotations: {slipway.dev/priority: "9"}}
spec:
  rules:
  - http: {paths: [{path: /any, pathType: Prefix, backend: {service: {name: cart, port: {number: 80}}}}]}
  - host: shop.example
    http: {paths: [{path: /blog, pathType: Prefix, backend: {service: {name: cart, port: {number: 80}}}}]}
`

// Lint and explain have the owner of a host, and hostSharing of the options.
func TestHostOwner(t *testing.T) {
	clitest.Clean(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	manifests, open := write("tenants.yaml", tenants), write("edge.yml", "providers: {kubernetesIngress: {hostSharing: open}}\n")
	got := clitest.Run(t, "lint -f "+manifests)
	if want := `slipway.dev/host-grants: "blog=/blog"`; got.Code != 1 || !strings.Contains(got.Stdout, want) {
		t.Errorf("lint does not have %q: %+v", want, got)
	}
	for line, want := range map[string][]string{
		"shop.example/blog -f " + manifests: {"Ingress shop/site[0][0] serves it",
			"Ingress blog/guest spec.rules[1].http.paths[0]: the host shop.example belongs to namespace shop"},
		"unknown.example/any -f " + manifests:                          {"No rule matches it: 404", "traffic without a host of its own belongs to namespace shop"},
		"shop.example/blog --config-file " + open + " -f " + manifests: {"Ingress blog/guest[1][0] serves it"},
	} {
		got := clitest.Run(t, "explain http://"+line)
		for _, want := range want {
			if got.Code != 0 || !strings.Contains(got.Stdout, want) {
				t.Errorf("explain %s does not have %q: %+v", line, want, got)
			}
		}
	}
}
