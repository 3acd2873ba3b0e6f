package otlp_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe/otlp"
	"slipway.dev/slipway/internal/observe/otlp/otlptest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newLogs(t *testing.T, endpoint string, log *slog.Logger) *otlp.Logs {
	t.Helper()
	return must.Get(otlp.NewLogs(otlp.LogOptions{
		Collector:   otlp.Collector{Endpoint: endpoint, Headers: secret.New("X-Key=canary")},
		ServiceName: "tests", Version: "v1", Log: log,
	}))(t)
}

func emit(logs *otlp.Logs, from, to int) {
	for n := from; n < to; n++ {
		logs.Emit(otlp.Record{At: time.Unix(1, 0), Severity: otlp.SeverityInfo, Event: "e", Body: fmt.Sprint(n), Attributes: [][2]string{{"a", "b"}, {"empty", ""}}})
	}
}

func closeLogs(t *testing.T, logs *otlp.Logs) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return logs.Close(ctx)
}

// inOrder checks that the records have the bodies 0 to count.
func inOrder(t *testing.T, r *otlptest.Receiver, count int) {
	t.Helper()
	records := r.Records()
	if len(records) != count {
		t.Fatalf("%d records, want %d", len(records), count)
	}
	for n, record := range records {
		if record[".body"] != fmt.Sprint(n) {
			t.Fatalf("record %d is %v", n, record)
		}
	}
}

// All records arrive in order, with the headers of the collector.
func TestLogs(t *testing.T) {
	r := otlptest.New(t, "")
	logs := newLogs(t, r.URL, slog.New(slog.DiscardHandler))
	emit(logs, 0, 1)
	programs.Until(t, "a record that was sent without a Close", func() bool { return len(r.Records()) == 1 })
	emit(logs, 1, 1234)
	must.Do(t, closeLogs(t, logs))
	inOrder(t, r, 1234)
	record := r.Records()[0]
	if _, found := record["empty"]; found || record["a"] != "b" || record[".event"] != "e" || record[".service"] != "tests" || record[".severity"] != "SEVERITY_NUMBER_INFO" {
		t.Errorf("got %v", record)
	}
	if got := r.Headers()[0].Get("X-Key"); got != "canary" {
		t.Errorf("the header is %q", got)
	}
	if sent, lost := logs.Stats(); sent != 1234 || lost != 0 {
		t.Errorf("%d sent, %d lost", sent, lost)
	}
}

// A collector that is away or busy gets the records when it is back.
func TestLogsWait(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := listener.Addr().String()
	_ = listener.Close()
	var messages programs.Output
	logs := newLogs(t, "http://"+address, slog.New(slog.NewTextHandler(&messages, nil)))
	emit(logs, 0, 10)
	programs.Until(t, "a failure in the log", func() bool { return strings.Contains(messages.String(), "export of log records failed") })
	r := otlptest.New(t, address)
	r.Respond(http.StatusServiceUnavailable)
	programs.Until(t, "a request to the busy collector", func() bool { return len(r.Headers()) > 0 })
	emit(logs, 10, 20)
	r.Respond(http.StatusOK)
	programs.Until(t, "all records", func() bool { return len(r.Records()) == 20 })
	must.Do(t, closeLogs(t, logs))
	inOrder(t, r, 20)
	if strings.Contains(messages.String(), "canary") {
		t.Errorf("the log has the credentials:\n%s", &messages)
	}
}

// What a collector refuses is counted and not sent again; what does not fit the
// queue is dropped, the oldest first.
func TestLogsAreLost(t *testing.T) {
	r := otlptest.New(t, "")
	r.Respond(http.StatusBadRequest)
	logs := newLogs(t, r.URL, slog.New(slog.DiscardHandler))
	emit(logs, 0, 3)
	programs.Until(t, "the refused records", func() bool { _, lost := logs.Stats(); return lost == 3 })
	if err := closeLogs(t, logs); err != nil {
		t.Errorf("nothing was left: %v", err)
	}
	r.Respond(http.StatusServiceUnavailable)
	logs = newLogs(t, r.URL, slog.New(slog.DiscardHandler))
	emit(logs, 0, 30_000)
	if _, lost := logs.Stats(); lost < 30_000-10_000-500 || lost > 30_000-10_000 {
		t.Errorf("%d are lost", lost)
	}
	if err := closeLogs(t, logs); err == nil || !strings.Contains(err.Error(), "did not accept the last") {
		t.Errorf("the end: %v", err)
	}
	if sent, lost := logs.Stats(); sent != 0 || lost != 30_000 {
		t.Errorf("%d sent, %d lost", sent, lost)
	}
}

// A collector cannot send the credentials elsewhere, nor hold up the end.
func TestLogsOfHostileCollector(t *testing.T) {
	other := otlptest.New(t, "")
	release := make(chan struct{})
	mux := http.NewServeMux()
	mux.Handle("/v1/logs", http.RedirectHandler(other.URL+"/v1/logs", http.StatusTemporaryRedirect))
	mux.HandleFunc("/slow", func(http.ResponseWriter, *http.Request) { <-release })
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(listener) }()
	defer func() { close(release); _ = server.Close() }()
	logs := newLogs(t, "http://"+listener.Addr().String(), slog.New(slog.DiscardHandler))
	emit(logs, 0, 1)
	_ = closeLogs(t, logs)
	if len(other.Headers()) != 0 {
		t.Error("the redirect was followed")
	}
	logs = newLogs(t, "http://"+listener.Addr().String()+"/slow", slog.New(slog.DiscardHandler))
	emit(logs, 0, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := logs.Close(ctx); err == nil {
		t.Error("a record that was not sent is no error")
	}
}
