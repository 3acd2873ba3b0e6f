package nginx

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/edge"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
)

// TestClientCertificates: the difference client-certificates: without a certificate nginx
// responds with 400, and the handshake with the edge fails.
func TestClientCertificates(t *testing.T) {
	g := startBackends(t)
	const host = "client-certificates.test"
	authority := pkitest.NewAuthority(t)
	pair := authority.Issue(t, host)
	ingress := ingressOf(0, "client-certificates", map[string]string{nginx.Prefix + "auth-tls-secret": namespace + "/authority"})
	ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: "pair"}}
	addPath(ingress, host, "/", networkingv1.PathTypePrefix, "one")
	secrets := []*snapshot.SecretBody{
		{Namespace: namespace, Name: "pair", Type: "kubernetes.io/tls", Data: pair.Data()},
		{Namespace: namespace, Name: "authority", Data: map[string][]byte{"ca.crt": []byte(authority.PEM)}},
	}
	if example := exampleOf(t, ingress, secrets...); example.URL != "https://"+host+"/" || example.Before != "400" || !strings.Contains(example.After, "handshake") {
		t.Fatalf("the report has %+v", example)
	}

	dir := t.TempDir()
	for name, text := range map[string]string{"crt": pair.Chain, "key": pair.Key, "ca": authority.PEM} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	encrypted := listener.Addr().String()
	must.Do(t, listener.Close())
	g.startNGINX(t, "", fmt.Sprintf(`server { listen %[4]s ssl; server_name %[1]s; ssl_certificate %[2]s/crt; ssl_certificate_key %[2]s/key;
		ssl_client_certificate %[2]s/ca; ssl_verify_client on; location / { %[3]s } }`, host, dir, g.passTo("one"), encrypted))
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{ServerName: host, RootCAs: authority.Pool},
	}}
	get := func(address string) (*http.Response, error) {
		sent := must.Get(http.NewRequest(http.MethodGet, "https://"+address+"/", nil))(t)
		sent.Host = host
		return client.Do(sent)
	}
	response := must.Get(get(encrypted))(t)
	must.Do(t, response.Body.Close())
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("nginx responds with %d", response.StatusCode)
	}
	address := encryptedEdge(t, ingress, secrets)
	if response, err := get(address); err == nil || !strings.Contains(err.Error(), "tls: ") {
		t.Errorf("the edge: %v %v", response, err)
	}
}

// encryptedEdge serves an Ingress on an entry point for encrypted connections.
func encryptedEdge(t *testing.T, ingress *networkingv1.Ingress, secrets []*snapshot.SecretBody) string {
	t.Helper()
	facts := factsOf(ingress, secrets...)
	built := engine.New(facts, optionsOf(map[string]bool{"websecure": true}))
	point := edge.DefaultEntryPoint("websecure", "127.0.0.1:0")
	point.TLS = true
	points := []edge.EntryPoint{point}
	server := must.Get(edge.New(context.Background(), edge.Options{
		EntryPoints: points, Metrics: edge.NewMetrics(prometheus.NewRegistry(), points), Log: slog.New(slog.DiscardHandler),
	}))(t)
	change := built.All().Change
	for _, problem := range server.Update(&change).Problems {
		t.Errorf("the edge has a problem: %s", problem)
	}
	for _, refused := range built.Refusals() {
		t.Errorf("refused: %s", refused)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		server.Close()
		<-done
	})
	return server.Addresses()[0].String()
}
