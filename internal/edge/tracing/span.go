package tracing

import (
	"context"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/proxy"
)

// Trace starts the spans of a request that is forwarded, and propagates the trace to
// the backend. It is proxy.Config.Trace; the function that it returns ends the client
// span.
func (t *Tracer) Trace(r *proxy.Record, x *filter.Exchange) (finish func()) {
	if r.Unrecorded().Tracing {
		return nil
	}
	ctx, server := t.serverSpan(r)
	_, client := t.tracer.Start(ctx, methodName(r.Method), trace.WithSpanKind(trace.SpanKindClient))
	edits, err := outgoing(client.SpanContext())
	if err != nil { // an internal error: IDs are always valid header values
		t.options.Log.Error("cannot propagate trace", "error", err)
	} else {
		x.RequestEdits = append(x.RequestEdits, edits...)
	}
	// Observe ends the server span: the proxy calls it after the function below.
	t.begun.Store(r, server)
	return func() {
		if client.IsRecording() {
			endClient(client, r)
		}
	}
}

// Observe ends the server span of a request, and makes that of one that was not
// forwarded. Call it for every record, when it is complete.
func (t *Tracer) Observe(r *proxy.Record) {
	if r.TCPRoute != nil || r.Unrecorded().Tracing {
		return
	}
	var server trace.Span
	if begun, has := t.begun.LoadAndDelete(r); has {
		server = begun.(trace.Span)
	} else {
		_, server = t.serverSpan(r)
	}
	if server.IsRecording() {
		endServer(server, r, r.Began.Add(r.Duration))
	}
}

// serverSpan starts the server span of a request, in the client's trace where that is
// continued.
func (t *Tracer) serverSpan(r *proxy.Record) (context.Context, trace.Span) {
	ctx := context.Background()
	if r.Head != nil && t.continues(r) {
		if parent, ok := incoming(r.Head); ok {
			ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
		}
	}
	return t.tracer.Start(ctx, methodName(r.Method), trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(r.Began))
}

// continues reports whether the trace of a request's client is continued.
func (t *Tracer) continues(r *proxy.Record) bool {
	switch t.options.Continue {
	case ContinueEveryone:
		return true
	case ContinueNever:
		return false
	}
	return t.options.Trusts != nil && t.options.Trusts(r.EntryPoint, r.Peer.Addr())
}

// endServer sets the attributes of the server span, by the OpenTelemetry semantic
// conventions for HTTP, and ends it. The record's texts are copied: a span outlives
// them.
func endServer(span trace.Span, r *proxy.Record, now time.Time) {
	attributes := []attribute.KeyValue{
		attribute.String("http.request.method", methodName(r.Method)),
		attribute.String("url.scheme", schemeOf(r)),
		attribute.String("server.address", strings.Clone(r.Host)),
		attribute.String("network.protocol.name", "http"),
		attribute.String("network.protocol.version", strings.TrimPrefix(r.Protocol, "HTTP/")),
		attribute.String("slipway.entry_point", r.EntryPoint),
		attribute.Int64("http.request.body.size", r.Received),
		attribute.Int64("http.response.body.size", r.Sent),
	}
	if name := methodName(r.Method); name == otherMethod && r.Method != "" {
		attributes = append(attributes, attribute.String("http.request.method_original", strings.Clone(r.Method)))
	}
	if r.Client.IsValid() {
		attributes = append(attributes, attribute.String("client.address", r.Client.Unmap().String()))
	}
	if r.Peer.IsValid() {
		attributes = append(attributes,
			attribute.String("network.peer.address", r.Peer.Addr().Unmap().String()), attribute.Int("network.peer.port", int(r.Peer.Port())))
	}
	if r.Path != "" {
		attributes = append(attributes, attribute.String("url.path", strings.Clone(r.Path)))
	}
	if r.Head != nil {
		if port := r.Head.URI.Port; port != 0 {
			attributes = append(attributes, attribute.Int("server.port", int(port)))
		}
		if agent, ok := r.Head.Get(normalize.FieldUserAgent); ok {
			attributes = append(attributes, attribute.String("user_agent.original", strings.ToValidUTF8(string(agent), "\ufffd")))
		}
	}
	// The rule's pattern, unlike the path, has a low cardinality: it names the span.
	if r.Rule != nil {
		attributes = append(attributes, attribute.String("slipway.rule", r.Rule.ID.String()))
		if pattern := r.Rule.Match.Path.Value; pattern != "" {
			attributes = append(attributes, attribute.String("http.route", pattern))
			span.SetName(spanName(methodName(r.Method), pattern))
		}
	}
	span.SetAttributes(attributes...)
	setOutcome(span, r)
	span.End(trace.WithTimestamp(now))
}

