// Package tracing exports spans to an OpenTelemetry collector: a server span for
// each request, and below it a client span for the time at a backend. It continues
// the trace of a request's W3C traceparent and propagates it to the backend.
//
// Traffic never waits for the collector: spans go through a bounded queue, and
// those that do not fit are dropped and counted. An unreachable collector is logged
// at most once a minute. No query, cookie or credential is in a span. A traceparent
// that violates the standard is ignored, and those of untrusted clients are ignored
// by default: a client that chooses trace IDs could flood the collector.
//
// Redirects of the collector are not followed, because they would carry the headers
// with its credentials elsewhere. An edge without tracing has no Tracer and pays
// nothing.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"slipway.dev/slipway/internal/observe/otlp"
)

// The bounds of the queue of spans: two seconds of 2,000 requests a second fit.
const (
	queueSpans     = 4096
	batchSpans     = 512
	batchPeriod    = 2 * time.Second
	maxValueLength = 1024
)

// Continue selects the clients whose traces are continued.
type Continue string

// The clients whose traces are continued; requests of others start a new one.
const (
	ContinueTrusted  Continue = "trusted"
	ContinueEveryone Continue = "everyone"
	ContinueNever    Continue = "nobody"
)

// Options are the settings of a Tracer.
type Options struct {
	otlp.Collector
	// ServiceName and Version are attributes of the resource.
	ServiceName, Version string
	// Attributes are further ones of the resource, as name=value.
	Attributes []string
	// SampleRate is the share of requests that are sampled, from 0 to 1. One whose
	// trace is continued follows the sampling decision of its parent.
	SampleRate float64
	// Continue selects the clients; trusted when it is empty.
	Continue Continue
	// Trusts reports whether a peer of an entry point is a trusted proxy. Nil
	// trusts none.
	Trusts func(entryPoint string, peer netip.Addr) bool
	Log    *slog.Logger
}

// Tracer makes spans. It is safe for concurrent use.
type Tracer struct {
	options  Options
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	export   *exporter
	// begun holds the server spans of exchanges that run, by their records: a
	// record belongs to one exchange until Observe.
	begun sync.Map
}

// New returns a Tracer and starts its exporter. The collector need not be reachable.
func New(ctx context.Context, options Options) (*Tracer, error) {
	collector, err := options.Connect("/v1/traces")
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	about, err := describe(options)
	if err != nil {
		return nil, err
	}
	sender, err := otlptrace.New(ctx, otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(collector.URL),
		otlptracehttp.WithHeaders(collector.Headers),
		otlptracehttp.WithHTTPClient(collector.Client),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
	))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	// The exporter outlives ctx, which is that of the start; Close ends it.
	export := &exporter{SpanExporter: sender, client: collector.Client, log: options.Log}
	export.life, export.cut = context.WithCancel(context.WithoutCancel(ctx))
	// The limits bound the memory of one span: clients choose most of its values.
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(options.SampleRate))),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{AttributeValueLengthLimit: maxValueLength, AttributeCountLimit: 64, LinkCountLimit: 1}),
		sdktrace.WithBatcher(export,
			sdktrace.WithMaxQueueSize(queueSpans), sdktrace.WithMaxExportBatchSize(batchSpans),
			sdktrace.WithBatchTimeout(batchPeriod), sdktrace.WithExportTimeout(otlp.Timeout)),
	)
	return &Tracer{
		options: options, provider: provider, export: export,
		tracer: provider.Tracer("slipway.dev/slipway/internal/edge", trace.WithInstrumentationVersion(options.Version)),
	}, nil
}

// describe returns the resource of all spans.
func describe(options Options) (*resource.Resource, error) {
	attributes := []attribute.KeyValue{
		attribute.String("service.name", options.ServiceName),
		attribute.String("service.version", options.Version),
	}
	// User attributes come last and may override the ones above.
	pairs, err := parsePairs(options.Attributes)
	if err != nil {
		return nil, fmt.Errorf("tracing: parse a resource attribute: %w", err)
	}
	for _, pair := range pairs {
		attributes = append(attributes, attribute.String(pair[0], pair[1]))
	}
	return resource.NewSchemaless(attributes...), nil
}

// Close exports the queue and stops. Spans that are not exported when ctx is done
// are dropped; no goroutine runs after Close.
func (t *Tracer) Close(ctx context.Context) error {
	// Shutdown gets a context of its own: with an expired one it would drop the queue
	// at once instead of trying one last export.
	defer context.AfterFunc(ctx, t.export.cut)()
	err := t.provider.Shutdown(context.WithoutCancel(ctx))
	t.export.cut()
	t.export.client.CloseIdleConnections()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return fmt.Errorf("export the last spans: %w", err)
	}
	return nil
}

// Stats are counters since the Tracer was made.
type Stats struct {
	// Sent and Failed count the spans that the collector accepted, and those that it
	// did not. Spans that found the queue full are in neither.
	Sent, Failed uint64
}

// Stats returns the counters.
func (t *Tracer) Stats() Stats {
	return Stats{Sent: t.export.sent.Load(), Failed: t.export.failed.Load()}
}

// counted is a number of spans.
type counted = atomic.Uint64
