package rule_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/ingress/traefik/rule"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// request is a request with its headers apart, in the form that rules are evaluated on.
type request struct {
	program.Request
	header map[string][]string
}

// Value implements program.Header.
func (r *request) Value(name string, i int) (string, bool) {
	if i >= len(r.header[name]) {
		return "", false
	}
	return r.header[name][i], true
}

// node is a rule as a tree that evaluates itself in the plainest way. It shares no code
// with the compiler.
type node struct {
	text string
	fits func(*request) bool
}

type generator struct{ *rand.Rand }

func (g generator) of(values ...string) string { return values[g.IntN(len(values))] }

// rule returns a random rule of a depth.
func (g generator) rule(depth int) node {
	if depth == 0 || g.IntN(4) == 0 {
		return g.matcher()
	}
	switch g.IntN(4) {
	case 0:
		operand := g.rule(depth - 1)
		return node{"!(" + operand.text + ")", func(r *request) bool { return !operand.fits(r) }}
	case 1:
		a, b := g.rule(depth-1), g.rule(depth-1)
		return node{"(" + a.text + " || " + b.text + ")", func(r *request) bool { return a.fits(r) || b.fits(r) }}
	case 2:
		a, b, c := g.matcher(), g.rule(depth-1), g.matcher()
		// Without parentheses && binds closer.
		return node{"(" + a.text + "||" + b.text + "&& !" + c.text + ")", func(r *request) bool { return a.fits(r) || b.fits(r) && !c.fits(r) }}
	default:
		a, b := g.rule(depth-1), g.rule(depth-1)
		return node{"(" + a.text + " && " + b.text + ")", func(r *request) bool { return a.fits(r) && b.fits(r) }}
	}
}

// matcher returns a random matcher. There are few values, so that rules meet requests.
func (g generator) matcher() node {
	switch g.IntN(9) {
	case 0:
		host := g.of("a.x", "b.x", "x", "a.b.x")
		return node{"Host(`" + host + "`)", func(r *request) bool { return r.Host == host }}
	case 1:
		parent := g.of("x", "b.x")
		return node{"Host(`*." + parent + "`)", func(r *request) bool {
			label, rest, _ := strings.Cut(r.Host, ".")
			return label != "" && rest == parent
		}}
	case 2:
		expression := g.of(`^[ab]\.x$`, `x$`, `^[a-z]+\.b\.x$`, `a`)
		return node{"HostRegexp(`" + expression + "`)", func(r *request) bool { return regexp.MustCompile(expression).MatchString(r.Host) }}
	case 3:
		path := g.of("/", "/a", "/a/b", "/b")
		return node{"Path(`" + path + "`)", func(r *request) bool { return r.Path == path }}
	case 4:
		path := g.of("/", "/a", "/a/", "/a/b")
		return node{"PathPrefix(`" + path + "`)", func(r *request) bool { return strings.HasPrefix(r.Path, path) }}
	case 5:
		expression := g.of("^/a", "b$", "/b", "^/(a|b)$")
		return node{"PathRegexp(`" + expression + "`)", func(r *request) bool { return regexp.MustCompile(expression).MatchString(r.Path) }}
	case 6:
		method := g.of("GET", "PUT")
		return node{"Method(`" + method + "`)", func(r *request) bool { return r.Method == method }}
	case 7:
		name, value := g.of("X-A", "X-B"), g.of("1", "2")
		return node{"Header(`" + name + "`,`" + value + "`)", func(r *request) bool { return slices.Contains(r.header[name], value) }}
	default:
		return g.rareMatcher()
	}
}

// rareMatcher returns a matcher of those that people use least.
func (g generator) rareMatcher() node {
	switch g.IntN(4) {
	case 0:
		expression := g.of("^1", "2")
		return node{"HeaderRegexp(`X-A`,`" + expression + "`)", func(r *request) bool {
			return slices.ContainsFunc(r.header["X-A"], regexp.MustCompile(expression).MatchString)
		}}
	case 1:
		value := g.of("1", "2")
		return node{"Query(`q`,`" + value + "`)", func(r *request) bool { return slices.Contains(parameters(r)["q"], value) }}
	case 2:
		return node{"QueryRegexp(`q`,`^1`)", func(r *request) bool {
			return slices.ContainsFunc(parameters(r)["q"], regexp.MustCompile("^1").MatchString)
		}}
	default:
		network := g.of("10.0.0.0/8", "10.1.0.0/16", "::1/128")
		return node{"ClientIP(`" + network + "`)", func(r *request) bool { return netip.MustParsePrefix(network).Contains(r.Client) }}
	}
}

