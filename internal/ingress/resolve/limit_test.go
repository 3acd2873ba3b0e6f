package resolve_test

import (
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/route"
)

func TestPathLimit(t *testing.T) {
	ingress := ingressOf("a.example.com", "b.example.com")
	for i := range resolve.MaxRules + 10 {
		ingress.Spec.Rules[0].HTTP.Paths = append(ingress.Spec.Rules[0].HTTP.Paths, pathTo(fmt.Sprintf("/p%d", i), "app"))
	}
	fallback := backendTo("app")
	ingress.Spec.DefaultBackend = &fallback
	site := resolved(snapshotOf(ingress, serviceOf("app")), resolve.Options{StrictPrefix: true})
	if len(site.Paths) != resolve.MaxRules {
		t.Errorf("%d paths", len(site.Paths))
	}
	wantTold(t, site, "spec.rules TooLarge", "spec.defaultBackend TooLarge")
	if message := site.Refusals[0].Message; !strings.Contains(message, "the last 12 ") {
		t.Errorf("it says: %s", message)
	}
}

// TestExpressionLimit: expressions that are fine one by one are too much together.
func TestExpressionLimit(t *testing.T) {
	ingress := ingressOf("a.example.com")
	ingress.Annotations = map[string]string{"slipway.dev/path-matcher": "PathRegexp"}
	steps := route.ExpressionSteps("/[a-z]{900}/0")
	for i := range 2 * resolve.MaxExpressionSteps / steps {
		path := pathTo(fmt.Sprintf("/[a-z]{900}/%d", i), "app")
		path.PathType = nil
		ingress.Spec.Rules[0].HTTP.Paths = append(ingress.Spec.Rules[0].HTTP.Paths, path)
	}
	site := resolved(snapshotOf(ingress, serviceOf("app")), resolve.Options{StrictPrefix: true})
	if most := resolve.MaxExpressionSteps / steps; len(site.Paths) < most-2 || len(site.Paths) > most+2 {
		t.Errorf("%d paths, not about %d", len(site.Paths), most)
	}
	if len(site.Refusals) == 0 || site.Refusals[0].Reason != refusal.TooLarge {
		t.Errorf("it is not said: %.300v", site.Refusals)
	}
}

func TestHostLimit(t *testing.T) {
	var hosts []string
	for i := range resolve.MaxHosts + 10 {
		hosts = append(hosts, fmt.Sprintf("h%d.example.com", i))
	}
	ingress := ingressOf(hosts...)
	ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"one-more.example.com", "h1.example.com"}}}
	site := resolved(snapshotOf(ingress, serviceOf("app")), resolve.Options{StrictPrefix: true})
	if len(site.Hosts) != resolve.MaxHosts || len(site.Paths) != resolve.MaxHosts {
		t.Errorf("%d hosts, %d paths", len(site.Hosts), len(site.Paths))
	}
	wantTold(t, site, "spec TooLarge")
}

// TestRefusalLimit: the texts of an Ingress are cut in its refusals.
func TestRefusalLimit(t *testing.T) {
	var hosts []string
	for i := range resolve.MaxRefusals + 20 {
		hosts = append(hosts, fmt.Sprintf("%d.bad host.%s\xff", i, strings.Repeat("x", 100_000)))
	}
	site := resolved(snapshotOf(ingressOf(hosts...), serviceOf("app")), resolve.Options{})
	if len(site.Refusals) != resolve.MaxRefusals+1 || len(site.Paths) != 0 {
		t.Fatalf("%d refusals, %d paths", len(site.Refusals), len(site.Paths))
	}
	for _, refusal := range site.Refusals {
		if len(refusal.Text()) > 1200 {
			t.Fatalf("a refusal has %d bytes", len(refusal.Text()))
		}
	}
	if last := site.Refusals[resolve.MaxRefusals]; last.Reason != refusal.TooLarge || !strings.HasPrefix(last.Message, "20 more") {
		t.Errorf("the last one is %+v", last)
	}
}

// TestLooks: each backend is asked for once, whatever names it, and what is
// closed closes what needs it.
func TestLooks(t *testing.T) {
	ingress := ingressOf("a.example.com", "b.example.com")
	ingress.Spec.Rules[1].HTTP.Paths = append(ingress.Spec.Rules[1].HTTP.Paths, pathTo("/closed", "closed"), pathTo("/empty", "empty"))
	closed := refusal.New("", refusal.NotAllowed, "not here")
	backends := &looks{of: map[string]resolve.BackendSummary{
		"closed": {Closed: closed}, "empty": {Empty: true}, "app": {Timeouts: route.Timeouts{Total: 5}},
	}}
	s := snapshotOf(ingress, serviceOf("app"), serviceOf("closed"), serviceOf("empty"))
	site := resolve.Ingress(s.View(), "shop", "cart", resolve.Options{StrictPrefix: true}, backends)
	for id, count := range backends.asked {
		if count != 1 {
			t.Errorf("%s was asked for %d times", id, count)
		}
	}
	if len(site.Backends) != 3 || len(site.Paths) != 4 {
		t.Fatalf("%+v", site)
	}
	if got := site.Paths[0].Target; got.Timeouts.Total != 5 || got.Closed != nil || got.Empty {
		t.Errorf("app: %+v", got)
	}
	if got := site.Paths[2].Target; got.Closed == nil || !strings.Contains(got.Closed.Message, "not here") {
		t.Errorf("closed: %+v", got)
	}
	if got := site.Paths[3].Target; !got.Empty || got.Closed != nil {
		t.Errorf("empty: %+v", got)
	}
	wantTold(t, site, "spec.rules[1].http.paths[1].backend.service NotAllowed")
}

// TestMiddlewareLimit: two long lists of names close the Ingress before they
// are looked up.
func TestMiddlewareLimit(t *testing.T) {
	ingress := ingressOf("a.example.com")
	var ours, theirs []string
	for i := range route.MaxPolicies/2 + 1 {
		ours = append(ours, fmt.Sprintf("m%d", i))
		theirs = append(theirs, fmt.Sprintf("shop-m%d@kubernetescrd", i))
	}
	ingress.Annotations["slipway.dev/middlewares"] = strings.Join(ours, ",")
	ingress.Annotations["traefik.ingress.kubernetes.io/router.middlewares"] = strings.Join(theirs, ",")
	site := resolved(snapshotOf(ingress, serviceOf("app")), resolve.Options{})
	if site.Closed == nil || site.Closed.Reason != refusal.TooLarge {
		t.Errorf("closed: %v", site.Closed)
	}
	wantTold(t, site, "metadata.annotations[slipway.dev/middlewares] TooLarge")
}
