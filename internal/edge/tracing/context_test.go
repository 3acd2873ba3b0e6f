package tracing

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

func TestTraceParent(t *testing.T) {
	const id, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for text, want := range map[string]bool{
		"00-" + id + "-" + span + "-01":                      true,
		"00-" + id + "-" + span + "-00":                      true,
		"00-" + id + "-" + span + "-ff":                      true, // unknown flags are no reason
		"cc-" + id + "-" + span + "-01":                      true,
		"cc-" + id + "-" + span + "-01-what-the-future-says": true,
		"":                                   false,
		"00-" + id + "-" + span + "-01-more": false,
		"00-" + id + "-" + span + "-01 ":     false,
		"cc-" + id + "-" + span + "-01more":  false,
		"ff-" + id + "-" + span + "-01":      false,
		"00-" + strings.ToUpper(id) + "-" + span + "-01":     false,
		"00-" + id + "-" + strings.ToUpper(span) + "-01":     false,
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01": false,
		"00-" + id + "-" + strings.Repeat("0", 16) + "-01":   false,
		"00_" + id + "-" + span + "-01":                      false,
		"00-" + id + "-" + span + "-0g":                      false,
		"00-" + id[1:] + "-" + span + "-01":                  false,
		" 00-" + id + "-" + span + "-01":                     false,
	} {
		if _, got := traceParent(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// FuzzTraceParent: whatever is taken is what OpenTelemetry itself reads.
func FuzzTraceParent(f *testing.F) {
	f.Add("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	f.Add("cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x")
	f.Fuzz(func(t *testing.T, text string) {
		parent, ok := traceParent(text)
		if !ok {
			return
		}
		carrier := propagation.MapCarrier{"traceparent": text}
		want := trace.SpanContextFromContext(propagation.TraceContext{}.Extract(t.Context(), carrier))
		got := trace.NewSpanContext(parent)
		if want.IsValid() && (got.TraceID() != want.TraceID() || got.SpanID() != want.SpanID() || got.IsSampled() != want.IsSampled()) {
			t.Errorf("%q: got %v, OpenTelemetry %v", text, got, want)
		}
	})
}
