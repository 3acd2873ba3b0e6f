package nginx

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// backendTLSCases are annotations for endpoints with TLS, and the directives of nginx for
// them. The certificate of the endpoint is for inside.example.
var backendTLSCases = []struct {
	name        string
	annotations map[string]string
	directives  string
	status      int
}{
	{"unverified", nil, "", 200},
	{
		"verified", map[string]string{"proxy-ssl-secret": "default/known", "proxy-ssl-verify": "on", "proxy-ssl-name": "inside.example"},
		"proxy_ssl_verify on; proxy_ssl_trusted_certificate DIR/known.ca; proxy_ssl_name inside.example; proxy_ssl_certificate DIR/known.crt; proxy_ssl_certificate_key DIR/known.key;", 200,
	},
	{
		"other-name", map[string]string{"proxy-ssl-secret": "default/known", "proxy-ssl-verify": "on", "proxy-ssl-name": "other.example"},
		"proxy_ssl_verify on; proxy_ssl_trusted_certificate DIR/known.ca; proxy_ssl_name other.example;", 502,
	},
	{
		"other-authority", map[string]string{"proxy-ssl-secret": "default/strange", "proxy-ssl-verify": "on", "proxy-ssl-name": "inside.example"},
		"proxy_ssl_verify on; proxy_ssl_trusted_certificate DIR/strange.ca; proxy_ssl_name inside.example;", 502,
	},
	{
		"certificate", map[string]string{"proxy-ssl-secret": "default/known"},
		"proxy_ssl_certificate DIR/known.crt; proxy_ssl_certificate_key DIR/known.key;", 200,
	},
}

// TestBackendCertificates: backend-protocol HTTPS and the annotations proxy-ssl-* give the
// responses of nginx, and the endpoint gets the same client certificate.
func TestBackendCertificates(t *testing.T) {
	g := startBackends(t)
	g.encrypt(t, nil)
	dir := t.TempDir()
	var secrets []*snapshot.SecretBody
	for name, authority := range map[string]*pkitest.Authority{"known": g.tls.authority, "strange": pkitest.NewAuthority(t)} {
		pair := authority.Issue(t, name+".client.example")
		data := pair.Data()
		data["ca.crt"] = []byte(authority.PEM)
		secrets = append(secrets, &snapshot.SecretBody{Namespace: namespace, Name: name, Type: "kubernetes.io/tls", Data: data})
		for suffix, text := range map[string]string{"crt": pair.Chain, "key": pair.Key, "ca": authority.PEM} {
			must.Do(t, os.WriteFile(filepath.Join(dir, name+"."+suffix), []byte(text), 0o600))
		}
	}
	g.ports["inside"] = g.startInside(t)
	var all []*networkingv1.Ingress
	var servers strings.Builder
	for i, c := range backendTLSCases {
		annotations := map[string]string{nginx.Prefix + "backend-protocol": "HTTPS"}
		for name, value := range c.annotations {
			annotations[nginx.Prefix+name] = value
		}
		ingress := ingressOf(i, c.name, annotations)
		addPath(ingress, c.name+".inside.org", "/", networkingv1.PathTypePrefix, "inside")
		all = append(all, ingress)
		fmt.Fprintf(&servers, "server { listen LISTEN; server_name %s.inside.org; location / { proxy_set_header Host $http_host; proxy_set_header Connection \"\"; proxy_ssl_server_name on; proxy_ssl_session_reuse off; %s proxy_pass https://127.0.0.1:%d; } }\n",
			c.name, strings.ReplaceAll(c.directives, "DIR", dir), g.ports["inside"])
	}
	g.startNGINX(t, "", servers.String())
	for _, refused := range g.startEdge(t, all, secrets...) {
		t.Errorf("refused: %s", refused)
	}
	for _, c := range backendTLSCases {
		r := request{method: http.MethodGet, host: c.name + ".inside.org", target: "/x?y", compare: []string{"X-Got-Client"}}
		want, got := must.Get(g.send(g.nginx, r))(t), must.Get(g.send(g.edge, r))(t)
		if !got.agrees(want) || got.Status != c.status {
			t.Errorf("%s\n\tedge  %+v\n\tnginx %+v", r, got, want)
		}
	}
}

// startInside starts an endpoint with TLS that reports the certificate of its client, and
// returns its port.
func (g *ground) startInside(t *testing.T) int {
	t.Helper()
	pair := g.tls.authority.Issue(t, "inside.example").TLS(t)
	listener := tls.NewListener(programs.Listen(t, ""), &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := "none"
		if len(r.TLS.PeerCertificates) > 0 {
			client = r.TLS.PeerCertificates[0].Subject.CommonName
		}
		w.Header().Set("X-Got-Client", client)
		echo("inside")(w, r)
	}), ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}
