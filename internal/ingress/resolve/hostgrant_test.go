package resolve_test

import (
	"reflect"
	"testing"

	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/route"
)

func TestGrantCovers(t *testing.T) {
	exact, prefix, letters, expression := route.PathExact, route.PathPrefix, route.PathCharacterPrefix, route.PathRegexp
	for _, test := range []struct {
		grant []string
		match route.PathMatch
		want  bool
	}{
		{nil, route.PathMatch{Type: expression, Value: "^/.*"}, true},
		{nil, route.PathMatch{}, true},
		{[]string{"/shop"}, route.PathMatch{}, false},
		{[]string{"/shop"}, route.PathMatch{Type: exact, Value: "/shop"}, true},
		{[]string{"/shop"}, route.PathMatch{Type: exact, Value: "/shop/cart"}, true},
		{[]string{"/shop"}, route.PathMatch{Type: exact, Value: "/shopping"}, false},
		{[]string{"/shop"}, route.PathMatch{Type: exact, Value: "/"}, false},
		{[]string{"/shop"}, route.PathMatch{Type: prefix, Value: "/shop"}, true},
		{[]string{"/shop"}, route.PathMatch{Type: prefix, Value: "/shop/"}, true},
		{[]string{"/shop"}, route.PathMatch{Type: prefix, Value: "/shop/cart"}, true},
		{[]string{"/shop"}, route.PathMatch{Type: prefix, Value: "/shop%2F.."}, false},
		{[]string{"/shop"}, route.PathMatch{Type: prefix, Value: "/"}, false},
		{[]string{"/shop/cart"}, route.PathMatch{Type: prefix, Value: "/shop"}, false},
		{[]string{"/shop"}, route.PathMatch{Type: letters, Value: "/shop"}, false},
		{[]string{"/shop"}, route.PathMatch{Type: letters, Value: "/shopping"}, false},
		{[]string{"/shop"}, route.PathMatch{Type: letters, Value: "/shop/"}, true},
		{[]string{"/shop"}, route.PathMatch{Type: expression, Value: "^/shop/cart"}, false},
		{[]string{"/api", "/shop"}, route.PathMatch{Type: prefix, Value: "/shop"}, true},
	} {
		grant := resolve.HostGrant{Prefixes: test.grant}
		if got := grant.Covers(test.match); got != test.want {
			t.Errorf("%v covers %+v: %v", test.grant, test.match, got)
		}
	}
}

// Prefixes are spelled as paths of rules are, and one that no rule can have grants
// nothing: not the whole host either.
func TestGrants(t *testing.T) {
	ingress := ingressOf("a.example.com", "")
	ingress.Annotations["slipway.dev/host-grants"] = "b=/sh%6Fp/,/x%c3%a9 c d=/ e=/a/../b f=/ok,//"
	site := resolved(snapshotOf(ingress, serviceOf("app")), resolve.Options{})
	want := []resolve.HostGrant{
		{Namespace: "b", Prefixes: []string{"/shop", "/x%C3%A9"}}, {Namespace: "c"}, {Namespace: "d"}, {Namespace: "f", Prefixes: []string{"/ok"}},
	}
	if !reflect.DeepEqual(site.Grants, want) {
		t.Errorf("got %+v", site.Grants)
	}
	const field = "metadata.annotations[slipway.dev/host-grants] Invalid"
	wantTold(t, site, field, field)
	if want := []string{"", "a.example.com"}; !reflect.DeepEqual(site.Hosts, want) {
		t.Errorf("hosts: %q", site.Hosts)
	}
}
