package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/binary"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// gatewayAddress is the address of the Gateway, which all names lead to.
const gatewayAddress = "127.0.8.17"

// TestGatewayCertificates: listeners of a Gateway get their certificates from resolvers,
// whose challenges come to the address of the Gateway. Another namespace gets none for
// these hosts, and what a resolver cannot do is in the conditions of the listener.
func TestGatewayCertificates(t *testing.T) {
	w := &world{t: t, binary: binary.Path(t), cluster: kubetest.Start(t, kubetest.WithoutNode())}
	w.cluster.DefineFiles(t, filepath.Join(programs.ModuleFolder(t, "sigs.k8s.io/gateway-api"), "config", "crd", "standard", "gateway.networking.k8s.io_[a-u]*.yaml"))
	w.names = startBIND(t, netip.MustParseAddr(gatewayAddress), hostOf(9))
	w.authority = startPebble(t, hostOf(7), 24*time.Hour, w.names.address, 80)
	const resolver = "--certificatesResolvers."
	w.options = append(w.dnsOptions(t),
		resolver+"le.acme.httpChallenge.entryPoint=web", resolver+"le.acme.caServer="+w.authority.directory(), resolver+"le.acme.caCertificate="+w.authority.rootFile,
		resolver+"broken.acme.httpChallenge.entryPoint=web", resolver+"broken.acme.caServer=https://127.0.7.99:1/dir",
		"--providers.kubernetesGateway.addresses=127.0.8.16/28")
	w.kubeconfig = w.cluster.EdgeKubeconfig(t, "acme-role", "gateway-role")
	backend := startBackend(t, w.cluster.PodNetwork.Addr().Next())
	for _, namespace := range []string{"infra", "shop", "thief"} {
		must.Get(w.cluster.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))(t)
	}
	w.cluster.Apply(t, "", "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: slipway}\nspec: {controllerName: slipway.dev/gateway-controller}\n")
	w.cluster.Apply(t, "infra", fmt.Sprintf(requestingGateway, gatewayAddress))
	w.cluster.Apply(t, "shop", fmt.Sprintf(shopRoute, backend.Addr(), backend.Port()))
	edgeprocess.Seat{Binary: w.binary, At: hostOf(1), Kubeconfig: w.kubeconfig, Namespace: home, Arguments: w.options}.Start(t).AwaitReady(t)

	// One by HTTP, whose host belongs to the route of another namespace that is attached,
	// and a wildcard by DNS.
	w.awaitIssued(t, "shop.example", "shop.example")
	w.awaitIssued(t, "any.wild.example", "*.wild.example")
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(gatewayAddress, "443"))
		},
	}}
	eventually(t, func() error {
		response, err := client.Get("https://shop.example/")
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(io.LimitReader(response.Body, 1<<16))
		if response.StatusCode != http.StatusOK || string(text) != "hello" {
			return fmt.Errorf("%d %q %v", response.StatusCode, text, err)
		}
		return nil
	})
	for name, want := range map[string]string{
		"shop":     "Accepted=True ResolvedRefs=True Programmed=True",
		"wild":     "Accepted=True ResolvedRefs=True Programmed=True",
		"plain":    "Accepted=True ResolvedRefs=False: a certificate for *.plain.example needs a challenge by DNS",
		"unknown":  `ResolvedRefs=False: there is no resolver "missing": the options of the edge have auth, broken, dns, le, slow`,
		"broken":   "Accepted=True ResolvedRefs=True Programmed=False: the certificate for broken.example could not be issued by the resolver broken",
		"nameless": "ResolvedRefs=False: a certificate of a resolver is for one host",
	} {
		w.awaitListener(t, object{"gateways", "infra", "public"}, name, want)
	}
	if got := w.authority.ordered(); got != 2 {
		t.Errorf("%d orders for two certificates", got)
	}

	// The edge serves the challenges of all namespaces, so that the authority would
	// validate this one.
	w.cluster.Apply(t, "thief", thiefSet)
	w.awaitListener(t, object{"listenersets", "thief", "thief"}, "shop", "Accepted=True ResolvedRefs=False: no certificate is requested for shop.example: the host belongs to namespace shop")
	w.awaitListener(t, object{"listenersets", "thief", "thief"}, "wild", "Accepted=True ResolvedRefs=False: no certificate is requested for *.wild.example: the host belongs to namespace infra")
	for resolver, host := range map[string]string{"le": "shop.example", "dns": "*.wild.example"} {
		if found, err := w.secretOf(t.Context(), "thief", resolver, host); found != nil || err != nil {
			t.Errorf("there is a Secret for %s: %v, %v", host, found, err)
		}
	}
	if got := w.authority.ordered(); got != 2 {
		t.Errorf("%d orders after the listeners of another namespace", got)
	}
}

