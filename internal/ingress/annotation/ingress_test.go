package annotation

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

const (
	own    = "slipway.dev/"
	router = "traefik.ingress.kubernetes.io/router."
	svc    = "traefik.ingress.kubernetes.io/service."
)

func field(name string) string { return "metadata.annotations[" + name + "]" }

func yes() *bool { v := true; return &v }
func no() *bool  { v := false; return &v }

func TestParseIngress(t *testing.T) {
	for _, test := range []struct {
		name  string
		given map[string]string
		want  Ingress
	}{
		{"nothing", map[string]string{"example.com/x": "y", "kubernetes.io/ingress.class": "slipway"}, Ingress{}},
		{"own settings", map[string]string{
			own + "entry-points": "web, websecure,web", own + "priority": "-5", own + "path-matcher": "PathRegexp", own + "tls": "only",
			own + "timeout-connect": "1s", own + "timeout-total": "1m30s", own + "tls-options": "other/modern",
		}, Ingress{
			EntryPoints: []string{"web", "websecure"}, Priority: -5, PathMatcher: MatchPathRegexp, TLS: TLSOnly,
			Timeouts:   route.Timeouts{Connect: 1e9, Total: 90e9},
			TLSOptions: &Name{snapshot.TLSOption, "other/modern", field(own + "tls-options")},
		}},
		{"traefik settings, in any case", map[string]string{
			router + "EntryPoints": "web", router + "priority": "7", router + "PathMatcher": "Path", router + "tls": "true",
			router + "tls.certResolver": "le", router + "tls.options": "a-b@kubernetescrd", router + "ruleSyntax": "v3",
			router + "observability.accessLogs": "false", router + "observability.metrics": "true",
			router + "tls.domains.1.main": "B.example.com", router + "tls.domains.0.main": "a.example.com",
			router + "tls.domains.0.sans": "x.example.com, *.example.com",
		}, Ingress{
			EntryPoints: []string{"web"}, RouterPriority: 7, PathMatcher: MatchPath, TLS: TLSOnly, CertResolver: "le",
			TLSOptions: &Name{snapshot.TraefikTLSOption, "a-b@kubernetescrd", field(router + "tls.options")},
			Domains: []Domain{
				{"a.example.com", []string{"x.example.com", "*.example.com"}, field(router + "tls.domains.0.main")},
				{"b.example.com", nil, field(router + "tls.domains.1.main")},
			},
			Observability: Observability{AccessLogs: no(), Metrics: yes()},
		}},
		{"both spellings that agree", map[string]string{
			own + "tls": "both", router + "tls": "false",
		}, Ingress{TLS: TLSBoth}},
		{"middlewares", map[string]string{
			own + "middlewares": "b, ns/a", router + "middlewares": "x-y@kubernetescrd",
		}, Ingress{Middlewares: []Name{
			{snapshot.TraefikMiddleware, "x-y@kubernetescrd", field(router + "middlewares")},
			{snapshot.Middleware, "b", field(own + "middlewares")},
			{snapshot.Middleware, "ns/a", field(own + "middlewares")},
		}}},
		{"host grants", map[string]string{own + "host-grants": " team-b=/shop,/api  team-c "}, Ingress{HostGrants: []HostGrant{
			{"team-b", []string{"/shop", "/api"}, field(own + "host-grants")}, {"team-c", nil, field(own + "host-grants")},
		}}},
		{"a template that is off", map[string]string{
			router + "middlewares": "", router + "entrypoints": "", own + "compression": "false",
		}, Ingress{}},
	} {
		got, faults := ParseIngress(test.given)
		if len(faults) > 0 || !reflect.DeepEqual(*got, test.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", test.name, faults, *got, test.want)
		}
	}
}

