package acme

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// home is the namespace of the edges.
const home = "slipway-system"

// shortLife is how long the certificates of one of the authorities live.
const shortLife = 10 * time.Second

// world is a cluster with two edges, the authorities that they know, and the
// address at which these validate challenges.
type world struct {
	t        *testing.T
	binary   string
	cluster  *kubetest.Cluster
	balancer *balancer
	// authority gives certificates for long, brief for seconds.
	authority, brief *pebble
	// names is the DNS server of all, auth that of delegated challenges.
	names   *nameServer
	auth    *acmeDNS
	options []string
	// kubeconfig is that of an account with the rights of deploy/rbac.
	kubeconfig string
	replicas   []*replica
	backend    netip.AddrPort
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, binary: binary.Path(t), cluster: kubetest.Start(t, kubetest.WithoutNode())}
	first, second := hostOf(1), hostOf(2)
	w.names = startBIND(t, hostOf(6), hostOf(9))
	w.auth = startAcmeDNS(t, hostOf(9))
	w.authority = startPebble(t, hostOf(7), 24*time.Hour, w.names.address, challengePort)
	w.brief = startPebble(t, hostOf(8), shortLife, w.names.address, challengePort)
	w.balancer = startBalancer(t, hostOf(6), netip.AddrPortFrom(first, edgeprocess.PlainPort).String(), netip.AddrPortFrom(second, edgeprocess.PlainPort).String())
	const resolver = "--certificatesResolvers.%s.acme."
	for name, of := range map[string]*pebble{"le": w.authority, "brief": w.brief, "broken": nil} {
		at := fmt.Sprintf(resolver, name)
		w.options = append(w.options, at+"httpChallenge.entryPoint=web", at+"email=ops@example.com")
		if of != nil {
			w.options = append(w.options, at+"caServer="+of.directory(), at+"caCertificate="+of.rootFile)
		} else {
			w.options = append(w.options, at+"caServer=https://127.0.7.99:1/dir")
		}
	}
	// An Ingress without an address is not Healthy for an Application.
	w.options = append(w.options, "--providers.kubernetesIngress.ingressEndpoint.ip="+hostOf(6).String())
	w.options = append(w.options, w.dnsOptions(t)...)
	w.kubeconfig = w.cluster.EdgeKubeconfig(t, "acme-role")
	w.backend = startBackend(t, w.cluster.PodNetwork.Addr().Next())
	for _, address := range []netip.Addr{first, second} {
		w.replicas = append(w.replicas, w.startReplica(t, address))
	}
	return w
}

// startBackend is a server that responds with hello.
func startBackend(t *testing.T, address netip.Addr) netip.AddrPort {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	_ = server.Listener.Close() // it has one of its own
	listener := must.Get(listen(address))(t)
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	return netip.MustParseAddrPort(listener.Addr().String())
}

// serve makes an Ingress for hosts, with a Service whose endpoint is the backend.
func (w *world) serve(t *testing.T, namespace, name string, annotations map[string]string, hosts ...string) {
	t.Helper()
	if _, err := w.cluster.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	text := fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {ports: [{port: 80, targetPort: %[3]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: "", port: %[3]d}]
endpoints: [{addresses: [%[2]s], conditions: {ready: true}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: %[1]s
  annotations: {%[4]s}
spec:
  rules:
`, name, w.backend.Addr(), w.backend.Port(), annotated(annotations))
	for _, host := range hosts {
		text += fmt.Sprintf("  - {host: %q, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: %s, port: {number: 80}}}}]}}\n", host, name)
	}
	w.cluster.Apply(t, namespace, text)
}

func annotated(annotations map[string]string) string {
	var all []string
	for name, value := range annotations {
		all = append(all, fmt.Sprintf("traefik.ingress.kubernetes.io/router.tls.%s: %q", name, value))
	}
	return strings.Join(all, ", ")
}

// awaitFetched waits until every replica shows a fetched certificate for a host,
// the same on all of them.
func (w *world) awaitFetched(t *testing.T, host string) {
	t.Helper()
	eventually(t, func() error {
		serials := map[string]bool{}
		for _, r := range w.replicas {
			leaf, err := r.fetched(t.Context(), host)
			if err != nil {
				return err
			}
			serials[leaf.SerialNumber.String()] = true
		}
		if len(serials) != 1 {
			return fmt.Errorf("%d certificates are shown for %s", len(serials), host)
		}
		return nil
	})
}

// awaitEvent waits for an Event about an Ingress.
func (w *world) awaitEvent(t *testing.T, namespace, name, reason, words string) {
	t.Helper()
	eventually(t, func() error {
		list, err := w.cluster.Client.EventsV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		var said []string
		for _, event := range list.Items {
			if event.Regarding.Kind == "Ingress" && event.Regarding.Name == name {
				said = append(said, event.Reason+" "+event.Note)
				if event.Reason == reason && strings.Contains(event.Note, words) {
					return nil
				}
			}
		}
		return fmt.Errorf("no Event %s with %q among %q", reason, words, said)
	})
}

// secretOf is the Secret of a certificate, nil when there is none.
func (w *world) secretOf(ctx context.Context, namespace, resolver string, hosts ...string) (*corev1.Secret, error) {
	found, err := w.cluster.Client.CoreV1().Secrets(namespace).Get(ctx, certrequest.SecretName(resolver, hosts), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// leader is the elected replica.
func (w *world) leader(t *testing.T) *replica {
	t.Helper()
	var found *replica
	eventually(t, func() error {
		for _, r := range w.replicas {
			if r.leads(t) {
				found = r
				return nil
			}
		}
		return fmt.Errorf("no replica leads")
	})
	return found
}