// awaitIssued waits until the Gateway shows a certificate of the authority for a host.
func (w *world) awaitIssued(t *testing.T, host, name string) {
	t.Helper()
	eventually(t, func() error {
		dialer := tls.Dialer{Config: &tls.Config{ServerName: host, InsecureSkipVerify: true}}
		conn, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(gatewayAddress, "443"))
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		shown := conn.(*tls.Conn).ConnectionState().PeerCertificates
		intermediates := x509.NewCertPool()
		for _, one := range shown[1:] {
			intermediates.AddCert(one)
		}
		_, err = shown[0].Verify(x509.VerifyOptions{DNSName: host, Roots: intermediates}) // the chain ends below the root
		if err == nil && (shown[0].DNSNames[0] != name || !strings.HasPrefix(shown[0].Issuer.CommonName, "Pebble Intermediate CA")) {
			err = fmt.Errorf("the certificate of %q is for %q", shown[0].Issuer.CommonName, shown[0].DNSNames)
		}
		return err
	})
}

// object is a Gateway or ListenerSet.
type object struct{ resource, namespace, name string }

// awaitListener waits until a listener of an object has conditions: Accepted, ResolvedRefs
// and Programmed, with the message of each that is not true.
func (w *world) awaitListener(t *testing.T, at object, listener, want string) {
	t.Helper()
	eventually(t, func() error {
		found, err := w.cluster.Dynamic.Resource(gatewayv1.SchemeGroupVersion.WithResource(at.resource)).Namespace(at.namespace).Get(t.Context(), at.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var gateway gatewayv1.Gateway // the status of a ListenerSet has the same form
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &gateway); err != nil {
			return err
		}
		var text strings.Builder
		for _, of := range gateway.Status.Listeners {
			for _, kind := range []string{"Accepted", "ResolvedRefs", "Programmed"} {
				for _, c := range of.Conditions {
					if string(of.Name) != listener || c.Type != kind {
						continue
					}
					fmt.Fprintf(&text, "%s=%s", kind, c.Status)
					if c.Message != "" {
						text.WriteString(": " + c.Message)
					}
					text.WriteString(" ")
				}
			}
		}
		if !strings.Contains(text.String(), want) {
			return fmt.Errorf("the listener %s has %s, want %s", listener, text.String(), want)
		}
		return nil
	})
}

const requestingGateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public}
spec:
  gatewayClassName: slipway
  addresses: [{value: %s}]
  allowedListeners: {namespaces: {from: All}}
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - name: shop
    port: 443
    protocol: HTTPS
    hostname: shop.example
    allowedRoutes: {namespaces: {from: All}}
    tls: {options: {slipway.dev/certificate-resolver: le}}
  - {name: wild, port: 443, protocol: HTTPS, hostname: "*.wild.example", tls: {options: {slipway.dev/certificate-resolver: dns}}}
  - {name: plain, port: 443, protocol: HTTPS, hostname: "*.plain.example", tls: {options: {slipway.dev/certificate-resolver: le}}}
  - {name: unknown, port: 443, protocol: HTTPS, hostname: unknown.example, tls: {options: {slipway.dev/certificate-resolver: missing}}}
  - {name: broken, port: 443, protocol: HTTPS, hostname: broken.example, tls: {options: {slipway.dev/certificate-resolver: broken}}}
  - {name: nameless, port: 443, protocol: HTTPS, tls: {options: {slipway.dev/certificate-resolver: le}}}
`

const shopRoute = `apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {ports: [{port: 80, targetPort: %[2]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shop, labels: {kubernetes.io/service-name: shop}}
addressType: IPv4
ports: [{name: "", port: %[2]d}]
endpoints: [{addresses: [%[1]s], conditions: {ready: true}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: public, namespace: infra, sectionName: shop}]
  hostnames: [shop.example]
  rules: [{backendRefs: [{name: shop, port: 80}]}]
`

const thiefSet = `apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: thief}
spec:
  parentRef: {name: public, namespace: infra}
  listeners:
  - {name: shop, port: 8443, protocol: HTTPS, hostname: shop.example, tls: {options: {slipway.dev/certificate-resolver: le}}}
  - {name: wild, port: 8443, protocol: HTTPS, hostname: "*.wild.example", tls: {options: {slipway.dev/certificate-resolver: dns}}}
`
