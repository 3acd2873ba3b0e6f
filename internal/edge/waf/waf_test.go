package waf_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/edge/waf"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// firewall is an edge with the policy, before a backend.
type firewall struct {
	*edgetest.Proxy
	log bytes.Buffer

	mu sync.Mutex
	// seen are the numbers of the rules that matched, per request.
	seen    [][]int
	denied  int
	skipped int
	// over has an element for each request that is over, which it is after its response.
	over chan struct{}
}

// start runs the edge with directives, before a backend that the handler is.
func start(t testing.TB, directives string, handler http.HandlerFunc, further ...route.Policy) *firewall {
	t.Helper()
	f := &firewall{over: make(chan struct{}, 10_000)}
	compiler := waf.New(waf.Options{Log: slog.New(slog.NewTextHandler(&lockedWriter{f: f}, nil)), Observe: f.observe})
	policies := append([]route.Policy{{WAF: &route.WAF{Directives: directives, IDHeader: "X-Request-ID"}}}, further...)
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, handler)}, policies...)
	f.Proxy = edgetest.StartProxy(t, table, proxy.Accepted{}, func(c *proxy.Config) { c.WAF = compiler.Compile })
	return f
}

type lockedWriter struct{ f *firewall }

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	return w.f.log.Write(b)
}

func (f *firewall) observe(outcome *waf.Outcome) {
	var rules []int
	for _, rule := range outcome.Matched() {
		rules = append(rules, rule.Rule().ID())
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.over <- struct{}{} }()
	f.seen = append(f.seen, rules)
	if outcome.Denied {
		f.denied++
	}
	if outcome.Skipped {
		f.skipped++
	}
}

// wait waits until a number of requests are over.
func (f *firewall) wait(t testing.TB, requests int) {
	t.Helper()
	for range requests {
		select {
		case <-f.over:
		case <-time.After(30 * time.Second):
			t.Fatal("a request is not over")
		}
	}
}

// text returns the log.
func (f *firewall) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.log.String()
}

// status sends a request and returns the status of its response.
func (f *firewall) status(t testing.TB, method, path, body string, lines ...string) int {
	t.Helper()
	wire := edgetest.Dial(t, f.Address)
	if method == "POST" {
		response, _ := wire.Post(path, body, lines...)
		return response.StatusCode
	}
	response, _ := wire.Get(path, lines...)
	return response.StatusCode
}

const (
	secured = "Include @recommended\nSecRuleEngine On\nInclude @owasp_crs"
	attack  = "/?id=1%27%20or%20%271%27=%271%27%20union%20select%20password%20from%20users--"
)

// TestCoreRules: an attack is denied with 403, and with DetectionOnly, the default, it is
// only reported. No value of the request is in the log.
func TestCoreRules(t *testing.T) {
	honest := []string{"User-Agent: test", "Accept: */*"}
	on := start(t, secured, edgetest.Echo)
	if status := on.status(t, "GET", "/?name=anna", "", honest...); status != 200 {
		t.Errorf("an honest request got %d", status)
	}
	if status := on.status(t, "GET", attack, "", append(honest, "X-Request-ID: request-7")...); status != 403 {
		t.Errorf("an attack got %d", status)
	}
	if status := on.status(t, "POST", "/", "q=<script>alert(1)</script>&password=hunter2", append(honest, "Content-Type: application/x-www-form-urlencoded")...); status != 403 {
		t.Errorf("an attack in the body got %d", status)
	}
	on.wait(t, 3)
	for _, want := range []string{"942100", "request-7", "denied=true", "status=403"} {
		if !strings.Contains(on.text(), want) {
			t.Errorf("the log lacks %s:\n%s", want, on.text())
		}
	}
	for _, secret := range []string{"hunter2", "union", "password"} {
		if strings.Contains(on.text(), secret) {
			t.Errorf("the log has %s:\n%s", secret, on.text())
		}
	}
	reported := start(t, "Include @recommended\nInclude @owasp_crs", edgetest.Echo)
	status := reported.status(t, "GET", attack, "", honest...)
	if reported.wait(t, 1); status != 200 || !strings.Contains(reported.text(), "942100") {
		t.Errorf("with DetectionOnly an attack got %d, and the log has\n%s", status, reported.text())
	}
	off := start(t, "SecRuleEngine Off\nInclude @owasp_crs", edgetest.Echo)
	status = off.status(t, "GET", attack, "", honest...)
	if off.wait(t, 1); status != 200 || off.text() != "" {
		t.Errorf("with Off an attack got %d, and the log has\n%s", status, off.text())
	}
}

