package traefik

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

const (
	backendStream = "10.244.121.4"
	databasePort  = 8432
)

// TestIngressRouteTCP: connections are passed on by their server name, decrypted, or all
// of an entry point that the operator gave for that; others keep theirs.
func TestIngressRouteTCP(t *testing.T) {
	s := newScene(t, fmt.Sprintf("--entryPoints.database.address=%s:%d", edgeAddress, databasePort), "--providers.kubernetesCRD.tcpEntryPoints=database")
	authority := pkitest.NewAuthority(t)
	own := authority.Issue(t, "passed.example.com").TLS(t)
	greet(t, "plain", "8081", func(conn net.Conn) net.Conn { return conn })
	greet(t, "encrypted", "8443", func(conn net.Conn) net.Conn {
		return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{own}})
	})
	pair := authority.Issue(t, "decrypted.example.com")
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	s.Apply(t, s.namespace, fmt.Sprintf(tcpRoutes, backendStream, encode(pair.Chain), encode(pair.Key)))

	encrypted := func(name string) func() (net.Conn, error) {
		return func() (net.Conn, error) {
			return tls.Dial("tcp", s.seat.On(edgeprocess.TLSPort), &tls.Config{ServerName: name, RootCAs: authority.Pool})
		}
	}
	for name, want := range map[string]string{"passed.example.com": "encrypted\n", "decrypted.example.com": "plain\n"} {
		if got := greeting(t, encrypted(name)); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := greeting(t, func() (net.Conn, error) { return net.Dial("tcp", s.seat.On(databasePort)) }); got != "plain\n" {
		t.Errorf("the entry point of the database: got %q", got)
	}
	// A route for all connections of the entry point of requests is refused, as is one for
	// datagrams, and one with a Middleware that is missing closes connections.
	s.expect(t, request(t, "GET", "http://web.example.com/x"), s.client(edgeprocess.PlainPort, nil), 404, "")
	for object, want := range map[string]string{
		"everything": "providers.kubernetesCRD.tcpEntryPoints", "datagrams": "takes no datagrams", "guarded": "there is no MiddlewareTCP.traefik.io",
	} {
		programs.Eventually(t, func(ctx context.Context) error {
			events, err := s.Client.EventsV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return err
			}
			for _, event := range events.Items {
				if event.Regarding.Name == object && strings.Contains(event.Note, want) {
					return nil
				}
			}
			return fmt.Errorf("no Event about %s has %q", object, want)
		})
	}
	if conn, err := encrypted("guarded.example.com")(); err == nil {
		conn.Close()
		t.Error("a route without its Middleware is served")
	}
	s.Apply(t, s.namespace, "apiVersion: traefik.io/v1alpha1\nkind: MiddlewareTCP\nmetadata: {name: allowed}\nspec: {ipAllowList: {sourceRange: [127.0.0.0/8, 10.0.0.0/8]}}\n")
	if got := greeting(t, func() (net.Conn, error) {
		return tls.Dial("tcp", s.seat.On(edgeprocess.TLSPort), &tls.Config{ServerName: "guarded.example.com", InsecureSkipVerify: true})
	}); got != "encrypted\n" {
		t.Errorf("a route with its Middleware: got %q", got)
	}
}

// greeting returns what a server sends first, as soon as it does.
func greeting(t *testing.T, dial func() (net.Conn, error)) string {
	t.Helper()
	var got []byte
	programs.Eventually(t, func(context.Context) error {
		conn, err := dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		if got, err = io.ReadAll(conn); err == nil && len(got) == 0 {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	return string(got)
}

// greet starts a backend that sends its name and closes.
func greet(t *testing.T, name, port string, wrap func(net.Conn) net.Conn) {
	t.Helper()
	listener := must.Get(net.Listen("tcp", net.JoinHostPort(backendStream, port)))(t)
	programs.Background(t, func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				wrapped := wrap(conn)
				_, _ = io.WriteString(wrapped, name+"\n")
				_ = wrapped.Close()
			}()
		}
	}, func() { listener.Close() })
}

const tcpRoutes = `apiVersion: v1
kind: Service
metadata: {name: streams}
spec: {ports: [{name: plain, port: 80}, {name: encrypted, port: 443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: streams, labels: {kubernetes.io/service-name: streams}}
addressType: IPv4
ports: [{name: plain, port: 8081}, {name: encrypted, port: 8443}]
endpoints: [{addresses: [%s], conditions: {ready: true}}]
---
apiVersion: v1
kind: Secret
metadata: {name: decrypted}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRouteTCP
metadata: {name: passed}
spec:
  entryPoints: [websecure]
  routes: [{match: "HostSNI(` + "`passed.example.com`" + `)", services: [{name: streams, port: 443}]}]
  tls: {passthrough: true}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRouteTCP
metadata: {name: decrypted}
spec:
  entryPoints: [websecure]
  routes: [{match: "HostSNI(` + "`decrypted.example.com`" + `)", services: [{name: streams, port: plain, weight: 2}]}]
  tls: {secretName: decrypted}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRouteTCP
metadata: {name: database}
spec:
  entryPoints: [database]
  routes: [{match: "HostSNI(` + "`*`" + `)", services: [{name: streams, port: 80}]}]
---
apiVersion: traefik.io/v1alpha1
kind: IngressRouteTCP
metadata: {name: everything}
spec:
  entryPoints: [web]
  routes: [{match: "HostSNI(` + "`*`" + `)", services: [{name: streams, port: 80}]}]
---
apiVersion: traefik.io/v1alpha1
kind: IngressRouteTCP
metadata: {name: guarded}
spec:
  entryPoints: [websecure]
  routes: [{match: "HostSNI(` + "`guarded.example.com`" + `)", middlewares: [{name: allowed}], services: [{name: streams, port: 443}]}]
  tls: {passthrough: true}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRouteUDP
metadata: {name: datagrams}
spec: {entryPoints: [dns], routes: [{services: [{name: streams, port: 53}]}]}
`
