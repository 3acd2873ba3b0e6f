package tracing_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/tracing"
	"slipway.dev/slipway/internal/observe/otlp"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/internal/secret"
)

const (
	server = tracev1.Span_SPAN_KIND_SERVER
	client = tracev1.Span_SPAN_KIND_CLIENT

	traceID = "0af7651916cd43dd8448eb211c80319c"
	spanID  = "b7ad6b7169203331"
	sampled = "Traceparent: 00-" + traceID + "-" + spanID + "-01\r\n"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// traced runs one exchange with a backend through a Tracer.
func traced(t *testing.T, tracer *tracing.Tracer, headers string) *h1.Head {
	t.Helper()
	record, x := recordOf(t, headers)
	finish := tracer.Trace(record, x)
	head := forwarded(t, record, x)
	record.Backend, record.Endpoint = &route.BackendID{Namespace: "shop", Name: "cart", Port: 80}, "10.1.2.3:8080"
	record.Attempts, record.Status, record.Received, record.Sent = 2, 200, 11, 22
	record.Response = &h1.ResponseHead{Status: 200}
	finish()
	record.Duration = time.Since(record.Began)
	tracer.Observe(record)
	return head
}

func TestSpans(t *testing.T) {
	r := newReceiver(t)
	o := options(r)
	o.Headers = secret.New("X-Api-Key=hidden, X-Tenant=blue")
	o.Attributes = []string{"deployment.environment.name=test"}
	tracer := newTracer(t, o)
	head := traced(t, tracer, sampled+"Tracestate: vendor=1\r\nTracestate: other=2\r\n")
	closeTracer(t, tracer)

	if r.path != "/v1/traces" || r.header.Get("X-Api-Key") != "hidden" || r.header.Get("X-Tenant") != "blue" {
		t.Errorf("%s %v", r.path, r.header)
	}
	if r.resource["service.name"] != "edge" || r.resource["service.version"] != "v1" || r.resource["deployment.environment.name"] != "test" {
		t.Errorf("resource: %v", r.resource)
	}
	servers, clients := r.of(server), r.of(client)
	if len(servers) != 1 || len(clients) != 1 {
		t.Fatalf("%d server spans, %d client spans", len(servers), len(clients))
	}
	s, c := servers[0], clients[0]
	if hexID(s.TraceId) != traceID || hexID(s.ParentSpanId) != spanID || hexID(c.TraceId) != traceID || !bytes.Equal(c.ParentSpanId, s.SpanId) {
		t.Errorf("the spans do not hang together: %v %v", s, c)
	}
	parent, _ := head.Find("Traceparent")
	state, _ := head.Find("Tracestate")
	if string(parent) != "00-"+traceID+"-"+hexID(c.SpanId)+"-01" || string(state) != "vendor=1,other=2" {
		t.Errorf("the backend got %s and %s", parent, state)
	}
	if s.Name != "GET /cart" || c.Name != "GET" || s.StartTimeUnixNano > s.EndTimeUnixNano || s.EndTimeUnixNano == 0 {
		t.Errorf("%s, %s, %d to %d", s.Name, c.Name, s.StartTimeUnixNano, s.EndTimeUnixNano)
	}
	wantAttributes(t, s, map[string]string{
		"http.request.method": "GET", "url.scheme": "https", "url.path": "/cart/7", "server.address": "shop.example.com", "server.port": "8443",
		"client.address": "192.0.2.7", "network.peer.address": "10.0.0.1", "network.peer.port": "5555", "network.protocol.name": "http",
		"network.protocol.version": "1.1", "user_agent.original": "probe", "http.response.status_code": "200", "http.route": "/cart",
		"http.request.body.size": "11", "http.response.body.size": "22", "slipway.rule": "Ingress shop/cart[0][0]", "slipway.entry_point": "web",
	})
	wantAttributes(t, c, map[string]string{
		"http.request.method": "GET", "server.address": "10.1.2.3", "server.port": "8080", "http.response.status_code": "200",
		"http.request.resend_count": "1", "slipway.backend": "shop/cart:80",
	})
	if got := tracer.Stats(); got.Sent != 2 || got.Failed != 0 {
		t.Errorf("%+v", got)
	}
}

// TestNobodyAsked: a request that no endpoint could be chosen for has no backend.
func TestNobodyAsked(t *testing.T) {
	r := newReceiver(t)
	tracer := newTracer(t, options(r))
	record, x := recordOf(t, sampled)
	finish := tracer.Trace(record, x)
	record.Status = 503
	finish()
	tracer.Observe(record)
	closeTracer(t, tracer)
	clients := r.of(client)
	if len(clients) != 1 {
		t.Fatalf("%d client spans", len(clients))
	}
	if got, there := texts(clients[0].Attributes)["slipway.backend"]; there {
		t.Errorf("the backend is %q", got)
	}
}

// wantAttributes compares all attributes: one more than expected could be a
// secret.
func wantAttributes(t *testing.T, span *tracev1.Span, want map[string]string) {
	t.Helper()
	got := texts(span.Attributes)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s %s: %s is %q, want %q", span.Kind, span.Name, name, got[name], value)
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("%s %s has more: %v", span.Kind, span.Name, got)
	}
}

