package proxy_test

import (
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/route"
)

// TestMatchAgain: a path that directives change is matched again, with the policies of the
// rule that it leads to, and those of the first rule are over.
func TestMatchAgain(t *testing.T) {
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)},
		route.Policy{ID: route.PolicyID{Name: "first"}, InFlight: &route.InFlight{Max: 1, Key: route.HashKey{By: route.KeyAll}}})
	moved := func(regexp, to string) route.DirectiveStep {
		return route.DirectiveStep{Rewrite: &route.DirectiveRewrite{Regexp: regexp, Path: route.Text{{Text: to}}, Then: route.ThenMatch}}
	}
	table.Rules[0].Directives = &route.Directives{Behind: 1, Steps: []route.DirectiveStep{
		moved("^/two", "/other/x"), moved("^/closed", "/admin"), moved("^/same", "/end"), moved("^/loop", "/loop"),
	}}
	other, admin := *table.Rules[0], *table.Rules[0]
	other.ID.Path, other.Match = 1, route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/other"}}
	other.Directives, other.Policies = nil, []route.Policy{{RequestHeaders: &route.RequestHeaders{Set: []route.HeaderValue{{Name: "X-Rule", Value: "other"}}}}}
	admin.ID.Path, admin.Match = 2, route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/admin"}}
	admin.Directives, admin.Policies = nil, []route.Policy{{IPFilter: &route.IPFilter{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}}}
	table.Rules = append(table.Rules, &other, &admin)
	e := start(t, table)
	w := edgetest.Dial(t, e.Address)
	for _, c := range []struct {
		target, want string
		status       int
	}{
		{"/two?q=1", "GET /other/x?q=1", 200}, {"/closed", "", 403}, {"/same", "GET /end", 200}, {"/loop", "", 500}, {"/", "GET /", 200},
		{"/two", "X-Rule: other", 200},
	} {
		response, body := w.Get(c.target)
		if response.StatusCode != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %q, want %d %q", c.target, response.StatusCode, body, c.status, c.want)
		}
	}
}
