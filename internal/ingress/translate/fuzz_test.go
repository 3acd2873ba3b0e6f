package translate_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/translate"
	"slipway.dev/slipway/internal/route"
)

// FuzzIngress makes an Ingress of whatever comes. Whatever it has, every rule
// of it can stand in a table, and its refusals are bounded.
func FuzzIngress(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14"))
	for seed := range 64 {
		data := make([]byte, 40+5*seed)
		for i := range data {
			data[i] = byte(i*(seed+3) + seed*31)
		}
		f.Add(data)
	}
	f.Fuzz(tryOdd)
}

// TestOddIngresses is the same with many Ingresses that have many fields, which a
// fuzzer takes long to come to.
func TestOddIngresses(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 8))
	for range 3000 {
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(random.Uint32())
		}
		tryOdd(t, data)
	}
}

func tryOdd(t *testing.T, data []byte) {
	odd := &oddness{rest: data}
	w := newWorld()
	w.options = resolve.Options{
		StrictPrefix: odd.flip(), AllowEmptyServices: odd.flip(), CrossNamespace: odd.flip(), ExternalNames: odd.flip(),
	}
	oddCluster(w, odd)
	ingress := oddIngress(odd)
	w.snapshot.Put(ingress)
	site := resolve.Ingress(w.snapshot.View(), ingress.Namespace, ingress.Name, w.options, w)
	outcome := translate.Ingress(site)
	checkOutcome(t, &outcome)
	again := translate.Ingress(resolve.Ingress(w.snapshot.View(), ingress.Namespace, ingress.Name, w.options, w))
	if !reflect.DeepEqual(outcome, again) {
		t.Fatal("the same Ingress gives something else the second time")
	}
}

// checkOutcome holds an Outcome to what is promised of every one.
func checkOutcome(t *testing.T, outcome *translate.Outcome) {
	t.Helper()
	seen := map[route.ID]bool{}
	for _, rule := range outcome.Rules {
		if problems := rule.Validate(); len(problems) > 0 {
			t.Fatalf("%v", problems)
		}
		if seen[rule.ID] {
			t.Fatalf("two rules are %s", rule.ID)
		}
		seen[rule.ID] = true
		for id := range rule.BackendIDs {
			if !slices.Contains(outcome.Backends, id) {
				t.Fatalf("%s names %s, which is not listed", rule.ID, id)
			}
		}
		if rule.Host != "" && !slices.Contains(outcome.Hosts, rule.Host) {
			t.Fatalf("%s has the host %s, which is not listed", rule.ID, rule.Host)
		}
	}
	for _, claim := range outcome.Certificates {
		certificate := *claim.Certificate
		certificate.Hosts = claim.Hosts
		if problems := certificate.Validate(); len(problems) > 0 || len(claim.Hosts) == 0 {
			t.Fatalf("%v", problems)
		}
	}
	for _, claim := range outcome.Options {
		if claim.Conditions.Options.Refused != (claim.Refused != nil) || len(claim.Hosts) == 0 {
			t.Fatalf("a claim is refused and not refused: %+v", claim)
		}
	}
	if len(outcome.Refusals) > resolve.MaxRefusals+1 {
		t.Fatalf("%d refusals", len(outcome.Refusals))
	}
	for _, refusal := range outcome.Refusals {
		if refusal.Reason == "" || refusal.Message == "" || len(refusal.Text()) > 1400 || !utf8.ValidString(refusal.Text()) {
			t.Fatalf("a refusal that cannot be told: %+v", refusal)
		}
	}
}

// oddness makes values of bytes.
type oddness struct{ rest []byte }

func (o *oddness) number(below int) int {
	if len(o.rest) == 0 {
		return 0
	}
	n := int(o.rest[0])
	o.rest = o.rest[1:]
	return n % below
}

func (o *oddness) flip() bool { return o.number(2) == 1 }

// text is one of those that have a meaning, or some of the bytes as they are.
func (o *oddness) text(known ...string) string {
	if n := o.number(len(known) + 1); n < len(known) {
		return known[n]
	}
	length := min(o.number(24), len(o.rest))
	text := string(o.rest[:length])
	o.rest = o.rest[length:]
	return text
}

func oddCluster(w *world, odd *oddness) {
	w.addService("default", "app", 80, "web", true)
	w.addService("default", "empty", 80, "", false)
	external := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "external"}}
	external.Spec.Type = corev1.ServiceTypeExternalName
	external.Spec.ExternalName = odd.text("example.org", "localhost", "169.254.169.254")
	external.Spec.Ports = []corev1.ServicePort{{Port: 80}}
	w.snapshot.Put(external)
	w.snapshot.Put(&snapshot.SecretBody{Namespace: "default", Name: "secret", Data: map[string][]byte{
		"tls.crt": []byte(odd.text("", "x")), "tls.key": []byte(odd.text("", "x")), "users": []byte(odd.text("a:{SHA}x", "")),
	}})
	for _, kind := range snapshot.CustomKinds() {
		w.snapshot.SetKind(kind, snapshot.KindState(odd.number(4)))
		for _, name := range []string{"one", "two"} {
			w.snapshot.Put(&snapshot.Resource{Kind: kind, Namespace: "default", Name: name, Spec: oddSpec(odd, 3)})
		}
	}
}

