package program_test

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/route"
)

// headers is a request's header, with canonical names.
type headers map[string][]string

// Value implements program.Header.
func (h headers) Value(name string, i int) (string, bool) {
	if i >= len(h[name]) {
		return "", false
	}
	return h[name][i], true
}

// expressions are what random rules use, with the literal text that each
// starts with, worked out by hand.
var expressions = map[string]string{
	"^/a":         "/a",
	"^/a/b$":      "/a/b",
	"^/a(/|$)":    "/a",
	"^/(a|b)/":    "/",
	"b":           "",
	"/a$":         "",
	"(?i)^/A":     "",
	"^/ab*":       "/a",
	"^(/a)(/b)":   "/a/b",
	"^/a/b/a/b/a": "/a/b/a/b/a",
	".":           "",
	// Those of the cases in testdata.
	"^/api/v[0-9]+": "/api/v",
	"^/apix":        "/apix",
	"^/same":        "/same",
	`\.(png|jpg)$`:  "",
	`\.png$`:        "",
}

var expressionList = slices.Sorted(maps.Keys(expressions))

// chooser makes every decision of a random table. There are few values to
// choose from, so that rules collide in each step of the order. Choices come
// from random numbers, or from the bytes that a fuzzer varies.
type chooser struct {
	next func() byte
	// owned is set while the hosts of a table have owners.
	owned bool
}

func randomChooser(seed uint64) *chooser {
	random := rand.New(rand.NewPCG(seed, 1))
	return &chooser{next: func() byte { return byte(random.Uint32()) }}
}

// byteChooser uses the bytes up and then always takes the first choice.
func byteChooser(data []byte) *chooser {
	return &chooser{next: func() byte {
		if len(data) == 0 {
			return 0
		}
		first := data[0]
		data = data[1:]
		return first
	}}
}

func (c *chooser) below(n int) int { return int(c.next()) % n }

func (c *chooser) oneIn(n int) bool { return c.below(n) == n-1 }

func (c *chooser) of(values ...string) string { return values[c.below(len(values))] }

// path is short, or one of a deep chain of paths that start with each other.
func (c *chooser) path() string {
	if c.oneIn(6) {
		return strings.Repeat("/a", 1+c.below(16)) + c.of("", "/", "b")
	}
	var path strings.Builder
	for range c.below(4) {
		path.WriteString("/" + c.of("a", "b", "ab", "aa"))
	}
	path.WriteString(c.of("", "/"))
	if path.Len() == 0 {
		return "/"
	}
	return path.String()
}

func (c *chooser) host() string {
	return c.of("a.x", "*.x", "", "b.x", "*.a.x", "b.a.x", "x")
}

func (c *chooser) rule() *route.Rule {
	rule := &route.Rule{
		// Joined with dashes, many of these would be one.
		ID: route.ID{
			Kind:      c.of("", "Ingress"),
			Namespace: c.of("team", "team-a", "a", "a-team"),
			Name:      c.of("x", "a-x", "a", "team-x"),
			Rule:      c.below(3), Path: c.below(2),
			Variant: c.of("", "", "", "v"),
		},
		Host:     c.host(),
		Created:  time.Unix(int64(c.below(3)), 0),
		Priority: int32(c.below(5)) / 3 * int32(c.below(3)-1),
	}
	if c.owned && !c.oneIn(5) {
		rule.HostOwner = c.owner(rule.Host)
	}
	switch {
	case c.oneIn(8):
		rule.Fallback = true
	default:
		rule.Match = c.match()
	}
	if c.oneIn(3) {
		rule.EntryPoints = []string{c.of("web", "tls")}
	}
	if c.oneIn(3) {
		rule.Response = &route.Response{Status: 200 + c.below(3)}
	} else {
		rule.Backends = []route.BackendRef{{Backend: backendID(c.below(4))}}
	}
	return rule
}

// owner is the owner of a host, one of few, about which rules mostly agree.
func (c *chooser) owner(host string) route.HostOwner {
	namespaces := []string{"team", "team-a", "a"}
	owner := route.HostOwner{Namespace: namespaces[len(host)%3], Exclusive: !c.oneIn(4), Behind: c.oneIn(4)}
	if c.oneIn(16) {
		owner.Namespace = c.of(namespaces...)
	}
	return owner
}

func (c *chooser) match() route.Match {
	var match route.Match
	switch c.below(6) {
	case 0, 1:
		match.Path = route.PathMatch{Type: route.PathPrefix, Value: c.path()}
	case 2:
		match.Path = route.PathMatch{Type: route.PathExact, Value: c.path()}
	case 3:
		match.Path = route.PathMatch{Type: route.PathCharacterPrefix, Value: c.path()}
	case 4:
		match.Path = route.PathMatch{Type: route.PathRegexp, Value: c.of(expressionList...)}
	}
	if c.oneIn(5) {
		match.Methods = [][]string{{"GET"}, {"POST"}, {"GET", "POST"}}[c.below(3)]
	}
	if c.oneIn(5) {
		match.Scheme = route.Scheme(c.of("http", "https"))
	}
	for c.oneIn(4) && len(match.Headers) < 3 {
		match.Headers = append(match.Headers, c.value("X-A", "X-B"))
	}
	for c.oneIn(5) && len(match.Query) < 3 {
		match.Query = append(match.Query, c.value("q", "r s"))
	}
	for c.oneIn(5) && len(match.Further) < 3 {
		match.Further = append(match.Further, c.further())
	}
	return match
}

