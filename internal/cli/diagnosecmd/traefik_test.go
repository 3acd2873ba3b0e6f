package diagnosecmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

const traefikShop = `apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: cart, namespace: shop}
spec:
  routes:
  - match: Host(` + "`shop.example`" + `) && PathPrefix(` + "`/cart`" + `) && !Method(` + "`DELETE`" + `)
    middlewares: [{name: strip}]
    services: [{name: cart, port: http, passHostHeader: false}]
  - match: Host(` + "`shop.example`" + `) && Query(` + "`debug`, `1`" + `)
    services: [{name: cart, port: 80}]
    tlss: {a: b}
  - match: Host(shop.example)
    services: [{name: cart, port: 80}]
  - match: Host(` + "`office.example`" + `) && ClientIP(` + "`192.0.2.0/24`" + `)
    services: [{name: cart, port: 80}]
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: theirs, namespace: shop, annotations: {kubernetes.io/ingress.class: other}}
spec: {routes: [{match: "Host(` + "`theirs.example`" + `)", services: [{name: cart, port: 80}]}]}
---
apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: strip, namespace: shop}
spec: {stripPrefix: {prefixes: [/cart]}}
` + cart

// TestTraefik: lint and explain read IngressRoutes from manifests without an option.
func TestTraefik(t *testing.T) {
	clitest.Clean(t)
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "shop.yaml"), []byte(traefikShop), 0o600))
	lint := clitest.Run(t, "lint -f "+dir)
	for _, want := range []string{
		"IngressRoute.traefik.io shop/cart", "spec.routes[1].tlss: the field is unknown",
		"spec.routes[2].match: at 6: 's', and not a value in backticks or double quotes",
		"0 IngressRoutes would be served, 1 not as written, 1 of other classes.",
	} {
		if lint.Code != 1 || !strings.Contains(lint.Stdout, want) {
			t.Errorf("%q is missing in %+v", want, lint)
		}
	}
	for _, test := range []struct {
		line string
		want []string
	}{
		{"http://shop.example/cart/1", []string{"IngressRoute shop/cart[0][0] serves it", "10.1.2.3:8080", "spec.routes[2].match"}},
		{"--method DELETE http://shop.example/cart/1", []string{"No rule matches it: 404", "it is not for requests of which the method is DELETE"}},
		{"http://shop.example/?debug=1", []string{"IngressRoute shop/cart[1][0] serves it", "responds with 503 itself", "tlss"}},
		{"http://theirs.example/", []string{"No rule matches it: 404"}},
		{"http://office.example/", []string{"No rule matches it: 404", "the client is in [192.0.2.0/24]"}},
		{"--client 192.0.2.9 http://office.example/", []string{"from 192.0.2.9", "IngressRoute shop/cart[3][0] serves it"}},
	} {
		got := clitest.Run(t, "explain -f "+dir+" "+test.line)
		for _, want := range test.want {
			if !strings.Contains(got.Stdout, want) {
				t.Errorf("%s: %q is missing in %+v", test.line, want, got)
			}
		}
	}
}
