package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// converted are Ingresses with what routes can express, and one that they cannot.
const converted = `apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: slipway}
spec: {controller: slipway.dev/ingress-controller}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: plain}
spec:
  ingressClassName: slipway
  defaultBackend: {service: {name: echo, port: {number: 80}}}
  rules:
  - host: plain.example
    http:
      paths:
      - {path: /a, pathType: Prefix, backend: {service: {name: a, port: {name: http}}}}
      - {path: /b, pathType: Exact, backend: {service: {name: b, port: {number: 80}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: changed
  annotations:
    slipway.dev/strip-prefix: /v1
    slipway.dev/add-prefix: /api
    slipway.dev/request-headers: '{"set": {"X-Added": "yes"}}'
spec:
  ingressClassName: slipway
  rules:
  - host: changed.example
    http: {paths: [{path: /v1, pathType: Prefix, backend: {service: {name: echo, port: {number: 80}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: redirected, annotations: {slipway.dev/redirect-scheme: https}}
spec:
  ingressClassName: slipway
  rules:
  - host: redirected.example
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: echo, port: {number: 80}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: limited, annotations: {slipway.dev/rate-limit: 1000/1s}}
spec:
  ingressClassName: slipway
  rules:
  - host: limited.example
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: echo, port: {number: 80}}}}]}
`

// TestMigrate converts the Ingresses of a cluster with the built program. The API
// server accepts what it prints, and the responses of the Gateway are those of the
// Ingresses; the one that cannot be expressed stays with its Ingress.
func TestMigrate(t *testing.T) {
	s := newScene(t, shared(t))
	s.Serve(t, "echo", backendC, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "echo %s %s %s %s", r.Host, r.URL, r.Header.Get("X-Added"), r.Header.Get("X-Forwarded-Prefix"))
	}, s.namespace)
	s.Apply(t, s.namespace, converted)
	edge := net.JoinHostPort(edgeAddress, strconv.Itoa(edgeprocess.PlainPort))
	expectAt(t, edge, "limited.example", "/", "200 echo")

	command := exec.CommandContext(t.Context(), binary.Path(t), "migrate", "gateway")
	command.Env = programs.Environment(t, "KUBECONFIG="+s.Kubeconfig)
	var report strings.Builder
	command.Stderr = &report
	objects, err := command.Output()
	if err != nil || !strings.Contains(report.String(), "3 Ingresses converted, 1 kept") || !strings.Contains(report.String(), " 0 handled otherwise") {
		t.Fatalf("%v: %s", err, report.String())
	}
	s.Apply(t, s.namespace, string(objects))
	for _, name := range []string{"plain", "changed", "redirected-redirect"} {
		s.accepted(t, name, metav1.ConditionTrue)
	}
	gateway := net.JoinHostPort(s.programmed(t, "ingress").Status.Addresses[0].Value, "80")
	for _, request := range []struct{ host, path string }{
		{"plain.example", "/a/x"}, {"plain.example", "/ab"}, {"plain.example", "/b"}, {"plain.example", "/b/"}, {"plain.example", "/"},
		{"changed.example", "/v1"}, {"changed.example", "/v1/x?y=z"}, {"changed.example", "/v12"},
		{"redirected.example", "/x?y=z"},
	} {
		want := must.Get(responseOf(t.Context(), edge, request.host, request.path))(t)
		expectAt(t, gateway, request.host, request.path, want)
	}
	expectAt(t, gateway, "limited.example", "/", "404")
}

// expectAt waits until a response begins with a text.
func expectAt(t *testing.T, address, host, path, want string) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		got, err := responseOf(ctx, address, host, path)
		if err == nil && !strings.HasPrefix(got, want) {
			err = fmt.Errorf("%s%s at %s: %q, want %q", host, path, address, got, want)
		}
		return err
	})
}

// responseOf returns the status, location and body of a response.
func responseOf(ctx context.Context, address, host, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return "", err
	}
	request.Host = host
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return strings.TrimSpace(fmt.Sprintf("%d %s%s", response.StatusCode, response.Header.Get("Location"), body)), err
}
