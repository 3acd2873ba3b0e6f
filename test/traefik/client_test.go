package traefik

import (
	"testing"

	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// TestClients: behind a trusted proxy a rule selects clients by their address, and an
// allow list by the place that it names in X-Forwarded-For.
func TestClients(t *testing.T) {
	s := newScene(t, "--entryPoints.web.forwardedHeaders.trustedIPs=127.0.0.0/8")
	s.Apply(t, s.namespace, clientRoutes)
	client := s.client(edgeprocess.PlainPort, nil)
	for _, test := range []struct {
		path, forwarded string
		status          int
		body            string
	}{
		{"/rule", "192.0.2.1", 200, "b /rule"},
		{"/rule", "198.51.100.1", 200, "a /rule"},
		{"/listed", "192.0.2.1, 198.51.100.1", 200, "a /listed"},
		{"/listed", "198.51.100.1, 192.0.2.1", 403, ""},
		{"/listed", "192.0.2.1", 403, ""},
	} {
		s.expect(t, request(t, "GET", "http://clients.example.com"+test.path, "X-Forwarded-For", test.forwarded), client, test.status, test.body)
	}
}

const clientRoutes = `apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: listed}
spec: {ipAllowList: {sourceRange: [192.0.2.0/24], ipStrategy: {depth: 2}}}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: clients}
spec:
  routes:
  - {match: "Host(` + "`clients.example.com`" + `)", services: [{name: a, port: 80}]}
  - {match: "Host(` + "`clients.example.com`" + `) && Path(` + "`/rule`" + `) && ClientIP(` + "`192.0.2.0/24`" + `)", services: [{name: b, port: 80}]}
  - {match: "Host(` + "`clients.example.com`" + `) && Path(` + "`/listed`" + `)", middlewares: [{name: listed}], services: [{name: a, port: 80}]}
`
