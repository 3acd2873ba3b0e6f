package ingress

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// testLoop shows that a request which its backend leads back to the edge ends
// after one turn, also through a load balancer and through other replicas, and
// that the edge does not connect to its own address.
func (s *suite) testLoop(t *testing.T) {
	arguments := []string{"--providers.kubernetesIngress.allowExternalNameServices=true", "--entryPoints.open.address=:18080"}
	first := s.startEdge(t, "loop", arguments)
	second := s.startEdge(t, "loop-second", arguments[:1])
	c := s.newScene(t, &group{name: "loop"}, first, "loop")
	s.apply(t, c.namespace, loopObjects)
	c.settle(t)
	s.newScene(t, &group{name: "loop"}, second, "loop-second").settle(t)

	for _, test := range []struct {
		name, path, at string
		behind         []*edgeprocess.Edge
		status         int
		turns          int32
	}{
		{"through a load balancer", "/balancer", "10.244.77.1:8080", []*edgeprocess.Edge{first}, http.StatusLoopDetected, 1},
		{"through another replica", "/replicas", "10.244.77.2:8080", []*edgeprocess.Edge{second, first}, http.StatusLoopDetected, 2},
		{"authentication", "/auth", "10.244.77.3:8080", []*edgeprocess.Edge{second, first}, http.StatusLoopDetected, 2},
		{"own address", "/own", "10.244.77.4:8080", []*edgeprocess.Edge{first}, http.StatusBadGateway, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			turns := balance(t, test.at, test.behind)
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+first.Address(plainPoint)+test.path, http.NoBody)
			must.Do(t, err)
			request.Host = "loop.example"
			response, err := http.DefaultTransport.RoundTrip(request)
			must.Do(t, err)
			must.Do(t, response.Body.Close())
			if response.StatusCode != test.status || turns.Load() != test.turns {
				t.Errorf("status %d after %d turns, want %d after %d", response.StatusCode, turns.Load(), test.status, test.turns)
			}
		})
	}
}

// maxTurns ends a loop that the edges do not end, before it takes all files.
const maxTurns = 50

// balance listens until the end of the test and joins each connection with one of
// the edges in turn. It returns how many connections there were.
func balance(t *testing.T, address string, edges []*edgeprocess.Edge) *atomic.Int32 {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	must.Do(t, err)
	t.Cleanup(func() { listener.Close() })
	turns := new(atomic.Int32)
	go func() {
		for turns.Load() < maxTurns {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			to := edges[int(turns.Add(1)-1)%len(edges)].Address(plainPoint)
			go func() {
				defer client.Close()
				server, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer server.Close()
				go io.Copy(server, client)
				io.Copy(client, server)
			}()
		}
		listener.Close()
	}()
	return turns
}

const loopObjects = `
apiVersion: v1
kind: Service
metadata: {name: balancer}
spec: {type: ExternalName, externalName: 10.244.77.1, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: replicas}
spec: {type: ExternalName, externalName: 10.244.77.2, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: auth}
spec: {type: ExternalName, externalName: 10.244.77.3, ports: [{port: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: own}
spec: {type: ExternalName, externalName: 10.244.77.4, ports: [{port: 18080}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: loop}
spec:
  rules:
  - host: loop.example
    http:
      paths:
      - {path: /balancer, pathType: Prefix, backend: {service: {name: balancer, port: {number: 8080}}}}
      - {path: /replicas, pathType: Prefix, backend: {service: {name: replicas, port: {number: 8080}}}}
      - {path: /own, pathType: Prefix, backend: {service: {name: own, port: {number: 18080}}}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: auth
  annotations:
    slipway.dev/forward-auth: "{service: {name: auth, port: 8080}, path: /auth, host: loop.example, requestHeaders: [X-User]}"
spec:
  rules:
  - host: loop.example
    http:
      paths:
      - {path: /auth, pathType: Prefix, backend: {service: {name: auth, port: {number: 8080}}}}
`
