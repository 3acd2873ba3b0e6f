package program_test

import (
	"testing"

	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// TestTCPOwner: a route of connections for a wildcard or for all names does not take the
// connections of a host, or of a wildcard, that belongs to another namespace. A plain one
// takes all of its entry point.
func TestTCPOwner(t *testing.T) {
	owned := func(namespace string) route.HostOwner { return route.HostOwner{Namespace: namespace, Exclusive: true} }
	rule := func(namespace, host string) *route.Rule {
		return &route.Rule{
			ID: route.ID{Kind: "Ingress", Namespace: namespace, Name: "rule"}, Host: host, HostOwner: owned(namespace), Response: &route.Response{Status: 200},
		}
	}
	stream := func(namespace, name string, mode route.TLSMode, point string) *route.TCPRoute {
		return &route.TCPRoute{
			ID: route.TCPRouteID{Kind: "IngressRouteTCP", Namespace: namespace, Name: "stream" + point + string(mode)}, EntryPoints: []string{point},
			ServerName: name, TLS: mode, HostOwner: owned(namespace), Backends: []route.BackendRef{{Status: 503, Weight: 1}},
		}
	}
	table := &route.Table{
		EntryPoints: []string{"web", "all", "database"},
		Rules:       []*route.Rule{rule("shop", "a.x"), rule("team", "b.x"), rule("wide", "*.y")},
		TCPRoutes: []*route.TCPRoute{
			stream("team", "*.x", route.TLSPassthrough, "web"), stream("other", "c.x", route.TLSPassthrough, "web"),
			stream("team", "", route.TLSTerminate, "all"), stream("team", "", route.TLSPlain, "database"),
		},
	}
	compiled := must.Get(program.Compiler{}.Compile(table))(t)
	for _, test := range []struct{ point, name, want string }{
		{"web", "a.x", ""}, {"web", "b.x", "team"}, {"web", "c.x", "other"}, {"web", "d.x", "team"},
		{"all", "a.x", ""}, {"all", "b.x", "team"}, {"all", "a.y", ""}, {"all", "z", "team"}, {"all", "", "team"},
		{"database", "a.x", "team"}, {"database", "", "team"},
	} {
		found := compiled.LookupTCP(&program.TCPRequest{EntryPoint: test.point, TLS: true, ServerName: test.name})
		got := ""
		if found.Route != nil {
			got = found.Route.ID.Namespace
		}
		if got != test.want {
			t.Errorf("%s at %s: served by %q, want %q", test.name, test.point, got, test.want)
		}
	}
}
