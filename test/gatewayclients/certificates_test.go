package gatewayclients

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// testCertificates: cert-manager makes the certificates of a Gateway and of a
// ListenerSet in another namespace, which inherits its issuer, and the edge serves them:
// also the next one after a Secret was deleted. The annotations stay as they are.
func (w *world) testCertificates(t *testing.T) {
	w.apply(t, authority)
	w.apply(t, shop)
	at := address(w.programmed(t, "shop"))
	roots := w.roots(t)
	first := expectHello(t, at, "shop.gateway.test", roots)
	expectHello(t, at, "team.gateway.test", roots)
	if _, err := w.Client.CoreV1().Secrets(w.team).Get(t.Context(), "team-tls", metav1.GetOptions{}); err != nil {
		t.Errorf("the certificate of the ListenerSet: %v", err)
	}

	secrets := w.Client.CoreV1().Secrets(w.infra)
	must.Do(t, secrets.Delete(t.Context(), "shop-tls", metav1.DeleteOptions{}))
	programs.Eventually(t, func(ctx context.Context) error {
		secret, err := secrets.Get(ctx, "shop-tls", metav1.GetOptions{})
		if err != nil {
			return err
		}
		issued, err := pkitest.Pair{Chain: string(secret.Data[corev1.TLSCertKey])}.Leaf()
		if err == nil && issued.Equal(first) {
			err = errors.New("the Secret has the deleted certificate again")
		}
		if err != nil {
			return err
		}
		next, err := hello(ctx, at, "shop.gateway.test", roots)
		if err == nil && next.Equal(first) {
			err = errors.New("the certificate of the deleted Secret is served, and not that of the new one")
		}
		return err
	})
	gateway := w.programmed(t, "shop")
	want := map[string]string{"cert-manager.io/cluster-issuer": "authority", "cert-manager.io/duration": "2160h", "example.com/own": "kept"}
	if !maps.Equal(gateway.Annotations, want) || gateway.Generation != 1 {
		t.Errorf("the Gateway has the generation %d and the annotations %q", gateway.Generation, gateway.Annotations)
	}
}

// roots waits for the certificate of the issuer, and trusts it alone.
func (w *world) roots(t *testing.T) *x509.CertPool {
	t.Helper()
	roots := x509.NewCertPool()
	programs.Eventually(t, func(ctx context.Context) error {
		secret, err := w.Client.CoreV1().Secrets("kube-system").Get(ctx, "authority", metav1.GetOptions{})
		if err == nil && !roots.AppendCertsFromPEM(secret.Data["ca.crt"]) {
			err = errors.New("the Secret of the issuer has no ca.crt")
		}
		return err
	})
	return roots
}

// expectHello waits until a host is served with a certificate of some authorities, and
// returns the certificate.
func expectHello(t *testing.T, at, host string, roots *x509.CertPool) (leaf *x509.Certificate) {
	t.Helper()
	programs.Eventually(t, func(ctx context.Context) (err error) {
		leaf, err = hello(ctx, at, host, roots)
		return err
	})
	return leaf
}

// hello requests a host of a Gateway encrypted, and returns its certificate. Without
// authorities the certificate is not verified.
func hello(ctx context.Context, at, host string, roots *x509.CertPool) (*x509.Certificate, error) {
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, InsecureSkipVerify: roots == nil},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(at, "443"))
		},
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+"/", nil)
	if err != nil {
		return nil, err
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	leaf := response.TLS.PeerCertificates[0]
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s responds with %d", host, response.StatusCode)
	}
	return leaf, leaf.VerifyHostname(host)
}

// testACME: cert-manager proves a host to an authority of ACME by an HTTPRoute of its own
// at the Gateway, whose record external-dns wrote. The host belongs to the namespace of
// the application, so its grant lets the route of cert-manager share it.
func (w *world) testACME(t *testing.T) {
	w.apply(t, acmeRoute)
	w.apply(t, acmeGateway)
	at := address(w.programmed(t, "acme"))
	w.awaitRecords(t, "acme", at)
	w.awaitAge(t, "acme")
	w.apply(t, fmt.Sprintf(issuer, w.authority.directory, base64.StdEncoding.EncodeToString([]byte(w.authority.root))))
	solvers := metav1.ListOptions{LabelSelector: "acme.cert-manager.io/http01-solver=true"}
	programs.Eventually(t, func(ctx context.Context) error {
		routes, err := w.in(w.infra, "httproutes").List(ctx, solvers)
		if err != nil {
			return err
		}
		if len(routes.Items) == 0 {
			return errors.New("cert-manager has no route for its challenge")
		}
		return checkRefused(&routes.Items[0], "HostNotGranted")
	})
	w.apply(t, acmeGrant)
	programs.Eventually(t, func(ctx context.Context) error {
		leaf, err := hello(ctx, at, "acme.gateway.test", nil)
		if err == nil && !strings.HasPrefix(leaf.Issuer.CommonName, "Pebble Intermediate CA") {
			err = fmt.Errorf("the certificate is of %s", leaf.Issuer)
		}
		return err
	})
	programs.Eventually(t, func(ctx context.Context) error {
		routes, err := w.in(w.infra, "httproutes").List(ctx, solvers)
		if err == nil && len(routes.Items) > 0 {
			err = errors.New("the route of the challenge is still there")
		}
		return err
	})
	expectHello(t, at, "acme.gateway.test", nil)
}

const authority = `apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: selfsigned}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: authority, namespace: kube-system}
spec: {isCA: true, commonName: authority, secretName: authority, issuerRef: {name: selfsigned, kind: ClusterIssuer}}
---
apiVersion: cert-manager.io/v1
kind: ClusterIssuer
metadata: {name: authority}
spec: {ca: {secretName: authority}}
`

const shop = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: shop
  annotations: {cert-manager.io/cluster-issuer: authority, cert-manager.io/duration: 2160h, example.com/own: kept}
spec:
  gatewayClassName: slipway
  allowedListeners: {namespaces: {from: All}}
  listeners: [{name: https, port: 443, protocol: HTTPS, hostname: shop.gateway.test, tls: {certificateRefs: [{name: shop-tls}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: shop}]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: team, namespace: TEAM}
spec:
  parentRef: {name: shop, namespace: INFRA}
  listeners: [{name: https, port: 443, protocol: HTTPS, hostname: team.gateway.test, tls: {certificateRefs: [{name: team-tls}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: team, namespace: TEAM}
spec:
  parentRefs: [{group: gateway.networking.k8s.io, kind: ListenerSet, name: team}]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`

const issuer = `apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: acme}
spec:
  acme:
    server: %s
    caBundle: %s
    privateKeySecretRef: {name: acme-account}
    solvers: [{http01: {gatewayHTTPRoute: {parentRefs: [{name: acme, namespace: INFRA, kind: Gateway}]}}}]
`

const acmeRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: acme, namespace: TEAM}
spec:
  parentRefs: [{name: acme, namespace: INFRA}]
  hostnames: [acme.gateway.test]
  rules: [{backendRefs: [{name: web, port: 80}]}]
`

const acmeGateway = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: acme, annotations: {cert-manager.io/issuer: acme}}
spec:
  gatewayClassName: slipway
  listeners:
  - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: https, port: 443, protocol: HTTPS, hostname: acme.gateway.test, tls: {certificateRefs: [{name: acme-tls}]}, allowedRoutes: {namespaces: {from: All}}}
`

const acmeGrant = `apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: {name: acme, namespace: TEAM}
spec:
  from: [{group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: INFRA}]
  to: [{group: gateway.networking.k8s.io, kind: HTTPRoute}]
`
