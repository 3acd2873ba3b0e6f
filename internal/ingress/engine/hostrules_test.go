package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// tenant is an Ingress with rules for host/path, made at a second. Paths are
// prefixes; those that start with = are exact.
func tenant(namespace, name string, second int64, rules ...string) *networkingv1.Ingress {
	ingress := site(namespace, name, "", second)
	template := ingress.Spec.Rules[0]
	ingress.Spec.TLS, ingress.Spec.Rules, ingress.Annotations = nil, nil, map[string]string{}
	for _, written := range rules {
		host, path, _ := strings.Cut(written, "/")
		kind := networkingv1.PathTypePrefix
		if exact, found := strings.CutSuffix(host, "="); found {
			host, kind = exact, networkingv1.PathTypeExact
		}
		rule := *template.DeepCopy()
		rule.Host = host
		rule.HTTP.Paths[0].Path, rule.HTTP.Paths[0].PathType = "/"+path, &kind
		ingress.Spec.Rules = append(ingress.Spec.Rules, rule)
	}
	return ingress
}

// granting adds a grant to an Ingress.
func granting(ingress *networkingv1.Ingress, grant string) *networkingv1.Ingress {
	ingress.Annotations["slipway.dev/host-grants"] = grant
	return ingress
}

// live lists the rules of a namespace in the table, with their owners.
func (w *town) live(namespace string) string {
	var all []string
	for _, rule := range w.book.Table().Rules {
		if rule.ID.Namespace != namespace {
			continue
		}
		text := rule.Host + rule.Match.Path.Value + " of " + rule.HostOwner.Namespace
		if rule.HostOwner.Exclusive {
			text += " exclusive"
		}
		if rule.HostOwner.Behind {
			text += " behind"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func (w *town) wantLive(namespace string, want ...string) {
	w.t.Helper()
	if got := w.live(namespace); got != strings.Join(want, "\n") {
		w.t.Errorf("%s has\n%s\nwant\n%s", namespace, got, strings.Join(want, "\n"))
	}
}

// Rules for the host of another namespace are in the table as the owner and the
// option want it, and follow when the owner changes.
func TestHostSharing(t *testing.T) {
	objects := []any{
		granting(tenant("bank", "site", 10, "bank.example/", "/"), "shop=/shop"),
		tenant("shop", "cart", 20, "bank.example/shop/cart", "bank.example/login", "own.example/", "/any"),
	}
	for sharing, want := range map[resolve.HostSharing][2][]string{
		resolve.HostSharingDeny: {
			{"/ of bank exclusive", "bank.example/ of bank exclusive"},
			{"bank.example/shop/cart of bank exclusive", "own.example/ of shop exclusive"},
		},
		resolve.HostSharingBehind: {
			{"/ of bank", "bank.example/ of bank"},
			{"/any of bank behind", "bank.example/login of bank behind", "bank.example/shop/cart of bank", "own.example/ of shop"},
		},
		resolve.HostSharingOpen: {
			{"/ of ", "bank.example/ of "},
			{"/any of ", "bank.example/login of ", "bank.example/shop/cart of ", "own.example/ of "},
		},
	} {
		t.Run(string(sharing), func(t *testing.T) {
			w := townWith(t, sharing)
			w.put(objects...)
			w.wantLive("bank", want[0]...)
			w.wantLive("shop", want[1]...)
			refused := w.refused(snapshot.Ingress, "shop", "cart")
			if got := strings.Contains(refused, "belongs to namespace bank"); got != (sharing == resolve.HostSharingDeny) {
				t.Errorf("refused: %q", refused)
			}
			w.remove(snapshot.Ingress, "bank", "site")
			if got := w.live("shop"); strings.Contains(got, "of bank") || !strings.Contains(got, "bank.example/login of") || !strings.Contains(got, "/any of") {
				t.Errorf("alone it has\n%s", got)
			}
			if refused := w.refused(snapshot.Ingress, "shop", "cart"); strings.Contains(refused, "belongs") {
				t.Errorf("alone it is refused: %q", refused)
			}
		})
	}
}

// A grant works from the moment it is there, and until it is gone; one of a
// namespace that is not the owner does not.
func TestGrantFollows(t *testing.T) {
	w := newTown(t)
	guest := tenant("shop", "cart", 20, "bank.example/shop")
	w.put(tenant("bank", "site", 10, "bank.example/"), guest, granting(tenant("evil", "grants", 30, "bank.example/x"), "shop"))
	w.wantLive("shop")
	steps := []struct {
		grant string
		live  []string
	}{
		{"evil", nil},
		{"shop=/sho", nil},
		{"shop=/shop/cart", nil},
		{"shop=/shop", []string{"bank.example/shop of bank exclusive"}},
		{"evil", nil},
		{"shop", []string{"bank.example/shop of bank exclusive"}},
		{"Shop", nil}, // refused
	}
	for _, step := range steps {
		w.put(granting(tenant("bank", "site", 10, "bank.example/"), step.grant))
		w.wantLive("shop", step.live...)
		w.wantLive("bank", "bank.example/ of bank exclusive")
	}
	// The grant may be in another Ingress of the owner that has the host.
	w.put(granting(tenant("bank", "other", 40, "other.example/"), "shop"))
	w.wantLive("shop")
	w.put(granting(tenant("bank", "other", 40, "bank.example/other"), "shop"))
	w.wantLive("shop", "bank.example/shop of bank exclusive")
}

// The refusal names the owner and the annotation that it would have to write.
func TestHostRefusal(t *testing.T) {
	w := newTown(t)
	w.put(tenant("bank", "site", 10, "bank.example/", "*.example/", "/"))
	expression := tenant("shop", "expression", 20, "bank.example/a.*")
	kind := networkingv1.PathTypeImplementationSpecific
	expression.Spec.Rules[0].HTTP.Paths[0].PathType = &kind
	expression.Annotations["slipway.dev/path-matcher"] = "PathRegexp"
	fallback := tenant("shop", "fallback", 20)
	backend := site("shop", "x", "", 0).Spec.Rules[0].HTTP.Paths[0].Backend
	fallback.Spec.DefaultBackend = &backend
	many := tenant("shop", "many", 20)
	for i := range 5 {
		many.Spec.Rules = append(many.Spec.Rules, tenant("", "", 0, fmt.Sprintf("bank.example/p%d", i)).Spec.Rules...)
	}
	w.put(tenant("shop", "path", 20, "bank.example/login/", "bank.example=/exact", "bank.example/login"), tenant("shop", "whole", 20, "bank.example/"),
		tenant("shop", "wild", 20, "*.example/w"), tenant("shop", "any", 20, "/.well-known/acme-challenge/"), expression, fallback, many)
	for name, want := range map[string][]string{
		"path":       {"spec.rules[0].http.paths[0]", "the host bank.example belongs to namespace bank", "3 rules of this Ingress are", `slipway.dev/host-grants: "shop=/login,/exact"`},
		"whole":      {`slipway.dev/host-grants: "shop"`},
		"wild":       {"the host *.example belongs to namespace bank", `"shop=/w"`},
		"any":        {"traffic without a host of its own belongs to namespace bank", `"shop=/.well-known/acme-challenge"`},
		"expression": {`"shop"`},
		"fallback":   {"spec.defaultBackend", `"shop"`},
		"many":       {"5 rules of this Ingress are", `"shop"`},
	} {
		got := w.refused(snapshot.Ingress, "shop", name)
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q is missing in %q", name, part, got)
			}
		}
	}
	w.wantLive("shop")
	w.altered()
	ref := snapshot.Ref{Kind: snapshot.Ingress, Namespace: "shop", Name: "path"}
	if !w.Condition(ref).Refused {
		t.Errorf("the condition is %+v", w.Condition(ref))
	}
	for _, refused := range w.Refusals() {
		if refused.Namespace == "bank" && refused.Reason == "HostNotGranted" {
			t.Errorf("the owner is refused: %s", refused)
		}
	}
}

// An Ingress with very many hosts of others is not refused for each of them.
func TestHostRefusalsAreBounded(t *testing.T) {
	w := newTown(t)
	var rules []string
	for i := range resolve.MaxRefusals + 7 {
		rules = append(rules, fmt.Sprintf("h%d.example/", i))
	}
	w.put(tenant("bank", "site", 10, rules...), tenant("shop", "all", 20, rules...))
	count, more := 0, ""
	for _, refused := range w.Refusals() {
		if refused.Namespace == "shop" && refused.Reason == "HostNotGranted" {
			count++
		}
		if refused.Reason == "TooLarge" {
			more += refused.Message
		}
	}
	if count != resolve.MaxRefusals || !strings.Contains(more, "7 more hosts") {
		t.Errorf("%d refusals, and %q", count, more)
	}
}

// A host that its owner has in spec.tls alone is not served by the wildcard of
// another namespace, which would show the owner's certificate.
func TestHostWithoutRulesIsReserved(t *testing.T) {
	w := newTown(t)
	owner := tenant("bank", "site", 10, "/")
	owner.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"bank.example"}, SecretName: "cert"}}
	w.put(pair("bank", "cert"), owner, tenant("evil", "wild", 20, "*.example/"))
	compiled := w.compile()
	for host, want := range map[string]string{"bank.example": "bank/site", "other.example": "evil/wild", "other.test": "bank/site"} {
		if got := winner(compiled, host, "/"); got != want {
			t.Errorf("%s is served by %s, want %s", host, got, want)
		}
	}
	// A later claim of the same host changes nothing.
	claim := tenant("evil", "claim", 30, "/")
	claim.Spec.TLS = owner.Spec.TLS
	w.put(claim)
	if got := winner(w.compile(), "bank.example", "/"); got != "bank/site" {
		t.Errorf("after a later claim it is served by %s", got)
	}
	reserved := slices.ContainsFunc(w.book.Table().Rules, func(rule *route.Rule) bool {
		return rule.ID.Namespace == "evil" && rule.Host == "bank.example"
	})
	if reserved {
		t.Error("the later claim reserves the host")
	}
}

// BenchmarkCreate is a new Ingress with a host of its own. The difference of the two is
// what the ownership of hosts costs.
func BenchmarkCreate(b *testing.B) {
	for _, sharing := range []resolve.HostSharing{resolve.HostSharingDeny, resolve.HostSharingOpen} {
		b.Run(string(sharing), func(b *testing.B) {
			facts := snapshot.New()
			e, book := engine.New(facts, resolve.Options{StrictPrefix: true, HostSharing: sharing}), route.NewIndex()
			ingresses := make([]*networkingv1.Ingress, b.N)
			for i := range ingresses {
				ingresses[i] = tenant("shop", fmt.Sprint("site-", i), int64(i), fmt.Sprintf("host-%d.example/", i))
			}
			b.ReportAllocs()
			b.ResetTimer()
			for _, ingress := range ingresses {
				result := e.Update(facts.Put(ingress))
				book.Apply(&result.Change)
			}
		})
	}
}
