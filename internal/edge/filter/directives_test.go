package filter_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// directing makes the chain of a rule with directives.
func directing(t testing.TB, text string) *filter.Chain {
	t.Helper()
	rule := &route.Rule{ID: route.ID{Namespace: "ns", Name: "app"}, Host: "a.example", Directives: new(route.Directives)}
	must.Do(t, json.Unmarshal([]byte(text), rule.Directives))
	deps := everything()
	deps.Counters = filter.NewCounters(start)
	chain := must.Get(deps.CompileRule(rule))(t)
	return &chain
}

// TestDirectiveBounds: values that grow, and paths that are matched again without end,
// end the request.
func TestDirectiveBounds(t *testing.T) {
	double := `{"set": {"variable": "a", "value": [{"variable": "a"}, {"variable": "a"}, {"text": "x"}]}}`
	chain := directing(t, `{"steps": [`+strings.TrimSuffix(strings.Repeat(double+",", 60), ",")+`]}`)
	if r := begin(t, chain, get("/")); r.status() != 500 || r.answer.Reason != "DirectiveValueTooLong" {
		t.Errorf("a value that grows is %+v", r.answer)
	}
	// Each value is small, and all together are not.
	var many []string
	for i := range 60 {
		many = append(many, fmt.Sprintf(`{"set": {"variable": "v%d", "value": [{"variable": "http_x"}]}}`, i))
	}
	chain = directing(t, `{"steps": [`+strings.Join(many, ",")+`]}`)
	if r := begin(t, chain, get("/", "X: "+strings.Repeat("x", 6000))); r.status() != 500 {
		t.Errorf("many values are %+v", r.answer)
	}
	if r := begin(t, chain, get("/", "X: x")); r.status() != 0 {
		t.Errorf("many small values are %+v", r.answer)
	}

	chain = directing(t, `{"steps": [{"rewrite": {"regexp": "^(.*)$", "path": [{"variable": "1"}, {"text": "/x"}], "then": "match"}}]}`)
	r := begin(t, chain, get("/a"))
	for again := 0; r.answer == filter.Rerouted; again++ {
		if again > 20 {
			t.Fatal("the request is matched again and again")
		}
		r.x.Restart(chain.Marks())
		r.ran, r.answer = chain.Request(&r.x)
	}
	if r.status() != 500 || r.answer.Reason != "RewriteLoop" || string(r.x.Path) != "/a"+strings.Repeat("/x", 11) {
		t.Errorf("a loop is %+v at %s", r.answer, r.x.Path)
	}
}

// TestDirectivesAreSafe: values of a client get no further than their header, query or
// URL.
func TestDirectivesAreSafe(t *testing.T) {
	chain := directing(t, `{"steps": [{"set": {"variable": "args", "value": [{"text": "a="}, {"variable": "http_x"}]}}],
		"request": [{"name": "X-Copy", "value": [{"variable": "http_x"}]}]}`)
	r := begin(t, chain, get("/p?q", "X: a b#c\xff HTTP/1.1"))
	if head := r.forwarded(t, false); !strings.HasPrefix(head, "GET /p?a=a%20b%23c%FF%20HTTP/1.1 HTTP/1.1\n") {
		t.Errorf("the backend gets\n%s", head)
	}
	chain = directing(t, `{"steps": [{"return": {"status": 302, "hasText": true, "text": [{"variable": "http_x"}]}}]}`)
	r = begin(t, chain, get("/", "X: //other.example/ x"))
	if head := r.replied(t, "HTTP/1.1 302 Found\nContent-Length: 0\n\n"); !strings.Contains(head, "Location: http://a.example//other.example/%20x\n") {
		t.Errorf("the client gets\n%s", head)
	}
	chain = directing(t, `{"steps": [{"rewrite": {"regexp": "^/(.*)$", "path": [{"text": "/."}, {"variable": "1"}], "then": "serve"}}]}`)
	if r = begin(t, chain, get("/.")); r.status() != 0 && r.status() != 400 {
		t.Errorf("%+v", r.answer)
	}
	if r = begin(t, chain, get("/./x")); strings.Contains(string(r.x.Path), "/../") {
		t.Errorf("the path is %s", r.x.Path)
	}
	// OPTIONS * has no path, and must not get values of the request before it.
	chain = directing(t, `{"steps": [{"set": {"variable": "a", "value": [{"variable": "http_x"}]}}], "response": {"add": [{"name": "X-A", "value": [{"variable": "a"}]}]}}`)
	r = begin(t, chain, get("/", "X: secret"))
	r.finish(200)
	limits := h1.DefaultLimits()
	r.x.Begin(parse(t, "OPTIONS * HTTP/1.1\nHost: a.example\n\n", limits), chain.Marks())
	r.ran, r.answer = chain.Request(&r.x)
	r.finish(200)
	if head := r.replied(t, "HTTP/1.1 200 OK\nContent-Length: 0\n\n"); strings.Contains(head, "secret") {
		t.Errorf("the client gets\n%s", head)
	}
	// Neither does the next request.
	r.x.Begin(parse(t, get("/"), limits), chain.Marks())
	r.ran, r.answer = chain.Request(&r.x)
	r.finish(200)
	if head := r.replied(t, "HTTP/1.1 200 OK\nContent-Length: 0\n\n"); strings.Contains(head, "X-A") {
		t.Errorf("the client gets\n%s", head)
	}
}

// TestDirectivesAmongPolicies: policies before the directives come first, and a trailer
// cannot take the place of a header.
func TestDirectivesAmongPolicies(t *testing.T) {
	rule := &route.Rule{
		Policies: policiesOf(t, `{"redirectRegexp": {"regexp": "^.*/first$", "replacement": "https://b.example/"}}`, `{"redirectScheme": {"scheme": "https"}}`),
		Directives: &route.Directives{
			Behind: 1, Steps: []route.DirectiveStep{{Return: &route.DirectiveReturn{Status: 418}}}, Request: []route.TextHeader{{Name: "X-Own"}},
		},
	}
	deps := everything()
	deps.Counters = filter.NewCounters(start)
	chain := must.Get(deps.CompileRule(rule))(t)
	if r := begin(t, &chain, get("/first")); r.status() != 307 {
		t.Errorf("the policy before is %+v", r.answer)
	}
	if r := begin(t, &chain, get("/")); r.status() != 418 {
		t.Errorf("the directives are %+v", r.answer)
	}
	if !chain.Guards([]byte("x-own")) {
		t.Error("a trailer can take the place of X-Own")
	}
	rule.Directives.Steps[0].Return.Status = 99
	if _, err := deps.CompileRule(rule); err == nil {
		t.Error("an invalid status is compiled")
	}
}

// BenchmarkDirectives measures a rule with a few directives.
func BenchmarkDirectives(b *testing.B) {
	chain := directing(b, `{"steps": [{"if": {"variable": "http_x", "operator": "matches", "regexp": "^a(.*)$", "steps": 1}}, {"set": {"variable": "v", "value": [{"variable": "1"}]}},
		{"rewrite": {"regexp": "^/app/(.*)$", "path": [{"text": "/"}, {"variable": "1"}], "then": "serve"}}], "request": [{"name": "X-V", "value": [{"variable": "v"}]}]}`)
	head := parse(b, get("/app/x", "X: abc"), h1.DefaultLimits())
	var x filter.Exchange
	b.ReportAllocs()
	for b.Loop() {
		x.Begin(head, chain.Marks())
		if _, local := chain.Request(&x); local != nil {
			b.Fatal(local)
		}
	}
}