// TestActions: the status of a rule is that of the response, a redirect has its place,
// and exceptions count wherever they stand.
func TestActions(t *testing.T) {
	f := start(t, `SecRuleEngine On
SecRuleRemoveById 3
SecRule ARGS:a "@streq 1" "id:1,phase:1,deny,status:418"
SecRule ARGS:a "@streq 2" \
    # a comment in a rule
    "id:2,phase:1,redirect:https://other.example/,status:302"
SecRule ARGS:a "@streq 3" "id:3,phase:1,deny"
SecRule REQUEST_HEADERS:X-Drop "@rx ." "id:4,phase:1,drop"`, edgetest.Echo)
	wire := edgetest.Dial(t, f.Address)
	for _, c := range []struct {
		path, location string
		status         int
		lines          []string
	}{
		{"/?a=1", "", 418, nil}, {"/?a=2", "https://other.example/", 302, nil}, {"/?a=3", "", 200, nil}, {"/?a=4", "", 200, nil},
		{"/", "", 403, []string{"X-Drop: 1"}},
	} {
		response, _ := wire.Get(c.path, c.lines...)
		if response.StatusCode != c.status || response.Header.Get("Location") != c.location {
			t.Errorf("%s: %d %s, want %d %s", c.path, response.StatusCode, response.Header.Get("Location"), c.status, c.location)
		}
	}
}

// TestRequestBodies: bodies are inspected up to the limit. A larger one gets 413, or
// passes if matches are only reported.
func TestRequestBodies(t *testing.T) {
	const rules = `SecRequestBodyAccess On
SecRequestBodyLimit 2000
SecRule ARGS:a "@endsWith bad" "id:1,phase:2,deny"`
	var got int
	backend := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = len(body)
	}
	form := "Content-Type: application/x-www-form-urlencoded"
	long := "a=" + strings.Repeat("x", 1500)
	on := start(t, "SecRuleEngine On\n"+rules, backend)
	for _, c := range []struct {
		body   string
		status int
	}{{"a=good", 200}, {"a=bad", 403}, {long, 200}, {long + "bad", 403}, {long + long, 413}} {
		got = -1
		if status := on.status(t, "POST", "/", c.body, form); status != c.status || status == 200 && got != len(c.body) {
			t.Errorf("a body of %d: %d with %d at the backend, want %d", len(c.body), status, got, c.status)
		}
	}
	reported := start(t, rules, backend)
	status := reported.status(t, "POST", "/", long+long+"bad", form)
	if reported.wait(t, 1); status != 200 || got != 2*len(long)+3 || reported.skipped != 1 {
		t.Errorf("a body over the limit: %d with %d at the backend, %d skipped", status, got, reported.skipped)
	}
}

