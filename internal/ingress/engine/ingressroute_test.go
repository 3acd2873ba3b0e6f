package engine_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

const oldIngressRoute snapshot.Kind = "IngressRoute.traefik.containo.us"

// traefikTown is a town that serves routes of Traefik, with the Services web, api and
// other of the namespace shop and web of team.
func traefikTown(t *testing.T, sharing resolve.HostSharing, cross bool) *town {
	w := townWith(t, sharing)
	w.Engine = engine.New(w.facts, resolve.Options{
		StrictPrefix: true, HostSharing: sharing, Traefik: &resolve.TraefikOptions{Syntax: "v3", CrossNamespace: cross},
		EntryPoints: map[string]bool{"web": false, "websecure": true},
	})
	for _, name := range []string{"web", "api", "other"} {
		w.put(serviceNamed(name), sliceOf(name, "10.0.0.1"))
	}
	foreign := serviceNamed("web")
	foreign.Namespace = "team"
	w.put(foreign)
	return w
}

// object is an object of a kind of Traefik, made at a second.
func (w *town) object(kind snapshot.Kind, namespace, name string, second int64, spec string) *snapshot.Resource {
	w.t.Helper()
	made := &snapshot.Resource{Kind: kind, Namespace: namespace, Name: name, Annotations: map[string]string{}}
	if snapshot.IsTraefikUnit(kind) {
		made.Created = time.Unix(second, 0)
	}
	must.Do(w.t, json.Unmarshal(must.Get(yaml.YAMLToJSON([]byte(spec)))(w.t), &made.Spec))
	return made
}