func parameters(r *request) url.Values {
	values, _ := url.ParseQuery(r.Query)
	return values
}

func (g generator) request() *request {
	r := &request{header: map[string][]string{}}
	r.Request = program.Request{
		EntryPoint: "web", Host: g.of("a.x", "b.x", "x", "a.b.x", "c.x", "other", ""), Path: g.of("/", "/a", "/a/b", "/ab", "/b", "/a/"),
		Method: g.of("GET", "PUT", "POST"), Query: g.of("", "q=1", "q=2&q=12", "r=1"),
		Client: netip.MustParseAddr(g.of("10.1.2.3", "10.2.0.1", "::1", "192.0.2.1")),
	}
	for _, name := range []string{"X-A", "X-B"} {
		for range g.IntN(3) {
			r.header[name] = append(r.header[name], g.of("1", "2", "12"))
		}
	}
	r.Header = r
	return r
}

// TestProperty: of random rules with random priorities, the routing table serves each
// request by the rule that evaluation of the rules themselves chooses: the one with the
// highest priority that fits.
func TestProperty(t *testing.T) {
	served, compiled := 0, 0
	for seed := range uint64(1500) {
		g := generator{rand.New(rand.NewPCG(seed, 21))}
		table, rules := &route.Table{EntryPoints: []string{"web"}}, map[string]node{}
		var order []string
		for i := range 1 + g.IntN(5) {
			written := g.rule(3)
			alternatives, err := rule.Compile(written.text, options("v3"))
			if err != nil {
				// The generator makes rules that no request fits, too.
				if !strings.Contains(err.Error(), "no request can match") && !strings.Contains(err.Error(), "alternatives") {
					t.Fatalf("%s: %v", written.text, err)
				}
				continue
			}
			compiled++
			name := fmt.Sprintf("rule-%d", i)
			rules[name] = written
			order = append(order, name)
			for j, alternative := range alternatives {
				table.Rules = append(table.Rules, &route.Rule{
					ID: route.ID{Kind: "IngressRoute", Namespace: "shop", Name: name, Path: j}, Host: alternative.Host, Match: alternative.Match,
					Priority: int32(1000 - i), Response: &route.Response{Status: 200},
				})
			}
		}
		made := must.Get(program.Compiler{}.Compile(table))(t)
		for range 60 {
			r := g.request()
			want := ""
			for _, name := range order {
				if want == "" && rules[name].fits(r) {
					want = name
				}
			}
			got := ""
			if found := made.Lookup(&r.Request); found.Rule != nil {
				got = found.Rule.ID.Name
				served++
			}
			if got != want {
				t.Fatalf("seed %d: %+v %v is served by %q, want %q %s; got %s", seed, r.Request, r.header, got, want, rules[want].text, rules[got].text)
			}
		}
	}
	if served < 10000 || compiled < 2000 {
		t.Errorf("only %d requests were served, by %d rules", served, compiled)
	}
}

// FuzzCompile: every text is compiled or refused, and what is compiled is valid in the
// table apart from bounds and spellings that the table refuses itself.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		"Host(`a.example`) && !(PathPrefix(`/a`) || Method(`GET`))", "HostRegexp(`{a:[a-z]+}.x`, `b.x`)", "Query(`a=b`) && Headers(`a`,`b`)",
		`Path("/a\"b")`, "ClientIP(`::/0`)||HeaderRegexp(`a`,`.`)", "HostRegexp(`^[a-z]+\\.x\\.y$`)",
	} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, old bool) {
		syntax := rule.V3
		if old {
			syntax = rule.V2
		}
		alternatives, err := rule.Compile(text, options(syntax))
		if (err == nil) != (len(alternatives) > 0) || len(alternatives) > rule.MaxAlternatives {
			t.Fatalf("%d alternatives: %v", len(alternatives), err)
		}
		for _, alternative := range alternatives {
			made := route.Rule{ID: route.ID{Name: "a"}, Host: alternative.Host, Match: alternative.Match, Response: &route.Response{Status: 200}}
			if len(made.Validate()) > 0 {
				return
			}
			if _, err := (program.Compiler{}).Compile(&route.Table{Rules: []*route.Rule{&made}}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
