package translate_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/reference"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/translate"
	"slipway.dev/slipway/internal/route"
)

// siteOf is an Ingress that is resolved, with one path.
func siteOf() *resolve.ResolvedIngress {
	backend := route.BackendID{Namespace: "shop", Name: "app", Port: 80}
	return &resolve.ResolvedIngress{
		Ingress: snapshot.Ref{Kind: snapshot.Ingress, Namespace: "shop", Name: "cart"},
		Ours:    true, Created: time.Unix(1_700_000_000, 0).UTC(),
		Hosts: []string{"a.example.com"}, Backends: []route.BackendID{backend},
		Paths: []resolve.Path{{
			Rule: 2, Index: 1, Host: "a.example.com", Match: route.PathMatch{Type: route.PathExact, Value: "/x"},
			Target: resolve.Target{Backend: backend, Timeouts: route.Timeouts{Connect: 1, Total: 2}},
		}},
		EntryPoints: []string{"web"}, Priority: 7,
		Policies: []route.Policy{{AddPrefix: &route.AddPrefix{Prefix: "/site"}}},
		Timeouts: route.Timeouts{Total: 3, Idle: 4},
	}
}

func TestRule(t *testing.T) {
	site := siteOf()
	want := &route.Rule{
		ID:          route.ID{Kind: "Ingress", Namespace: "shop", Name: "cart", Rule: 2, Path: 1},
		EntryPoints: []string{"web"}, Host: "a.example.com", Priority: 7, Created: site.Created,
		Match:    route.Match{Path: route.PathMatch{Type: route.PathExact, Value: "/x"}},
		Policies: site.Policies, Backends: []route.BackendRef{{Backend: site.Backends[0]}},
		Timeouts: route.Timeouts{Connect: 1, Idle: 4, Total: 3},
	}
	outcome := translate.Ingress(site)
	if len(outcome.Rules) != 1 || !reflect.DeepEqual(outcome.Rules[0], want) {
		t.Errorf("got %+v", outcome.Rules)
	}
	if !slices.Equal(outcome.Hosts, site.Hosts) || !slices.Equal(outcome.Backends, site.Backends) {
		t.Errorf("got %+v", outcome)
	}
	if got := translate.Ingress(&resolve.ResolvedIngress{Ingress: site.Ingress}); !reflect.DeepEqual(got, translate.Outcome{}) {
		t.Errorf("an Ingress that is not ours gives %+v", got)
	}
}

// TestClosed: a rule that must not be served keeps its place, and nothing that
// it was to do.
func TestClosed(t *testing.T) {
	fault := refusal.New("spec", refusal.Invalid, "broken")
	tests := []struct {
		name    string
		change  func(*resolve.ResolvedIngress)
		reason  route.Reason
		message string
	}{
		{"the Ingress", func(s *resolve.ResolvedIngress) { s.Closed = fault; s.Paths[0].Target.Missing = fault }, route.ReasonRefused, "spec: broken"},
		{"the target", func(s *resolve.ResolvedIngress) { s.Paths[0].Target.Closed = fault; s.Paths[0].Target.Missing = fault }, route.ReasonRefused, "spec: broken"},
		{"no Service", func(s *resolve.ResolvedIngress) { s.Paths[0].Target.Missing = fault }, route.ReasonNoService, "broken"},
		{"no endpoint", func(s *resolve.ResolvedIngress) { s.Paths[0].Target.Empty = true }, route.ReasonNoEndpoint, "the Service shop/app has no ready endpoint"},
		{"too many policies", func(s *resolve.ResolvedIngress) {
			for range route.MaxPolicies {
				s.Policies = append(s.Policies, s.Policies[0])
			}
		}, route.ReasonRefused, "metadata.annotations: the routing table cannot hold it"},
		{"timeout of the Ingress", func(s *resolve.ResolvedIngress) { s.Timeouts.Total = -1 }, route.ReasonRefused, "metadata.annotations: the routing table cannot hold it"},
		{"timeout of the backend", func(s *resolve.ResolvedIngress) { s.Paths[0].Target.Timeouts.Connect = -1 }, route.ReasonRefused, "spec.rules[2].http.paths[1]: the routing table"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			site := siteOf()
			test.change(site)
			outcome := translate.Ingress(site)
			if len(outcome.Rules) != 1 {
				t.Fatalf("%d rules", len(outcome.Rules))
			}
			rule := outcome.Rules[0]
			if rule.Response == nil || rule.Response.Status != 503 || rule.Response.Reason != test.reason || !strings.HasPrefix(rule.Response.Message, test.message) {
				t.Errorf("it answers %+v", rule.Response)
			}
			if len(rule.Policies)+len(rule.Backends) > 0 || rule.Timeouts != (route.Timeouts{}) || rule.Host != "a.example.com" || rule.Match.Path.Value != "/x" {
				t.Errorf("the rule is %+v", rule)
			}
			if problems := rule.Validate(); len(problems) > 0 {
				t.Errorf("%v", problems)
			}
		})
	}
}

