package accesslog_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"slipway.dev/slipway/internal/edge/accesslog"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// hostile are values that a careless log would take for more than a value.
var hostile = []string{
	"plain", "a\nb", "a\r\nGET / HTTP/1.1", `a" 200 1 "`, `\`, `\"`, "\x00\x1b[2J", "\x7f", "\u0085\u009b31m", "\u2028\u2029", "\u202e\u2066",
	"\xff\xfe", "ä€😀", `{"a":1}`, "a b", "\t", strings.Repeat("é", 5000), "\ufffd", "<script>&",
}

// odd is a record with a value in every place that has one.
func odd(value string) *proxy.Record {
	return &proxy.Record{
		Connection: proxy.Connection{EntryPoint: value, Protocol: value},
		User:       value, Endpoint: value, Method: value, Host: value, Path: value, Reason: value,
		Rule:    &route.Rule{ID: route.ID{Kind: value, Namespace: value, Name: value, Variant: value}},
		Backend: &route.BackendID{Namespace: value, Name: value, Variant: value},
	}
}

func lineOf(t *testing.T, options accesslog.Options, record *proxy.Record) string {
	t.Helper()
	return must.Get(accesslog.LineOf(options, record))(t)
}

// checkLines holds a value to the promise: one line, which reads back.
func checkLines(t *testing.T, value string) {
	t.Helper()
	line := lineOf(t, accesslog.Options{Format: accesslog.FormatJSON}, odd(value))
	parsed := parseLine(t, line)
	for i, r := range line[:len(line)-1] {
		if r < 0x20 || r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029 || r == 0x202e {
			t.Fatalf("%U at %d of %q", r, i, line)
		}
	}
	if !utf8.ValidString(line) {
		t.Fatalf("not UTF-8: %q", line)
	}
	if got, _ := parsed["RequestPath"].(string); len(value) <= 4096 && got != strings.ToValidUTF8(onePerByte(value), "\ufffd") {
		t.Fatalf("%q became %q", value, got)
	}
	for _, format := range []accesslog.Format{accesslog.FormatCommon, accesslog.FormatGeneric} {
		line := lineOf(t, accesslog.Options{Format: format}, odd(value))
		if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
			t.Fatalf("not one line: %q", line)
		}
		for i := range len(line) - 1 {
			if c := line[i]; c < 0x20 || c >= 0x7f {
				t.Fatalf("byte %#x at %d of %q", c, i, line)
			}
		}
		quotes := map[accesslog.Format]int{accesslog.FormatCommon: 10, accesslog.FormatGeneric: 6}[format]
		if got := strings.Count(line, `"`); got != quotes {
			t.Fatalf("%d quotes in %q", got, line)
		}
		if got := len(strings.Fields(line[:strings.IndexByte(line, '"')])); got != 5 {
			t.Fatalf("%d words before the request in %q", got, line)
		}
	}
}

// onePerByte makes each byte that is not UTF-8 a run of its own, as the log
// replaces them one by one.
func onePerByte(value string) string {
	var b strings.Builder
	for _, r := range value {
		b.WriteRune(r)
	}
	return b.String()
}

func TestHostileValues(t *testing.T) {
	for _, value := range hostile {
		checkLines(t, value)
	}
}

func TestLongValue(t *testing.T) {
	got := object(t, accesslog.Options{}, odd(strings.Repeat("x", 100000)))
	if path := got["RequestPath"].(string); len(path) != 4096+3 || !strings.HasSuffix(path, "x...") {
		t.Errorf("%d bytes", len(path))
	}
}

func FuzzLine(f *testing.F) {
	for _, value := range hostile {
		f.Add(value)
	}
	f.Fuzz(func(t *testing.T, value string) { checkLines(t, value) })
}

// FuzzHeaders: headers that the edge accepts become keys and values, each once.
func FuzzHeaders(f *testing.F) {
	f.Add("X-A", "1", "X-a", "2")
	f.Add("authorization", "Bearer canary", "AUTHORIZATION", "canary")
	f.Add("X-\xff", "\xe4", "!#$%&'*+.^`|~", "\x80\x9b")
	f.Fuzz(func(t *testing.T, name1, value1, name2, value2 string) {
		text := "GET / HTTP/1.1\r\nHost: a\r\n" + name1 + ": " + value1 + "\r\n" + name2 + ": " + value2 + "\r\n\r\n"
		record := &proxy.Record{}
		if record.Head = tryHead(text); record.Head == nil {
			return
		}
		line := lineOf(t, accesslog.Options{Format: accesslog.FormatJSON, FieldMode: accesslog.Drop, HeaderMode: accesslog.Keep}, record)
		parsed := parseLine(t, line)
		keys := json.NewDecoder(strings.NewReader(line))
		seen := 0
		for keys.More() {
			if _, err := keys.Token(); err != nil {
				break
			}
			seen++
		}
		// The brace, and a key and a value for each.
		if want := 1 + 2*len(parsed); seen != want {
			t.Fatalf("%d tokens for %d keys in %q", seen, len(parsed), line)
		}
		for name, value := range parsed {
			if strings.EqualFold(name, "request_authorization") && value != "REDACTED" {
				t.Fatalf("%s: %v", name, value)
			}
		}
	})
}
