package filter_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is when the counters of all tests begin.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// testClient is who sends requests unless a test sets another address.
var testClient = netip.MustParseAddr("192.0.2.1")

// parse reads a request head in which lines may end in LF.
func parse(t testing.TB, raw string, limits h1.Limits) *h1.Head {
	t.Helper()
	raw = strings.ReplaceAll(strings.ReplaceAll(raw, "\r\n", "\n"), "\n", "\r\n")
	var head h1.Head
	n, err := head.Parse([]byte(raw), &limits)
	if err != nil || n != len(raw) {
		t.Fatalf("parse %q: %d, %v", raw, n, err)
	}
	return &head
}

// get is a request for a target, with more header lines.
func get(target string, lines ...string) string {
	return "GET " + target + " HTTP/1.1\nHost: a.example\n" + strings.Join(append(lines, "", ""), "\n")
}

// compile makes a chain that must be one.
func compile(t testing.TB, counters *filter.Counters, policies ...route.Policy) *filter.Chain {
	t.Helper()
	deps := everything()
	deps.Counters = counters
	chain := must.Get(deps.Compile(policies))(t)
	return &chain
}

// run is one exchange with a chain.
type run struct {
	x      filter.Exchange
	chain  *filter.Chain
	ran    int
	answer *filter.LocalResponse
}

// begin sends a request through the filters, as the proxy does. Options change
// the exchange first.
func begin(t testing.TB, chain *filter.Chain, raw string, options ...func(*filter.Exchange)) *run {
	t.Helper()
	limits := h1.DefaultLimits()
	limits.Hazards = ^normalize.Hazard(0)
	r := &run{chain: chain}
	r.x.Begin(parse(t, raw, limits), chain.Marks())
	r.x.Client, r.x.Now, r.x.ServerPort = testClient, start, 80
	for _, option := range options {
		option(&r.x)
	}
	r.ran, r.answer = chain.Request(&r.x)
	return r
}

// finish ends the request with a response: the filter's own when it has one.
func (r *run) finish(status int) {
	if r.answer != nil {
		status = r.answer.Status
	}
	r.chain.Response(&r.x, r.ran, status)
	r.chain.Done(&r.x, r.ran)
}

// status is that of the filter's response, 0 when the request would go to the backend.
func (r *run) status() int {
	if r.answer == nil {
		return 0
	}
	return r.answer.Status
}

// forwarded is the head that the backend gets.
func (r *run) forwarded(t testing.TB, trusted bool) string {
	t.Helper()
	plan := h1.ForwardPlan{Edits: r.x.RequestEdits, Peer: h1.Peer{Trusted: trusted}}
	if r.x.Rewritten() {
		plan.Target = r.x.AppendTarget(nil)
	}
	head, err := plan.AppendTo(nil, r.x.Head)
	if err != nil {
		t.Fatalf("forward: %v", err)
	}
	text := strings.ReplaceAll(string(head), "\r\n", "\n")
	// The header that every request gets is left out.
	return strings.Replace(text, "X-Forwarded-Host: "+string(r.x.Head.URI.Authority)+"\n", "", 1)
}

// replied is the head that the client gets, in place of a response.
func (r *run) replied(t testing.TB, response string) string {
	t.Helper()
	edits := r.x.ResponseEdits
	if r.answer != nil {
		edits = append(append([]h1.Edit(nil), r.answer.Edits...), edits...)
	}
	limits := h1.DefaultLimits()
	var head h1.ResponseHead
	raw := strings.ReplaceAll(response, "\n", "\r\n")
	if n, err := head.Parse([]byte(raw), &limits); err != nil || n != len(raw) {
		t.Fatalf("parse %q: %d, %v", raw, n, err)
	}
	plan := h1.ResponsePlan{Edits: edits, Minor: 1}
	return strings.ReplaceAll(string(plan.AppendTo(nil, &head)), "\r\n", "\n")
}

func at(after time.Duration) func(*filter.Exchange) {
	return func(x *filter.Exchange) { x.Now = start.Add(after) }
}

func from(client string) func(*filter.Exchange) {
	return func(x *filter.Exchange) { x.Client = netip.MustParseAddr(client) }
}

func overTLS(x *filter.Exchange) { x.TLS, x.ServerPort = true, 443 }

func id(name string) route.PolicyID { return route.PolicyID{Namespace: "test", Name: name} }