// TestParents: which requests take part in the trace that they name.
func TestParents(t *testing.T) {
	for _, c := range []struct {
		name, headers string
		change        func(*tracing.Options)
		continued     bool
		spans         int
	}{
		{"trusted", sampled, nil, true, 1},
		{"trusted, not sampled", strings.Replace(sampled, "-01\r", "-00\r", 1), nil, true, 0},
		{"nobody trusted", sampled, func(o *tracing.Options) { o.Trusts = nil }, false, 1},
		{"everyone", sampled, func(o *tracing.Options) { o.Trusts, o.Continue = nil, tracing.ContinueEveryone }, true, 1},
		{"nobody", sampled, func(o *tracing.Options) { o.Continue = tracing.ContinueNever }, false, 1},
		{"none", "", nil, false, 1},
		{"two parents", sampled + sampled, nil, false, 1},
		{"sampled by the client, not by us", sampled, func(o *tracing.Options) { o.Trusts, o.SampleRate = nil, 0 }, false, 0},
		{"sampled by a proxy, not by us", sampled, func(o *tracing.Options) { o.SampleRate = 0 }, true, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newReceiver(t)
			o := options(r)
			if c.change != nil {
				c.change(&o)
			}
			tracer := newTracer(t, o)
			head := traced(t, tracer, c.headers)
			closeTracer(t, tracer)
			parent, found := head.Find("Traceparent")
			if !found || strings.Contains(string(parent), traceID) != c.continued || strings.Contains(string(parent), spanID) {
				t.Errorf("the backend got %s", parent)
			}
			if sampledOut := strings.HasSuffix(string(parent), "-01"); sampledOut != (c.spans > 0) {
				t.Errorf("the backend got %s", parent)
			}
			if got := len(r.of(server)); got != c.spans {
				t.Errorf("%d server spans, want %d", got, c.spans)
			}
			if head.Len() > 5 {
				t.Errorf("the backend got %d headers", head.Len())
			}
		})
	}
}

// TestOwnAnswers: a request that no backend was asked for has a span too, and a
// connection that is passed on has none.
func TestOwnAnswers(t *testing.T) {
	r := newReceiver(t)
	tracer := newTracer(t, options(r))
	missing, _ := recordOf(t, sampled)
	missing.Rule, missing.Status, missing.Reason, missing.Duration = nil, 404, "NoRoute", time.Millisecond
	tracer.Observe(missing)
	tracer.Observe(&proxy.Record{Connection: proxy.Connection{EntryPoint: "web"}, Timing: proxy.Timing{Began: time.Now()}, Status: 400, Reason: "bad"})
	odd, _ := recordOf(t, "")
	odd.Method, odd.Status = "BREW", 503
	tracer.Observe(odd)
	gone, x := recordOf(t, "")
	finish := tracer.Trace(gone, x)
	gone.Reason = "the client went away"
	finish()
	tracer.Observe(gone)
	tracer.Observe(&proxy.Record{Connection: proxy.Connection{EntryPoint: "web"}, Timing: proxy.Timing{Began: time.Now()}, TCPRoute: &route.TCPRoute{}})
	closeTracer(t, tracer)
	spans := r.of(server)
	if len(spans) != 4 {
		t.Fatalf("%d spans", len(spans))
	}
	for i, want := range []map[string]string{
		{"http.response.status_code": "404", "slipway.reason": "NoRoute"},
		{"http.response.status_code": "400", "http.request.method": "_OTHER"},
		{"http.response.status_code": "503", "http.request.method": "_OTHER", "http.request.method_original": "BREW", "error.type": "503"},
		{"error.type": "aborted"},
	} {
		got := texts(spans[i].Attributes)
		for name, value := range want {
			if got[name] != value {
				t.Errorf("span %d: %s is %q, want %q", i, name, got[name], value)
			}
		}
	}
	for i, want := range []tracev1.Status_StatusCode{tracev1.Status_STATUS_CODE_UNSET, tracev1.Status_STATUS_CODE_UNSET, tracev1.Status_STATUS_CODE_ERROR, tracev1.Status_STATUS_CODE_ERROR} {
		if got := spans[i].Status.GetCode(); got != want {
			t.Errorf("span %d: %s", i, got)
		}
	}
	if hexID(spans[0].ParentSpanId) != spanID || spans[0].EndTimeUnixNano-spans[0].StartTimeUnixNano != uint64(time.Millisecond) {
		t.Errorf("%v", spans[0])
	}
}

