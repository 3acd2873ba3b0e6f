package health_test

import (
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/health"
)

// TestIngressOfArgoCD shows what Argo CD documents: an Ingress with any address
// is healthy. Port errors of a controller other than our edge are ignored.
func TestIngressOfArgoCD(t *testing.T) {
	check(t, "networking.k8s.io/v1", "Ingress", []row{
		{`spec: {}`, progressing, "address"},
		{`status: {loadBalancer: {ingress: []}}`, progressing, "address"},
		{`status: {loadBalancer: {ingress: [{}]}}`, healthy, ""},
		{`status: {loadBalancer: {ingress: [{hostname: a.example}]}}`, healthy, ""},
		{`status: {loadBalancer: {ingress: [{ip: 192.0.2.1, ports: [{port: 80, protocol: TCP, error: cloud.example/Quota}]}]}}`, healthy, ""},
		{`{metadata: {managedFields: [{manager: other, subresource: status}, {manager: slipway-edge}]},
		  status: {loadBalancer: {ingress: [{ports: [{error: cloud.example/Quota}]}]}}}`, healthy, ""},
		{`status: {loadBalancer: {ingress: [nonsense, {ports: [nonsense, {error: 7}]}, {ports: {}}]}}`, healthy, ""},
	})
}

// TestIngressOfEdge: the health of the Ingress follows the port errors of our edge.
func TestIngressOfEdge(t *testing.T) {
	const signed = `metadata: {managedFields: [{manager: kubectl, operation: Update}, {manager: slipway-edge, operation: Apply, subresource: status}]}`
	at := func(ports ...string) string {
		var list []string
		for _, text := range ports {
			list = append(list, "{port: 80, protocol: TCP, error: "+text+"}")
		}
		return "{" + signed + ", status: {loadBalancer: {ingress: [{ip: 192.0.2.1}, {ip: 192.0.2.2, ports: [{port: 80, protocol: TCP}, " + strings.Join(list, ", ") + "]}]}}}"
	}
	check(t, "networking.k8s.io/v1", "Ingress", []row{
		{"{" + signed + ", status: {loadBalancer: {ingress: [{ip: 192.0.2.1, ports: [{port: 80, protocol: TCP}]}]}}}", healthy, ""},
		{"{" + signed + "}", progressing, "address"},
		{at("slipway.dev/Refused"), degraded, "Events"},
		{at("slipway.dev/NoEndpoints"), progressing, "Waiting for endpoints"},
		{at("slipway.dev/CertificateNotReady"), progressing, "Waiting for a certificate"},
		{at("slipway.dev/NoEndpoints", "slipway.dev/CertificateNotReady"), progressing, "being issued; its Events have the details. Waiting for endpoints"},
		{at("slipway.dev/NoEndpoints", "slipway.dev/Refused"), degraded, "refuses"},
		{at("slipway.dev/SomethingNew"), degraded, "slipway.dev/SomethingNew"},
		{at("slipway.dev/NoEndpoints", "cloud.example/Quota"), degraded, "cloud.example/Quota"},
		{at("cloud.example/Quota"), degraded, "cloud.example/Quota"},
		// The managed fields may have been cut off.
		{`status: {loadBalancer: {ingress: [{ports: [{error: slipway.dev/NoEndpoints}]}]}}`, progressing, "endpoints"},
	})
}

// TestIngressDeadline: endpoints that never come are Degraded in the end, and so
// is a certificate.
func TestIngressDeadline(t *testing.T) {
	for _, text := range []string{"NoEndpoints", "CertificateNotReady"} {
		live := parse(t, `{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: a},
			status: {loadBalancer: {ingress: [{ports: [{port: 443, protocol: TCP, error: slipway.dev/`+text+`}]}]}}}`)
		for after, want := range map[time.Duration]health.Code{time.Minute: progressing, time.Hour: degraded} {
			got := health.WithDeadline(health.NewRules(nil).Of(live, noon), live, noon, noon.Add(after))
			if got.Code != want || !strings.Contains(got.Message, "Waiting for ") {
				t.Errorf("%s after %s: %+v, want %s", text, after, got, want)
			}
		}
	}
}