// endClient sets the attributes of the client span and ends it.
func endClient(span trace.Span, r *proxy.Record) {
	attributes := []attribute.KeyValue{attribute.String("http.request.method", methodName(r.Method))}
	if r.Backend != nil {
		attributes = append(attributes, attribute.String("slipway.backend", r.Backend.String()))
	}
	if r.Revision != "" {
		attributes = append(attributes, attribute.String("slipway.revision", r.Revision))
	}
	// An endpoint is an address, or a host name of an ExternalName Service.
	if address, err := netip.ParseAddrPort(r.Endpoint); err == nil {
		attributes = append(attributes,
			attribute.String("server.address", address.Addr().String()), attribute.Int("server.port", int(address.Port())))
	} else if host, port, found := cutPort(r.Endpoint); found {
		attributes = append(attributes, attribute.String("server.address", host), attribute.Int("server.port", port))
	}
	if again := r.Retries(); again > 0 {
		attributes = append(attributes, attribute.Int("http.request.resend_count", again))
	}
	span.SetAttributes(attributes...)
	// Without a response the attempt failed, also if the client got a local response.
	if r.Response != nil {
		setStatus(span, r.Response.Status, 400)
	} else {
		span.SetAttributes(attribute.String("error.type", "no_response"))
		span.SetStatus(codes.Error, strings.Clone(r.Reason))
	}
	span.End()
}

// setOutcome sets the status that the client got, or the reason why it got none.
func setOutcome(span trace.Span, r *proxy.Record) {
	if r.Status == 0 {
		span.SetAttributes(attribute.String("error.type", "aborted"))
		span.SetStatus(codes.Error, strings.Clone(r.Reason))
		return
	}
	setStatus(span, r.Status, 500)
	if r.Reason != "" {
		span.SetAttributes(attribute.String("slipway.reason", strings.Clone(r.Reason)))
	}
}

// setStatus marks a span as failed from a status on: 500 for servers, 400 for
// clients, as the conventions require.
func setStatus(span trace.Span, status, failsFrom int) {
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if status >= failsFrom {
		span.SetAttributes(attribute.String("error.type", strconv.Itoa(status)))
		span.SetStatus(codes.Error, "")
	}
}

// otherMethod stands for methods that the conventions do not list: clients could
// invent any number of them, and span names must have a low cardinality.
const otherMethod = "_OTHER"

// methodName maps a method to a known one. It copies, because a span outlives the
// record.
func methodName(method string) string {
	switch method {
	case "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH":
		return strings.Clone(method)
	}
	return otherMethod
}

// spanName is the method and the pattern of the rule, never the path of a request.
func spanName(method, pattern string) string {
	if method == otherMethod {
		method = "HTTP"
	}
	return method + " " + pattern
}

func schemeOf(r *proxy.Record) string {
	if r.TLS {
		return "https"
	}
	return "http"
}

// cutPort splits the address of an endpoint that is a host name.
func cutPort(address string) (host string, port int, found bool) {
	at := strings.LastIndexByte(address, ':')
	if at < 0 {
		return "", 0, false
	}
	port, err := strconv.Atoi(address[at+1:])
	return strings.Clone(address[:at]), port, err == nil
}
