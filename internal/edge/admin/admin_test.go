package admin_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"slipway.dev/slipway/internal/edge/admin"
	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// list is a part of a list, as the API gives it.
type list[V any] struct {
	Total, Matched, Offset, Limit int
	Items                         []V
}

func TestStarting(t *testing.T) {
	s := serve(t)
	if response, body := s.get(t, "rules"); response.StatusCode != 503 || !strings.Contains(body, "starting") {
		t.Errorf("before Attach: %d %s", response.StatusCode, body)
	}
	if build := decode[admin.Build](t, s, "version"); build.Version != "v1" || build.Commit != "abc" {
		t.Errorf("version: %+v", build)
	}
	s.Attach(newParts(t, &route.Table{}))
	if rules := decode[list[admin.RuleInfo]](t, s, "rules"); rules.Total != 0 || rules.Items == nil {
		t.Errorf("an empty table: %+v", rules)
	}
}

func TestTable(t *testing.T) {
	s := serve(t)
	s.Attach(newParts(t, shopTable(t)))
	table := decode[map[string]any](t, s, "table")
	if rules := table["rules"].([]any); len(rules) != 4 {
		t.Errorf("%d rules", len(rules))
	}
	response, body := s.get(t, "table?format=yaml")
	if kind := response.Header.Get("Content-Type"); kind != "application/yaml" {
		t.Errorf("type %s", kind)
	}
	if strings.Contains(body, canary) || strings.Contains(body, "PRIVATE KEY") {
		t.Errorf("the YAML shows a secret:\n%s", body)
	}
	for _, want := range []string{"\n      host: shop.example.com\n", "visible", "'[redacted]'"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	var again map[string]any
	if err := yaml.Unmarshal([]byte(body), &again); err != nil || len(again["rules"].([]any)) != 4 {
		t.Errorf("the YAML does not read: %v", err)
	}
}

func TestRules(t *testing.T) {
	s := serve(t)
	table := shopTable(t)
	other := *table.Rules[0]
	other.ID.Name, other.Host = "other", "a.example.com"
	table.Rules = append(table.Rules, &other)
	s.Attach(newParts(t, table))
	names := func(path string) (names []string, got list[admin.RuleInfo]) {
		got = decode[list[admin.RuleInfo]](t, s, path)
		for _, item := range got.Items {
			names = append(names, item.ID.Name)
		}
		return names, got
	}
	// By host, and then in the order in which they are tried.
	if got, page := names("rules"); !slices.Equal(got, []string{"other", "guarded", "cart", "gone", "all"}) || page.Total != 5 || page.Matched != 5 {
		t.Errorf("all: %v %+v", got, page)
	}
	if got, page := names("rules?host=SHOP.example.com&limit=2&offset=1"); !slices.Equal(got, []string{"cart", "gone"}) || page.Matched != 4 || page.Total != 5 {
		t.Errorf("a part: %v %+v", got, page)
	}
	for q, want := range map[string][]string{
		"/cart": {"other", "guarded", "cart", "all"}, "/old": {"gone"}, "ingress shop/gone": {"gone"}, "cart:80": {"other", "guarded", "cart", "all"}, "nothing": nil,
	} {
		if got, _ := names("rules?q=" + url.QueryEscape(q)); !slices.Equal(got, want) {
			t.Errorf("q=%s: %v, want %v", q, got, want)
		}
	}
	_, page := names("rules?q=guarded")
	if got := page.Items[0]; !slices.Equal(got.Policies, []string{"basicAuth", "chain"}) || got.Backends[0].Weight != 3 {
		t.Errorf("%+v", got)
	}
}

func TestBackendsAndCertificates(t *testing.T) {
	s := serve(t)
	parts := newParts(t, shopTable(t))
	s.Attach(parts)
	// A request that runs shows.
	lease := must.Get(parts.set.Handle(route.BackendID{Namespace: "shop", Name: "cart", Port: 80}).Pick(upstream.PickOptions{}))(t)
	backends := decode[list[upstream.BackendState]](t, s, "backends?q=cart")
	if len(backends.Items) != 1 || backends.Items[0].Endpoints[0].InFlight != 1 {
		t.Errorf("%+v", backends)
	}
	lease.Done(upstream.OK)
	certificates := decode[list[admin.CertificateState]](t, s, "certificates?q=shop.example")
	if len(certificates.Items) != 1 {
		t.Fatalf("%+v", certificates)
	}
	if c := certificates.Items[0]; !c.Valid || c.DaysLeft != 1 || !slices.Equal(c.Names, []string{"shop.example.com"}) || c.ID.Name != "tls" {
		t.Errorf("%+v", c)
	}
	points := decode[list[admin.EntryPoint]](t, s, "entrypoints")
	if len(points.Items) != 2 || points.Items[1].Name != "websecure" || !points.Items[1].TLS {
		t.Errorf("%+v", points)
	}
}

func TestExplain(t *testing.T) {
	s := serve(t)
	s.Attach(newParts(t, shopTable(t)))
	ask := func(rest string, params ...string) admin.Explanation {
		t.Helper()
		values := url.Values{"url": {rest}}
		for i := 0; i < len(params); i += 2 {
			values.Add(params[i], params[i+1])
		}
		return decode[admin.Explanation](t, s, "explain?"+values.Encode())
	}
	verdicts := func(e admin.Explanation) (out []string) {
		for _, step := range e.Steps {
			out = append(out, step.ID.Name+" "+string(step.Decision))
		}
		return out
	}

	e := ask("https://Shop.Example.com:8443/x/../%63art/7?a=b", "method", "POST")
	if got := e.Request; got.EntryPoint != "websecure" || !got.TLS || got.Method != "POST" || got.Host != "shop.example.com" || got.Path != "/cart/7" || got.Query != "a=b" || !got.Rewritten {
		t.Errorf("read as %+v", got)
	}
	if e.Rule == nil || e.Rule.Name != "cart" || e.Status != 0 || len(e.Backends) != 1 || len(e.Backends[0].Endpoints) != 1 {
		t.Errorf("%+v", e)
	}
	if got := verdicts(e); !slices.Equal(got, []string{"guarded differs", "cart wins", "gone differs", "all outranked"}) {
		t.Errorf("steps: %v", got)
	}
	if why := e.Steps[3].Why; !strings.Contains(why, "comes first") {
		t.Errorf("why: %s", why)
	}

	e = ask("http://shop.example.com/admin")
	if e.Rule.Name != "all" || e.Steps[0].Decision != program.Differs || !strings.Contains(e.Steps[0].Why, `"[redacted]"`) {
		t.Errorf("%+v", e.Steps)
	}
	e = ask("http://shop.example.com/admin?access_token=wrong", "header", "X-Api-Key: wrong", "entryPoint", "web")
	if e.Rule.Name != "all" {
		t.Errorf("a wrong key: %+v", e)
	}
	if e = ask("http://shop.example.com/old/x"); e.Status != 410 || e.Rule.Name != "gone" {
		t.Errorf("a response: %+v", e)
	}
	if e = ask("http://nobody.example.com"); e.Status != 404 || e.Rule != nil || len(e.Steps) != 0 || e.Request.Path != "/" {
		t.Errorf("no rule: %+v", e)
	}
}

// TestExplainListener: a request that no entry point serves is explained at the listener
// that does, by the port of its URL. Headers of backends are redacted.
func TestExplainListener(t *testing.T) {
	table := shopTable(t)
	at := func(name string, port uint16, tls bool) route.ListenerID {
		id := route.ListenerID{Namespace: "infra", Name: name, Port: port}
		table.Listeners = append(table.Listeners, &route.Listener{ID: id, Address: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), port), TLS: tls})
		return id
	}
	add := func(id route.ListenerID, name string, response *route.Response) *route.Rule {
		rule := &route.Rule{
			ID: route.ID{Kind: "HTTPRoute", Namespace: "shop", Name: name}, Listener: id, Host: "gateway.example.com",
			Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/"}}, Response: response,
		}
		table.Rules = append(table.Rules, rule)
		return rule
	}
	add(at("closed", 80, false), "closed", &route.Response{Status: 404, Reason: route.ReasonConfigured})
	served := add(at("open", 80, false), "open", nil)
	served.Rewrite = &route.Rewrite{Host: "inner.example.com", ReplacePrefix: "/", Path: "/new"}
	served.Backends = []route.BackendRef{
		{Backend: table.Backends[0].ID, Weight: 1, RequestHeaders: &route.RequestHeaders{Set: []route.HeaderValue{{Name: "Authorization", Value: canary}}}},
		{Status: 500, Weight: 1},
	}
	add(at("secure", 443, true), "secure", &route.Response{Status: 201, Reason: route.ReasonConfigured})
	s := serve(t)
	s.Attach(newParts(t, table))
	for _, test := range []struct{ url, entryPoint, want string }{
		{"http://gateway.example.com/a", "", "infra/open:80"},
		{"http://gateway.example.com/a", "infra/closed:80", "infra/closed:80"},
		{"http://gateway.example.com:8080/a", "", ""},
		{"https://gateway.example.com/", "", "infra/secure:443"},
		{"http://gateway.example.com/a", "web", ""},
		{"http://shop.example.com/cart", "", ""},
	} {
		e := decode[admin.Explanation](t, s, "explain?"+url.Values{"url": {test.url}, "entryPoint": {test.entryPoint}}.Encode())
		if e.Request.Listener != test.want || (e.Request.EntryPoint == "") == (test.want == "") {
			t.Errorf("%s at %q is explained at %q, %q", test.url, test.entryPoint, e.Request.Listener, e.Request.EntryPoint)
		}
	}
	e := decode[admin.Explanation](t, s, "explain?text=1&url=http://gateway.example.com/a")
	for _, want := range []string{
		"at listener infra/open:80, plain", "rewrites the host to inner.example.com, the prefix / to /new", "no backend, weight 1 of 2: responds with 500",
	} {
		if !strings.Contains(e.Text, want) {
			t.Errorf("%q is not in\n%s", want, e.Text)
		}
	}
	if _, dump := s.get(t, "table"); strings.Contains(dump, canary) || !strings.Contains(dump, "inner.example.com") {
		t.Error("the table is not redacted")
	}
}

