package diagnosecmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

const nginxObjects = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: cart
  namespace: shop
  annotations:
    nginx.ingress.kubernetes.io/rewrite-target: /$1
    nginx.ingress.kubernetes.io/proxy-buffer-size: 8k
    nginx.ingress.kubernetes.io/configuration-snippet: deny all;
spec:
  ingressClassName: nginx
  rules:
  - host: shop.example
    http: {paths: [{path: /cart/(.*), pathType: ImplementationSpecific, backend: {service: {name: cart, port: {number: 80}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: look, namespace: shop, annotations: {nginx.ingress.kubernetes.io/use-regex: "true"}}
spec:
  ingressClassName: nginx
  rules:
  - host: look.example
    http: {paths: [{path: '/a(?!b)', pathType: ImplementationSpecific, backend: {service: {name: cart, port: {number: 80}}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {ports: [{port: 80}]}
`

// TestLintOfNGINX: with the provider, Ingresses of ingress-nginx are read as they are, and
// its ConfigMap is checked, too.
func TestLintOfNGINX(t *testing.T) {
	clitest.Clean(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	objects := file("objects.yaml", nginxObjects)
	options := func(configMap string) string {
		return file("edge.yaml", "providers:\n  kubernetesIngress: true\n  kubernetesIngressNGINX: {configMapFile: "+configMap+"}\n")
	}
	if got := clitest.Run(t, "lint -f "+objects); got.Code != 0 || !strings.Contains(got.Stdout, "2 of other classes") {
		t.Errorf("without the provider: %+v", got)
	}
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: ingress-nginx-controller, namespace: ingress-nginx}\n"
	got := clitest.Run(t, "lint -f "+objects+" --config-file "+options(file("configmap.yaml", head+"data: {proxy-body-size: 8m, keep-alive: \"75\"}\n")))
	for _, want := range []string{"[nginx.ingress.kubernetes.io/configuration-snippet]: snippets are not allowed", "a look-ahead, (?!,", "0 of other classes"} {
		if !strings.Contains(strings.Join(strings.Fields(got.Stdout), " "), want) {
			t.Errorf("%q is missing: %s", want, got.Stdout)
		}
	}
	if got.Code != 1 || strings.Contains(got.Stdout, "proxy-buffer-size") || strings.Contains(got.Stdout, "has no effect here") {
		t.Errorf("got %+v", got)
	}
	for text, want := range map[string]string{
		head + "data: {main-snippet: env X;, keep-aliv: \"1\"}\n": "main-snippet",
		head + "data: {keep-aliv: \"1\"}\n":                       "did you mean keep-alive?",
		"kind: Secret\n":                                          "it must be a ConfigMap",
		"- a\n":                                                   "not the manifest of a ConfigMap",
		strings.Repeat("#", 4<<20+1):                              "more than 4194304 bytes",
	} {
		got := clitest.Run(t, "lint -f "+objects+" --config-file "+options(file("configmap.yaml", text)))
		if got.Code == 0 || !strings.Contains(got.Stderr, want) || !strings.Contains(got.Stderr, "providers.kubernetesIngressNGINX.configMapFile") {
			t.Errorf("%.40q: %+v, want %q", text, got, want)
		}
	}
	if got := clitest.Run(t, "lint -f "+objects+" --config-file "+options(filepath.Join(dir, "gone"))); got.Code == 0 || !strings.Contains(got.Stderr, "gone") {
		t.Errorf("without the file: %+v", got)
	}
}
