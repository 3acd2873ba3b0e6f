package edgecmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/edgecmd"
	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/tlsstore"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/route"
)

// askedEdge is what the admin server reads of an edge, made of its real parts.
type askedEdge struct {
	table    *route.Table
	compiled *program.Program
	set      *upstream.Set
}

func (e *askedEdge) Table() *route.Table { return e.table }

func (e *askedEdge) Program() *program.Program { return e.compiled }

func (e *askedEdge) Upstreams() []upstream.BackendState { return e.set.Snapshot() }

func (e *askedEdge) Certificates() []tlsstore.CertificateInfo { return nil }

func (e *askedEdge) EntryPoints() []admin.EntryPoint {
	return []admin.EntryPoint{{Name: "web", Address: ":8080", Limits: h1.DefaultLimits()}}
}

// serveAdmin serves the admin API of an edge with a table, and gives the
// address.
func serveAdmin(t *testing.T, table *route.Table) string {
	t.Helper()
	compiled := must.Get(program.Compiler{}.Compile(table))(t)
	source := &askedEdge{table: table, compiled: compiled, set: upstream.NewSet(upstream.DefaultConfig())}
	change := route.Diff(nil, table)
	source.set.Apply(&change)
	listener := programs.Listen(t, "")
	handler := admin.New(admin.Build{})
	handler.Attach(source)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- observe.ServeAdmin(ctx, listener, slog.New(slog.DiscardHandler), observe.Mount{Prefix: admin.Prefix, Handler: handler})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		source.set.Close()
	})
	return listener.Addr().String()
}

func shopTable() *route.Table {
	id := route.BackendID{Namespace: "shop", Name: "cart", Port: 80}
	prefix := func(value string) route.Match {
		return route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: value}}
	}
	return &route.Table{
		Backends: []*route.Backend{{ID: id, Endpoints: []route.Endpoint{{Address: netip.MustParseAddrPort("10.0.0.1:80")}}}},
		Rules: []*route.Rule{
			{ID: route.ID{Kind: "Ingress", Namespace: "shop", Name: "cart"}, Host: "shop.example.com", Match: prefix("/cart"),
				Policies: []route.Policy{{StripPrefix: &route.StripPrefix{Prefixes: []string{"/cart"}}}}, Backends: []route.BackendRef{{Backend: id}}},
			{ID: route.ID{Kind: "Ingress", Namespace: "shop", Name: "all"}, Host: "shop.example.com", Match: prefix("/"), Backends: []route.BackendRef{{Backend: id}}},
			{ID: route.ID{Name: "old"}, Match: prefix("/old"), Response: &route.Response{Status: 410}},
		},
	}
}

// askEdge runs a command line below edge.
func askEdge(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	err := edgecmd.ExecuteEdgeAdmin(t.Context(), append([]string{"edge"}, args...), &stdout, &stderr)
	return stdout.String(), err
}

