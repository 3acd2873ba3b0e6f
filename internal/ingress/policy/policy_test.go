package policy

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// full has every field of every filter.
var full = map[string]string{
	"redirectScheme":     `{scheme: https, port: 8443, status: 308}`,
	"redirectRegexp":     `{regexp: '^http://(.*)', replacement: 'https://${1}', status: 301}`,
	"ipFilter":           `{allow: [10.0.0.0/8, '2001:db8::1'], deny: [10.1.0.0/16], status: 404}`,
	"cors":               `{allowOrigins: ['https://a.example'], allowOriginRegexps: ['https://.*'], allowMethods: [GET], allowHeaders: [X-A], exposeHeaders: [X-B], allowCredentials: true, maxAge: 1h}`,
	"rateLimit":          `{requests: 10, period: 1m, burst: 20, key: {by: header, name: X-Key}}`,
	"inFlight":           `{max: 5, key: {by: client}}`,
	"bodyLimit":          `{maxBytes: 1Mi}`,
	"basicAuth":          `{secret: users, realm: Shop, userHeader: X-User, keepAuthorization: true}`,
	"forwardAuth":        `{service: {name: auth, port: 8080}, path: /check, query: 'a=b', host: auth.local, method: POST, requestHeaders: [Cookie], responseHeaders: [X-User], signinURL: 'https://login.example', maxBodyBytes: 1Ki, maxResponseBytes: 64Ki, timeout: 2s}`,
	"forwardCertificate": `{pemHeader: X-Cert, infoHeader: X-Info, info: [subject, names]}`,
	"waf":                `{mode: deny, withoutCoreRules: true, directives: 'SecRule ARGS "@streq x" "id:1,deny"'}`,
	"errorPages":         `{statuses: [404, 500-599], service: {name: pages, port: http}, path: '/{status}.html'}`,
	"compression":        `{encodings: [zstd, br, gzip], minBytes: 512, contentTypes: [text/html], excludeContentTypes: [text/css]}`,
	"responseHeaders":    `{set: {X-A: b, X-C: d}, add: [{name: X-E, value: f}], remove: [Server]}`,
	"requestHeaders":     `{set: {X-A: b}, add: [{name: X-E}], remove: [X-G]}`,
	"stripPrefix":        `{prefixes: [/a, /b], forwardPrefix: true}`,
	"stripPrefixRegexp":  `{regexps: ['^/v[0-9]+'], forwardPrefix: true}`,
	"replacePath":        `{path: /x}`,
	"replacePathRegexp":  `{regexp: '^/a(.*)', replacement: '/b${1}'}`,
	"addPrefix":          `{prefix: /p}`,
	"buffering":          `{maxRequestBytes: 1Mi, maxResponseBytes: 2Mi}`,
	"retry":              `{attempts: 3, on: [connect, reset, timeout, unavailable], unsafeMethods: true, attemptTimeout: 1s, backoff: 10ms}`,
	"circuitBreaker":     `{failurePercent: 50, window: 5s, minRequests: 10, open: 3s}`,
	"mirror":             `{service: {name: next, port: 80}, percent: 10, maxBodyBytes: 4Ki}`,
	"chain":              `{middlewares: [leaf]}`,
}

// ofOthers are the fields of policies that a Middleware of ours does not have: only routes
// of Gateway API, annotations of ingress-nginx and Middlewares of Traefik set them.
var ofOthers = map[string]bool{
	"waf.IDHeader": true, "retry.Statuses": true, "mirror.Of": true,
	"redirectScheme.TrimSlash": true, "rateLimit.Status": true, "inFlight.Status": true, "errorPages.Headers": true,
	"forwardAuth.ResponseHeadersRegexp": true, "forwardAuth.AuthRequest": true,
	"ipFilter.Client": true, "rateLimit.Client": true, "inFlight.Client": true,
	"rateLimit.PerReplica": true, "inFlight.PerReplica": true,
	"forwardCertificate.Bare": true, "forwardCertificate.Subject": true, "forwardCertificate.Issuer": true,
	"forwardCertificate.VerifyHeader": true, "forwardCertificate.Unverified": true, "forwardCertificate.SubjectHeader": true, "forwardCertificate.IssuerHeader": true,
}

