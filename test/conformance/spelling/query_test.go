package spelling

import (
	"net/url"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/route"
)

// names are the parameters of a query, as two kinds of programs read it: those
// that split at & and decode what can be decoded, and Go's, which drops what
// cannot.
func names(query string) map[string]bool {
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		seen[decode(strings.ReplaceAll(name, "+", " "))] = true
	}
	values, _ := url.ParseQuery(query) // with an error it returns what it could read
	for name := range values {
		seen[name] = true
	}
	return seen
}

// queries hide the parameter admin, or only seem to.
func queries() []string {
	all := []string{
		"", "x=1", "admin", "admin=", "admin=1", "admin=1&x=2", "x=2&admin=1", "x&admin", "&admin", "admin&", "&&admin&&", "%61dmin=1", "%61%64%6D%69%6e=1", "adm%69n", "admin%3d1", "admin%26x", "x=1%26admin=1", "x=1&%61dmin",
		"x=1;admin=1", "x;admin", ";admin=1", "admin;x=1", "admin=1;x", "x=%&admin=1", "x=%zz&admin=1", "x=%2&admin=1", "%&admin", "%zz=1&admin=1", "admin=%", "admin=%zz", "admin%=1", "%admin=1", "ad%min=1", "+admin=1", "admin+=1", "a+dmin=1", "admin%00=1",
		"%00admin=1", "ADMIN=1", "Admin=1", "admin[]=1", "admin[0]=1", "admin.x=1", "admin%5b%5d=1", "x=admin", "x=1?admin=1", "?admin=1", "??admin", "=admin", "=", "==admin", "admin==", "x=a=b&admin", "x=1&amp;admin=1", "x=1%0aadmin=1", "x=1%0d%0a&admin=1",
		"%2561dmin=1", "\"admin\"=1", "'admin'=1", "{admin}=1", "admin|x", "a%CC%80dmin", "admin%20=1", "%20admin=1", "x=%u0061&admin", "admin\\=1", "x\\&admin=1", "x=1&x=2&x=3&admin=4", "admin=1&admin=2",
	}
	many := strings.Repeat("a&", 3500)
	return append(all, many+"admin=1", "admin=1&"+many, many, strings.Repeat("a=b&", 1900)+"admin")
}

// TestQueries: a rule guards every request that has the parameter admin. What
// the rule looked at is what is forwarded, byte for byte.
func TestQueries(t *testing.T) {
	edge := serveTable(t,
		&route.Rule{Match: route.Match{Query: []route.ValueMatch{{Name: "admin", Type: route.ValuePresent}}}, Priority: 1, Policies: []route.Policy{guarded()}},
		&route.Rule{},
	)
	c := newClient(t, edge.Address("web"))
	counts := map[int]int{}
	for _, query := range queries() {
		r := c.ask(t, "GET /?"+query+" HTTP/1.1", "Host: app.test")
		counts[r.status]++
		switch {
		case r.status == 200 && names(query)["admin"]:
			t.Errorf("%.60q was let in", query)
		case r.status == 200 && r.target() != "/?"+query:
			t.Errorf("%.60q was forwarded as %.60q", query, r.target())
		case r.status == 401 && !names(query)["admin"]:
			t.Errorf("%.60q was kept out", query)
		case r.status != 200 && r.status != 401 && r.status != 400:
			t.Errorf("%.60q: status %d", query, r.status)
		}
		known := c.ask(t, "GET /?"+query+" HTTP/1.1", "Host: app.test", credentials)
		if r.status != 400 && (known.status != 200 || known.target() != "/?"+query) {
			t.Errorf("%.60q with a password: status %d, forwarded as %.60q", query, known.status, known.target())
		}
		same(t, query, "HTTP/2", r, askHTTP2(t, edge.Address("web"), "app.test", "/?"+query))
	}
	t.Logf("%v", counts)
	if counts[401] < 20 || counts[200] < 15 {
		t.Errorf("too little of one kind: %v", counts)
	}
}

// TestTooManyParameters: a query that is too long to be looked at as a whole is
// not looked at in part; it is refused.
func TestTooManyParameters(t *testing.T) {
	edge := serveTable(t, &route.Rule{})
	for _, query := range []string{strings.Repeat("a&", 10_000) + "admin=1", strings.Repeat("a=b&", 10_000) + "admin"} {
		r := newClient(t, edge.Address("web")).ask(t, "GET /?"+query+" HTTP/1.1", "Host: app.test")
		if r.status != 414 {
			t.Errorf("%d bytes of a query: status %d", len(query), r.status)
		}
		other := askHTTP2(t, edge.Address("web"), "app.test", "/?"+query)
		if other.status < 400 || other.status >= 500 {
			t.Errorf("%d bytes of a query over HTTP/2: status %d", len(query), other.status)
		}
	}
}