// Filters come in the one order that is documented.
func TestFilterOrder(t *testing.T) {
	got, faults := ParseIngress(map[string]string{
		own + "mirror": "{service: {name: next, port: 80}}", own + "retry": "3", own + "strip-prefix": "/api, /v1", own + "basic-auth": "users",
		own + "ip-filter": "10.0.0.0/8", own + "redirect-scheme": "https", own + "compression": "true", own + "rate-limit": "100/1s",
	})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	names := func(filters []v1alpha1.Filter) (list []string) {
		for i := range filters {
			list = append(list, filters[i].Name())
		}
		return list
	}
	if want := []string{"redirectScheme", "ipFilter", "rateLimit", "basicAuth"}; !slices.Equal(names(got.Before), want) {
		t.Errorf("before: %v", names(got.Before))
	}
	if want := []string{"compression", "stripPrefix", "retry", "mirror"}; !slices.Equal(names(got.After), want) {
		t.Errorf("after: %v", names(got.After))
	}
	if limit := got.Before[2].RateLimit; limit.Requests != 100 || limit.Period != 1e9 {
		t.Errorf("%+v", limit)
	}
	if prefixes := got.After[1].StripPrefix.Prefixes; !slices.Equal(prefixes, []string{"/api", "/v1"}) {
		t.Error(prefixes)
	}
}

// The order is a promise: users rely on who is asked before whom.
func TestWholeOrder(t *testing.T) {
	given := map[string]string{}
	for name, field := range filterFields() {
		given[filterKey(name)] = field.Tag.Get("example")
	}
	got, faults := ParseIngress(given)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	order := ""
	for _, filters := range [][]v1alpha1.Filter{got.Before, {{}}, got.After} {
		for i := range filters {
			order += filters[i].Name() + " "
		}
	}
	const want = "redirectScheme redirectRegexp ipFilter cors rateLimit inFlight bodyLimit basicAuth forwardAuth forwardCertificate waf  " +
		"errorPages compression responseHeaders requestHeaders stripPrefix stripPrefixRegexp replacePath replacePathRegexp addPrefix " +
		"buffering retry circuitBreaker mirror "
	if order != want {
		t.Errorf("got  %s\nwant %s", order, want)
	}
}

// Every filter that an annotation can have is in the order once.
func TestOrderIsComplete(t *testing.T) {
	before, after := filterOrder()
	order := append(before, after...)
	known := slices.Sorted(maps.Keys(filterFields()))
	if len(known) != 24 || !slices.Equal(slices.Sorted(slices.Values(order)), known) {
		t.Errorf("the order has %v\nand the filters are %v", order, known)
	}
}

func TestFilterForms(t *testing.T) {
	for _, test := range []struct {
		key, value string
		want       v1alpha1.Filter
	}{
		{"cors", "*", v1alpha1.Filter{CORS: &v1alpha1.CORS{AllowOrigins: []string{"*"}}}},
		{"cors", "[https://a.example, https://b.example]", v1alpha1.Filter{CORS: &v1alpha1.CORS{AllowOrigins: []string{"https://a.example", "https://b.example"}}}},
		{"body-limit", "10Mi", v1alpha1.Filter{BodyLimit: &v1alpha1.BodyLimit{MaxBytes: 10 << 20}}},
		{"body-limit", "maxBytes: 512", v1alpha1.Filter{BodyLimit: &v1alpha1.BodyLimit{MaxBytes: 512}}},
		{"strip-prefix-regexp", "^/v[0-9]{1,2}", v1alpha1.Filter{StripPrefixRegexp: &v1alpha1.StripPrefixRegexp{Regexps: []v1alpha1.Expression{"^/v[0-9]{1,2}"}}}},
		{"redirect-scheme", "scheme: https\nstatus: 301\n", v1alpha1.Filter{RedirectScheme: &v1alpha1.RedirectScheme{Scheme: "https", Status: 301}}},
		{"rate-limit", "{requests: 5, key: {by: header, name: X-Key}}", v1alpha1.Filter{RateLimit: &v1alpha1.RateLimit{Requests: 5, Period: 1e9, Key: &v1alpha1.RequestKey{By: "header", Name: "X-Key"}}}},
		{"circuit-breaker", "50", v1alpha1.Filter{CircuitBreaker: &v1alpha1.CircuitBreaker{FailurePercent: 50, Window: 10e9, MinRequests: 20, Open: 10e9}}},
		{"compression", "zstd,gzip", v1alpha1.Filter{Compression: &v1alpha1.Compression{Encodings: []string{"zstd", "gzip"}}}},
		{"mirror", "{service: {name: n, port: http}}", v1alpha1.Filter{Mirror: &v1alpha1.Mirror{Service: v1alpha1.ServiceRef{Name: "n", Port: v1alpha1.ServicePort{Name: "http"}}, Percent: 100}}},
	} {
		got, faults := ParseIngress(map[string]string{own + test.key: test.value})
		all := append(got.Before, got.After...)
		if len(faults) > 0 || len(all) != 1 || !reflect.DeepEqual(all[0], test.want) {
			t.Errorf("%s: %s: %v %+v", test.key, test.value, faults, all)
		}
	}
}