// TestForms: fields of forms are inspected up to a limit of their own, which files in them
// do not count for.
func TestForms(t *testing.T) {
	f := start(t, `SecRuleEngine On
SecRequestBodyAccess On
SecRequestBodyNoFilesLimit 2000
SecRule ARGS:a "@endsWith bad" "id:1,phase:2,deny"`, func(http.ResponseWriter, *http.Request) {})
	part := func(name, text string) string {
		return "--line\r\nContent-Disposition: form-data; " + name + "\r\n\r\n" + text + "\r\n"
	}
	long := strings.Repeat("x", 50_000)
	for name, c := range map[string]struct {
		body   string
		status int
	}{
		"field":      {part(`name="a"`, "good"), 200},
		"match":      {part(`name="a"`, "bad"), 403},
		"file":       {part(`name="f"; filename="f.txt"`, long) + part(`name="a"`, "good"), 200},
		"behind":     {part(`name="f"; filename="f.txt"`, long) + part(`name="a"`, "bad"), 403},
		"long field": {part(`name="a"`, long), 413},
		"fields":     {part(`name="a"`, long[:1500]) + part(`name="b"`, long[:1500]), 413},
		"no form":    {long, 413},
	} {
		if status := f.status(t, "POST", "/", c.body+"--line--\r\n", "Content-Type: multipart/form-data; boundary=line"); status != c.status {
			t.Errorf("%s: %d, want %d", name, status, c.status)
		}
	}
	if status := f.status(t, "POST", "/", "a="+long, "Content-Type: application/x-www-form-urlencoded"); status != 413 {
		t.Errorf("a form without files that is too large got %d", status)
	}
}

// TestResponses: the head and the start of the body are inspected before the client gets
// any of it, in all framings, and longer bodies arrive complete.
func TestResponses(t *testing.T) {
	const rules = `SecRuleEngine On
SecResponseBodyAccess On
SecResponseBodyMimeType text/plain
SecResponseBodyLimit 5000
SecRule RESPONSE_HEADERS:X-Leak "@rx ." "id:1,phase:3,deny,status:502"
SecRule RESPONSE_BODY "@contains secret" "id:2,phase:4,deny"`
	backend := func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		w.Header().Set("Content-Type", query.Get("type"))
		if query.Has("leak") {
			w.Header().Set("X-Leak", "1")
		}
		var size int
		fmt.Sscan(query.Get("size"), &size)
		body := query.Get("start") + strings.Repeat("0123456789", size/10) + query.Get("end")
		if query.Has("chunked") {
			for piece := range slices.Chunk([]byte(body), 1000) {
				w.Write(piece)
				w.(http.Flusher).Flush()
			}
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		io.WriteString(w, body)
	}
	for _, further := range [][]route.Policy{nil, {{Compression: &route.Compression{}}}, {{Buffering: &route.Buffering{MaxResponseBytes: 1 << 20}}}} {
		f := start(t, rules, backend, further...)
		for _, c := range []struct {
			query  string
			status int
			length int
		}{
			{"type=text/plain&start=public", 200, 6}, {"type=text/plain&start=secret", 403, 0}, {"type=text/plain&start=secret&chunked", 403, 0},
			{"type=text/plain&start=secret&size=100000", 403, 0}, {"type=text/plain&start=secret&size=100000&chunked", 403, 0},
			{"type=text/plain&size=100000", 200, 100000}, {"type=text/plain&size=100000&chunked", 200, 100000},
			{"type=text/plain&size=200000&end=secret&chunked", 200, 200006},
			{"type=image/png&start=secret", 200, 6}, {"type=text/plain&leak", 502, 0}, {"type=image/png&leak&size=100000", 502, 0},
		} {
			wire := edgetest.Dial(t, f.Address)
			response, body := wire.Get("/?" + c.query)
			if response.StatusCode != c.status || c.status == 200 && len(body) != c.length {
				t.Errorf("%s: %d with %d bytes, want %d with %d", c.query, response.StatusCode, len(body), c.status, c.length)
			}
			if c.status != 200 {
				if strings.Contains(body, "secret") {
					t.Errorf("%s: the client got %.100q", c.query, body)
				}
				continue
			}
			// The connection can be used again.
			if again, _ := wire.Get("/?type=text/plain&start=public"); again.StatusCode != 200 {
				t.Errorf("%s: the next request got %d", c.query, again.StatusCode)
			}
		}
	}
}

