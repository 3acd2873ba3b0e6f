package gitops

import (
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// secondHost is the address of the second cluster. No name server has it: agents reach it by
// an HTTP proxy of their own only, so that the record knows who writes.
const secondHost = "second.cluster.test"

// secondCluster is a cluster that agents deploy to, by the Secret of a cluster.
type secondCluster struct {
	cluster   *kubetest.Cluster
	authority *pkitest.Authority
	pair      tls.Certificate
}

// newSecondCluster starts a cluster with a namespace.
func newSecondCluster(t *testing.T, namespace string) *secondCluster {
	t.Helper()
	authority := pkitest.NewAuthority(t)
	s := &secondCluster{cluster: kubetest.Start(t, kubetest.WithoutNode()), authority: authority, pair: authority.Issue(t, secondHost).TLS(t)}
	s.cluster.Apply(t, "default", "apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+"}\n")
	return s
}

// destination is that of Applications.
func (s *secondCluster) destination() string { return "name: second" }

// secret is the Secret of the cluster. The proxies have the credentials.
func (s *secondCluster) secret() string {
	return fmt.Sprintf(`apiVersion: v1
kind: Secret
metadata: {name: second, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {name: second, server: "https://%s", config: '{"bearerToken": "any", "tlsClientConfig": {"caData": %q}}'}
`, secondHost, base64.StdEncoding.EncodeToString([]byte(s.authority.PEM)))
}

// environment starts an HTTP proxy for an agent, which leads to the second cluster alone, and
// returns the variable for it.
func (s *secondCluster) environment(t *testing.T, record *writeRecord, agent string) []string {
	t.Helper()
	server := httptest.NewUnstartedServer(record.forward(t, s.cluster.Config, agent))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{s.pair}}
	server.StartTLS()
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodConnect || request.Host != secondHost+":443" {
			http.Error(w, request.Host+" is not "+secondHost, http.StatusForbidden)
			return
		}
		tunnel(w, server.Listener.Addr().String())
	}))
	t.Cleanup(proxy.Close)
	return []string{"HTTPS_PROXY=" + proxy.URL}
}

// tunnel connects the client of a proxy with an address, until one of both ends.
func tunnel(w http.ResponseWriter, address string) {
	there, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n")
	go func() {
		_, _ = io.Copy(there, buffered)
		_ = there.Close()
	}()
	_, _ = io.Copy(here, there)
}
