package filter_test

import (
	"crypto/x509/pkix"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/route"
)

// hot are filters on the way of every request of a rule, with a request that
// takes their usual way. None may allocate.
func hot(tb testing.TB) []hotCase {
	one := func(text string) []route.Policy { return policiesOf(tb, text) }
	return []hotCase{
		{"redirectScheme", one(`{"redirectScheme": {"scheme": "https"}}`), get("/a/b?c"), 307},
		{"addPrefix", one(`{"addPrefix": {"prefix": "/base"}}`), get("/a/b?c"), 0},
		{"stripPrefix", one(`{"stripPrefix": {"prefixes": ["/x", "/a"], "forwardPrefix": true}}`), get("/a/b?c"), 0},
		{"replacePath", one(`{"replacePath": {"path": "/fixed"}}`), get("/a/b?c"), 0},
		{"requestHeaders", one(`{"requestHeaders": {"set": [{"name": "X-A", "value": "1"}], "remove": ["X-B"]}}`), get("/"), 0},
		{"responseHeaders", one(`{"responseHeaders": {"set": [{"name": "X-A", "value": "1"}], "remove": ["X-B"]}}`), get("/"), 0},
		{"cors", one(`{"cors": {"allowOrigins": ["https://app.example"]}}`), get("/", "Origin: https://app.example"), 0},
		{"preflight", one(`{"cors": {"allowOrigins": ["https://app.example"], "allowMethods": ["PUT"]}}`),
			"OPTIONS / HTTP/1.1\nHost: a.example\nOrigin: https://app.example\nAccess-Control-Request-Method: PUT\n\n", 204},
		{"basicAuth", []route.Policy{usersPolicy(bcryptLine(tb, "alice", "secret", bcrypt.MinCost))}, login("alice", "secret"), 0},
		{"ipFilter", one(`{"ipFilter": {"allow": ["10.0.0.0/8", "192.0.2.0/24"], "deny": ["192.0.2.7/32"]}}`), get("/"), 0},
		{"rateLimit", []route.Policy{ratePolicy("r", 1<<40, time.Second, 1<<40, route.HashKey{})}, get("/"), 0},
		{"rateLimit refuses", []route.Policy{ratePolicy("r", 1, 24*time.Hour, 1, route.HashKey{})}, get("/"), 429},
		{"rateLimit by cookie", []route.Policy{ratePolicy("r", 1<<40, time.Second, 1<<40, route.HashKey{By: route.KeyCookie, Name: "id"})}, get("/", "Cookie: a=b; id=12345"), 0},
		{"inFlight", []route.Policy{flightPolicy("f", 10, route.HashKey{By: route.KeyClient})}, get("/"), 0},
		{"bodyLimit", one(`{"bodyLimit": {"maxBytes": 10}}`), get("/", "Content-Length: 5"), 0},
		{"circuitBreaker", []route.Policy{breakerPolicy("b", 50, 10)}, get("/"), 0},
		{"forwardCertificate", []route.Policy{certificatePolicy()}, get("/"), 0},
		{"buffering", one(`{"buffering": {"maxRequestBytes": 1000}}`), get("/"), 0},
		{"compression", one(`{"compression": {}}`), get("/"), 0},
		{"retry", one(`{"retry": {"attempts": 2}}`), get("/"), 0},
		{"errorPages", one(owned["errorPages"]), get("/"), 0},
		{"mirror", one(owned["mirror"]), get("/"), 0},
	}
}

type hotCase struct {
	name     string
	policies []route.Policy
	request  string
	status   int
}

// step gives a function that runs one whole exchange.
func (c *hotCase) step(tb testing.TB) func() {
	chain := compile(tb, filter.NewCounters(start), c.policies...)
	head := parse(tb, c.request, h1.DefaultLimits())
	certificate := makeCertificate(tb, 1, pkix.Name{CommonName: "client"})
	var x filter.Exchange
	step := func() {
		x.Begin(head, chain.Marks())
		x.Client, x.Now, x.Certificate.Verified = testClient, start, certificate
		ran, answer := chain.Request(&x)
		status := 0
		if answer != nil {
			status = answer.Status
		}
		if status != c.status {
			tb.Fatalf("%s: status %d", c.name, status)
		}
		chain.Response(&x, ran, 200)
		chain.Done(&x, ran)
	}
	if c.status == 429 {
		c.status = 0
		step() // the one that passes
		c.status = 429
	}
	step() // memory that is kept
	return step
}

func TestNoAllocations(t *testing.T) {
	for _, c := range hot(t) {
		t.Run(c.name, func(t *testing.T) {
			if allocs := testing.AllocsPerRun(100, c.step(t)); allocs > 0 {
				t.Errorf("%v allocations", allocs)
			}
		})
	}
}

func BenchmarkFilters(b *testing.B) {
	cases := append(hot(b),
		hotCase{"stripPrefixRegexp", policiesOf(b, `{"stripPrefixRegexp": {"regexps": ["/[a-z]+"]}}`), get("/abc/d"), 0},
		hotCase{"replacePathRegexp", policiesOf(b, `{"replacePathRegexp": {"regexp": "^/abc/(.*)$", "replacement": "/${1}"}}`), get("/abc/d"), 0},
		hotCase{"replacePathRegexp no fit", policiesOf(b, `{"replacePathRegexp": {"regexp": "^/abc/(.*)$", "replacement": "/${1}"}}`), get("/xyz/d"), 0},
		hotCase{"redirectRegexp", policiesOf(b, `{"redirectRegexp": {"regexp": "^http://a.example/(.*)$", "replacement": "https://b.example/${1}"}}`), get("/abc/d"), 307},
		hotCase{"none", nil, get("/"), 0},
	)
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			step := c.step(b)
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
		})
	}
}

// BenchmarkRateLimitTogether has all processors at one limit, each with clients
// of its own.
func BenchmarkRateLimitTogether(b *testing.B) {
	policy := ratePolicy("r", 1<<40, time.Second, 1<<40, route.HashKey{})
	chain := compile(b, filter.NewCounters(start), policy)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		head := parse(b, get("/"), h1.DefaultLimits())
		var x filter.Exchange
		client := testClient
		for pb.Next() {
			x.Begin(head, chain.Marks())
			client = client.Next()
			x.Client, x.Now = client, start
			chain.Request(&x)
		}
	})
}

func BenchmarkCompile(b *testing.B) {
	policies := policiesOf(b, `{"stripPrefix": {"prefixes": ["/api"]}}`, `{"requestHeaders": {"set": [{"name": "X-A", "value": "1"}]}}`)
	policies = append(policies, ratePolicy("r", 10, time.Second, 10, route.HashKey{}))
	counters := filter.NewCounters(start)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := filter.Compile(policies, counters); err != nil {
			b.Fatal(err)
		}
	}
}
