package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// TestTrust: a Gateway verifies clients, and a BackendTLSPolicy the backend; both by the
// authorities of ConfigMaps, from the next connection on. The backend verifies the
// certificate of the Gateway. The listener is one of a ListenerSet.
func TestTrust(t *testing.T) {
	s := newScene(t, shared(t))
	clients, servers, other := pkitest.NewAuthority(t), pkitest.NewAuthority(t), pkitest.NewAuthority(t)
	backend := &httptest.Server{
		Listener: must.Get(net.Listen("tcp", net.JoinHostPort(backendC, "8080")))(t),
		Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, "for ", r.TLS.PeerCertificates[0].Subject.CommonName)
		})},
		TLS: &tls.Config{
			Certificates: []tls.Certificate{servers.Issue(t, "backend.example.com", "spiffe://example.com/backend").TLS(t)},
			ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: other.Pool,
		},
	}
	backend.StartTLS()
	t.Cleanup(backend.Close)
	s.issue(t, servers, "edge", "trust.example.com")
	s.issue(t, other, "gateway", "gateway.example.com")
	bundle := func(name string, authority *pkitest.Authority) {
		s.Apply(t, s.namespace, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata:\n  ca.crt: |\n    %s\n",
			name, strings.ReplaceAll(strings.TrimSpace(authority.PEM), "\n", "\n    ")))
	}
	bundle("clients", clients)
	bundle("servers", other)
	s.Apply(t, s.namespace, kubetest.Backend("c", backendC)+"---\n"+trust)
	address := s.programmed(t, "trust").Status.Addresses[0].Value
	url := "https://" + net.JoinHostPort(address, "8443") + "/"
	with := func(certificates ...tls.Certificate) *http.Client {
		return newClient(t, &tls.Config{RootCAs: servers.Pool, ServerName: "trust.example.com", Certificates: certificates})
	}
	own := clients.Issue(t, "client").TLS(t)
	expect(t, with(own), url, http.StatusBadGateway, "") // the backend is not the one that the policy trusts
	bundle("servers", servers)
	expect(t, with(own), url, http.StatusOK, "for gateway.example.com")
	for name, client := range map[string]*http.Client{"none": with(), "another": with(other.Issue(t, "client").TLS(t))} {
		if status, _, err := get(t.Context(), client, url); err == nil {
			t.Errorf("a client with %s certificate gets %d", name, status)
		}
	}
	programs.Eventually(t, func(ctx context.Context) error {
		var policy gatewayv1.BackendTLSPolicy
		if err := s.read(ctx, "backendtlspolicies", "trust", &policy); err != nil {
			return err
		}
		var set gatewayv1.ListenerSet
		if err := s.read(ctx, "listenersets", "trust", &set); err != nil {
			return err
		}
		var own gatewayv1.Gateway
		if err := s.read(ctx, "gateways", "trust", &own); err != nil {
			return err
		}
		conditions := append(set.Status.Conditions, own.Status.Conditions...)
		for _, ancestor := range policy.Status.Ancestors {
			conditions = append(conditions, ancestor.Conditions...)
		}
		for _, listener := range set.Status.Listeners {
			if listener.AttachedRoutes != 1 {
				return fmt.Errorf("the listener %s has %d routes", listener.Name, listener.AttachedRoutes)
			}
		}
		for _, c := range conditions {
			if c.Status != metav1.ConditionTrue {
				return fmt.Errorf("%s is %s: %s", c.Type, c.Status, c.Message)
			}
		}
		if len(conditions) != 7 {
			return fmt.Errorf("there are %d conditions", len(conditions))
		}
		return nil
	})
}

const trust = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: trust}
spec:
  gatewayClassName: slipway
  allowedListeners: {namespaces: {from: Same}}
  tls:
    frontend: {default: {validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: clients}]}}}
    backend: {clientCertificateRef: {name: gateway}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: trust}
spec:
  parentRef: {name: trust}
  listeners: [{name: https, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: edge}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: trust}
spec:
  parentRefs: [{kind: ListenerSet, name: trust}]
  rules: [{backendRefs: [{name: c, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: trust}
spec:
  targetRefs: [{group: "", kind: Service, name: c}]
  validation:
    hostname: sni.example.com
    caCertificateRefs: [{group: "", kind: ConfigMap, name: servers}]
    subjectAltNames: [{type: URI, uri: "spiffe://example.com/backend"}]
`

// TestServiceOfGateway: the Service of a Gateway has the metadata of spec.infrastructure and
// leads to its address, follows both, and does not take the place of another one.
func TestServiceOfGateway(t *testing.T) {
	s := newScene(t, shared(t))
	s.Apply(t, s.namespace, infrastructure)
	address := s.programmed(t, "named").Status.Addresses[0].Value
	s.programmed(t, "taken")
	has := func(labels map[string]string) {
		t.Helper()
		programs.Eventually(t, func(ctx context.Context) error {
			service, err := s.Client.CoreV1().Services(s.namespace).Get(ctx, "slipway-named", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if service.Annotations["team"] != "web" || !maps.Equal(service.Labels, labels) {
				return fmt.Errorf("the Service has the labels %v and the annotations %v", service.Labels, service.Annotations)
			}
			slice, err := s.Client.DiscoveryV1().EndpointSlices(s.namespace).Get(ctx, "slipway-named", metav1.GetOptions{})
			if err != nil {
				return err
			}
			if got := slice.Endpoints[0].Addresses[0]; got != address || slice.Labels[discoveryv1.LabelServiceName] != "slipway-named" {
				return fmt.Errorf("the EndpointSlice has the address %s and the labels %v", got, slice.Labels)
			}
			return nil
		})
	}
	own := map[string]string{"app.kubernetes.io/managed-by": "slipway-edge", gatewayv1.GatewayNameLabelKey: "named"}
	with := func(key, value string) map[string]string {
		labels := maps.Clone(own)
		labels[key] = value
		return labels
	}
	has(with("stage", "test"))
	s.patch(t, "gateways", "named", `{"spec": {"infrastructure": {"labels": {"stage": null, "zone": "a"}}}}`)
	has(with("zone", "a"))
	service := must.Get(s.Client.CoreV1().Services(s.namespace).Get(t.Context(), "slipway-taken", metav1.GetOptions{}))(t)
	if len(service.Labels)+len(service.OwnerReferences) > 0 {
		t.Errorf("a Service of others was changed: %v, %v", service.Labels, service.OwnerReferences)
	}
}

const infrastructure = `apiVersion: v1
kind: Service
metadata: {name: slipway-taken}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: taken}
spec:
  gatewayClassName: slipway
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: named}
spec:
  gatewayClassName: slipway
  infrastructure: {labels: {stage: test}, annotations: {team: web}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
`