func TestEdgeExplain(t *testing.T) {
	address := serveAdmin(t, shopTable())
	got, err := askEdge(t, "explain", "http://SHOP.example.com//cart/%37?a=b", "--admin", address)
	const want = `GET shop.example.com/cart/7?a=b at entry point web, plain
The path was given in another spelling; this is the one that is matched and forwarded.

Ingress shop/cart[0][0] serves it: host shop.example.com and prefix "/cart" fit.
  policy stripPrefix {"prefixes":["/cart"]}
  backend shop/cart:80
    10.0.0.1:80 ready, health ready, 0 in flight

Other rules, in the order in which they are tried:
  Ingress shop/all[0][0]  outranked  Ingress shop/cart[0][0] comes first: its path has 5 bytes that must be there, and here 1
  old[0][0]               differs    prefix "/old" does not fit "/cart/7"
`
	if err != nil || got != want {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
	for line, want := range map[string]string{
		"http://a.example.com/a%2fb":                  "It is refused with 400 before any rule is matched: ",
		"http://a.example.com/":                       "No rule matches it: 404.",
		"http://a.example.com/old":                    "  responds with 410 itself\n",
		"http://a.example.com/old --header X:\x1b[2J": "It is refused with 400",
	} {
		words := strings.SplitN(line, " ", 3)
		got, err := askEdge(t, append([]string{"explain", "--admin", address}, words...)...)
		if err != nil || !strings.Contains(got, want) || strings.ContainsRune(got, '\x1b') {
			t.Errorf("%s: %v\n%s", line, err, got)
		}
	}
	got, err = askEdge(t, "explain", "http://a.example.com/old", "--admin", address, "--output", "json", "--method", "PUT", "--entry-point", "web")
	var explanation admin.Explanation
	if err != nil || json.Unmarshal([]byte(got), &explanation) != nil || explanation.Status != 410 || explanation.Request.Method != "PUT" {
		t.Errorf("%v %s", err, got)
	}
}

func TestEdgeRoutes(t *testing.T) {
	address := serveAdmin(t, shopTable())
	got, err := askEdge(t, "routes", "--admin", address)
	const want = `HOST              PATH            RULE                     POLICIES     TO
*                 /old (prefix)   old[0][0]                             410
shop.example.com  /cart (prefix)  Ingress shop/cart[0][0]  stripPrefix  shop/cart:80
shop.example.com  / (prefix)      Ingress shop/all[0][0]                shop/cart:80
`
	if err != nil || got != want {
		t.Errorf("%v\n got %s\nwant %s", err, got, want)
	}
	got, err = askEdge(t, "routes", "--admin", address, "--host", "shop.example.com", "--search", "all")
	if err != nil || strings.Count(got, "\n") != 2 || !strings.Contains(got, "Ingress shop/all") {
		t.Errorf("%v\n%s", err, got)
	}
}

// TestEdgeRoutesPages: more rules than one response has.
func TestEdgeRoutesPages(t *testing.T) {
	table := &route.Table{}
	const count = 2001
	for i := range count {
		table.Rules = append(table.Rules, &route.Rule{
			ID: route.ID{Name: "r" + strconv.Itoa(i)}, Host: "h" + strconv.Itoa(i) + ".example.com", Response: &route.Response{Status: 204},
		})
	}
	got, err := askEdge(t, "routes", "--admin", serveAdmin(t, table), "--output", "json")
	var rules []admin.RuleInfo
	if err != nil || json.Unmarshal([]byte(got), &rules) != nil || len(rules) != count {
		t.Errorf("%v, %d rules", err, len(rules))
	}
}

func TestEdgeAskMistakes(t *testing.T) {
	address := serveAdmin(t, shopTable())
	closed := programs.FreeAddress(t)
	for _, c := range []struct {
		args  []string
		want  string
		usage bool
	}{
		{[]string{"explain", "shop.example.com", "--admin", address}, "start it with http:// or https://", true},
		{[]string{"explain", "http://a", "--entry-point", "x", "--admin", address}, `there is no entry point "x": choose one of web`, true},
		{[]string{"explain", "http://a", "--output", "xml", "--admin", address}, `--output "xml" is neither text nor json`, true},
		{[]string{"routes", "--output", "xml", "--admin", address}, `--output "xml" is neither text nor json`, true},
		{[]string{"routes", "--admin", "a b"}, `--admin "a b" is not an address`, true},
		{[]string{"routes", "--admin", closed.String()}, "is slipway edge running, and is this its admin.address?", false},
		{[]string{"explain"}, "accepts 1 arg(s), received 0", false},
	} {
		_, err := askEdge(t, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || edgecmd.IsUsageError(err) != c.usage {
			t.Errorf("%v: %v", c.args, err)
		}
	}
	if help, err := askEdge(t, "explain", "--help"); err != nil || !strings.Contains(help, "which\nrule matches and why") || strings.Contains(help, "the help of edge") {
		t.Errorf("help: %v\n%s", err, help)
	}
}
