package ingress

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// settle returns when the edge has seen everything that was written so far, of
// the kinds that a probe has.
func (c *scene) settle(t *testing.T) {
	t.Helper()
	c.settleWithin(t, patience)
}

// settleWithin is settle for an edge that may take its time.
func (c *scene) settleWithin(t *testing.T, limit time.Duration) {
	t.Helper()
	c.suite.probes++
	name := fmt.Sprintf("probe-%d", c.suite.probes)
	namespace := c.namespace
	if watched := c.group.option("namespaces"); watched != "" {
		namespace, _, _ = strings.Cut(watched, ",")
	}
	server := startBackend(t, name, c.suite.freeAddress(), "http", nil)
	// With the annotation it does not get the default class of the cluster.
	metadata := "\n    kubernetes.io/ingress.class: " + cmp.Or(c.group.option("ingressClass"), "slipway")
	if label, value, found := strings.Cut(c.group.option("labelSelector"), "="); found {
		metadata += fmt.Sprintf("\n  labels: {%s: %q}", label, value)
	}
	service := serviceManifest(namespace, name, `slipway.dev/native-lb: "false"`, fmt.Sprintf("- addresses: [%s]\n", server.address.Addr()))
	c.suite.apply(t, namespace, service+fmt.Sprintf(probeManifest, namespace, name, metadata))
	c.awaitProbe(t, name+".probe", limit)
}

func (c *scene) awaitProbe(t *testing.T, host string, limit time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
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
	t.Fatalf("the edge does not follow: after %s the probe %s gets %s", limit, host, last)
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

// awaitDefaultClass returns when the API server writes a class into an Ingress
// that is made without one.
func (c *scene) awaitDefaultClass(t *testing.T, class string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	backend := &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: "any", Port: networkingv1.ServiceBackendPort{Number: 80},
	}}
	for {
		made, err := c.suite.kube.Client.NetworkingV1().Ingresses(c.namespace).Create(ctx, &networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "classless-"},
			Spec:       networkingv1.IngressSpec{DefaultBackend: backend},
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		switch {
		case err != nil:
			t.Fatal(err)
		case made.Spec.IngressClassName != nil && *made.Spec.IngressClassName == class:
			return
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
