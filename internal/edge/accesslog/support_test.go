package accesslog_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/accesslog"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newLog opens a log, to an Output unless the options have a file.
func newLog(t testing.TB, options accesslog.Options) (*accesslog.Log, *programs.Output) {
	t.Helper()
	out := &programs.Output{}
	options.Stdout = out
	options.Log = cmp.Or(options.Log, slog.New(slog.DiscardHandler))
	log := must.Get(accesslog.New(options))(t)
	return log, out
}

func closeLog(t testing.TB, log *accesslog.Log) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := log.Close(ctx); err != nil {
		t.Error(err)
	}
}

// written is the text that records become.
func written(t testing.TB, options accesslog.Options, records ...*proxy.Record) string {
	t.Helper()
	log, out := newLog(t, options)
	for _, record := range records {
		log.Record(record)
	}
	closeLog(t, log)
	return out.String()
}

// object is the one JSON line that a record becomes.
func object(t testing.TB, options accesslog.Options, record *proxy.Record) map[string]any {
	t.Helper()
	options.Format = accesslog.FormatJSON
	return parseLine(t, written(t, options, record))
}

func parseLine(t testing.TB, line string) map[string]any {
	t.Helper()
	if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
		t.Fatalf("not one line: %q", line)
	}
	var parsed map[string]any
	if err := json.Unmarshal([]byte(line), &parsed); err != nil {
		t.Fatalf("%v: %q", err, line)
	}
	return parsed
}

func requestHead(t testing.TB, text string) *h1.Head {
	t.Helper()
	head, limits := &h1.Head{}, h1.DefaultLimits()
	if n, err := head.Parse([]byte(text), &limits); err != nil || n != len(text) {
		t.Fatalf("%q: %d, %v", text, n, err)
	}
	return head
}

func responseHead(t testing.TB, text string) *h1.ResponseHead {
	t.Helper()
	head, limits := &h1.ResponseHead{}, h1.DefaultLimits()
	head.Reset(h1.RequestInfo{})
	if n, err := head.Parse([]byte(text), &limits); err != nil || n != len(text) {
		t.Fatalf("%q: %d, %v", text, n, err)
	}
	return head
}

// sample is a record with everything in it.
func sample(t testing.TB) *proxy.Record {
	t.Helper()
	return &proxy.Record{
		Connection: proxy.Connection{
			EntryPoint: "websecure", Peer: netip.MustParseAddrPort("10.0.0.1:4711"),
			Protocol: "HTTP/2", TLS: true, TLSVersion: tls.VersionTLS13, CipherSuite: tls.TLS_AES_128_GCM_SHA256,
		},
		Timing:  proxy.Timing{Began: time.Date(2026, 1, 31, 12, 30, 45, 123456789, time.UTC), Duration: 1500 * time.Millisecond, Upstream: time.Second},
		Traffic: proxy.Traffic{Received: 11, Sent: 22, Origin: 33},
		Client:  netip.MustParseAddr("::ffff:192.0.2.7"), User: "alice b",
		Rule:    &route.Rule{ID: route.ID{Kind: "Ingress", Namespace: "shop", Name: "cart", Rule: 1, Path: 2, Variant: "canary"}},
		Backend: &route.BackendID{Namespace: "shop", Name: "cart", Port: 80, Variant: "tls"}, Endpoint: "10.1.2.3:8080",
		Method: "GET", Host: "shop.example.com", Path: "/cart/7", Status: 200, Attempts: 2,
		Head: requestHead(t, "GET /cart/7?a=b HTTP/1.1\r\nHost: shop.example.com:8443\r\nUser-Agent: probe \"1\"\r\nReferer: https://x/\r\n"+
			"Authorization: Bearer canary\r\nCookie: canary=1\r\nX-Api-Key: canary\r\nX-Twice: 1\r\nx-twice: 2\r\n\r\n"),
		Response: responseHead(t, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nSet-Cookie: canary=2\r\nServer: app\r\n\r\n"),
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}
