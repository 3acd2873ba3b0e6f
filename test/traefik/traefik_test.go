// Package traefik shows from outside what `slipway edge` makes of a cluster's objects of
// Traefik: the built binary with the shipped permissions, a real API server, real sockets.
package traefik

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

func TestMain(m *testing.M) { kubetest.Main(m) }

// The addresses of the tests. All of them are local in their private network.
const (
	edgeAddress = "127.0.0.9"
	backendA    = "10.244.121.2"
	backendB    = "10.244.121.3"
	// home is the namespace of the edge in the shipped manifests.
	home = "slipway-system"
)

// scene is a cluster with an edge that serves objects of Traefik.
type scene struct {
	*kubetest.Cluster
	namespace string
	seat      edgeprocess.Seat
}

// defined guards the definitions of the shared cluster.
var defined sync.Once

// newScene starts an edge in the shared cluster, which gets the kinds of Traefik, and a
// backend for each of the Services a and b, which respond with their name, the path and a
// header.
func newScene(t *testing.T, arguments ...string) *scene {
	t.Helper()
	s := &scene{Cluster: kubetest.Shared(t)}
	defined.Do(func() { s.Define(t, definitions()) })
	// The edge of the next test must not serve the objects of this one.
	t.Cleanup(func() { s.awaitGone(t) })
	s.namespace = s.Namespace(t)
	for name, address := range map[string]string{"a": backendA, "b": backendB} {
		s.Serve(t, name, address, func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s %s %s", name, r.URL.Path, r.Header.Get("X-Added"))
		}, s.namespace)
	}
	s.seat = edgeprocess.Seat{
		Binary: binary.Path(t), At: netip.MustParseAddr(edgeAddress), Kubeconfig: s.EdgeKubeconfig(t, "traefik-role"), Namespace: home,
		Arguments: append([]string{"--providers.kubernetesCRD"}, arguments...),
	}
	s.seat.Start(t).AwaitReady(t)
	return s
}

// awaitGone waits until the namespace is gone, which the test deletes before. It
// deletes the Lease of the edge, which was killed.
func (s *scene) awaitGone(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), programs.Timeout)
	defer cancel()
	must.Do(t, s.Client.CoordinationV1().Leases(home).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}))
	must.Get(kube.WaitFor(ctx, s.Client.CoreV1().Namespaces(), kube.Named(s.namespace), func(left []*corev1.Namespace) error {
		if len(left) > 0 {
			return errors.New("the namespace is there")
		}
		return nil
	}))(t)
}

// definitions returns the smallest definitions of Traefik's kinds, which accept every
// spec: the edge has to check it.
func definitions() string {
	var all strings.Builder
	for _, group := range []string{"traefik.io", "traefik.containo.us"} {
		for _, kind := range []string{"IngressRoute", "IngressRouteTCP", "IngressRouteUDP", "MiddlewareTCP", "Middleware", "TraefikService", "TLSOption", "ServersTransport", "ServersTransportTCP", "TLSStore"} {
			all.WriteString(kubetest.Definition(group, "v1alpha1", kind))
		}
	}
	return all.String()
}

// expect waits until a request has a status and the start of a body.
func (s *scene) expect(t *testing.T, request *http.Request, client *http.Client, status int, body string) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) error {
		response, err := client.Do(request.WithContext(ctx))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err == nil && (response.StatusCode != status || !strings.HasPrefix(string(text), body)) {
			err = fmt.Errorf("%s %s: %d %q, want %d %q", request.Method, request.URL, response.StatusCode, text, status, body)
		}
		return err
	})
}

