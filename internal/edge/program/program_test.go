package program_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

func simpleRule(name, host, path string) *route.Rule {
	return &route.Rule{
		ID: route.ID{Name: name}, Host: host, Response: &route.Response{Status: 200},
		Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: path}},
	}
}

// TestLookupDoesNotAllocate: with every kind of condition in the way.
func TestLookupDoesNotAllocate(t *testing.T) {
	table := &route.Table{EntryPoints: []string{"web"}}
	conditions := route.Match{
		Path:    route.PathMatch{Type: route.PathPrefix, Value: "/a"},
		Scheme:  route.SchemeHTTPS,
		Methods: []string{"GET", "POST"},
		Headers: []route.ValueMatch{{Name: "x-a", Value: "1"}, {Name: "x-b", Type: route.ValueRegexp, Value: "^1"}, {Name: "X-C", Type: route.ValuePresent}},
		Query:   []route.ValueMatch{{Name: "q", Value: "1 2"}, {Name: "r", Type: route.ValueRegexp, Value: "^a+$"}},
	}
	full := simpleRule("full", "a.example.com", "/a")
	full.Match = conditions
	misses := simpleRule("misses", "a.example.com", "/a")
	misses.Match = conditions
	misses.Match.Headers = slices.Concat(conditions.Headers, []route.ValueMatch{{Name: "X-D"}})
	expression := simpleRule("expression", "*.example.com", "/")
	expression.Match.Path = route.PathMatch{Type: route.PathRegexp, Value: "^/api/v([0-9]+)$"}
	table.Rules = []*route.Rule{full, misses, expression, simpleRule("root", "", "/")}
	table.Backends = []*route.Backend{{ID: route.BackendID{Name: "b"}}}
	table.TCPRoutes = []*route.TCPRoute{{
		ID: route.TCPRouteID{Name: "tcp"}, EntryPoints: []string{"web"}, ServerName: "*.example.com", TLS: route.TLSPassthrough,
		Backends: []route.BackendRef{{Backend: route.BackendID{Name: "b"}}},
	}}
	compiled := mustCompile(t, table)
	header := headers{"X-A": {"2", "1"}, "X-B": {"12"}, "X-C": {""}}
	for _, c := range []struct {
		want string
		req  program.Request
	}{
		{"full", program.Request{EntryPoint: "web", TLS: true, Host: "a.example.com", Path: "/a/b", Method: "GET", Query: "x=y&q=1%202&r=aa", Header: header}},
		{"root", program.Request{EntryPoint: "web", TLS: true, Host: "a.example.com", Path: "/a/b", Method: "GET", Query: "q=1+2&r=ab", Header: header}},
		{"expression", program.Request{EntryPoint: "web", Host: "b.example.com", Path: "/api/v12", Method: "GET"}},
		{"root", program.Request{EntryPoint: "unknown", Host: "b.example.org", Path: "/api/v12", Method: "GET"}},
	} {
		var got program.Result
		if allocs := testing.AllocsPerRun(100, func() { req := c.req; got = compiled.Lookup(&req) }); allocs != 0 {
			t.Errorf("%s: %v allocations", c.want, allocs)
		}
		if got.Rule == nil || got.Rule.ID.Name != c.want {
			t.Errorf("got %s, want %s", show(got.Rule), c.want)
		}
	}
	allocs := testing.AllocsPerRun(100, func() {
		req := program.TCPRequest{EntryPoint: "web", TLS: true, ServerName: "db.example.com"}
		if compiled.LookupTCP(&req).Route == nil {
			t.Error("no TCP route")
		}
	})
	if allocs != 0 {
		t.Errorf("TCP: %v allocations", allocs)
	}
}