// oddSpec is the spec of an object of a custom kind.
func oddSpec(odd *oddness, depth int) map[string]any {
	spec := map[string]any{}
	for range odd.number(3) {
		key := odd.text("filters", "stripPrefix", "prefixes", "addPrefix", "prefix", "rateLimit", "rate", "average", "chain", "middlewares",
			"basicAuth", "secret", "headers", "clientAuth", "secretNames", "minVersion")
		spec[key] = oddValue(odd, depth)
	}
	return spec
}

func oddValue(odd *oddness, depth int) any {
	switch odd.number(7) {
	case 0:
		return odd.flip()
	case 1:
		return int64(odd.number(256) - 128)
	case 2:
		return 1.5
	case 3:
		return nil
	case 4:
		if depth > 0 {
			return []any{oddValue(odd, depth-1), oddValue(odd, depth-1)}
		}
	case 5:
		if depth > 0 {
			return oddSpec(odd, depth-1)
		}
	}
	return odd.text("/x", "one", "two", "secret", "100/1s", "1.3", "VersionTLS12")
}

func oddIngress(odd *oddness) *networkingv1.Ingress {
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{
		Namespace: odd.text("default", "default", "default", "default"), Name: odd.text("shop", "shop", "shop"),
		CreationTimestamp: metav1.NewTime(time.Date(odd.number(256)*100, 1, 1, 0, 0, 0, 0, time.UTC)),
		Annotations:       map[string]string{},
	}}
	for range odd.number(4) {
		ingress.Annotations[odd.text(
			"slipway.dev/priority", "slipway.dev/path-matcher", "slipway.dev/entry-points", "slipway.dev/middlewares", "slipway.dev/tls-options",
			"slipway.dev/tls", "slipway.dev/rate-limit", "slipway.dev/strip-prefix", "slipway.dev/basic-auth", "slipway.dev/forward-auth",
			"slipway.dev/timeout-total", "slipway.dev/request-headers",
			"traefik.ingress.kubernetes.io/router.middlewares", "traefik.ingress.kubernetes.io/router.tls.options",
			"traefik.ingress.kubernetes.io/router.tls.certresolver", "traefik.ingress.kubernetes.io/router.tls.domains.0.main",
			"traefik.ingress.kubernetes.io/router.observability.tracing",
		)] = odd.text("10", "PathRegexp", "Path", "web,websecure", "one, two", "default-one@kubernetescrd", "default-two@kubernetescrd",
			"only", "100/1s", "/x", "secret", "{service: {name: app, port: 80}, path: /check}", "10s", "{set: {X-A: b}}", "false", "a.example.com")
	}
	for range odd.number(5) {
		ingress.Spec.Rules = append(ingress.Spec.Rules, oddRule(odd))
	}
	if odd.flip() {
		backend := oddBackend(odd)
		ingress.Spec.DefaultBackend = &backend
	}
	for range odd.number(3) {
		entry := networkingv1.IngressTLS{SecretName: odd.text("", "secret", "missing", "other/secret")}
		for range odd.number(3) {
			entry.Hosts = append(entry.Hosts, oddHost(odd))
		}
		ingress.Spec.TLS = append(ingress.Spec.TLS, entry)
	}
	return ingress
}

func oddRule(odd *oddness) networkingv1.IngressRule {
	rule := networkingv1.IngressRule{Host: oddHost(odd)}
	if odd.number(4) == 0 {
		return rule
	}
	rule.HTTP = &networkingv1.HTTPIngressRuleValue{}
	for range odd.number(4) {
		path := networkingv1.HTTPIngressPath{
			Path:    odd.text("/", "/foo", "/foo/", "", "/a//b", "/%2e", "/%zz", "/a%2Fb", "/(", "/a?b", "/\x00", "/é", "/[a-z]{1000}{1000}"),
			Backend: oddBackend(odd),
		}
		if kind := networkingv1.PathType(odd.text("Exact", "Prefix", "ImplementationSpecific", "")); odd.flip() {
			path.PathType = &kind
		}
		rule.HTTP.Paths = append(rule.HTTP.Paths, path)
	}
	return rule
}

func oddHost(odd *oddness) string {
	return odd.text("", "a.example.com", "*.example.com", "A.EXAMPLE.com.", "*", "*.*.x", "-a.b", "a..b", "10.0.0.1", "[::1]", "a:80", "\u212A.x")
}

func oddBackend(odd *oddness) networkingv1.IngressBackend {
	if odd.number(8) == 7 {
		return networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{Kind: "Bucket", Name: "x"}}
	}
	if odd.number(12) == 11 {
		return networkingv1.IngressBackend{}
	}
	return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: odd.text("app", "app", "empty", "external", "missing", "other/app", ""),
		Port: networkingv1.ServiceBackendPort{Number: int32(odd.number(3) * 80), Name: odd.text("", "", "web")},
	}}
}