// TestExplainClient: rules for clients are matched against the given address.
func TestExplainClient(t *testing.T) {
	table := shopTable(t)
	table.Rules = append(table.Rules, &route.Rule{
		ID: route.ID{Namespace: "shop", Name: "office"}, Host: "office.example.com",
		Match: route.Match{
			Path:    route.PathMatch{Type: route.PathPrefix, Value: "/"},
			Further: []route.Condition{{Clients: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}},
		},
		Response: &route.Response{Status: 201, Reason: route.ReasonConfigured},
	})
	s := serve(t)
	s.Attach(newParts(t, table))
	for client, status := range map[string]int{"": 404, "198.51.100.1": 404, "192.0.2.7": 201, "::ffff:192.0.2.7": 201} {
		e := decode[admin.Explanation](t, s, "explain?text=1&"+url.Values{"url": {"http://office.example.com/"}, "client": {client}}.Encode())
		if e.Status != status || status == 201 && !strings.Contains(e.Text, "plain, from 192.0.2.7") {
			t.Errorf("from %q: %d\n%s", client, e.Status, e.Text)
		}
	}
}

// TestExplainGuarded: the right key leads to the rule that asks for it, whose
// policies are shown without their secrets.
func TestExplainGuarded(t *testing.T) {
	s := serve(t)
	table := shopTable(t)
	table.Rules[2].Match.Headers[0].Value = "open-sesame"
	table.Rules[2].Match.Query = nil
	s.Attach(newParts(t, table))
	values := url.Values{"url": {"http://shop.example.com/admin"}, "header": {"X-Other: 1", "X-Api-Key: open-sesame"}}
	e := decode[admin.Explanation](t, s, "explain?"+values.Encode())
	if e.Rule.Name != "guarded" || len(e.Policies) != 2 {
		t.Errorf("%+v", e)
	}
	if e.Policies[0].Name != "basicAuth" || e.Policies[1].Name != "chain" {
		t.Errorf("policies: %+v", e.Policies)
	}
	for i, want := range []string{`"users": "[redacted]"`, `"visible"`} {
		if got := string(e.Policies[i].Settings); !strings.Contains(got, want) {
			t.Errorf("policy %d: %s", i, got)
		}
	}
}

