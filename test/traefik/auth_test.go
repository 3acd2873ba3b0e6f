package traefik

import (
	"net/http"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

const authServer = "10.244.121.5"

// TestForwardAuthPattern: headers that match authResponseHeadersRegex come from the
// authentication server, and never from a client.
func TestForwardAuthPattern(t *testing.T) {
	s := newScene(t)
	s.Serve(t, "auth", authServer, func(w http.ResponseWriter, r *http.Request) {
		if forged := r.Header.Get("X-Added"); forged != "" {
			w.WriteHeader(http.StatusTeapot) // it must not see what it vouches for
			return
		}
		if r.Header.Get("X-Forwarded-Uri") == "/known" {
			w.Header().Set("X-Added", "ann")
		}
	}, s.namespace)
	s.Apply(t, s.namespace, authRoute)
	client := s.client(edgeprocess.PlainPort, nil)
	s.expect(t, request(t, "GET", "http://auth.example.com/known", "x-added", "forged"), client, 200, "a /known ann")
	s.expect(t, request(t, "GET", "http://auth.example.com/unknown", "x-added", "forged"), client, 200, "a /unknown ")
	response := must.Get(client.Do(request(t, "GET", "http://auth.example.com/unknown", "x-added", "forged")))(t)
	defer response.Body.Close()
	if response.ContentLength != int64(len("a /unknown ")) {
		t.Errorf("the backend got a header of the client: %d bytes", response.ContentLength)
	}
}

const authRoute = `---
apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: auth}
spec: {forwardAuth: {address: "http://auth/verify", authResponseHeadersRegex: "^X-Add"}}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: auth}
spec: {routes: [{match: "Host(` + "`auth.example.com`" + `)", middlewares: [{name: auth}], services: [{name: a, port: 80}]}]}
`