func TestIngressFaults(t *testing.T) {
	for _, test := range []struct {
		key, value, at string
		reason         refusal.Reason
		says           string
		closed         bool
	}{
		{own + "rate-limit", "fast", "", refusal.Invalid, "not a rate", true},
		{own + "rate-limit", "{requests: 5, perod: 1s}", ".perod", refusal.Invalid, "did you mean period?", true},
		{own + "rate-limit", "{requests: 0}", ".requests", refusal.Invalid, "less than 1", true},
		{own + "ip-filter", "10.0.0.0/8, moon", ".allow[1]", refusal.Invalid, "not a range", true},
		{own + "basic-auth", "", "", refusal.Invalid, "empty", true},
		{own + "basic-auth", "{secret: a, secret: b}", "", refusal.Invalid, "twice", true},
		{own + "forward-auth", "auth", "", refusal.Invalid, "no short form", true},
		{own + "cors", "a: &x 1\nb: *x", "", refusal.Invalid, "anchors", true},
		{own + "chain", "{middlewares: [a]}", "", refusal.Invalid, "no such annotation", true},
		{own + "basic-auht", "x", "", refusal.Invalid, "did you mean slipway.dev/basic-auth?", true},
		{own + "Priority", "1", "", refusal.Invalid, "did you mean slipway.dev/priority?", true},
		{own + "entry-points", " , ", "", refusal.Invalid, "empty", true},
		{own + "priority", "3000000000", "", refusal.Invalid, "whole number", true},
		{own + "path-matcher", "path", "", refusal.Invalid, "use one of Path", true},
		{own + "host-grants", " ", "", refusal.Invalid, "empty", false},
		{own + "host-grants", "team_b=/shop", "", refusal.Invalid, `"team_b" is not the name of a namespace`, false},
		{own + "host-grants", "*", "", refusal.Invalid, "not the name of a namespace", false},
		{own + "host-grants", "team-b:/shop", "", refusal.Invalid, "write grants as team-b=/shop,/api team-c", false},
		{own + "host-grants", "team-b=shop", "", refusal.Invalid, "start it with a slash", false},
		{own + "host-grants", "team-b=/shop, /api", "", refusal.Invalid, "commas without spaces", false},
		{own + "host-grants", "team-b=", "", refusal.Invalid, "start it with a slash", false},
		{own + "host-grants", "team-b=/shop team-b=/api", "", refusal.Invalid, "named twice", false},
		{own + "host-grants", "b=" + strings.Repeat("/a,", 64) + "/a", "", refusal.Invalid, "more than 64", false},
		{own + "host-grant", "team-b", "", refusal.Invalid, "did you mean slipway.dev/host-grants?", true},
		{own + "timeout-idle", "10", "", refusal.Invalid, "not a time", false},
		{own + "tls", "true", "", refusal.Invalid, "use one of only, both", true},
		{own + "scheme", "https", "", refusal.Invalid, "only on a Service", true},
		{own + "balance", "hash", "", refusal.Invalid, "only on a Service", false},
		{own + "middlewares", strings.Repeat("a,", 3) + strings.Repeat("b", 5000), "", refusal.Invalid, "4096 bytes", true},
		{svc + "sticky.cookie", "true", "", refusal.Invalid, "only on a Service", false},
		{router + "tls", "maybe", "", refusal.Invalid, "neither true nor false", true},
		{router + "rulesyntax", "v2", "", refusal.Unsupported, "remove", true},
		{router + "observability.traceVerbosity", "minimal", "", refusal.Unsupported, "not supported", false},
		{router + "observability.metrics", "x", "", refusal.Invalid, "neither", false},
		{router + "tls.domains.0.sans", "a.example.com", "", refusal.Invalid, "no .main", true},
		{router + "tls.domains.0.main", "a b", "", refusal.Invalid, "not a host", true},
		{router + "tls.domains.x.main", "a.example.com", "", refusal.Invalid, "did you mean", true},
		{router + "entrypoint", "web", "", refusal.Invalid, "did you mean traefik.ingress.kubernetes.io/router.entrypoints?", true},
		{"traefik.ingress.kubernetes.io/rewrite-target", "/", "", refusal.Invalid, "no such annotation", false},
	} {
		got, faults := ParseIngress(map[string]string{test.key: test.value})
		if len(faults) != 1 {
			t.Errorf("%s: %q: %v", test.key, test.value, faults)
			continue
		}
		fault := faults[0]
		if fault.Field != field(test.key)+test.at || fault.Reason != test.reason || !strings.Contains(fault.Message, test.says) || got.Closed != test.closed {
			t.Errorf("%s: %q: closed %t, %+v", test.key, test.value, got.Closed, fault)
		}
		if got.Closed = false; !reflect.DeepEqual(*got, Ingress{}) {
			t.Errorf("%s: %q left %+v", test.key, test.value, got)
		}
	}
}

