package accesslog_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"slipway.dev/slipway/internal/edge/accesslog"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/route"
)

func TestJSON(t *testing.T) {
	record := sample(t)
	got := object(t, accesslog.Options{}, record)
	want := map[string]any{
		"StartUTC": "2026-01-31T12:30:45.123456789Z", "entryPointName": "websecure", "ClientHost": "192.0.2.7", "ClientAddr": "10.0.0.1:4711",
		"ClientUsername": "alice b", "RequestMethod": "GET", "RequestScheme": "https", "RequestHost": "shop.example.com", "RequestPort": 8443.,
		"RequestPath": "/cart/7", "RequestQuery": "a=b", "RequestProtocol": "HTTP/2", "RequestContentSize": 11.,
		"RouterName": record.Rule.ID.String(), "ServiceName": record.Backend.String(), "ServiceAddr": "10.1.2.3:8080", "OriginStatus": 200.,
		"OriginDuration": 1e9, "OriginContentSize": 33., "DownstreamStatus": 200., "DownstreamContentSize": 22., "Duration": 1.5e9,
		"Overhead": 5e8, "RetryAttempts": 1., "RequestCount": 1., "TLSVersion": "TLS 1.3", "TLSCipher": "TLS_AES_128_GCM_SHA256",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	for name := range got {
		if !slices.Contains(accesslog.FieldNames(), name) {
			t.Errorf("%s is not among the names", name)
		}
	}
	// What a record does not have is not in the line.
	got = object(t, accesslog.Options{}, &proxy.Record{Connection: proxy.Connection{EntryPoint: "web"}, Status: 400, Reason: "bad", Upgraded: true})
	if got["Reason"] != "bad" || got["Upgraded"] != true || got["RouterName"] != nil || got["ClientHost"] != nil || got["OriginStatus"] != nil {
		t.Errorf("got %v", got)
	}
}

func TestCommon(t *testing.T) {
	record := sample(t)
	for _, c := range []struct {
		name    string
		options accesslog.Options
		want    string
	}{
		{"common", accesslog.Options{},
			`192.0.2.7 - alice\x20b [31/Jan/2026:12:30:45 +0000] "GET /cart/7?a=b HTTP/2" 200 22 "-" "-" 1 "Ingress shop/cart[1][2] canary" "10.1.2.3:8080" 1500ms`},
		{"with headers", accesslog.Options{HeaderMode: accesslog.Keep},
			`192.0.2.7 - alice\x20b [31/Jan/2026:12:30:45 +0000] "GET /cart/7?a=b HTTP/2" 200 22 "https://x/" "probe \x221\x22" 1 "Ingress shop/cart[1][2] canary" "10.1.2.3:8080" 1500ms`},
		{"generic", accesslog.Options{Format: accesslog.FormatGeneric, Headers: map[string]accesslog.Mode{"User-Agent": accesslog.Redact}},
			`192.0.2.7 - alice\x20b [31/Jan/2026:12:30:45 +0000] "GET /cart/7?a=b HTTP/2" 200 22 "-" "REDACTED"`},
		{"dropped", accesslog.Options{FieldMode: accesslog.Drop},
			`- - - [-] "- - -" - - "-" "-" - "-" "-" -ms`},
		{"without the query", accesslog.Options{Format: accesslog.FormatGeneric, Fields: map[string]accesslog.Mode{"requestquery": accesslog.Drop, "ClientUsername": accesslog.Drop}},
			`192.0.2.7 - - [31/Jan/2026:12:30:45 +0000] "GET /cart/7 HTTP/2" 200 22 "-" "-"`},
	} {
		if got := written(t, c.options, record); got != c.want+"\n" {
			t.Errorf("%s:\n got %swant %s", c.name, got, c.want)
		}
	}
	tcp := &proxy.Record{
		Connection: proxy.Connection{EntryPoint: "db"}, Timing: proxy.Timing{Began: record.Began}, Traffic: proxy.Traffic{Sent: 5},
		TCPRoute: &route.TCPRoute{ID: route.TCPRouteID{Name: "pg"}}, Client: netip.MustParseAddr("192.0.2.7"), Endpoint: "10.0.0.9:5432",
	}
	if got, want := written(t, accesslog.Options{}, tcp), `192.0.2.7 - - [31/Jan/2026:12:30:45 +0000] "- - -" 0 5 "-" "-" 1 "pg[0][0]" "10.0.0.9:5432" 0ms`+"\n"; got != want {
		t.Errorf("TCP:\n got %swant %s", got, want)
	}
}

// TestFields: what becomes of fields by their modes.
func TestFields(t *testing.T) {
	got := object(t, accesslog.Options{FieldMode: accesslog.Drop, Fields: map[string]accesslog.Mode{"routername": accesslog.Keep, "Duration": accesslog.Keep}}, sample(t))
	if len(got) != 2 || got["RouterName"] == nil || got["Duration"] == nil {
		t.Errorf("got %v", got)
	}
	got = object(t, accesslog.Options{FieldMode: accesslog.Drop}, sample(t))
	if len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

// TestHeaders: what becomes of headers by their modes. Credentials are never
// written, whatever the modes are.
func TestHeaders(t *testing.T) {
	only := func(options accesslog.Options) map[string]any {
		options.FieldMode = accesslog.Drop
		return object(t, options, sample(t))
	}
	if got := only(accesslog.Options{}); len(got) != 0 {
		t.Errorf("by default: %v", got)
	}
	all := map[string]any{
		"request_Host": "shop.example.com:8443", "request_User-Agent": `probe "1"`, "request_Referer": "https://x/", "request_Authorization": "REDACTED",
		"request_Cookie": "REDACTED", "request_X-Api-Key": "REDACTED", "request_X-Twice": "1, 2",
		"origin_Content-Length": "5", "origin_Set-Cookie": "REDACTED", "origin_Server": "app",
	}
	if got := only(accesslog.Options{HeaderMode: accesslog.Keep}); !maps.Equal(got, all) {
		t.Errorf("all kept: %v", got)
	}
	named := map[string]accesslog.Mode{"AUTHORIZATION": accesslog.Keep, "cookie": accesslog.Drop, "X_Api_Key": accesslog.Keep, "user-agent": accesslog.Keep, "server": accesslog.Redact, "set-cookie": accesslog.Keep}
	want := map[string]any{
		"request_Authorization": "REDACTED", "request_X-Api-Key": "REDACTED", "request_User-Agent": `probe "1"`,
		"origin_Server": "REDACTED", "origin_Set-Cookie": "REDACTED",
	}
	if got := only(accesslog.Options{Headers: named}); !maps.Equal(got, want) {
		t.Errorf("some named: %v", got)
	}
	for _, format := range []accesslog.Format{accesslog.FormatJSON, accesslog.FormatCommon, accesslog.FormatGeneric} {
		options := accesslog.Options{Format: format, HeaderMode: accesslog.Keep, Headers: map[string]accesslog.Mode{"authorization": accesslog.Keep, "cookie": accesslog.Keep}}
		if text := written(t, options, sample(t)); strings.Contains(text, "canary=") || strings.Contains(text, "Bearer") {
			t.Errorf("%s shows a credential: %s", format, text)
		}
	}
}

func TestFilters(t *testing.T) {
	record := func(status, attempts int, took time.Duration) *proxy.Record {
		return &proxy.Record{Timing: proxy.Timing{Duration: took}, Status: status, Attempts: attempts}
	}
	records := []*proxy.Record{record(200, 1, time.Millisecond), record(404, 1, time.Millisecond), record(503, 3, time.Millisecond), record(302, 1, time.Second), record(0, 1, 0)}
	for _, c := range []struct {
		name    string
		filters accesslog.Filters
		want    []string // statuses
	}{
		{"none", accesslog.Filters{}, []string{"200", "404", "503", "302", "0"}},
		{"statuses", accesslog.Filters{StatusCodes: []string{"404", "500-599"}}, []string{"404", "503"}},
		{"no answer", accesslog.Filters{StatusCodes: []string{"0"}}, []string{"0"}},
		{"retries", accesslog.Filters{RetryAttempts: true}, []string{"503"}},
		{"long", accesslog.Filters{MinDuration: 10 * time.Millisecond}, []string{"302"}},
		{"one is enough", accesslog.Filters{StatusCodes: []string{"200"}, RetryAttempts: true, MinDuration: 10 * time.Millisecond}, []string{"200", "503", "302"}},
	} {
		log, out := newLog(t, accesslog.Options{Format: accesslog.FormatGeneric, Filters: c.filters})
		for _, r := range records {
			log.Record(r)
		}
		closeLog(t, log)
		var got []string
		for line := range strings.Lines(out.String()) {
			got = append(got, strings.Fields(line)[8])
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		checkMetrics(t, log)
		stats := log.Stats()
		if want := (accesslog.Stats{Requests: 5, Written: uint64(len(c.want)), Filtered: uint64(5 - len(c.want))}); stats != want {
			t.Errorf("%s: %+v, want %+v", c.name, stats, want)
		}
	}
}

// checkMetrics: the metrics are the counters.
// A rule can ask for silence.
func TestUnrecorded(t *testing.T) {
	quiet := sample(t)
	rule := *quiet.Rule
	rule.Unrecorded.AccessLog = true
	quiet.Rule = &rule
	if got := written(t, accesslog.Options{}, quiet, sample(t)); strings.Count(got, "\n") != 1 {
		t.Errorf("of two requests, one of them silent, it wrote\n%s", got)
	}
}

func checkMetrics(t *testing.T, log *accesslog.Log) {
	t.Helper()
	registry := prometheus.NewRegistry()
	log.Register(registry)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || len(families[0].Metric) != 4 {
		t.Fatalf("%v, %v", families, err)
	}
	var sum float64
	for _, metric := range families[0].Metric {
		sum += metric.GetCounter().GetValue()
	}
	if sum != float64(log.Stats().Requests) {
		t.Errorf("the metrics add up to %v: %v", sum, families)
	}
}

func TestWrongOptions(t *testing.T) {
	for _, c := range []struct {
		options accesslog.Options
		want    string
	}{
		{accesslog.Options{Format: "xml"}, `"xml" is unknown: choose common, genericCLF or json`},
		{accesslog.Options{FieldMode: "redact"}, `choose keep or drop`},
		{accesslog.Options{Fields: map[string]accesslog.Mode{"Clienthots": "drop"}}, `no field "Clienthots": choose from StartUTC`},
		{accesslog.Options{Fields: map[string]accesslog.Mode{"Duration": "hide"}}, `mode of Duration is "hide"`},
		{accesslog.Options{HeaderMode: "hide"}, `choose keep, drop or redact`},
		{accesslog.Options{Headers: map[string]accesslog.Mode{"X": "hide"}}, `the header X is "hide"`},
		{accesslog.Options{Filters: accesslog.Filters{StatusCodes: []string{"5xx"}}}, `"5xx": write 404 or 500-599`},
		{accesslog.Options{Filters: accesslog.Filters{StatusCodes: []string{"500-400"}}}, `write 404 or 500-599`},
		{accesslog.Options{Filters: accesslog.Filters{StatusCodes: []string{"999"}}}, `write 404 or 500-599`},
		{accesslog.Options{FilePath: t.TempDir()}, `check accessLog.filePath`},
	} {
		if _, err := accesslog.New(c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c.options, err)
		}
	}
}
