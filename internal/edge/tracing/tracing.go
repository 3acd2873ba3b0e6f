// Package tracing tells an OpenTelemetry collector about requests: a server
// span for each, and below it a client span for the time at a backend. It takes
// the trace of a request from its W3C traceparent and gives it on to the
// backend.
//
// It promises that traffic never waits for the collector: spans go through a
// bounded queue, and what does not fit is dropped and counted. A collector that
// is away is logged once in a while. Nothing of a request's query, cookies or
// credentials is in a span. A traceparent that is not exactly as the standard
// says is as good as none, and those of clients that are not trusted are not
// taken up by default: whoever could name the trace could fill the collector.
//
// It refuses to follow a redirect of the collector, which would carry the
// headers with its credentials elsewhere. An edge without tracing has no Tracer
// and pays nothing.
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

	"slipway.dev/slipway/internal/secret"
)

const (
	queueSpans     = 4096
	batchSpans     = 512
	batchPeriod    = 2 * time.Second
	exportTimeout  = 10 * time.Second
	maxValueLength = 1024
)

// Continue says whose traces are taken up.
type Continue string

// Whose traces are taken up; the others begin one of their own.
const (
	ContinueTrusted  Continue = "trusted"
	ContinueEveryone Continue = "everyone"
	ContinueNobody   Continue = "nobody"
)

// Options are what a Tracer needs.
type Options struct {
	// Endpoint is the URL of the collector. Without a path it is /v1/traces.
	Endpoint string
	// Headers go with every batch, as name=value pairs with commas between.
	Headers secret.Text
	TLS     TLS
	// ServiceName and Version say who made the spans.
	ServiceName, Version string
	// Attributes are of the process, as name=value.
	Attributes []string
	// SampleRate is the part of the requests that are traced, from 0 to 1. One
	// whose trace is taken up is traced if the trace is.
	SampleRate float64
	// Continue says whose traces are taken up; trusted when it is empty.
	Continue Continue
	// Trusts reports whether a peer of an entry point is a trusted proxy. Nil
	// trusts nobody.
	Trusts func(entryPoint string, peer netip.Addr) bool
	Log    *slog.Logger
}

// Tracer makes spans. Its methods are for any number of goroutines.
type Tracer struct {
	options  Options
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	export   *exporter
	// begun holds the server spans of exchanges that run, by their records.
	begun sync.Map
}

// New makes a Tracer and starts to send. The collector need not be there.
func New(ctx context.Context, options Options) (*Tracer, error) {
	endpoint, err := collectorURL(options.Endpoint)
	if err != nil {
		return nil, err
	}
	headers, err := parseHeaders(options.Headers)
	if err != nil {
		return nil, err
	}
	about, err := describe(options)
	if err != nil {
		return nil, err
	}
	client, err := newClient(options.TLS)
	if err != nil {
		return nil, err
	}
	sender, err := otlptrace.New(ctx, otlptracehttp.NewClient(
		otlptracehttp.WithEndpointURL(endpoint),
		otlptracehttp.WithHeaders(headers),
		otlptracehttp.WithHTTPClient(client),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
	))
	if err != nil {
		return nil, fmt.Errorf("tracing: %w", err)
	}
	export := &exporter{SpanExporter: sender, client: client, log: options.Log}
	export.life, export.cut = context.WithCancel(context.WithoutCancel(ctx))
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(options.SampleRate))),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{AttributeValueLengthLimit: maxValueLength, AttributeCountLimit: 64, LinkCountLimit: 1}),
		sdktrace.WithBatcher(export,
			sdktrace.WithMaxQueueSize(queueSpans), sdktrace.WithMaxExportBatchSize(batchSpans),
			sdktrace.WithBatchTimeout(batchPeriod), sdktrace.WithExportTimeout(exportTimeout)),
	)
	return &Tracer{
		options: options, provider: provider, export: export,
		tracer: provider.Tracer("slipway.dev/slipway/internal/edge", trace.WithInstrumentationVersion(options.Version)),
	}, nil
}

// describe is what every span says about the process.
func describe(options Options) (*resource.Resource, error) {
	attributes := []attribute.KeyValue{
		attribute.String("service.name", options.ServiceName),
		attribute.String("service.version", options.Version),
	}
	pairs, err := parsePairs(options.Attributes)
	if err != nil {
		return nil, fmt.Errorf("tracing: an attribute of the resource: %w", err)
	}
	for _, pair := range pairs {
		attributes = append(attributes, attribute.String(pair[0], pair[1]))
	}
	return resource.NewSchemaless(attributes...), nil
}

// Close sends what is queued and stops. What is not sent when ctx is done is
// given up; nothing runs on after Close.
func (t *Tracer) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, t.export.cut)()
	err := t.provider.Shutdown(context.WithoutCancel(ctx))
	t.export.cut()
	t.export.client.CloseIdleConnections()
	if err = errors.Join(err, ctx.Err()); err != nil {
		return fmt.Errorf("the last spans were not sent: %w", err)
	}
	return nil
}

// Stats are counters since the Tracer was made.
type Stats struct {
	// Sent and Failed are spans that the collector took, and did not take.
	// Those that found the queue full are in neither.
	Sent, Failed uint64
}

// Stats gives the counters.
func (t *Tracer) Stats() Stats {
	return Stats{Sent: t.export.sent.Load(), Failed: t.export.failed.Load()}
}

// counted is a number of spans.
type counted = atomic.Uint64
