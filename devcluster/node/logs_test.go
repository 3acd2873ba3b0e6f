package node

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"slipway.dev/slipway/devcluster/must"
)

// authority signs certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  any
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	cert := must.Get(x509.ParseCertificate(der))(t)
	return &authority{cert: cert, key: key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// issue signs a certificate for a name, or for serving on an address.
func (a *authority) issue(name string, usage x509.ExtKeyUsage, ips ...net.IP) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, IPAddresses: ips,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func (a *authority) mustIssue(t *testing.T, name string, usage x509.ExtKeyUsage, ips ...net.IP) tls.Certificate {
	t.Helper()
	return must.Get(a.issue(name, usage, ips...))(t)
}

// logServer serves the logs of one Pod. get sends requests with the API
// server's certificate.
type logServer struct {
	t    *testing.T
	ca   *authority
	base string
	stop context.CancelFunc
}

func newLogServer(t *testing.T, w *worker) *logServer {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &logServer{t: t, ca: newAuthority(t), base: "https://" + listener.Addr().String()}
	cfg := w.host.cfg
	cfg.ServingCert = s.ca.mustIssue(t, "node", x509.ExtKeyUsageServerAuth, net.ParseIP("127.0.0.1"))
	cfg.ClientCA, cfg.ClientName = s.ca.pool(), "api-server"
	pods := newPodSet(w.host)
	pods.workers[w.uid] = w
	var ctx context.Context
	ctx, s.stop = context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serveLogs(ctx, listener, cfg, pods) }()
	t.Cleanup(func() {
		s.stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *logServer) client(certificates ...tls.Certificate) *http.Client {
	transport := &http.Transport{
		TLSClientConfig:   &tls.Config{RootCAs: s.ca.pool(), Certificates: certificates},
		ForceAttemptHTTP2: true,
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func (s *logServer) apiServer() *http.Client {
	return s.client(s.ca.mustIssue(s.t, "api-server", x509.ExtKeyUsageClientAuth))
}

func TestLogsEndpointLetsInOnlyTheAPIServer(t *testing.T) {
	s := newLogServer(t, newWorker(testHost(t), testPod("wait"), t.TempDir()))
	stranger := newAuthority(t)
	for name, certificates := range map[string][]tls.Certificate{
		"nobody":            nil,
		"another authority": {stranger.mustIssue(t, "api-server", x509.ExtKeyUsageClientAuth)},
		"another name":      {s.ca.mustIssue(t, "admin", x509.ExtKeyUsageClientAuth)},
		"a server":          {s.ca.mustIssue(t, "api-server", x509.ExtKeyUsageServerAuth)},
	} {
		conn := must.Get(tls.Dial("tcp", strings.TrimPrefix(s.base, "https://"), &tls.Config{RootCAs: s.ca.pool(), Certificates: certificates}))(t)
		// In TLS 1.3 the client learns of the refusal when it reads.
		io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: node\r\n\r\n")
		answer, err := io.ReadAll(conn)
		conn.Close()
		if len(answer) != 0 || err == nil || !strings.Contains(err.Error(), "remote error: tls") {
			t.Errorf("%s was answered %q, %v; want a refused handshake", name, answer, err)
		}
	}
	response := must.Get(s.apiServer().Get(s.base + "/healthz"))(t)
	defer response.Body.Close()
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK || string(body) != "ok" {
		t.Errorf("healthz is %s %q", response.Status, body)
	}
}

func TestLogsEndpointAnswers(t *testing.T) {
	pod := testPod("print", "one", "two", "three")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "idle", Image: "container"})
	c := superviseFirst(t, pod)
	<-c.done
	s := newLogServer(t, c.w)
	client := s.apiServer()
	for _, tt := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/containerLogs/default/pod/main", 200, "one\ntwo\nthree\n"},
		{"GET", "/containerLogs/default/pod/main?tailLines=1", 200, "three\n"},
		{"GET", "/containerLogs/default/pod/main?follow=true&limitBytes=5", 200, "one\nt"},
		{"GET", "/containerLogs/default/pod/main?tailLines=x", 400, "tailLines=\"x\" is not a number from 0 up"},
		{"GET", "/containerLogs/default/pod/main?previous=true", 400, "previous terminated container \"main\" in pod \"pod\" not found"},
		{"GET", "/containerLogs/default/pod/idle", 400, "container \"idle\" in pod \"pod\" is waiting to start: ContainerCreating"},
		{"GET", "/containerLogs/default/pod/none", 404, "container \"none\" not found in pod \"pod\""},
		{"GET", "/containerLogs/default/none/main", 404, "pod \"none\" does not run on this node"},
		{"GET", "/containerLogs/other/pod/main", 404, "pod \"pod\" does not run on this node"},
		{"GET", "/containerLogs/default/pod/..%2f..%2fmain", 404, "container \"../../main\" not found in pod \"pod\""},
		{"POST", "/exec/default/pod/main?command=id", 501, "exec is not supported by the process node"},
		{"GET", "/portForward/default/pod", 501, "portForward is not supported by the process node"},
		{"POST", "/run/default/pod/main", 501, "run is not supported by the process node"},
		{"GET", "/pods", 404, "the process node serves /healthz and /containerLogs only"},
		{"POST", "/containerLogs/default/pod/main", 404, "the process node serves /healthz and /containerLogs only"},
	} {
		request := must.Get(http.NewRequest(tt.method, s.base+tt.path, nil))(t)
		response := must.Get(client.Do(request))(t)
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != tt.code || string(body) != tt.body {
			t.Errorf("%s %s is %d %q, %v; want %d %q", tt.method, tt.path, response.StatusCode, body, err, tt.code, tt.body)
		}
	}
}

func TestLogsEndpointFollows(t *testing.T) {
	for _, how := range []string{"the container ends", "the node ends"} {
		t.Run(how, func(t *testing.T) {
			c := superviseFirst(t, testPod("wait"))
			c.until("the start", isRunning)
			s := newLogServer(t, c.w)
			response := must.Get(s.apiServer().Get(s.base + "/containerLogs/default/pod/main?follow=true"))(t)
			defer response.Body.Close()
			lines := bufio.NewReader(response.Body)
			if line, err := lines.ReadString('\n'); line != "waiting\n" {
				t.Fatalf("the first line is %q, %v", line, err)
			}
			want := ""
			if how == "the container ends" {
				c.stop(time.Now().Add(time.Hour))
				want = "asked to end\n"
			} else {
				s.stop()
			}
			rest, err := io.ReadAll(lines)
			if err != nil || string(rest) != want {
				t.Errorf("the rest is %q, %v; want %q", rest, err, want)
			}
		})
	}
}
