package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// logPeriod is the least time between two messages about a collector that does not
// accept spans.
const logPeriod = time.Minute

// exporter counts exported spans and logs failures. It never returns an error,
// because the SDK would write it to standard error.
type exporter struct {
	sdktrace.SpanExporter
	client       *http.Client
	log          *slog.Logger
	sent, failed counted
	// life ends with cut, which cancels the export that runs.
	life context.Context
	cut  context.CancelFunc

	mu       sync.Mutex
	loggedAt time.Time
}

// ExportSpans implements [sdktrace.SpanExporter]: it sends one batch.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	// cut has to end an export that waits for a collector.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.life, cancel)()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		e.sent.Add(uint64(len(spans)))
		return nil
	}
	e.failed.Add(uint64(len(spans)))
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now(); now.Sub(e.loggedAt) >= logPeriod {
		e.loggedAt = now
		e.log.Warn("export of spans failed: check tracing.otlp.http.endpoint", "spans", len(spans), "error", err)
	}
	return nil
}

// parsePairs parses name=value pairs.
func parsePairs(list []string) ([][2]string, error) {
	var pairs [][2]string
	for _, item := range list {
		name, value, found := strings.Cut(item, "=")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is not of the form name=value", item)
		}
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs, nil
}
