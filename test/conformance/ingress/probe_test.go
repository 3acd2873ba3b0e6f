package ingress

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// settle returns when the edge has seen everything that was written so far, of
// the kinds that a probe has.
func (c *scene) settle(t *testing.T) {
	t.Helper()
	c.suite.probes++
	name := fmt.Sprintf("probe-%d", c.suite.probes)
	namespace := c.namespace
	if watched := c.group.option("namespaces"); watched != "" {
		namespace, _, _ = strings.Cut(watched, ",")
	}
	server := startBackend(t, name, c.suite.freeAddress(), "http", nil)
	metadata := ""
	if class := c.group.option("ingressClass"); class != "" {
		metadata += "\n    kubernetes.io/ingress.class: " + class
	}
	if label, value, found := strings.Cut(c.group.option("labelSelector"), "="); found {
		metadata += fmt.Sprintf("\n  labels: {%s: %s}", label, value)
	}
	service := serviceManifest(namespace, name, `slipway.dev/native-lb: "false"`, fmt.Sprintf("- addresses: [%s]\n", server.address.Addr()))
	c.suite.apply(t, namespace, service+fmt.Sprintf(probeManifest, namespace, name, metadata))
	c.awaitProbe(t, name+".probe")
}

func (c *scene) awaitProbe(t *testing.T, host string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	last := "no answer"
	for ctx.Err() == nil {
		q := &request{method: http.MethodGet, url: "http://" + host + "/", header: http.Header{}}
		q.header.Set("Authorization", "Basic cHJvYmU6cHJvYmU=")
		got := c.send(t, q)
		if got.status == http.StatusOK {
			return
		}
		last = got.String()
		pause(ctx)
	}
	t.Fatalf("the edge does not follow: after %s the probe %s gets %s", patience, host, last)
}

// awaitAge returns when an object that is made now is younger than all others:
// the API server counts age in seconds.
func (c *scene) awaitAge(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	made := func() time.Time { return c.suite.wouldBeMade(t) }
	before := made()
	for !made().After(before) {
		if ctx.Err() != nil {
			t.Fatal("the clock of the API server stands still")
		}
		pause(ctx)
	}
}

// probeManifest is what must be read before the probe is served: a Secret, a
// Middleware of each group, and the Ingress. The Service comes before it.
const probeManifest = `
---
apiVersion: v1
kind: Secret
metadata: {name: %[2]s, namespace: %[1]s}
type: kubernetes.io/basic-auth
stringData: {username: probe, password: probe}
---
apiVersion: slipway.dev/v1alpha1
kind: Middleware
metadata: {name: %[2]s, namespace: %[1]s}
spec: {filters: [{basicAuth: {secret: %[2]s}}]}
---
apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: %[2]s, namespace: %[1]s}
spec: {addPrefix: {prefix: /probe}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: %[2]s
  namespace: %[1]s
  annotations:
    slipway.dev/middlewares: %[2]s
    traefik.ingress.kubernetes.io/router.middlewares: %[1]s-%[2]s@kubernetescrd%[3]s
spec:
  rules:
  - host: %[2]s.probe
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %[2]s, port: {number: 80}}}}]}
`
