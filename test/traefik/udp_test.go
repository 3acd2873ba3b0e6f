package traefik

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

const datagramPort = 8053

// TestIngressRouteUDP: datagrams of an entry point go to the Service of its oldest route,
// and responses come back; another route takes over when that is deleted.
func TestIngressRouteUDP(t *testing.T) {
	s := newScene(t, fmt.Sprintf("--entryPoints.names.address=%s:%d/udp", edgeAddress, datagramPort), "--entryPoints.names.udp.timeout=10s")
	for _, name := range []string{"one", "two"} {
		port := map[string]int{"one": 5301, "two": 5302}[name]
		respond(t, name, port)
		s.Apply(t, s.namespace, fmt.Sprintf(udpRoute, name, port, backendStream))
		s.expectDatagram(t, "one: hello")
	}
	resource := s.Dynamic.Resource(schema.GroupVersionResource{Group: "traefik.io", Version: "v1alpha1", Resource: "ingressrouteudps"})
	must.Do(t, resource.Namespace(s.namespace).Delete(t.Context(), "one", metav1.DeleteOptions{}))
	s.expectDatagram(t, "two: hello")
}

// expectDatagram waits until a datagram has a response.
func (s *scene) expectDatagram(t *testing.T, want string) {
	t.Helper()
	conn := must.Get(net.Dial("udp", s.seat.On(datagramPort)))(t)
	defer conn.Close()
	programs.Eventually(t, func(context.Context) error {
		if _, err := conn.Write([]byte("hello")); err != nil {
			return err
		}
		_ = conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		buf := make([]byte, 100)
		n, err := conn.Read(buf)
		if err == nil && string(buf[:n]) != want {
			err = fmt.Errorf("got %q, want %q", buf[:n], want)
		}
		return err
	})
}

// respond starts a backend that sends datagrams back with its name.
func respond(t *testing.T, name string, port int) {
	t.Helper()
	socket := must.Get(net.ListenPacket("udp", fmt.Sprintf("%s:%d", backendStream, port)))(t)
	programs.Background(t, func() {
		buf := make([]byte, 1500)
		for {
			n, client, err := socket.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = socket.WriteTo([]byte(name+": "+string(buf[:n])), client)
		}
	}, func() { socket.Close() })
}

const udpRoute = `apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{name: dns, port: 53, protocol: UDP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: dns, port: %[2]d, protocol: UDP}]
endpoints: [{addresses: [%[3]s], conditions: {ready: true}}]
---
apiVersion: traefik.io/v1alpha1
kind: IngressRouteUDP
metadata: {name: %[1]s}
spec: {entryPoints: [names], routes: [{services: [{name: %[1]s, port: dns}]}]}
`

// TestServersTransportTCP: connections that were decrypted are encrypted again for a service
// with tls, whose certificate is verified by the ServersTransportTCP.
func TestServersTransportTCP(t *testing.T) {
	s := newScene(t)
	authority := pkitest.NewAuthority(t)
	own := authority.Issue(t, "db.internal").TLS(t)
	greet(t, "encrypted", "8443", func(conn net.Conn) net.Conn {
		return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{own}})
	})
	pair := authority.Issue(t, "verified.example.com", "mistaken.example.com")
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	s.Apply(t, s.namespace, fmt.Sprintf(transportRoutes, backendStream, encode(pair.Chain), encode(pair.Key), encode(authority.PEM)))
	dial := func(name string) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			return tls.Dial("tcp", s.seat.On(edgeprocess.TLSPort), &tls.Config{ServerName: name, RootCAs: authority.Pool})
		}
	}
	if got := greeting(t, dial("verified.example.com")); got != "encrypted\n" {
		t.Errorf("got %q", got)
	}
	conn := must.Get(dial("mistaken.example.com")())(t)
	defer conn.Close()
	if n, err := conn.Read(make([]byte, 10)); err == nil {
		t.Errorf("%d bytes came from a server that is not the one of the transport", n)
	}
}

const transportRoutes = `apiVersion: v1
kind: Service
metadata: {name: streams}
spec: {ports: [{name: encrypted, port: 443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: streams, labels: {kubernetes.io/service-name: streams}}
addressType: IPv4
ports: [{name: encrypted, port: 8443}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
---
apiVersion: v1
kind: Secret
metadata: {name: pair}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s}
---
apiVersion: v1
kind: Secret
metadata: {name: authority}
data: {ca.crt: %s}
---
apiVersion: traefik.io/v1alpha1
kind: ServersTransportTCP
metadata: {name: verified}
spec: {dialTimeout: 2s, tls: {serverName: db.internal, rootCAs: [{secret: authority}]}}
---
apiVersion: traefik.io/v1alpha1
kind: ServersTransportTCP
metadata: {name: mistaken}
spec: {tls: {serverName: other.internal, rootCAs: [{secret: authority}]}}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRouteTCP
metadata: {name: verified}
spec:
  entryPoints: [websecure]
  routes:
  - {match: "HostSNI(` + "`verified.example.com`" + `)", services: [{name: streams, port: 443, tls: true, serversTransport: verified}]}
  - {match: "HostSNI(` + "`mistaken.example.com`" + `)", services: [{name: streams, port: 443, tls: true, serversTransport: mistaken}]}
  tls: {secretName: pair}
`

// TestFailover: the fallback gets the requests while the Service has no endpoint, and only
// then.
func TestFailover(t *testing.T) {
	s := newScene(t)
	s.Apply(t, s.namespace, failoverRoute)
	client := s.client(edgeprocess.PlainPort, nil)
	s.expect(t, request(t, "GET", "http://spare.example.com/x"), client, 200, "a /x")
	withoutEndpoints := strings.ReplaceAll(kubetest.Backend("a", backendA), "ready: true", "ready: false")
	s.Apply(t, s.namespace, withoutEndpoints)
	s.expect(t, request(t, "GET", "http://spare.example.com/x"), client, 200, "b /x")
	s.Apply(t, s.namespace, kubetest.Backend("a", backendA))
	s.expect(t, request(t, "GET", "http://spare.example.com/x"), client, 200, "a /x")
}

const failoverRoute = `apiVersion: traefik.io/v1alpha1
kind: TraefikService
metadata: {name: spare}
spec: {failover: {service: {name: a, port: 80}, fallback: {name: b, port: 80}}}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: spare}
spec: {routes: [{match: "Host(` + "`spare.example.com`" + `)", services: [{name: spare, kind: TraefikService}]}]}
`