// TestHostsOfAnyLength: names that a bucket has room for and those that it has
// not, before and after a change of the host and of others.
func TestHostsOfAnyLength(t *testing.T) {
	table := &route.Table{}
	for length := 1; length <= 40; length++ {
		host := strings.Repeat("x", length)
		table.Rules = append(table.Rules, simpleRule(host, host, "/"))
	}
	compiled := mustCompile(t, table)
	check := func(p *program.Program, path, suffix string) {
		t.Helper()
		for length := 1; length <= 41; length++ {
			host, want := strings.Repeat("x", length), ""
			if length <= 40 {
				want = host + suffix
			}
			got := ""
			if found := p.Lookup(&program.Request{Host: host, Path: path}); found.Rule != nil {
				got = found.Rule.ID.Name
			}
			if got != want {
				t.Errorf("%s%s: got rule %q, want %q", host, path, got, want)
			}
		}
	}
	check(compiled, "/", "")
	check(compiled, "/more", "")
	change := &route.Change{}
	for length := 1; length <= 40; length++ {
		host := strings.Repeat("x", length)
		change.Rules.Added = append(change.Rules.Added, simpleRule(host+"-more", host, "/more"))
	}
	changed := must.Get(compiled.Apply(change))(t)
	check(changed, "/", "")
	check(changed, "/more", "-more")
	check(compiled, "/more", "")
	// A target that is no path matches no rule.
	if found := compiled.Lookup(&program.Request{Host: "x", Path: "*"}); found.Rule != nil {
		t.Errorf("rule %s takes *", found.Rule.ID)
	}
}

// TestDeepPaths: chains of prefixes deeper than what a search keeps, with
// priorities that turn their order around.
func TestDeepPaths(t *testing.T) {
	for seed := range uint64(40) {
		c := randomChooser(seed + 4_000_000)
		table := &route.Table{EntryPoints: []string{"web", "tls"}}
		spread := 1 + c.below(4)
		for depth := 1; depth <= 45; depth++ {
			rule := simpleRule("deep", c.of("a.x", "a.x", "*.x"), strings.Repeat("/a", depth))
			rule.ID.Rule = depth
			rule.Priority = int32(c.below(spread))
			if c.oneIn(2) {
				rule.Match.Methods = []string{"POST"}
			}
			table.Rules = append(table.Rules, rule)
		}
		if c.oneIn(2) {
			every := simpleRule("every", "a.x", "")
			every.Match.Path = route.PathMatch{}
			every.Priority = int32(c.below(spread))
			table.Rules = append(table.Rules, every)
		}
		compiled := mustCompile(t, table)
		for depth := range 48 {
			for _, method := range []string{"GET", "POST"} {
				req := program.Request{EntryPoint: "web", Host: "a.x", Path: strings.Repeat("/a", depth) + "/b", Method: method}
				if got, want := compiled.Lookup(&req).Rule, oracle(table, &req); got != want {
					t.Fatalf("seed %d, %+v:\n got %s\nwant %s", seed, req, show(got), show(want))
				}
			}
		}
	}
}

// TestIdentitiesThatLookAlike: two tenants whose names would be one when
// joined each reach their own backend.
func TestIdentitiesThatLookAlike(t *testing.T) {
	table := &route.Table{}
	type pair struct{ namespace, name string }
	pairs := []pair{{"team", "a-x"}, {"team-a", "x"}, {"", "team-a-x"}, {"team-a-x", "x"}, {"team", "a.x"}, {"team.a", "x"}}
	for i, p := range pairs {
		id := route.BackendID{Namespace: p.namespace, Name: p.name, Port: 80}
		table.Backends = append(table.Backends, largeBackend(id, i))
		rule := simpleRule(p.name, fmt.Sprintf("host-%d.x", i), "/")
		rule.ID.Namespace = p.namespace
		rule.Response = nil
		rule.Backends = []route.BackendRef{{Backend: id}}
		table.Rules = append(table.Rules, rule)
	}
	compiled := mustCompile(t, table)
	for i, p := range pairs {
		req := program.Request{Host: fmt.Sprintf("host-%d.x", i), Path: "/"}
		rule := compiled.Lookup(&req).Rule
		if rule == nil || rule.ID.Namespace != p.namespace || rule.ID.Name != p.name {
			t.Fatalf("%+v got %s", p, show(rule))
		}
		if backend, ok := compiled.Backend(rule.Backends[0].Backend); !ok || len(backend.Endpoints) != i {
			t.Errorf("%+v got backend %+v", p, backend)
		}
	}
	if _, ok := compiled.Backend(route.BackendID{Namespace: "team", Name: "a-x", Port: 81}); ok {
		t.Error("there is a backend that nobody made")
	}
	if _, ok := compiled.Rule(route.ID{Namespace: "team", Name: "a"}); ok {
		t.Error("there is a rule that nobody made")
	}
}

