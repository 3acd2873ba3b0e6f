package nginx

import (
	"net/http"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/nginx"
)

// TestClientCertificates: the difference client-certificates: without a certificate nginx
// responds with 400, and the handshake with the edge fails.
func TestClientCertificates(t *testing.T) {
	g := startBackends(t)
	const host = "client-certificates.test"
	ingress := ingressOf(0, "client-certificates", map[string]string{nginx.Prefix + "auth-tls-secret": namespace + "/" + authoritySecret})
	ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: "pair"}}
	addPath(ingress, host, "/", networkingv1.PathTypePrefix, "one")
	secrets := g.encrypt(t, []*networkingv1.Ingress{ingress})
	if example := exampleOf(t, ingress, secrets...); example.URL != "https://"+host+"/" || example.Before != "400" || !strings.Contains(example.After, "handshake") {
		t.Fatalf("the report has %+v", example)
	}
	g.startNGINX(t, "", `server { listen LISTEN_TLS; server_name `+host+`; ssl_certificate TLS_DIR/pair.crt; ssl_certificate_key TLS_DIR/pair.key;
		ssl_client_certificate TLS_DIR/ca.crt; ssl_verify_client on; location / { `+g.passTo("one")+` } }`)
	for _, refused := range g.startEdge(t, []*networkingv1.Ingress{ingress}, secrets...) {
		t.Errorf("refused: %s", refused)
	}
	without := request{method: http.MethodGet, host: host, target: "/", tls: true}
	if got, err := g.send(g.nginx, without); err != nil || got.Status != http.StatusBadRequest {
		t.Errorf("nginx responds with %+v, %v", got, err)
	}
	if got, err := g.send(g.edge, without); !failedHandshake(err) {
		t.Errorf("the edge: %+v, %v", got, err)
	}
}