// TestDisplaced: a rule that no table can hold is left out and refused.
func TestDisplaced(t *testing.T) {
	site := siteOf()
	site.EntryPoints = make([]string, route.MaxEntryPoints+1)
	outcome := translate.Ingress(site)
	if len(outcome.Rules) != 0 || len(outcome.Refusals) != 1 || outcome.Refusals[0].Reason != refusal.TooLarge {
		t.Errorf("%+v", outcome)
	}
	if len(site.Refusals) != 0 {
		t.Error("the Site was changed")
	}
}

// TestDefault: the priority of a default backend is at most 0.
func TestDefault(t *testing.T) {
	for priority, want := range map[int32]int32{7: 0, 0: 0, -7: -7} {
		site := siteOf()
		site.Priority = priority
		site.Paths = []resolve.Path{{Rule: 1, Host: "a.example.com", Default: true, Target: site.Paths[0].Target}}
		rule := translate.Ingress(site).Rules[0]
		if !rule.Fallback || rule.Priority != want || rule.ID.Variant != "default" || rule.ID.Rule != 1 || rule.Match.Path != (route.PathMatch{}) {
			t.Errorf("%+v", rule)
		}
		site.EncryptedOnly = true
		rule = translate.Ingress(site).Rules[0]
		if rule.Fallback || rule.Match.Scheme != route.SchemeHTTPS || rule.Priority != want {
			t.Errorf("%+v", rule)
		}
	}
}

func TestClaims(t *testing.T) {
	site := siteOf()
	fault := refusal.New("", refusal.NotFound, "missing")
	certificate := &route.Certificate{ID: route.CertificateID{Namespace: "shop", Name: "tls"}}
	site.Certificates = []resolve.CertificateUse{{Certificate: certificate, Hosts: site.Hosts, Field: "spec.tls[0].secretName"}}
	refused := reference.TLSConditions{Options: route.TLSOptions{Refused: true}}
	site.Handshakes = []resolve.HandshakeUse{{Conditions: refused, Hosts: site.Hosts, Field: "here", Closed: fault}}
	outcome := translate.Ingress(site)
	if want := []translate.CertificateClaim{{
		Certificate: certificate, Hosts: site.Hosts, Ingress: site.Ingress, Created: site.Created, Field: "spec.tls[0].secretName",
	}}; !reflect.DeepEqual(outcome.Certificates, want) {
		t.Errorf("%+v", outcome.Certificates)
	}
	if want := []translate.OptionsClaim{{
		Conditions: refused, Hosts: site.Hosts, Ingress: site.Ingress, Created: site.Created, Field: "here", Refused: fault,
	}}; !reflect.DeepEqual(outcome.Options, want) {
		t.Errorf("%+v", outcome.Options)
	}
}
