package ingress

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// testRecords shows that annotations keep the requests of an Ingress out of the
// access log, the metrics and the traces, and leave those of others in.
func (s *suite) testRecords(t *testing.T) {
	lines := filepath.Join(t.TempDir(), "access.log")
	spans := startCollector(t, s.freeAddress())
	g := &group{name: "records"}
	edge := s.startEdge(t, g.name, []string{
		"--accessLog.filePath=" + lines, "--accessLog.flushInterval=10ms", "--accessLog.format=json",
		"--tracing.otlp.http.endpoint=http://" + spans.address + "/v1/traces",
	})
	c := s.newScene(t, g, edge, g.name)
	c.backendLine(t, "svc")
	s.apply(t, c.namespace, recordedIngresses)
	c.settle(t)
	ask := func(host string) {
		q := &request{method: http.MethodGet, url: "http://" + host + "/", header: http.Header{}, times: 5, wantStatus: http.StatusOK, wantBackends: []string{"svc"}}
		if wrong := q.try(t, c); wrong != "" {
			t.Error(wrong)
		}
	}
	counted := func() float64 { return edge.Metric(t, "slipway_edge_requests_total", `status="200"`) }
	// A request is counted when it is over, which the client sees first: the probe too.
	programs.Until(t, "the probe is counted", func() bool { return counted() >= 1 })
	before := counted()
	ask("quiet.example")
	ask("loud.example")
	programs.Until(t, "five more requests are counted", func() bool { return counted() >= before+5 })
	if got := counted() - before; got != 5 {
		t.Errorf("%v requests are counted, want 5", got)
	}
	programs.Until(t, "the log has the other requests", func() bool {
		return bytes.Count([]byte(readFile(t, lines)), []byte("loud.example")) >= 5
	})
	if bytes.Contains([]byte(readFile(t, lines)), []byte("quiet.example")) {
		t.Error("the log has requests that were to be left out")
	}
	programs.Until(t, "there are traces of the other requests", func() bool { return spans.has("loud.example") })
	if spans.has("quiet.example") {
		t.Error("there are traces of requests that were to be left out")
	}
}

// collector takes traces. Names are plain text in their encoding.
type collector struct {
	address string
	mu      sync.Mutex
	taken   bytes.Buffer
}

func startCollector(t *testing.T, address string) *collector {
	t.Helper()
	listener := must.Get(net.Listen("tcp", address))(t)
	c := &collector{address: address}
	server := &http.Server{ReadHeaderTimeout: patience, Handler: c}
	programs.Background(t, func() { _ = server.Serve(listener) }, func() { _ = server.Close() })
	return c
}

// ServeHTTP takes a batch of spans. What cannot be read is missed by the test.
func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(body)
		if err != nil {
			return
		}
		body = unpacked
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = io.Copy(&c.taken, body)
}

func (c *collector) has(text string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.taken.Bytes(), []byte(text))
}

const recordedIngresses = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: quiet
  annotations:
    traefik.ingress.kubernetes.io/router.observability.accesslogs: "false"
    traefik.ingress.kubernetes.io/router.observability.metrics: "false"
    traefik.ingress.kubernetes.io/router.observability.tracing: "false"
spec:
  rules: [{host: quiet.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: svc, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: loud}
spec:
  rules: [{host: loud.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: svc, port: {number: 80}}}}]}}]
`
