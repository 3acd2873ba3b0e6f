package tracing_test

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/tracing"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe/otlp"
	"slipway.dev/slipway/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is an OTLP/HTTP collector.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	spans    []*tracev1.Span
	resource map[string]string
	header   http.Header
	path     string
	// answer, when it is set, responds in place of taking the spans.
	answer http.HandlerFunc
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) take(w http.ResponseWriter, request *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answer != nil {
		r.answer(w, request)
		return
	}
	r.header, r.path = request.Header.Clone(), request.URL.Path
	var body io.Reader = request.Body
	if request.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(request.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	text, err := io.ReadAll(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var message collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(text, &message); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	for _, of := range message.ResourceSpans {
		r.resource = texts(of.Resource.Attributes)
		for _, scope := range of.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

// of gives the spans of a kind that were received.
func (r *receiver) of(kind tracev1.Span_SpanKind) []*tracev1.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []*tracev1.Span
	for _, span := range r.spans {
		if span.Kind == kind {
			found = append(found, span)
		}
	}
	return found
}

func texts(attributes []*common.KeyValue) map[string]string {
	found := map[string]string{}
	for _, a := range attributes {
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			found[a.Key] = v.StringValue
		case *common.AnyValue_IntValue:
			found[a.Key] = itoa(v.IntValue)
		}
	}
	return found
}

// options are those that trace everything.
func options(r *receiver) tracing.Options {
	return tracing.Options{
		Collector: otlp.Collector{Endpoint: r.URL}, ServiceName: "edge", Version: "v1", SampleRate: 1, Log: slog.New(slog.DiscardHandler),
		Trusts: func(entryPoint string, peer netip.Addr) bool {
			return entryPoint == "web" && peer == netip.MustParseAddr("10.0.0.1")
		},
	}
}

func newTracer(t *testing.T, o tracing.Options) *tracing.Tracer {
	t.Helper()
	return must.Get(tracing.New(t.Context(), o))(t)
}

// closeTracer sends what is queued.
func closeTracer(t *testing.T, tracer *tracing.Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := tracer.Close(ctx); err != nil {
		t.Error(err)
	}
}

// parsed reads the head of a request.
func parsed(t *testing.T, text string) *h1.Head {
	t.Helper()
	head, limits := &h1.Head{}, h1.DefaultLimits()
	if n, err := head.Parse([]byte(text), &limits); err != nil || n != len(text) {
		t.Fatalf("%q: %d, %v", text, n, err)
	}
	return head
}

// recordOf is the record of a request, as the proxy makes it.
func recordOf(t *testing.T, headers string) (*proxy.Record, *filter.Exchange) {
	t.Helper()
	head := parsed(t, "GET /cart/7?token=hidden HTTP/1.1\r\nHost: shop.example.com:8443\r\nUser-Agent: probe\r\n"+headers+"\r\n")
	record := &proxy.Record{
		Connection: proxy.Connection{EntryPoint: "web", Peer: netip.MustParseAddrPort("10.0.0.1:5555"), Protocol: "HTTP/1.1", TLS: true},
		Timing:     proxy.Timing{Began: time.Now()},
		Client:     netip.MustParseAddr("192.0.2.7"), Head: head, Method: "GET", Host: "shop.example.com", Path: "/cart/7",
		Rule: &route.Rule{ID: route.ID{Kind: "Ingress", Namespace: "shop", Name: "cart"}, Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/cart"}}},
	}
	x := &filter.Exchange{}
	x.Begin(head, 0)
	return record, x
}

// forwarded is the head that the backend gets.
func forwarded(t *testing.T, record *proxy.Record, x *filter.Exchange) *h1.Head {
	t.Helper()
	plan := h1.ForwardPlan{Edits: x.RequestEdits}
	text := must.Get(plan.AppendTo(nil, record.Head))(t)
	return parsed(t, string(text))
}

func hexID(id []byte) string { return hex.EncodeToString(id) }