func TestConflicts(t *testing.T) {
	for _, pair := range [][4]string{
		{own + "priority", "1", router + "priority", "2"},
		{own + "entry-points", "a", router + "entrypoints", "b"},
		{own + "path-matcher", "Path", router + "pathmatcher", "PathRegexp"},
		{own + "tls", "both", router + "tls", "true"},
		{own + "tls-options", "a", router + "tls.options", "a"},
		{router + "Priority", "1", router + "priority", "2"},
	} {
		got, faults := ParseIngress(map[string]string{pair[0]: pair[1], pair[2]: pair[3]})
		if len(faults) != 1 || faults[0].Reason != refusal.Conflict || !got.Closed ||
			faults[0].Field != field(pair[2]) || !strings.Contains(faults[0].Message, pair[0]) {
			t.Errorf("%v: closed %t, %v", pair, got.Closed, faults)
		}
	}
}

// One fault does not hide another, nor what is in order.
func TestFaultsAreIndependent(t *testing.T) {
	got, faults := ParseIngress(map[string]string{
		own + "rate-limit": "x", own + "retry": "1", own + "nonsense": "y", own + "priority": "4", own + "body-limit": "1Ki",
	})
	if len(faults) != 3 || got.Priority != 4 || len(got.Before) != 1 || !got.Closed {
		t.Errorf("%+v %v", got, faults)
	}
}

// What the delivery plane reads is not taken for a mistake.
func TestDelivery(t *testing.T) {
	given := map[string]string{own + "progress-deadline": "10m"}
	if got, faults := ParseIngress(given); len(faults) > 0 || got.Closed {
		t.Errorf("on an Ingress: %+v %v", got, faults)
	}
	if _, faults := ParseService(given); len(faults) > 0 {
		t.Errorf("on a Service: %v", faults)
	}
}

func TestPlace(t *testing.T) {
	filters := []v1alpha1.Filter{{RateLimit: &v1alpha1.RateLimit{}}, {BasicAuth: &v1alpha1.BasicAuth{}}}
	for given, want := range map[string]string{
		"[1].basicAuth.secret": field(own+"basic-auth") + ".secret",
		"[0].rateLimit":        field(own + "rate-limit"),
		"[0]":                  field(own + "rate-limit"),
		"[7].x":                "[7].x",
		"spec":                 "spec",
	} {
		if got := Place(filters, refusal.Refusal{Field: given}).Field; got != want {
			t.Errorf("%s: %s, want %s", given, got, want)
		}
	}
}