// further is a further condition.
func (c *chooser) further() route.Condition {
	condition := route.Condition{Not: c.oneIn(2)}
	switch c.below(7) {
	case 0:
		condition.Host = c.of("a.x", "*.x", "*.a.x")
	case 1:
		condition.HostRegexp = c.of("a", `^[ab]\.x$`)
	case 2:
		kind := route.PathType(c.of("exact", "prefix", "characterPrefix", "regexp"))
		condition.Path = &route.PathMatch{Type: kind, Value: c.path()}
	case 3:
		condition.Method = c.of("GET", "POST")
	case 4:
		header := c.value("x-a", "X-B")
		condition.Header = &header
	case 5:
		parameter := c.value("q", "r s")
		condition.Query = &parameter
	default:
		condition.Clients = []netip.Prefix{netip.MustParsePrefix(c.of("10.0.0.0/8", "::1/128")), netip.MustParsePrefix("192.0.2.0/24")}
	}
	return condition
}

func (c *chooser) value(names ...string) route.ValueMatch {
	match := route.ValueMatch{Name: c.of(names...), Type: route.ValueType(c.of("", "exact", "regexp", "present"))}
	if match.Type != route.ValuePresent {
		match.Value = c.of("1", "2", "1 2")
	}
	return match
}

func (c *chooser) tcpRoute() *route.TCPRoute {
	tcp := &route.TCPRoute{
		ID:          route.TCPRouteID{Namespace: c.of("team", "team-a"), Name: c.of("a-x", "x"), Rule: c.below(6)},
		EntryPoints: [][]string{{"web"}, {"tls"}, {"web", "tls"}}[c.below(3)],
		TLS:         route.TLSMode(c.of("terminate", "passthrough", "plain")),
		Priority:    int32(c.below(4)) / 3,
		Created:     time.Unix(int64(c.below(2)), 0),
		Backends:    []route.BackendRef{{Backend: backendID(c.below(4))}},
	}
	if tcp.TLS != route.TLSPlain {
		tcp.ServerName = c.host()
	}
	return tcp
}

func backendID(i int) route.BackendID {
	return []route.BackendID{
		{Namespace: "team", Name: "a-x", Port: 80}, {Namespace: "team-a", Name: "x", Port: 80},
		{Namespace: "team", Name: "a-x", Port: 81}, {Namespace: "team", Name: "a-x", Port: 80, Variant: "v"},
	}[i]
}

// table makes a valid table with up to size rules.
func (c *chooser) table(size int) *route.Table {
	table := &route.Table{EntryPoints: []string{"web", "tls"}}
	c.owned = c.oneIn(2)
	for i := range 4 {
		table.Backends = append(table.Backends, largeBackend(backendID(i), c.below(3)))
	}
	seen := make(map[route.Identity]bool)
	for range 1 + c.below(size) {
		if rule := c.rule(); !seen[rule.ID] {
			seen[rule.ID] = true
			table.Rules = append(table.Rules, rule)
		}
		if tcp := c.tcpRoute(); c.oneIn(4) && !seen[tcp.ID] {
			seen[tcp.ID] = true
			table.TCPRoutes = append(table.TCPRoutes, tcp)
		}
	}
	return table
}

// changed makes a table that follows another one: most of it is the same.
func (c *chooser) changed(from *route.Table) *route.Table {
	to := *from
	to.Rules, to.TCPRoutes, to.Backends = nil, nil, nil
	seen := make(map[route.Identity]bool)
	for _, rule := range from.Rules {
		if c.oneIn(5) {
			continue
		}
		if c.oneIn(4) {
			other := c.rule()
			other.ID = rule.ID
			rule = other
		}
		seen[rule.ID] = true
		to.Rules = append(to.Rules, rule)
	}
	for range c.below(4) {
		if rule := c.rule(); !seen[rule.ID] {
			seen[rule.ID] = true
			to.Rules = append(to.Rules, rule)
		}
	}
	for _, tcp := range from.TCPRoutes {
		if !c.oneIn(4) {
			seen[tcp.ID] = true
			to.TCPRoutes = append(to.TCPRoutes, tcp)
		}
	}
	if tcp := c.tcpRoute(); !seen[tcp.ID] {
		to.TCPRoutes = append(to.TCPRoutes, tcp)
	}
	for _, backend := range from.Backends {
		if c.oneIn(3) {
			backend = largeBackend(backend.ID, c.below(4))
		}
		to.Backends = append(to.Backends, backend)
	}
	return &to
}

func (c *chooser) request() program.Request {
	req := program.Request{
		EntryPoint: c.of("web", "tls", "other"),
		TLS:        c.oneIn(2),
		Host:       c.of("a.x", "b.x", "b.a.x", "c.a.x", "x", "", "y", "c.b.a.x", ".x"),
		Path:       c.path(),
		Method:     c.of("GET", "POST", "PUT"),
		Query:      c.of("", "q=1", "q=2&q=1", "r+s=1", "r%20s=1%202&q", "%71=1", "&&q=&r+s=2"),
	}
	if c.oneIn(12) {
		req.Path = c.of("*", "", "/a%2Fb", "/A")
	}
	if !c.oneIn(4) {
		req.Client = netip.MustParseAddr(c.of("10.1.2.3", "::1", "192.0.2.7", "198.51.100.1"))
	}
	switch c.below(4) {
	case 1:
		req.Header = headers{"X-A": {c.of("1", "2", "1 2", "")}}
	case 2:
		req.Header = headers{"X-A": {"2", "1"}, "X-B": {c.of("1", "2")}}
	case 3:
		req.Header = headers{"X-B": {"1 2"}}
	}
	return req
}

func (c *chooser) tcpRequest() program.TCPRequest {
	req := program.TCPRequest{EntryPoint: c.of("web", "tls", "other"), TLS: c.oneIn(2)}
	if req.TLS {
		req.ServerName = c.of("a.x", "b.x", "b.a.x", "x", "", "c.b.x")
	}
	return req
}