// TestExplainRefusal: what the edge would refuse is refused here, by the same
// code.
func TestExplainRefusal(t *testing.T) {
	s := serve(t)
	s.Attach(newParts(t, shopTable(t)))
	for _, c := range []struct {
		name, url, header string
		status            int
		label             string
	}{
		{"encoded slash", "http://shop.example.com/a%2fb", "", 400, "encoded_slash"},
		{"fragment", "http://shop.example.com/a#b", "", 400, "fragment"},
		{"bad host", "http://sh op/", "", 400, ""},
		{"underscore", "http://shop.example.com/", "X_Evil: 1", 400, "underscore"},
		{"smuggling", "http://shop.example.com/", "Transfer-Encoding: chunked", 400, "coding"},
		{"too long", "http://shop.example.com/" + strings.Repeat("a", 9000), "", 414, ""},
	} {
		values := url.Values{"url": {c.url}}
		if c.header != "" {
			values.Set("header", c.header)
		}
		e := decode[admin.Explanation](t, s, "explain?"+values.Encode())
		if e.Refusal == nil || e.Refusal.Message == "" || e.Rule != nil || len(e.Steps) != 0 {
			t.Errorf("%s: %+v", c.name, e)
			continue
		}
		if e.Refusal.Status != c.status || e.Status != c.status || c.label != "" && e.Refusal.Label != c.label {
			t.Errorf("%s: %+v", c.name, e.Refusal)
		}
	}
}

