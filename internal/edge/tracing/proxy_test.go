package tracing_test

import (
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/tracing"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// TestThroughProxy: requests over real connections, to a backend that responds,
// to one that is not there, and to no rule.
func TestThroughProxy(t *testing.T) {
	parents := make(chan string, 1)
	backend := edgetest.Backend(t, func(_ http.ResponseWriter, r *http.Request) {
		parents <- strings.Join(r.Header.Values("Traceparent"), " and ")
	})
	gone := programs.FreeAddress(t)
	rule := func(path string, address netip.AddrPort) (*route.Rule, *route.Backend) {
		id := route.BackendID{Name: path[1:], Port: 80}
		return &route.Rule{
			ID: route.ID{Name: path[1:]}, Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: path}}, Backends: []route.BackendRef{{Backend: id}},
		}, &route.Backend{ID: id, Endpoints: []route.Endpoint{{Address: address}}}
	}
	fine, fineBackend := rule("/fine", backend)
	dead, deadBackend := rule("/dead", gone)
	r := newReceiver(t)
	o := options(r)
	o.Continue = tracing.ContinueEveryone
	tracer := newTracer(t, o)
	table := &route.Table{Rules: []*route.Rule{fine, dead}, Backends: []*route.Backend{fineBackend, deadBackend}}
	traced := edgetest.StartProxy(t, table, proxy.Accepted{}, func(config *proxy.Config) { config.Trace, config.Observe = tracer.Trace, tracer.Observe })

	conn := edgetest.Dial(t, traced.Address)
	for _, c := range []struct {
		path   string
		status int
	}{{"/fine", 200}, {"/dead", 502}, {"/none", 404}} {
		if got, _ := conn.Get(c.path, strings.TrimSuffix(sampled, "\r\n")); got.StatusCode != c.status {
			t.Errorf("%s: %d", c.path, got.StatusCode)
		}
	}
	// The last exchange is over when the next request has been refused.
	conn.Send("BAD\r\n\r\n")
	must.Get(io.Copy(io.Discard, conn.Reader))(t)
	conn.Close()
	closeTracer(t, tracer)

	statuses := map[string]string{}
	for _, span := range r.of(server) {
		got := texts(span.Attributes)
		statuses[got["url.path"]] = got["http.response.status_code"]
		if got["url.path"] != "" && (hexID(span.TraceId) != traceID || hexID(span.ParentSpanId) != spanID) {
			t.Errorf("%s is not part of the trace", got["url.path"])
		}
	}
	if len(statuses) != 4 || statuses["/fine"] != "200" || statuses["/dead"] != "502" || statuses["/none"] != "404" || statuses[""] != "400" {
		t.Errorf("server spans: %v", statuses)
	}
	clients := r.of(client)
	if len(clients) != 2 {
		t.Fatalf("%d client spans", len(clients))
	}
	if got, want := <-parents, "00-"+traceID+"-"+hexID(clients[0].SpanId)+"-01"; got != want {
		t.Errorf("the backend got %s, want %s", got, want)
	}
	if got := texts(clients[1].Attributes); got["error.type"] != "no_response" || got["slipway.backend"] != "dead:80" {
		t.Errorf("the backend that is gone: %v", got)
	}
}
