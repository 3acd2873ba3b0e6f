package tracing

import (
	"encoding/hex"

	"go.opentelemetry.io/otel/trace"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
)

// The headers of W3C Trace Context.
const (
	parentHeader = "Traceparent"
	stateHeader  = "Tracestate"
)

// maxState bounds tracestate; the standard requires that at least 512 bytes are
// propagated.
const maxState = 512

// traceParent parses a traceparent: version, trace ID, span ID and flags, in lower
// case, with one dash between. Versions after 00 may have more behind a dash; ff is
// invalid.
func traceParent(text string) (parent trace.SpanContextConfig, ok bool) {
	const length = 2 + 1 + 32 + 1 + 16 + 1 + 2
	if len(text) < length || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return parent, false
	}
	var version, flags [1]byte
	if !lowerHex(version[:], text[:2]) || !lowerHex(parent.TraceID[:], text[3:35]) ||
		!lowerHex(parent.SpanID[:], text[36:52]) || !lowerHex(flags[:], text[53:55]) {
		return parent, false
	}
	if version[0] == 0xff || !parent.TraceID.IsValid() || !parent.SpanID.IsValid() {
		return parent, false
	}
	// A later version may append fields; version 00 may not.
	if len(text) > length && (version[0] == 0 || text[length] != '-') {
		return parent, false
	}
	// Unknown flags are not propagated.
	parent.TraceFlags = trace.TraceFlags(flags[0]) & trace.FlagsSampled
	parent.Remote = true
	return parent, true
}

// lowerHex decodes hex digits; the standard allows lower case only.
func lowerHex(dst []byte, text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	_, err := hex.Decode(dst, normalize.Bytes(text))
	return err == nil
}

// incoming returns the parent span of a request. A request with two traceparents has
// none.
func incoming(head *h1.Head) (trace.SpanContext, bool) {
	headers := h1.Headers{Fields: &head.Fields}
	text, found := headers.Value(parentHeader, 0)
	if _, twice := headers.Value(parentHeader, 1); !found || twice {
		return trace.SpanContext{}, false
	}
	parent, ok := traceParent(text)
	if !ok {
		return trace.SpanContext{}, false
	}
	parent.TraceState = incomingState(headers)
	return trace.NewSpanContext(parent), true
}

// incomingState joins the lines of tracestate. An invalid one is dropped as a whole;
// the parent is used nevertheless, as the standard requires.
func incomingState(headers h1.Headers) trace.TraceState {
	joined := ""
	// Several lines are one list (RFC 9110, 5.3).
	for i := 0; ; i++ {
		value, ok := headers.Value(stateHeader, i)
		if !ok {
			break
		}
		if i > 0 {
			joined += ","
		}
		joined += value
		if len(joined) > maxState {
			return trace.TraceState{}
		}
	}
	state, err := trace.ParseTraceState(joined)
	if err != nil {
		return trace.TraceState{}
	}
	return state
}

// outgoing returns the edits that propagate the span to a backend. The client's own
// headers of these names are removed in any case.
func outgoing(span trace.SpanContext) ([]h1.Edit, error) {
	// Only the sampled flag is propagated; others are not defined for version 00.
	flags := "00"
	if span.IsSampled() {
		flags = "01"
	}
	parent, err := h1.SetField(parentHeader, "00-"+span.TraceID().String()+"-"+span.SpanID().String()+"-"+flags)
	if err != nil {
		return nil, err
	}
	state, err := h1.RemoveField(stateHeader)
	if text := span.TraceState().String(); err == nil && text != "" {
		state, err = h1.SetField(stateHeader, text)
	}
	return []h1.Edit{parent, state}, err
}