// TestRefused: rules that the engine cannot compile refuse the policy with what is wrong.
func TestRefused(t *testing.T) {
	compiler := waf.New(waf.Options{Log: slog.New(slog.DiscardHandler)})
	for directives, fragment := range map[string]string{
		`SecRule ARGS "@rx (" "id:1"`:                                                "cannot be compiled",
		`SecRule NOSUCH "@rx x" "id:1"`:                                              "cannot be compiled",
		`SecRule ARGS "@rx x" "id:1"` + "\n" + `SecRule ARGS "@rx y" "id:1"`:         "cannot be compiled",
		`SecRule ARGS "@pmFromFile /etc/passwd" "id:1"`:                              "@pmFromFile",
		`Include /etc/passwd`:                                                        "reads no files",
		"Include @owasp_crs\nSecDefaultAction \"phase:1,log,pass\"\nSecRuleEngine X": "SecRuleEngine",
	} {
		_, err := compiler.Compile(&route.WAF{Directives: directives})
		refused, ok := errors.AsType[*refusal.Refusal](err)
		if !ok || refused.Field != "directives" || !strings.Contains(refused.Message, fragment) {
			t.Errorf("%s: %v, want %s", directives, err, fragment)
		}
	}
}

// TestShared: policies with the same directives share a set of rules, whose memory is
// free when the last policy is gone, and the number of sets is bounded.
func TestShared(t *testing.T) {
	compiler := waf.New(waf.Options{Log: slog.New(slog.DiscardHandler)})
	rule := func(i int) string { return fmt.Sprintf(`SecRule ARGS "@streq %d" "id:%d,deny"`, i, i+1) }
	one, two := must.Get(compiler.Compile(&route.WAF{Directives: rule(0)}))(t), must.Get(compiler.Compile(&route.WAF{Directives: rule(0)}))(t)
	if !waf.SameRules(one, two) {
		t.Error("the same directives were compiled twice")
	}
	kept := []any{one, two}
	var err error
	for i := 1; err == nil && i < 1000; i++ {
		var made any
		made, err = compiler.Compile(&route.WAF{Directives: rule(i)})
		kept = append(kept, made)
	}
	if err == nil || !strings.Contains(err.Error(), "sets of rules") {
		t.Fatalf("the sets have no bound: %v", err)
	}
	runtime.KeepAlive(kept)
	clear(kept)
	runtime.GC()
	runtime.GC()
	if _, err := compiler.Compile(&route.WAF{Directives: rule(2000)}); err != nil {
		t.Errorf("the sets that no policy has are kept: %v", err)
	}
}

// TestLogLimit: a scan does not fill the log.
func TestLogLimit(t *testing.T) {
	f := start(t, "SecRuleEngine On\n"+`SecRule ARGS:a "@streq 1" "id:1,phase:1,deny,msg:'it is %{ARGS.a} here'"`, edgetest.Echo)
	wire := edgetest.Dial(t, f.Address)
	for range 300 {
		wire.Get("/?a=1")
	}
	f.wait(t, 300)
	lines := strings.Count(f.text(), "\n")
	if lines == 0 || lines > 200 {
		t.Errorf("300 requests gave %d lines", lines)
	}
	if !strings.Contains(f.text(), "it is %{ARGS.a} here") {
		t.Errorf("the message is not as it is written: %s", f.text())
	}
	if f.denied != 300 {
		t.Errorf("%d requests were observed", f.denied)
	}
}

// TestClass: the classes are few.
func TestClass(t *testing.T) {
	for rule, class := range map[int]string{942100: "942", 1: "custom", 899999: "custom", 1000000: "custom", 980170: "980"} {
		if got := waf.Class(rule); got != class {
			t.Errorf("%d is of class %s, want %s", rule, got, class)
		}
	}
}