// TestBinding: what the caller binds to a rule comes with it, and is made
// again only for what changed.
func TestBinding(t *testing.T) {
	var bound []string
	compiler := program.Compiler{
		Bind: func(rule *route.Rule) (any, error) {
			bound = append(bound, rule.ID.Name)
			if rule.ID.Name == "bad" {
				return nil, errors.New("no filter for it")
			}
			return rule.Host, nil
		},
		BindTCP: func(tcp *route.TCPRoute) (any, error) { return tcp.ServerName, nil },
	}
	table := &route.Table{
		EntryPoints: []string{"web"},
		Rules:       []*route.Rule{simpleRule("one", "one.x", "/"), simpleRule("two", "two.x", "/")},
		Backends:    []*route.Backend{{ID: route.BackendID{Name: "b"}}},
		TCPRoutes: []*route.TCPRoute{{
			ID: route.TCPRouteID{Name: "t"}, EntryPoints: []string{"web"}, ServerName: "t.x", TLS: route.TLSTerminate,
			Backends: []route.BackendRef{{Backend: route.BackendID{Name: "b"}}},
		}},
	}
	compiled := must.Get(compiler.Compile(table))(t)
	if got := compiled.Lookup(&program.Request{Host: "two.x", Path: "/"}).Binding; got != "two.x" {
		t.Errorf("binding %v", got)
	}
	if got := compiled.LookupTCP(&program.TCPRequest{EntryPoint: "web", TLS: true, ServerName: "t.x"}).Binding; got != "t.x" {
		t.Errorf("TCP binding %v", got)
	}
	bound = nil
	var change route.Change
	change.Rules.Changed = []*route.Rule{simpleRule("one", "other.x", "/")}
	change.Backends.EndpointsChanged = []*route.Backend{largeBackend(route.BackendID{Name: "b"}, 2)}
	next := must.Get(compiled.Apply(&change))(t)
	if !slices.Equal(bound, []string{"one"}) {
		t.Errorf("bound again: %v", bound)
	}
	if got := next.Lookup(&program.Request{Host: "other.x", Path: "/"}).Binding; got != "other.x" {
		t.Errorf("binding %v", got)
	}
	var bad route.Change
	bad.Rules.Added = []*route.Rule{simpleRule("bad", "", "/")}
	if _, err := next.Apply(&bad); err == nil || err.Error() != "rule bad[0][0]: no filter for it" {
		t.Errorf("error %v", err)
	}
}

// TestLookupWhileApplying: readers go on with the Program they have. The race
// detector watches that nothing they share is written.
func TestLookupWhileApplying(t *testing.T) {
	c := randomChooser(7)
	table := c.table(60)
	var live atomic.Pointer[program.Program]
	live.Store(mustCompile(t, table))
	done := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			mine := randomChooser(uint64(i))
			for {
				select {
				case <-done:
					return
				default:
					req := mine.request()
					compiled := live.Load()
					result := compiled.Lookup(&req)
					if again := compiled.Lookup(&req); again != result {
						t.Errorf("two answers to one question: %s and %s", show(result.Rule), show(again.Rule))
						return
					}
				}
			}
		})
	}
	for range 300 {
		to := c.changed(table)
		change := route.Diff(table, to)
		next := must.Get(live.Load().Apply(&change))(t)
		live.Store(next)
		table = to
	}
	close(done)
	readers.Wait()
}