// Every filter, with all its fields and with the example of the reference,
// becomes one policy that a rule can have, and no field is lost.
func TestEveryFilter(t *testing.T) {
	w := newWorld(t)
	w.put(t, "leaf", `{filters: [{addPrefix: {prefix: /leaf}}]}`)
	fields := declare.Fields(reflect.TypeFor[v1alpha1.Filter]())
	if len(fields) != len(full) || len(fields) != reflect.TypeFor[route.Policy]().NumField()-1 {
		t.Fatalf("%d filters, %d here, and %d policies", len(fields), len(full), reflect.TypeFor[route.Policy]().NumField()-1)
	}
	for _, field := range fields {
		made, faults := Middleware(object(t, snapshot.Middleware, "m", fmt.Sprintf("filters: [{%s: %s}]", field.Name, full[field.Name])), w.source)
		if len(faults) > 0 || len(made) != 1 {
			t.Errorf("%s: %v %v", field.Name, made, faults)
			continue
		}
		valid(t, made)
		if want := (route.PolicyID{Kind: "Middleware.slipway.dev", Namespace: "shop", Name: "m", Variant: field.Name}); made[0].ID != want {
			t.Errorf("%s: %+v", field.Name, made[0].ID)
		}
		action := reflect.ValueOf(made[0].Action())
		if !action.IsValid() || !strings.EqualFold(action.Elem().Type().Name(), field.Name) {
			t.Errorf("%s became %v", field.Name, action)
			continue
		}
		for i := range action.Elem().NumField() {
			if name := action.Elem().Type().Field(i).Name; action.Elem().Field(i).IsZero() && !ofOthers[field.Name+"."+name] {
				t.Errorf("%s: %s is lost", field.Name, name)
			}
		}
	}
}