func TestMistakes(t *testing.T) {
	s := serve(t)
	s.Attach(newParts(t, shopTable(t)))
	for path, want := range map[string]string{
		"rules?hots=x":                              `the parameter \"hots\" is unknown: use host, q, limit, offset`,
		"rules?host=a&host=b":                       "given twice",
		"rules?limit=1001":                          "from 0 to 1000",
		"rules?limit=x":                             "from 0 to 1000",
		"rules?offset=-1":                           "from 0 to",
		"rules?host=%zz":                            "cannot be parsed",
		"table?format=xml":                          "choose json or yaml",
		"explain":                                   "the parameter url is missing",
		"explain?url=shop.example.com":              "start it with http:// or https://",
		"explain?url=http://a&entryPoint=x":         "choose one of web, websecure",
		"explain?url=http://a&header=nocolon":       "write it as Name: value",
		"explain?url=http://a&client=10.0.0.0/8":    "write an address such as 192.0.2.1",
		"entrypoints?x=1":                           "there are none",
		"version?x=1":                               "there are none",
		"backends?limit=99999999999999999999999999": "from 0 to 1000",
	} {
		response, body := s.get(t, path)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want %q", path, response.StatusCode, body, want)
		}
	}
}

// TestGuard: the admin server's guard is in front of the API, nothing but GET
// is allowed, and no other site is let in.
func TestGuard(t *testing.T) {
	s := serve(t)
	s.Attach(newParts(t, shopTable(t)))
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"plain":        {func(*http.Request) {}, 200},
		"localhost":    {func(r *http.Request) { r.Host = "localhost:1" }, 200},
		"rebound name": {func(r *http.Request) { r.Host = "evil.example:8090" }, 403},
		"other origin": {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, 403},
		"cross site":   {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		"POST":         {func(r *http.Request) { r.Method = http.MethodPost }, 405},
		"DELETE":       {func(r *http.Request) { r.Method = http.MethodDelete }, 405},
		"OPTIONS":      {func(r *http.Request) { r.Method = http.MethodOptions }, 405},
	} {
		response, body := s.get(t, "table", c.change)
		if response.StatusCode != c.status {
			t.Errorf("%s: %d %s", name, response.StatusCode, body)
		}
		if got := response.Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: CORS %q", name, got)
		}
		if c.status == 200 && response.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: it may be cached", name)
		}
	}
}
