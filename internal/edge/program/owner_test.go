package program_test

import (
	"slices"
	"testing"
	"unique"

	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// TestOwnersOfListeners: a host that has rules on one listener belongs to its namespace
// on the others too, until the last of these rules is gone. Server names are hosts. Rules
// of the edge itself, such as challenges, do not change that.
func TestOwnersOfListeners(t *testing.T) {
	first, second := route.ListenerID{Namespace: "infra", Name: "first", Port: 80}, route.ListenerID{Namespace: "infra", Name: "second", Port: 80}
	rule := func(namespace, name, host string, at route.ListenerID) *route.Rule {
		return &route.Rule{
			ID: route.ID{Kind: "HTTPRoute", Namespace: namespace, Name: name}, Listener: at, Host: host,
			HostOwner: route.HostOwner{Namespace: namespace, Exclusive: true}, Response: &route.Response{Status: 200, Reason: route.ReasonConfigured},
		}
	}
	stream := func(namespace, name, host string, at route.ListenerID) *route.TCPRoute {
		return &route.TCPRoute{
			ID: route.TCPRouteID{Kind: "TLSRoute", Namespace: namespace, Name: name}, Listener: at, ServerName: host, TLS: route.TLSPassthrough,
			HostOwner: route.HostOwner{Namespace: namespace, Exclusive: true}, Backends: []route.BackendRef{{Status: 500, Weight: 1}},
		}
	}
	challenge := func(at route.ListenerID) *route.Rule {
		made := rule("slipway", "challenge", "c.bank.com", at)
		made.ID.Kind, made.ID.Rule, made.HostOwner = "Challenge", int(at.Port), route.HostOwner{}
		made.Match.Path = route.PathMatch{Type: route.PathExact, Value: "/.well-known/acme-challenge/token"}
		return made
	}
	compiled := must.Get(program.Compiler{}.Compile(&route.Table{
		Rules: []*route.Rule{
			rule("shop", "all", "", second), rule("bank", "all", "", first), rule("shop", "ingress", "", route.ListenerID{}),
			challenge(second), challenge(route.ListenerID{}), rule("bank", "challenged", "c.bank.com", first),
			rule("bank", "one", "a.bank.com", first), rule("bank", "two", "a.bank.com", first), rule("bank", "wild", "*.wild.com", first),
		},
		TCPRoutes: []*route.TCPRoute{stream("shop", "wide", "*.com", second), stream("bank", "name", "tls.bank.com", first)},
	}))(t)
	serves := func(what, host string, want bool) {
		t.Helper()
		request := program.Request{Listener: unique.Make(second), Host: host, Path: "/", Method: "GET"}
		entry := program.Request{EntryPoint: "web", Host: host, Path: "/", Method: "GET"}
		connection := program.TCPRequest{Listener: unique.Make(second), TLS: true, ServerName: host}
		if got := compiled.Lookup(&request).Rule != nil; got != want {
			t.Errorf("%s: the request for %s is served: %t", what, host, got)
		}
		if got := compiled.Lookup(&entry).Rule != nil; got != want {
			t.Errorf("%s: the request of an entry point for %s is served: %t", what, host, got)
		}
		for _, explained := range []*program.Request{&request, &entry} {
			wins := func(step program.Step) bool { return step.Decision == program.Wins }
			if got := slices.ContainsFunc(compiled.Explain(explained), wins); got != want {
				t.Errorf("%s: explain has a rule for %s: %t", what, host, got)
			}
		}
		if got := compiled.LookupTCP(&connection).Route != nil; got != want {
			t.Errorf("%s: the connection for %s is served: %t", what, host, got)
		}
		if allocated := testing.AllocsPerRun(100, func() { compiled.Lookup(&request); compiled.Lookup(&entry); compiled.LookupTCP(&connection) }); allocated > 0 {
			t.Errorf("%s: a lookup allocates %v times", what, allocated)
		}
	}
	for host, want := range map[string]bool{
		"a.bank.com": false, "tls.bank.com": false, "c.bank.com": false, "x.wild.com": false, "x.y.wild.com": false, "wild.com": true, "b.bank.com": true, "x.a.bank.com": true,
	} {
		serves("at first", host, want)
	}
	remove := func(change *route.Change) { compiled = must.Get(compiled.Apply(change))(t) }
	change := &route.Change{}
	change.Rules.Removed = []route.ID{{Kind: "HTTPRoute", Namespace: "bank", Name: "one"}}
	remove(change)
	serves("with one rule less", "a.bank.com", false)
	change = &route.Change{}
	change.Rules.Removed = []route.ID{{Kind: "HTTPRoute", Namespace: "bank", Name: "two"}}
	change.TCPRoutes.Removed = []route.TCPRouteID{{Kind: "TLSRoute", Namespace: "bank", Name: "name"}}
	remove(change)
	serves("without rules", "a.bank.com", true)
	serves("without routes", "tls.bank.com", true)
}