// TestBrokenCollector: what the collector does not take is counted and logged,
// once, without the secret; a redirect is not followed.
func TestBrokenCollector(t *testing.T) {
	elsewhere := newReceiver(t)
	r := newReceiver(t)
	for name, answer := range map[string]http.HandlerFunc{
		"refuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"redirects": func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, elsewhere.URL, http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.answer = answer
			var log bytes.Buffer
			o := options(r)
			o.Headers, o.Log = secret.New("X-Api-Key=hidden"), slog.New(slog.NewTextHandler(&log, nil))
			tracer := newTracer(t, o)
			traced(t, tracer, "")
			closeTracer(t, tracer)
			if got := tracer.Stats(); got.Failed != 2 || got.Sent != 0 {
				t.Errorf("%+v", got)
			}
			if n := strings.Count(log.String(), "export of spans failed"); n != 1 || strings.Contains(log.String(), "hidden") {
				t.Errorf("log: %s", log.String())
			}
		})
	}
	if elsewhere.header != nil {
		t.Errorf("the redirect was followed: %v", elsewhere.header)
	}
}

// TestCloseEnds: a collector that never responds does not hold up the end.
func TestCloseEnds(t *testing.T) {
	r := newReceiver(t)
	release := make(chan struct{})
	r.answer = func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-release:
		case <-req.Context().Done():
		}
	}
	tracer := newTracer(t, options(r))
	traced(t, tracer, "")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tracer.Close(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(release)
}

func TestWrongOptions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*tracing.Options)
		want   string
	}{
		"no endpoint": {func(o *tracing.Options) { o.Endpoint = "" }, "not a URL"},
		"no scheme":   {func(o *tracing.Options) { o.Endpoint = "collector:4318" }, "not a URL"},
		"password":    {func(o *tracing.Options) { o.Endpoint = "http://me:hidden@collector" }, "put credentials into the headers"},
		"header":      {func(o *tracing.Options) { o.Headers = secret.New("A=1,hidden") }, "header number 2"},
		"header name": {func(o *tracing.Options) { o.Headers = secret.New("A B=hidden") }, "header number 1"},
		"attribute":   {func(o *tracing.Options) { o.Attributes = []string{"a"} }, `"a" is not of the form name=value`},
		"CA":          {func(o *tracing.Options) { o.TLS.CA = "missing.pem" }, "no such file"},
		"not a CA":    {func(o *tracing.Options) { o.TLS.CA = "tracing_test.go" }, "has no certificate"},
		"half a pair": {func(o *tracing.Options) { o.TLS.Cert = "tracing_test.go" }, "go together"},
		"not a pair":  {func(o *tracing.Options) { o.TLS.Cert, o.TLS.Key = "tracing_test.go", "tracing_test.go" }, "tracing_test.go"},
	} {
		o := tracing.Options{Collector: otlp.Collector{Endpoint: "http://127.0.0.1:1"}, Log: slog.New(slog.DiscardHandler)}
		c.change(&o)
		_, err := tracing.New(t.Context(), o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A rule can ask for silence.
func TestUnrecorded(t *testing.T) {
	r := newReceiver(t)
	tracer := newTracer(t, options(r))
	record, x := recordOf(t, sampled)
	record.Rule.Unrecorded.Tracing = true
	if tracer.Trace(record, x) != nil || len(x.RequestEdits) > 0 {
		t.Error("the backend is told about a trace")
	}
	tracer.Observe(record)
	traced(t, tracer, sampled)
	closeTracer(t, tracer)
	if count := len(r.of(server)); count != 1 {
		t.Errorf("of two requests, one of them silent, it sent %d spans", count)
	}
}
