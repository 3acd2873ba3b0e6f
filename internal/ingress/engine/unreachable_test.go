package engine_test

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// withAnnotation adds an annotation to an Ingress.
func withAnnotation(ingress *networkingv1.Ingress, name, value string) *networkingv1.Ingress {
	ingress.Annotations[name] = value
	return ingress
}

// A rule behind another one with the same host and path is refused, as long as the
// other one gets all of its requests.
func TestUnreachable(t *testing.T) {
	w := newTown(t)
	young := func() *networkingv1.Ingress {
		return tenant("shop", "young", 20, "a.example/x", "a.example/y", "b.example/")
	}
	w.put(serviceNamed("app"), tenant("shop", "old", 10, "a.example/x"), young())
	want := func(name, text string) {
		t.Helper()
		got := w.refused(snapshot.Ingress, "shop", name)
		if text == "" && strings.Contains(got, "no request reaches") || !strings.Contains(got, text) {
			t.Errorf("%s: %q, want %q", name, got, text)
		}
	}
	want("old", "")
	want("young", "spec.rules[0].http.paths[0] of Ingress shop/old has the same host and path, and comes before it by age: remove one of the two")
	// A priority turns the two round.
	w.put(withAnnotation(young(), "slipway.dev/priority", "1"))
	want("young", "")
	want("old", "Ingress shop/young has the same host and path, and comes before it by priority")
	// A rule for some requests does not hide one for all.
	for _, narrow := range []*networkingv1.Ingress{
		withAnnotation(tenant("shop", "old", 10, "a.example/x"), "slipway.dev/tls", "only"),
		withAnnotation(tenant("shop", "old", 10, "a.example/x"), "slipway.dev/entry-points", "web"),
		tenant("shop", "old", 10, "a.example=/x"),
		tenant("shop", "old", 10, "c.example/x"),
	} {
		w.put(narrow, young())
		want("young", "")
		want("old", "")
	}
	// Both are for the same requests, or the second for fewer.
	w.put(withAnnotation(tenant("shop", "old", 10, "a.example/x", "a.example/y"), "slipway.dev/entry-points", "web,side"),
		withAnnotation(young(), "slipway.dev/entry-points", "side"))
	want("young", "1 more rule of this host")
	w.put(withAnnotation(young(), "slipway.dev/entry-points", "side,other"))
	want("young", "")
	w.put(withAnnotation(young(), "slipway.dev/entry-points", "web"))
	want("young", "no request reaches it")
	w.follow(w.facts.Delete(snapshot.Ingress, "shop", "old"))
	want("young", "")
	// A host that two Ingresses reserve without a rule is no conflict.
	for _, name := range []string{"one", "two"} {
		reserved := tenant("shop", name, 30)
		reserved.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"reserved.example"}}}
		w.put(reserved)
	}
	want("one", "")
	want("two", "")
	// Of two default backends the older one is used.
	for second, name := range []string{"first", "second"} {
		fallback := tenant("shop", name, int64(second))
		backend := young().Spec.Rules[0].HTTP.Paths[0].Backend
		fallback.Spec.DefaultBackend = &backend
		w.put(fallback)
	}
	want("first", "")
	want("second", "spec.defaultBackend: no request reaches it: spec.defaultBackend of Ingress shop/first")
}