// table lists the rules of a namespace by their identity.
func (w *town) table(namespace string) string {
	var lines []string
	rules := slices.SortedFunc(slices.Values(w.book.Table().Rules), func(a, b *route.Rule) int { return cmp.Or(a.ID.Compare(b.ID)) })
	for _, rule := range rules {
		if rule.ID.Namespace != namespace {
			continue
		}
		line := fmt.Sprintf("%s %q%s %d", rule.ID, rule.Host, rule.Match.Path.Value, rule.Priority)
		if count := rule.Match.Conditions(); count > 0 {
			line += fmt.Sprintf(" +%d", count)
		}
		for _, name := range rule.EntryPoints {
			line += " " + name
		}
		for i := range rule.Policies {
			name, _ := rule.Policies[i].Named()
			line += " " + name
		}
		for _, ref := range rule.Backends {
			if ref.Status != 0 {
				line += fmt.Sprintf(" %d*%d", ref.Status, ref.Weight)
				continue
			}
			name, _, _ := strings.Cut(ref.Backend.Variant, "-")
			line += fmt.Sprintf(" %s/%s%s*%d", ref.Backend.Namespace, ref.Backend.Name, name, ref.Weight)
		}
		if rule.Response != nil {
			line += fmt.Sprintf(" %d %s", rule.Response.Status, rule.Response.Reason)
		}
		if rule.Sticky != nil {
			line += " sticky " + rule.Sticky.Name
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func (w *town) wantTable(namespace string, want ...string) {
	w.t.Helper()
	if got := w.table(namespace); got != strings.Join(want, "\n") {
		w.t.Errorf("the table has\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// TestIngressRoute: routes become rules with the length of their text as priority,
// Middlewares, weights and settings of Services; a fault closes its own route.
func TestIngressRoute(t *testing.T) {
	w := traefikTown(t, resolve.HostSharingDeny, false)
	w.put(
		w.object(snapshot.TraefikMiddleware, "shop", "strip", 0, "stripPrefix: {prefixes: [/api]}"),
		w.object(snapshot.TraefikService, "shop", "both", 0, `
weighted:
  sticky: {cookie: {name: half}}
  services: [{name: web, port: 80, weight: 3}, {name: inner, kind: TraefikService, weight: 1}]`),
		w.object(snapshot.TraefikService, "shop", "inner", 0, "weighted: {services: [{name: api, port: http, weight: 2}, {name: web, port: 80, weight: 2}]}"),
		w.object(snapshot.TraefikService, "shop", "drained", 0, "weighted: {sticky: {cookie: {name: half}}, services: [{name: web, port: 80, weight: 0}, {name: api, port: http, weight: 2}]}"),
		w.object(snapshot.TraefikService, "shop", "copied", 0, "mirroring: {name: web, port: 80, mirrors: [{name: api, port: 80, percent: 10}, {name: gone, port: 80, percent: 5}]}"),
		w.object(snapshot.IngressRoute, "shop", "a", 1, `
entryPoints: [web]
routes:
- {match: "Host(`+"`a.example`"+`)", services: [{name: web, port: 80}]}
- {match: "Host(`+"`a.example`"+`) && PathPrefix(`+"`/api`"+`) && !Method(`+"`PUT`"+`)", priority: 7, middlewares: [{name: strip}], services: [{name: api, port: 80, weight: 2, scheme: h2c}, {name: web, port: 80}]}
- {match: "Host(`+"`a.example`"+`) && (Path(`+"`/x`"+`) || Path(`+"`/y`"+`))", services: [{name: both, kind: TraefikService}]}
- {match: "Path(`+"`/m`"+`) && Host(`+"`a.example`"+`)", services: [{name: copied, kind: TraefikService}]}
- {match: "Path(`+"`/r`"+`) && Host(`+"`a.example`"+`)", middlewares: [{name: strip}], services: [{name: noop@internal, kind: TraefikService}]}
- {match: "Path(`+"`/f`"+`) && Host(`+"`a.example`"+`)", middlewares: [{name: missing}], services: [{name: web, port: 80}]}
- {match: "Path(`+"`/g`"+`) && Host(`+"`a.example`"+`)", unknown: 1, services: [{name: web, port: 80}]}
- {match: "Path(`+"`/h`"+`) && Host(`+"`a.example`"+`)", services: [{name: web, port: 80}, {name: gone, port: 80}]}
- {match: "Path(`+"`/i`"+`) && Host(`+"`a.example`"+`)", services: [{name: gone, port: 80}]}
- {match: "Nothing(`+"`/j`"+`)", services: [{name: web, port: 80}]}
- {match: "Path(`+"`/k`"+`) && Host(`+"`a.example`"+`)", services: [{name: web, port: 80, namespace: team}]}
- {match: "Path(`+"`/l`"+`) && Host(`+"`a.example`"+`)", services: [{name: drained, kind: TraefikService}]}
`))
	w.wantTable("shop",
		`IngressRoute shop/a[0][0] "a.example" 17 web shop/web*0`,
		`IngressRoute shop/a[1][0] "a.example"/api 7 +1 web stripPrefix shop/apitraefik*2 shop/web*1`,
		`IngressRoute shop/a[2][0] "a.example"/x 47 web shop/web*7 shop/api*1 sticky half`,
		`IngressRoute shop/a[2][1] "a.example"/y 47 web shop/web*7 shop/api*1 sticky half`,
		`IngressRoute shop/a[3][0] "a.example"/m 31 web mirror shop/web*0`,
		`IngressRoute shop/a[4][0] "a.example"/r 31 web stripPrefix 418 Configured`,
		`IngressRoute shop/a[5][0] "a.example"/f 31 web 503 Refused`,
		`IngressRoute shop/a[6][0] "a.example"/g 31 web 503 Refused`,
		`IngressRoute shop/a[7][0] "a.example"/h 31 web shop/web*1 503*1`,
		`IngressRoute shop/a[8][0] "a.example"/i 31 web 503 NoService`,
		`IngressRoute shop/a[10][0] "a.example"/k 31 web 503 Refused`,
		`IngressRoute shop/a[11][0] "a.example"/l 31 web shop/api*1 sticky half`,
	)
	for _, want := range []string{
		"spec.routes[5].middlewares[0]: there is no Middleware.traefik.io shop/missing", "spec.routes[6].unknown: the field is unknown",
		"spec.routes[7].services[1]: there is no Service shop/gone", "spec.routes[9].match: at 1: there is no matcher Nothing",
		"spec.routes[10].services[0]: team/web is in another namespace: use one of shop, or set providers.kubernetesCRD.allowCrossNamespace",
	} {
		if got := w.refused(snapshot.IngressRoute, "shop", "a"); !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	w.follow(w.facts.Delete(snapshot.IngressRoute, "shop", "a"))
	if w.wantTable("shop"); w.refused(snapshot.IngressRoute, "shop", "a") != "" || len(w.book.Table().Backends) != 0 {
		t.Errorf("left over: %v", w.book.Table().Backends)
	}
}

// TestIngressRouteTLS: an object with tls serves encrypted requests only, with its
// certificate, options and requests for the hosts of its rules.
func TestIngressRouteTLS(t *testing.T) {
	w := traefikTown(t, resolve.HostSharingDeny, false)
	w.put(pair("shop", "cert"), w.object(snapshot.TraefikTLSOption, "shop", "strict", 0, "minVersion: VersionTLS13"))
	spec := "routes: [{match: \"Host(`one.example`)\", services: [{name: web, port: 80}]}]\ntls: {secretName: cert, options: {name: strict}, %s}\n"
	w.put(w.object(snapshot.IngressRoute, "shop", "a", 1, fmt.Sprintf(spec, "domains: [{main: one.example, sans: [two.example]}]")))
	w.wantTable("shop", `IngressRoute shop/a[0][0] "one.example" 19 +1 shop/web*0`, `IngressRoute shop/a[1][0] host "two.example"[^\x00-\x{10FFFF}] 0 404 Configured`)
	for _, rule := range w.book.Table().Rules {
		if rule.Host == "one.example" && rule.Match.Scheme != route.SchemeHTTPS {
			t.Errorf("it has the scheme %q", rule.Match.Scheme)
		}
	}
	if got := w.hostsOf("shop", "cert"); !slices.Equal(got, []string{"one.example"}) {
		t.Errorf("the certificate is for %v", got)
	}
	if options := w.book.Table().TLSOptions; len(options) != 1 || options[0].MinVersion != "1.3" || !slices.Equal(options[0].Hosts, []string{"one.example"}) {
		t.Errorf("the options are %+v", options)
	}
	w.put(w.object(snapshot.IngressRoute, "shop", "a", 1, fmt.Sprintf(spec, "certResolver: none, store: {name: default}")+"entryPoints: [web]\n"))
	refused := w.refused(snapshot.IngressRoute, "shop", "a")
	for _, want := range []string{"spec.tls.certResolver: no resolver is set", "spec.tls: only requests over TLS are served, and the entry point web has no TLS"} {
		if !strings.Contains(refused, want) {
			t.Errorf("%q is missing in\n%s", want, refused)
		}
	}
	w.put(w.object(snapshot.IngressRoute, "shop", "a", 1, fmt.Sprintf(spec, "passthrough: true, store: {name: other}")))
	refused = w.refused(snapshot.IngressRoute, "shop", "a")
	if !strings.Contains(refused, "spec.tls.passthrough: ") || !strings.Contains(refused, "spec.tls.store.name: ") {
		t.Errorf("refused is\n%s", refused)
	}
	w.wantTable("shop", `IngressRoute shop/a[0][0] "one.example" 19 +1 503 Refused`)
}

// TestIngressRouteBesideIngress: the rules of an Ingress for a host of IngressRoutes have
// their length as priority, as in Traefik, and none again without the routes.
func TestIngressRouteBesideIngress(t *testing.T) {
	w := traefikTown(t, resolve.HostSharingDeny, false)
	w.put(tenant("shop", "challenge", 5, "a.example=/.well-known/acme-challenge/token", "b.example/"))
	plain := []string{`Ingress shop/challenge[0][0] "a.example"/.well-known/acme-challenge/token 0 shop/web*0`, `Ingress shop/challenge[1][0] "b.example"/ 0 shop/web*0`}
	w.wantTable("shop", plain...)
	w.put(w.object(snapshot.IngressRoute, "shop", "all", 1, "routes: [{match: \"Host(`a.example`)\", services: [{name: api, port: 80}]}]"))
	w.wantTable("shop", `IngressRoute shop/all[0][0] "a.example" 17 shop/api*0`,
		`Ingress shop/challenge[0][0] "a.example"/.well-known/acme-challenge/token 62 shop/web*0`, plain[1])
	w.follow(w.facts.Delete(snapshot.IngressRoute, "shop", "all"))
	w.wantTable("shop", plain...)

	open := traefikTown(t, resolve.HostSharingOpen, false)
	open.put(tenant("shop", "challenge", 5, "b.example/"))
	open.wantTable("shop", `Ingress shop/challenge[0][0] "b.example"/ 0 shop/web*0`)
	open.put(w.object(snapshot.IngressRoute, "team", "all", 1, "routes: [{match: \"PathPrefix(`/`)\", services: [{name: web, port: 80}]}]"))
	open.wantTable("shop", `Ingress shop/challenge[0][0] "b.example"/ 36 shop/web*0`)
	open.follow(open.facts.Delete(snapshot.IngressRoute, "team", "all"))
	open.wantTable("shop", `Ingress shop/challenge[0][0] "b.example"/ 0 shop/web*0`)
}

// TestIngressRouteHosts: a host belongs to the namespace with the oldest object for it,
// whatever its kind, and a grant lets others in.
func TestIngressRouteHosts(t *testing.T) {
	w := traefikTown(t, resolve.HostSharingDeny, false)
	spec := "routes: [{match: \"Host(`a.example`) && PathPrefix(`/team/`)\", priority: 9000, services: [{name: web, port: 80}]}]"
	owner := w.object(snapshot.IngressRoute, "shop", "a", 1, strings.ReplaceAll(spec, "/team/", "/"))
	w.put(owner, w.object(snapshot.IngressRoute, "team", "b", 2, spec))
	w.wantTable("team")
	if got := w.refused(snapshot.IngressRoute, "team", "b"); !strings.Contains(got, "spec.routes[0]: the host a.example belongs to namespace shop") ||
		!strings.Contains(got, "1 rule of this IngressRoute is not served") {
		t.Errorf("refused is %q", got)
	}
	granted := *owner
	granted.Annotations = map[string]string{"slipway.dev/host-grants": "team=/team"}
	w.put(&granted)
	w.wantTable("team", `IngressRoute team/b[0][0] "a.example"/team/ 9000 503 NoEndpoint`)
	w.put(owner)
	w.wantTable("team")
	older := tenant("team", "c", 0, "a.example/")
	w.put(older)
	if got := w.refused(snapshot.IngressRoute, "shop", "a"); !strings.Contains(got, "belongs to namespace team") {
		t.Errorf("an older Ingress does not own the host: %q", got)
	}
}

// TestIngressRouteOfOldGroup: objects of the older group are served with rules of version
// 2 and find what they name in both groups, until the current group has their name.
func TestIngressRouteOfOldGroup(t *testing.T) {
	w := traefikTown(t, resolve.HostSharingDeny, false)
	spec := "routes: [{match: \"Host(`a.example`, `b.example`)\", middlewares: [{name: strip}], services: [{name: web, port: 80, serversTransport: slow}]}]"
	w.put(w.object(oldIngressRoute, "shop", "a", 1, spec))
	if got := w.refused(oldIngressRoute, "shop", "a"); !strings.Contains(got, "there is no Middleware.traefik.io shop/strip") {
		t.Errorf("refused is %q", got)
	}
	w.put(w.object("Middleware.traefik.containo.us", "shop", "strip", 0, "stripPrefix: {prefixes: [/api]}"),
		w.object("ServersTransport.traefik.containo.us", "shop", "slow", 0, "forwardingTimeouts: {dialTimeout: 7s}"))
	w.wantTable("shop", `IngressRoute.traefik.containo.us shop/a[0][0] "a.example" 30 stripPrefix shop/webtraefik*0`,
		`IngressRoute.traefik.containo.us shop/a[0][1] "b.example" 30 stripPrefix shop/webtraefik*0`)
	if got := w.book.Table().Rules[0].Timeouts.Connect; got != route.Duration(7*time.Second) {
		t.Errorf("the transport is not that of the older group: %v", got)
	}
	w.put(w.object(snapshot.IngressRoute, "shop", "a", 1, "routes: [{match: \"Host(`c.example`)\", services: [{name: web, port: 80}]}]"))
	w.wantTable("shop", `IngressRoute shop/a[0][0] "c.example" 17 shop/web*0`)
}

// TestIngressRouteClass: the annotation selects routes as in Traefik.
func TestIngressRouteClass(t *testing.T) {
	for _, test := range []struct {
		option, annotation string
		ours               bool
	}{{"", "", true}, {"", "traefik", true}, {"", "nginx", false}, {"edge", "edge", true}, {"edge", "", false}, {"edge", "traefik", false}} {
		w := traefikTown(t, resolve.HostSharingDeny, false)
		w.Engine = engine.New(w.facts, resolve.Options{Traefik: &resolve.TraefikOptions{Syntax: "v3", IngressClass: test.option}})
		made := w.object(snapshot.IngressRoute, "shop", "a", 1, "routes: [{match: \"Host(`a.example`)\", services: [{name: web, port: 80}]}]")
		if test.annotation != "" {
			made.Annotations["kubernetes.io/ingress.class"] = test.annotation
		}
		w.put(made)
		if got := w.Ours(snapshot.Ref{Kind: snapshot.IngressRoute, Namespace: "shop", Name: "a"}); got != test.ours || (len(w.rules("shop", "a")) > 0) != test.ours {
			t.Errorf("%+v: ours is %t", test, got)
		}
	}
}

// TestIngressRouteAcrossNamespaces: with the option objects of other namespaces are used.
func TestIngressRouteAcrossNamespaces(t *testing.T) {
	w := traefikTown(t, resolve.HostSharingDeny, true)
	slice := sliceOf("web", "10.0.0.1")
	slice.Namespace = "team"
	w.put(slice, w.object(snapshot.TraefikMiddleware, "team", "strip", 0, "stripPrefix: {prefixes: [/api]}"),
		w.object(snapshot.IngressRoute, "shop", "a", 1,
			"routes: [{match: \"Host(`a.example`)\", middlewares: [{name: strip, namespace: team}], services: [{name: web, namespace: team, port: 80}]}]"))
	w.wantTable("shop", `IngressRoute shop/a[0][0] "a.example" 17 stripPrefix team/web*0`)
}

// TestServiceSettings: the settings of a use of a Service apply to a backend of its own,
// which equal uses share, and change with it.
func TestServiceSettings(t *testing.T) {
	w := traefikTown(t, resolve.HostSharingDeny, false)
	spec := "routes: [{match: \"Host(`a.example`)\", services: [{name: web, port: 80, passHostHeader: false, strategy: p2c, sticky: {cookie: {httpOnly: true}}}]}]"
	w.put(w.object(snapshot.IngressRoute, "shop", "a", 1, spec), w.object(snapshot.IngressRoute, "shop", "b", 1, strings.ReplaceAll(spec, "a.example", "b.example")),
		w.object(snapshot.IngressRoute, "shop", "c", 1, "routes: [{match: \"Host(`c.example`)\", services: [{name: web, port: 80}]}]"))
	backends := w.book.Table().Backends
	if len(backends) != 2 {
		t.Fatalf("there are %d backends", len(backends))
	}
	at := slices.IndexFunc(backends, func(b *route.Backend) bool { return b.ID.Variant != "" })
	with, plain := backends[at], backends[1-at]
	if !with.Transport.HostOfEndpoint || with.Sticky == nil || !with.Sticky.HTTPOnly || with.Balancing.Method != route.BalanceLeastRequests || len(with.Endpoints) != 1 {
		t.Errorf("the settings do not apply: %+v", with)
	}
	if plain.Transport.HostOfEndpoint || plain.Sticky != nil {
		t.Errorf("the settings apply to others: %+v", plain)
	}
	w.put(sliceOf("web", "10.0.0.1", "10.0.0.2"))
	for _, backend := range w.book.Table().Backends {
		if len(backend.Endpoints) != 2 {
			t.Errorf("%s has %d endpoints", backend.ID, len(backend.Endpoints))
		}
	}
	w.put(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{"slipway.dev/scheme": "wrong"}}, Spec: serviceNamed("web").Spec})
	w.wantTable("shop", `IngressRoute shop/a[0][0] "a.example" 17 503 Refused`, `IngressRoute shop/b[0][0] "b.example" 17 503 Refused`, `IngressRoute shop/c[0][0] "c.example" 17 503 Refused`)
}

// TestRankedRules: beside an IngressRoute a default backend stays last, and a priority of
// an Ingress stays as it is.
func TestRankedRules(t *testing.T) {
	w := traefikTown(t, resolve.HostSharingDeny, false)
	first := tenant("shop", "first", 5, "a.example/x")
	first.Annotations["slipway.dev/priority"] = "7"
	rest := tenant("shop", "rest", 5, "a.example/y")
	rest.Spec.DefaultBackend = &rest.Spec.Rules[0].HTTP.Paths[0].Backend
	w.put(first, rest, w.object(snapshot.IngressRoute, "shop", "all", 1, "routes: [{match: \"Host(`a.example`)\", services: [{name: api, port: 80}]}]"))
	w.wantTable("shop", `IngressRoute shop/all[0][0] "a.example" 17 shop/api*0`, `Ingress shop/first[0][0] "a.example"/x 7 shop/web*0`,
		`Ingress shop/rest[0][0] "a.example"/y 37 shop/web*0`, `Ingress shop/rest[0][0] default "a.example" 0 shop/web*0`)
}

// TestReachableRoutes: routes that differ in their conditions are all reached, and one that
// another covers is refused.
func TestReachableRoutes(t *testing.T) {
	w := traefikTown(t, resolve.HostSharingDeny, false)
	spec := "routes: [{match: \"Host(`a.example`) && Header(`X`,`1`)\", services: [{name: web, port: 80}]}, {match: \"Host(`a.example`) && %s\", services: [{name: web, port: 80}]}]"
	w.put(w.object(snapshot.IngressRoute, "shop", "a", 1, fmt.Sprintf(spec, "Header(`X`,`2`)")))
	if got := w.refused(snapshot.IngressRoute, "shop", "a"); got != "" {
		t.Errorf("refused: %s", got)
	}
	w.put(w.object(snapshot.IngressRoute, "shop", "a", 1, fmt.Sprintf(spec, "Header(`X`, `1`)")))
	if got := w.refused(snapshot.IngressRoute, "shop", "a"); !strings.Contains(got, "spec.routes[0]: no request reaches it: spec.routes[1] of IngressRoute shop/a") {
		t.Errorf("refused: %q", got)
	}
}