func TestMeaning(t *testing.T) {
	w := newWorld(t)
	w.put(t, "leaf", `{filters: [{rateLimit: {requests: 1}}]}`)
	spec := `filters: [{responseHeaders: ` + full["responseHeaders"] + `}, {forwardAuth: {service: {name: auth, port: http}}},
		{rateLimit: {requests: 2}}, {rateLimit: {requests: 3, period: 1h}}, {chain: {middlewares: [leaf]}}, {basicAuth: {secret: users}}]`
	got, faults := Middleware(object(t, snapshot.Middleware, "m", spec), w.source)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	id := func(variant string) route.PolicyID {
		return route.PolicyID{Kind: "Middleware.slipway.dev", Namespace: "shop", Name: "m", Variant: variant}
	}
	leaf := route.PolicyID{Kind: "Middleware.slipway.dev", Namespace: "shop", Name: "leaf", Variant: "rateLimit"}
	want := []route.Policy{
		{ID: id("responseHeaders"), ResponseHeaders: &route.ResponseHeaders{
			Set: []route.HeaderValue{{Name: "X-A", Value: "b"}, {Name: "X-C", Value: "d"}},
			Add: []route.HeaderValue{{Name: "X-E", Value: "f"}}, Remove: []string{"Server"},
		}},
		{ID: id("forwardAuth"), ForwardAuth: &route.ForwardAuth{Backend: route.BackendID{Namespace: "shop", Name: "auth", Port: 80}, Path: "/"}},
		{ID: id("rateLimit"), RateLimit: &route.RateLimit{Requests: 2, Period: 1e9}},
		{ID: id("rateLimit-2"), RateLimit: &route.RateLimit{Requests: 3, Period: 3600e9}},
		{ID: id("chain"), Chain: &route.Chain{Policies: []route.Policy{{ID: leaf, RateLimit: &route.RateLimit{Requests: 1, Period: 1e9}}}}},
		{ID: id("basicAuth"), BasicAuth: &route.BasicAuth{Users: route.NewSecret(bcryptLine + "\n# nobody\n")}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if again, _ := Middleware(object(t, snapshot.Middleware, "m", spec), w.source); !reflect.DeepEqual(got, again) {
		t.Error("the same declaration gave something else")
	}
}

func TestMiddlewareFaults(t *testing.T) {
	for _, test := range []struct {
		spec, field string
		reason      refusal.Reason
		says        string
	}{
		{`{}`, "spec.filters", refusal.Invalid, "missing"},
		{`{filters: []}`, "spec.filters", refusal.Invalid, "1 or more"},
		{`{filters: [{}]}`, "spec.filters[0]", refusal.Invalid, "exactly one"},
		{`{filters: [{addPrefix: {prefix: /a}, replacePath: {path: /}}]}`, "spec.filters[0]", refusal.Invalid, "exactly one"},
		{`{filters: [{addPrefix: {prefix: /a, sufix: b}}]}`, "spec.filters[0].addPrefix.sufix", refusal.Invalid, "no such field"},
		{`{filters: [{addPrefix: {prefix: /a/../b}}]}`, "spec.filters[0].addPrefix.prefix", refusal.Invalid, "normalised"},
		{`{filters: [{redirectRegexp: {regexp: '(', replacement: x}}]}`, "spec.filters[0].redirectRegexp.regexp", refusal.Invalid, ""},
		{`{filters: [{requestHeaders: {set: {Connection: close}}}]}`, "spec.filters[0].requestHeaders.set[0].name", refusal.Invalid, "belongs to the connection"},
		{`{filters: [{requestHeaders: {set: {X-A: a, x-a: b}}}]}`, "spec.filters[0].requestHeaders.set", refusal.Invalid, "twice"},
		{`{filters: [{cors: {allowOrigins: ['*'], allowCredentials: true}}]}`, "spec.filters[0].cors.allowCredentials", refusal.Invalid, "browsers refuse"},
		{`{filters: [{rateLimit: {requests: 1, period: 25h}}]}`, "spec.filters[0].rateLimit.period", refusal.Invalid, "24h"},
		{`{filters: [{basicAuth: {secret: nobody}}]}`, "spec.filters[0].basicAuth.secret", refusal.NotFound, "no Secret shop/nobody"},
		{`{filters: [{basicAuth: {secret: other/users}}]}`, "spec.filters[0].basicAuth.secret", refusal.NotAllowed, "another namespace"},
		{`{filters: [{mirror: {service: {name: next, port: https}}}]}`, "spec.filters[0].mirror.service", refusal.NotFound, "has no port"},
		{`{filters: [{errorPages: {statuses: [200], service: {name: pages, port: 80}, path: /x}}]}`, "spec.filters[0].errorPages.statuses[0]", refusal.Invalid, "400 to 599"},
		{`{filters: [{chain: {middlewares: [nothing]}}]}`, "spec.filters[0].chain.middlewares[0]", refusal.NotFound, "no Middleware"},
	} {
		got, faults := Middleware(object(t, snapshot.Middleware, "m", test.spec), newWorld(t).source)
		wantFault(t, faults, test.field, test.reason, test.says)
		if got != nil {
			t.Errorf("%s gave %v", test.spec, got)
		}
	}
}

// The faults of inline filters have the position of the filter.
func TestFilters(t *testing.T) {
	w := newWorld(t)
	id := route.PolicyID{Kind: "Ingress", Namespace: "shop", Name: "cart"}
	filters := []v1alpha1.Filter{{AddPrefix: &v1alpha1.AddPrefix{Prefix: "/a"}}, {BasicAuth: &v1alpha1.BasicAuth{Secret: "nobody"}}}
	_, faults := Filters(filters, id, w.source)
	wantFault(t, faults, "[1].basicAuth.secret", refusal.NotFound, "no Secret")
	got, faults := Filters(filters[:1], id, w.source)
	if len(faults) > 0 || len(got) != 1 || got[0].ID != (route.PolicyID{Kind: "Ingress", Namespace: "shop", Name: "cart", Variant: "addPrefix"}) {
		t.Errorf("%v %v", got, faults)
	}
	_, faults = Filters([]v1alpha1.Filter{{}}, id, w.source)
	wantFault(t, faults, "[0]", refusal.Invalid, "exactly one")
}

// A name in another namespace is found where that is allowed, and what is named
// from there is found in that namespace.
func TestCrossNamespace(t *testing.T) {
	w := newWorld(t)
	there := object(t, snapshot.Middleware, "auth", `{filters: [{basicAuth: {secret: users}}]}`)
	there.Namespace = "other"
	w.snapshot.Put(there)
	chain := object(t, snapshot.Middleware, "m", `{filters: [{chain: {middlewares: [other/auth]}}]}`)
	if _, faults := Middleware(chain, w.source); len(faults) != 1 || faults[0].Reason != refusal.NotAllowed {
		t.Error(faults)
	}
	w.source.CrossNamespace = true
	got, faults := Middleware(chain, w.source)
	if len(faults) > 0 || got[0].Chain.Policies[0].BasicAuth.Users.Reveal() != bcryptLine {
		t.Errorf("%v %v", got, faults)
	}
}

func TestChains(t *testing.T) {
	w := newWorld(t)
	leaf := w.put(t, "leaf", `{filters: [{addPrefix: {prefix: /leaf}}]}`)
	name := leaf.Name
	for depth := 1; depth <= route.MaxChainDepth+1; depth++ {
		made := w.put(t, fmt.Sprintf("chain-%d", depth), fmt.Sprintf(`{filters: [{chain: {middlewares: [%s]}}]}`, name))
		name = made.Name
		got, faults := Middleware(made, w.source)
		if depth <= route.MaxChainDepth {
			if len(faults) > 0 {
				t.Errorf("depth %d: %v", depth, faults)
			}
			valid(t, got)
			continue
		}
		wantFault(t, faults, "spec.filters[0].chain.middlewares[0]", refusal.TooLarge, "deep")
	}

	a := w.put(t, "a", `{filters: [{chain: {middlewares: [b]}}]}`)
	w.put(t, "b", `{filters: [{chain: {middlewares: [leaf, a]}}]}`)
	_, faults := Middleware(a, w.source)
	wantFault(t, faults, "spec.filters[0].chain.middlewares[0]", refusal.Invalid, "leads back to itself")

	w.put(t, "bad", `{filters: [{addPrefix: {prefx: /x}}]}`)
	_, faults = Middleware(object(t, snapshot.Middleware, "m", `{filters: [{chain: {middlewares: [leaf, bad]}}]}`), w.source)
	if len(faults) != 2 || faults[0].Field != "spec.filters[0].chain.middlewares[1]" || !strings.Contains(faults[0].Message, "Middleware.slipway.dev shop/bad: spec.filters[0].addPrefix") {
		t.Error(faults)
	}
}

// A few chains that name each other stand for millions of filters, and must
// cost no more than the bound.
func TestChainBomb(t *testing.T) {
	w := newWorld(t)
	w.put(t, "level-0", `{filters: [{addPrefix: {prefix: /x}}]}`)
	for level := 1; level <= route.MaxChainDepth; level++ {
		names := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("level-%d, ", level-1), 64), ", ")
		w.put(t, fmt.Sprintf("level-%d", level), fmt.Sprintf(`{filters: [{chain: {middlewares: [%s]}}]}`, names))
	}
	top, _ := w.source.Resource(snapshot.Middleware, fmt.Sprintf("level-%d", route.MaxChainDepth))
	_, faults := Middleware(top, w.source)
	wantFault(t, faults, "spec.filters[0].chain.middlewares[0]", refusal.TooLarge, "more than 64 filters")
}
