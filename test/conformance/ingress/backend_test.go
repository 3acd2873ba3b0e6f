package ingress

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// received is what a backend reports of a request.
type received struct {
	Backend  string
	Protocol string
	Method   string
	Host     string
	Path     string // with the query
	Header   http.Header
	Body     int // bytes
}

// backend is a server on an address of its own. It responds with 200 and what it
// received. These words of the query change that:
//
//	status=503    another status
//	size=5000     a longer response
//	hold          no response before the step finish, or the end of the request
//
// A backend that is sick, by a step, responds with 503 to /healthz.
type backend struct {
	name    string
	address netip.AddrPort

	mu      sync.Mutex
	count   int // requests, without those to /healthz
	sick    bool
	held    int
	release chan struct{}
}

// startBackend listens until the end of the test. speaking is what the server
// speaks: http, h2c, or tls with HTTP/1.1 and HTTP/2.
func startBackend(t *testing.T, name, address, speaking string, certificate *tls.Certificate) *backend {
	t.Helper()
	listener := must.Get(net.Listen("tcp", address))(t)
	b := &backend{name: name, address: listener.Addr().(*net.TCPAddr).AddrPort(), release: make(chan struct{})}
	server := &http.Server{Handler: b, ReadHeaderTimeout: patience, Protocols: &http.Protocols{}, ErrorLog: log.New(io.Discard, "", 0)}
	switch speaking {
	case "h2c":
		server.Protocols.SetUnencryptedHTTP2(true)
	case "tls":
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetHTTP2(true)
		server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS12}
	default:
		server.Protocols.SetHTTP1(true)
	}
	programs.Background(t, func() {
		if speaking == "tls" {
			_ = server.ServeTLS(listener, "", "") // it ends when the server is closed
			return
		}
		_ = server.Serve(listener)
	}, func() {
		b.finish()
		_ = server.Close()
	})
	return b
}

// ServeHTTP responds to a request.
func (b *backend) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	size, _ := io.Copy(io.Discard, r.Body) // what came of it is in the answer
	header := r.Header.Clone()
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		header.Set("Shown-Certificate", r.TLS.PeerCertificates[0].Subject.CommonName)
	}
	status := b.take(r)
	query := r.URL.Query()
	if query.Has("hold") {
		b.hold(r)
	}
	if number, err := strconv.Atoi(query.Get("status")); err == nil {
		status = number
	}
	text, err := json.Marshal(received{
		Backend: b.name, Protocol: r.Proto, Method: r.Method, Host: r.Host, Path: r.RequestURI, Header: header, Body: int(size),
	})
	if err != nil {
		panic(err) // plain values
	}
	more, _ := strconv.Atoi(query.Get("size"))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-From", b.name)
	w.Header().Set("X-Path", r.RequestURI)
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "%s%s", text, strings.Repeat(" ", more)) // the client may have left
}

// take counts a request and gives its status.
func (b *backend) take(r *http.Request) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.URL.Path != "/healthz" {
		b.count++
		return http.StatusOK
	}
	if b.sick {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}

// hold waits for finish, or for the client to leave.
func (b *backend) hold(r *http.Request) {
	b.mu.Lock()
	b.held++
	release := b.release
	b.mu.Unlock()
	select {
	case <-release:
	case <-r.Context().Done():
	}
	b.mu.Lock()
	b.held--
	b.mu.Unlock()
}

// finish lets go of all requests that are held.
func (b *backend) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.release)
	b.release = make(chan struct{})
}

func (b *backend) holds() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

func (b *backend) counted() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.count
}

func (b *backend) setSick(sick bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sick = sick
}

// backendLine starts what a line of the section backends declares:
//
//	NAME                              a server, and a Service of this name whose
//	                                  port 80 leads to it
//	NAME = NAME NAME                  a Service whose port 80 leads to several
//	NAME at ADDRESS:PORT              a server, and no Service
//	NAME at ADDRESS:PORT speaking h2c
//	NAME at ADDRESS:PORT speaking tls as HOST   with a certificate for HOST
//
// A line that ends with "in NAMESPACE" makes the Service there.
func (c *scene) backendLine(t *testing.T, line string) {
	t.Helper()
	line, namespace, elsewhere := strings.Cut(line, " in ")
	if !elsewhere {
		namespace = c.namespace
	}
	service, pods, several := strings.Cut(line, " = ")
	words := strings.Fields(line)
	switch {
	case several:
		c.service(t, namespace, service, strings.Fields(pods))
	case len(words) == 1:
		c.service(t, namespace, words[0], words)
	case len(words) == 3 && words[1] == "at":
		c.serve(t, words[0], words[2], "http", "")
	case len(words) == 5 && words[1] == "at" && words[3] == "speaking":
		c.serve(t, words[0], words[2], words[4], "")
	case len(words) == 7 && words[1] == "at" && words[3] == "speaking" && words[5] == "as":
		c.serve(t, words[0], words[2], words[4], words[6])
	default:
		t.Fatalf("backends: what is %q?", line)
	}
}

// serve starts a server of the case.
func (c *scene) serve(t *testing.T, name, address, speaking, host string) *backend {
	t.Helper()
	var certificate *tls.Certificate
	if host != "" {
		pair := c.suite.authority.Issue(t, host).TLS(t)
		certificate = &pair
	}
	if c.backends[name] != nil {
		t.Fatalf("backends: %s is there twice", name)
	}
	c.backends[name] = startBackend(t, name, address, speaking, certificate)
	return c.backends[name]
}

// service makes a Service with a server for each Pod.
func (c *scene) service(t *testing.T, namespace, name string, pods []string) {
	t.Helper()
	var endpoints strings.Builder
	for _, pod := range pods {
		server := c.serve(t, pod, c.suite.freeAddress(), "http", "")
		fmt.Fprintf(&endpoints, "- addresses: [%s]\n", server.address.Addr())
	}
	c.suite.apply(t, namespace, serviceManifest(namespace, name, "", endpoints.String()))
}

// freeAddress is one that no case names.
func (s *suite) freeAddress() string {
	s.pods++
	return fmt.Sprintf("10.244.%d.%d:8080", 128+s.pods/250, 1+s.pods%250)
}

// serviceManifest is a Service with one slice of endpoints.
func serviceManifest(namespace, name, annotations, endpoints string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: %[2]s, namespace: %[1]s, annotations: {%[3]s}}
spec:
  ports: [{port: 80, targetPort: 8080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[2]s, namespace: %[1]s, labels: {kubernetes.io/service-name: %[2]s}}
addressType: IPv4
ports: [{name: "", port: 8080}]
endpoints:
%[4]s`, namespace, name, annotations, endpoints)
}