// client returns a client of an entry point, which follows no redirect. A connection that
// was made before the TLS options of its host gets a 421, so each request has its own.
func (s *scene) client(port int, config *tls.Config) *http.Client {
	transport := &http.Transport{DialContext: s.seat.Dialer(port), TLSClientConfig: config, DisableKeepAlives: true}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func request(t *testing.T, method, url string, headers ...string) *http.Request {
	made := must.Get(http.NewRequestWithContext(t.Context(), method, url, nil))(t)
	for i := 0; i+1 < len(headers); i += 2 {
		made.Header.Set(headers[i], headers[i+1])
	}
	return made
}

// TestIngressRoute: rules with every operator, priorities as in Traefik, Middlewares,
// weights, both groups and both syntaxes serve requests, and refused parts have Events.
func TestIngressRoute(t *testing.T) {
	s := newScene(t)
	s.Apply(t, s.namespace, routes)
	client := s.client(edgeprocess.PlainPort, nil)
	for _, test := range []struct {
		method, url string
		headers     []string
		status      int
		body        string
	}{
		{"GET", "http://shop.example.com/", nil, 200, "a / "},
		// The rule with a header is longer than that of the prefix.
		{"GET", "http://shop.example.com/api/x", nil, 200, "b /x added"},
		{"GET", "http://shop.example.com/api/x", []string{"X-Canary", "yes"}, 200, "a /api/x "},
		{"PUT", "http://shop.example.com/api/x", nil, 200, "a /api/x "},
		{"GET", "http://shop.example.com/first", nil, 200, "b /first "},
		{"GET", "http://two.regexp.example.com/", nil, 200, "b / "},
		{"GET", "http://2.regexp.example.com/", nil, 404, ""},
		{"GET", "http://old.example.com/items/17", nil, 200, "a /items/17 "},
		{"GET", "http://old.example.com/items/x", nil, 404, ""},
		{"GET", "http://older.example.com/items/17", nil, 200, "a /items/17 "},
		{"GET", "http://shop.example.com/moved", nil, 307, ""},
		{"GET", "http://shop.example.com/refused", nil, 503, ""},
		{"GET", "http://shop.example.com/never/secure", nil, 200, "a /never/secure "},
		// An exact path of an Ingress is longer than the rule for the host.
		{"GET", "http://shop.example.com/.well-known/acme-challenge/token", nil, 200, "b /.well-known"},
	} {
		s.expect(t, request(t, test.method, test.url, test.headers...), client, test.status, test.body)
	}
	programs.Eventually(t, func(ctx context.Context) error {
		events, err := s.Client.EventsV1().Events(s.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, event := range events.Items {
			if event.Regarding.Kind == "IngressRoute" && event.Regarding.APIVersion == "traefik.io/v1alpha1" && event.Regarding.Name == "shop" &&
				strings.Contains(event.Note, "spec.routes[5].middlewares[0]") {
				return nil
			}
		}
		return fmt.Errorf("no Event names the field among %d", len(events.Items))
	})
	// A Middleware that comes opens the route, and a changed rule moves it.
	s.Apply(t, s.namespace, "apiVersion: traefik.io/v1alpha1\nkind: Middleware\nmetadata: {name: missing}\nspec: {addPrefix: {prefix: /p}}\n")
	s.expect(t, request(t, "GET", "http://shop.example.com/refused"), client, 200, "a /p/refused ")
	resource := s.Dynamic.Resource(schema.GroupVersionResource{Group: "traefik.containo.us", Version: "v1alpha1", Resource: "ingressroutes"})
	kubetest.Patch(t, resource.Namespace(s.namespace), "old", "{\"spec\": {\"routes\": [{\"match\": \"Path(`/moved`)\", \"services\": [{\"name\": \"b\", \"port\": 80}]}]}}")
	s.expect(t, request(t, "GET", "http://any.example.org/moved"), client, 200, "b /moved ")
	s.expect(t, request(t, "GET", "http://older.example.com/items/17"), client, 404, "")
}

const routes = `apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: strip}
spec: {stripPrefix: {prefixes: [/api]}}
---
apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: added}
spec: {headers: {customRequestHeaders: {X-Added: added}}}
---
apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: secure}
spec: {redirectScheme: {scheme: https}}
---
apiVersion: traefik.io/v1alpha1
kind: TraefikService
metadata: {name: all-to-b}
spec: {weighted: {services: [{name: a, port: 80, weight: 0}, {name: b, port: 80, weight: 5}]}}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: shop}
spec:
  entryPoints: [web]
  routes:
  - {kind: Rule, match: "Host(` + "`shop.example.com`" + `)", services: [{name: a, port: 80}]}
  - match: Host(` + "`shop.example.com`" + `) && PathPrefix(` + "`/api`" + `) && !Method(` + "`PUT`" + `)
    middlewares: [{name: strip}, {name: added}]
    services: [{name: b, port: http, passHostHeader: true}]
  - {match: "Host(` + "`shop.example.com`" + `) && (Header(` + "`X-Canary`, `yes`" + `) || Header(` + "`X-Canary`, `on`" + `))", services: [{name: a, port: 80}]}
  - {match: "Host(` + "`shop.example.com`" + `) && Path(` + "`/first`" + `)", priority: 1000, services: [{name: all-to-b, kind: TraefikService}]}
  - {match: "Host(` + "`shop.example.com`" + `) && Path(` + "`/moved`" + `)", middlewares: [{name: secure}], services: [{name: noop@internal, kind: TraefikService}]}
  - {match: "Host(` + "`shop.example.com`" + `) && Path(` + "`/refused`" + `)", middlewares: [{name: missing}], services: [{name: a, port: 80}]}
  - {match: "HostRegexp(` + "`^[a-z]+\\\\.regexp\\\\.example\\\\.com$`" + `)", services: [{name: b, port: 80}]}
  - {match: "Host(` + "`old.example.com`" + `) && PathPrefix(` + "`/items/{id:[0-9]+}`" + `)", syntax: v2, services: [{name: a, port: 80}]}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: secure-only}
spec:
  routes: [{match: "Host(` + "`shop.example.com`" + `) && PathPrefix(` + "`/never`" + `)", services: [{name: b, port: 80}]}]
  tls: {}
---
apiVersion: traefik.containo.us/v1alpha1
kind: IngressRoute
metadata: {name: old}
spec:
  routes: [{match: "Host(` + "`older.example.com`, `oldest.example.com`" + `) && PathPrefix(` + "`/items/{id:[0-9]+}`" + `)", kind: Rule, services: [{name: a, port: 80}]}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: challenge}
spec:
  rules: [{host: shop.example.com, http: {paths: [{path: /.well-known/acme-challenge/token, pathType: Exact, backend: {service: {name: b, port: {number: 80}}}}]}}]
`

// TestTLS: an IngressRoute with tls has the certificate of its Secret and serves no plain
// requests; an unused class and another label are left alone.
func TestTLS(t *testing.T) {
	s := newScene(t, "--providers.kubernetesCRD.ingressClass=edge", "--providers.kubernetesCRD.labelSelector=tier!=test")
	authority := pkitest.NewAuthority(t)
	pair := authority.Issue(t, "secure.example.com")
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	s.Apply(t, s.namespace, fmt.Sprintf(tlsRoutes, encode(pair.Chain), encode(pair.Key)))
	encrypted := s.client(edgeprocess.TLSPort, &tls.Config{RootCAs: authority.Pool})
	plain := s.client(edgeprocess.PlainPort, nil)
	s.expect(t, request(t, "GET", "https://secure.example.com/x"), encrypted, 200, "a /x ")
	s.expect(t, request(t, "GET", "http://plain.example.com/x"), plain, 200, "b /x ")
	for _, host := range []string{"secure", "other", "tested"} {
		s.expect(t, request(t, "GET", "http://"+host+".example.com/x"), plain, 404, "")
	}
}

const tlsRoutes = `apiVersion: v1
kind: Secret
metadata: {name: secure}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s}
---
apiVersion: traefik.io/v1alpha1
kind: TLSOption
metadata: {name: modern}
spec: {minVersion: VersionTLS13}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: secure, annotations: {kubernetes.io/ingress.class: edge}}
spec:
  entryPoints: [web, websecure]
  routes: [{match: "Host(` + "`secure.example.com`" + `)", services: [{name: a, port: 80}]}]
  tls: {secretName: secure, options: {name: modern}}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: other}
spec: {routes: [{match: "Host(` + "`other.example.com`" + `)", services: [{name: a, port: 80}]}]}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: tested, labels: {tier: test}, annotations: {kubernetes.io/ingress.class: edge}}
spec: {routes: [{match: "Host(` + "`tested.example.com`" + `)", services: [{name: a, port: 80}]}]}
---
apiVersion: traefik.io/v1alpha1
kind: IngressRoute
metadata: {name: plain, annotations: {kubernetes.io/ingress.class: edge}}
spec: {routes: [{match: "Host(` + "`plain.example.com`" + `)", services: [{name: b, port: 80}]}]}
`
