package kubetest

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// Backend returns the manifests of a Service whose only endpoint is port 8080 of
// an address.
func Backend(name, address string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [%[2]s], conditions: {ready: true}}]
`, name, address)
}

// Serve runs an HTTP server of the test at port 8080 of an address, as a Backend
// in each of the namespaces.
func (c *Cluster) Serve(t testing.TB, name, address string, handler http.HandlerFunc, namespaces ...string) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(address, "8080")))(t)
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: handler}}
	server.Start()
	t.Cleanup(server.Close)
	for _, namespace := range namespaces {
		c.Apply(t, namespace, Backend(name, address))
	}
}
