package gatewayclients

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// testRecords: external-dns writes the records of routes of every kind, with the
// addresses in the status of their Gateways, also those of routes at a ListenerSet. They
// follow a Gateway that gets another address and a route that goes. A route that is not
// accepted has none.
func (w *world) testRecords(t *testing.T) {
	w.apply(t, recordGateways)
	w.apply(t, recordRoutes)
	first, second := address(w.programmed(t, "records")), address(w.programmed(t, "other"))
	if first == second {
		t.Fatalf("both Gateways have the address %s", first)
	}
	for _, host := range []string{"web", "grpc", "tls", "tcp", "udp", "set"} {
		w.awaitRecords(t, host, first)
	}
	w.awaitRecords(t, "other", second)

	// Another namespace has the host web: external-dns would add the second address to it.
	w.awaitAge(t, "web")
	w.apply(t, foreignRoute)
	w.refused(t, w.infra, "foreign", "HostNotGranted")
	w.apply(t, lateRoute)
	w.awaitRecords(t, "late", second)
	w.awaitRecords(t, "web", first)

	must.Get(w.in(w.infra, "gateways").Patch(t.Context(), "other", types.MergePatchType,
		[]byte(`{"spec": {"addresses": [{"type": "IPAddress", "value": "`+fixedAddress+`"}]}}`), metav1.PatchOptions{FieldManager: "user"}))(t)
	w.awaitRecords(t, "other", fixedAddress)
	// The host passes to the other route, and to none after that.
	must.Do(t, w.in(w.team, "httproutes").Delete(t.Context(), "web", metav1.DeleteOptions{}))
	w.awaitRecords(t, "web", fixedAddress)
	must.Do(t, w.in(w.infra, "httproutes").Delete(t.Context(), "foreign", metav1.DeleteOptions{}))
	w.awaitRecords(t, "web")
	w.awaitRecords(t, "grpc", first)
}

// address returns the address in the status of a Gateway.
func address(gateway *gatewayv1.Gateway) string { return gateway.Status.Addresses[0].Value }

// awaitRecords waits until a name of the zone has exactly some addresses.
func (w *world) awaitRecords(t *testing.T, name string, want ...string) {
	t.Helper()
	programs.Eventually(t, func(context.Context) error {
		got, err := w.names.lookup(name + "." + zone)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("%s has the addresses %q, want %q", name, got, want)
		}
		return err
	})
}

// awaitAge waits until an HTTPRoute of the team is older than one that is made now: ages
// are compared by the second.
func (w *world) awaitAge(t *testing.T, name string) {
	t.Helper()
	route := must.Get(w.in(w.team, "httproutes").Get(t.Context(), name, metav1.GetOptions{}))(t)
	created := route.GetCreationTimestamp()
	programs.Until(t, "the next second", func() bool { return time.Now().Unix() > created.Unix() })
}

// refused waits until an HTTPRoute is not accepted for a reason.
func (w *world) refused(t *testing.T, namespace, name, reason string) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		route, err := w.in(namespace, "httproutes").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return checkRefused(route, reason)
	})
}

// checkRefused returns an error unless a route is not accepted for a reason.
func checkRefused(route *unstructured.Unstructured, reason string) error {
	parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
	for _, parent := range parents {
		entry, _ := parent.(map[string]any)
		conditions, _, _ := unstructured.NestedSlice(entry, "conditions")
		for _, one := range conditions {
			if c, _ := one.(map[string]any); c["type"] == "Accepted" && c["status"] == "False" && c["reason"] == reason {
				return nil
			}
		}
	}
	return fmt.Errorf("the route %s is not refused as %s: %v", route.GetName(), reason, parents)
}

const recordGateways = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: records}
spec:
  gatewayClassName: slipway
  allowedListeners: {namespaces: {from: All}}
  listeners:
  - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: tls, port: 8443, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}
  - {name: tcp, port: 9000, protocol: TCP, allowedRoutes: {namespaces: {from: All}}}
  - {name: udp, port: 9000, protocol: UDP, allowedRoutes: {namespaces: {from: All}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: set, namespace: TEAM}
spec:
  parentRef: {name: records, namespace: INFRA}
  listeners: [{name: set, port: 8080, protocol: HTTP, hostname: set.gateway.test}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: other}
spec:
  gatewayClassName: slipway
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
`

const recordRoutes = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: TEAM}
spec:
  parentRefs: [{name: records, namespace: INFRA}]
  hostnames: [web.gateway.test]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: grpc, namespace: TEAM}
spec:
  parentRefs: [{name: records, namespace: INFRA}]
  hostnames: [grpc.gateway.test]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: tls, namespace: TEAM}
spec:
  parentRefs: [{name: records, namespace: INFRA}]
  hostnames: [tls.gateway.test]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: tcp, namespace: TEAM, annotations: {external-dns.kubernetes.io/hostname: tcp.gateway.test}}
spec:
  parentRefs: [{name: records, namespace: INFRA, sectionName: tcp}]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: udp, namespace: TEAM, annotations: {external-dns.kubernetes.io/hostname: udp.gateway.test}}
spec:
  parentRefs: [{name: records, namespace: INFRA, sectionName: udp}]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: in-set, namespace: TEAM}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: ListenerSet, name: set}]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: other, namespace: TEAM}
spec:
  parentRefs: [{name: other, namespace: INFRA}]
  hostnames: [other.gateway.test]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`

const foreignRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: foreign}
spec:
  parentRefs: [{name: other}]
  hostnames: [web.gateway.test]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`

const lateRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: late, namespace: TEAM}
spec:
  parentRefs: [{name: other, namespace: INFRA}]
  hostnames: [late.gateway.test]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`
