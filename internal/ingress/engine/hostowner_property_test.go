package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/edge/program"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/must"
)

// compile compiles the table.
func (w *town) compile() *program.Program {
	w.t.Helper()
	return must.Get(program.Compiler{}.Compile(w.book.Table()))(w.t)
}

// winner is the Ingress that serves a request, as namespace/name; empty for none.
func winner(compiled *program.Program, host, path string) string {
	rule := compiled.Lookup(&program.Request{EntryPoint: "web", Host: host, Path: path, Method: "GET"}).Rule
	if rule == nil {
		return ""
	}
	return rule.ID.Namespace + "/" + rule.ID.Name
}

// tenants are random Ingresses of several namespaces that want the same hosts.
type tenants struct {
	random    *rand.Rand
	ingresses []*networkingv1.Ingress
}

func (r *tenants) one(of ...string) string { return of[r.random.IntN(len(of))] }

var tenantPaths = []string{"", "shop", "shop/cart", "shop/cart/1", "shopping", "login", ".well-known/acme-challenge/token"}

func (r *tenants) add(number int) {
	hosts := []string{"bank.example", "*.example", "", "www.bank.example", "shop.example"}
	var rules []string
	for range 1 + r.random.IntN(3) {
		rules = append(rules, r.one(hosts...)+r.one("/", "/", "=/")+r.one(tenantPaths...))
	}
	ingress := tenant(r.one("a", "b", "c"), fmt.Sprint("i", number), int64(r.random.IntN(4)), rules...)
	if r.random.IntN(3) == 0 {
		ingress.Annotations[r.one("slipway.dev/priority", "traefik.ingress.kubernetes.io/router.priority")] = r.one("-1", "5", "2147483647")
	}
	if r.random.IntN(3) == 0 {
		granting(ingress, r.one("a", "b=/shop", "c=/shop/cart,/login", "b c=/shop"))
	}
	if r.random.IntN(6) == 0 {
		kind := networkingv1.PathTypeImplementationSpecific
		ingress.Annotations["slipway.dev/path-matcher"] = "PathRegexp"
		for i := range ingress.Spec.Rules {
			ingress.Spec.Rules[i].HTTP.Paths[0].PathType = &kind
		}
	}
	if r.random.IntN(6) == 0 {
		backend := ingress.Spec.Rules[0].HTTP.Paths[0].Backend
		ingress.Spec.DefaultBackend = &backend
		if r.random.IntN(2) == 0 {
			ingress.Spec.Rules = nil
		}
	}
	if r.random.IntN(6) == 0 {
		ingress.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{r.one("bank.example", "shop.example")}}}
	}
	r.ingresses = append(r.ingresses, ingress)
}

// has reports whether an Ingress has a host, in a rule or in spec.tls.
func has(ingress *networkingv1.Ingress, host string) bool {
	if host == "" && len(ingress.Spec.Rules) == 0 {
		return ingress.Spec.DefaultBackend != nil
	}
	return slices.ContainsFunc(ingress.Spec.Rules, func(rule networkingv1.IngressRule) bool { return rule.Host == host }) ||
		slices.ContainsFunc(ingress.Spec.TLS, func(entry networkingv1.IngressTLS) bool { return slices.Contains(entry.Hosts, host) })
}

// owner is the namespace of the oldest Ingress with a host; empty for none.
func (r *tenants) owner(host string) string {
	var oldest *networkingv1.Ingress
	age := func(i *networkingv1.Ingress) string {
		return i.CreationTimestamp.UTC().Format(time.RFC3339) + " " + i.Namespace + " " + i.Name
	}
	for _, ingress := range r.ingresses {
		if has(ingress, host) && (oldest == nil || age(ingress) < age(oldest)) {
			oldest = ingress
		}
	}
	if oldest == nil {
		return ""
	}
	return oldest.Namespace
}

// granted reports whether the owner of a host grants a path of it to a namespace.
func (r *tenants) granted(host, owner, namespace, path string) bool {
	for _, ingress := range r.ingresses {
		if ingress.Namespace != owner || !has(ingress, host) {
			continue
		}
		for _, word := range strings.Fields(ingress.Annotations["slipway.dev/host-grants"]) {
			name, prefixes, limited := strings.Cut(word, "=")
			inside := func(prefix string) bool { return strings.HasPrefix(path+"/", prefix+"/") }
			if name == namespace && (!limited || slices.ContainsFunc(strings.Split(prefixes, ","), inside)) {
				return true
			}
		}
	}
	return false
}

// ownerServes reports whether the owner has a rule for a host and path; regular
// expressions are left out.
func (r *tenants) ownerServes(host, owner, path string) bool {
	for _, ingress := range r.ingresses {
		if ingress.Namespace != owner || ingress.Annotations["slipway.dev/path-matcher"] != "" {
			continue
		}
		for _, rule := range ingress.Spec.Rules {
			at := rule.HTTP.Paths[0]
			fits := at.Path == path || *at.PathType == networkingv1.PathTypePrefix && strings.HasPrefix(path+"/", strings.TrimSuffix(at.Path, "/")+"/")
			if rule.Host == host && fits {
				return true
			}
		}
	}
	return false
}

// mostSpecific is the most specific host of a request that has an owner.
func (r *tenants) mostSpecific(host string) (string, string) {
	_, parent, _ := strings.Cut(host, ".")
	for _, name := range []string{host, "*." + parent, ""} {
		if owner := r.owner(name); owner != "" {
			return name, owner
		}
	}
	return "", ""
}

// TestOwnerServesItsHost: whatever namespaces write, a request for a host that has
// an owner is served by the owner, or by a namespace that the owner granted the
// path to; and a path that the owner has a rule for is served.
func TestOwnerServesItsHost(t *testing.T) {
	const worlds, requests = 1500, 40
	served := map[string]int{}
	for seed := range uint64(worlds) {
		sharing := []resolve.HostSharing{resolve.HostSharingDeny, resolve.HostSharingDeny, resolve.HostSharingBehind}[seed%3]
		r := &tenants{random: rand.New(rand.NewPCG(seed, 7))}
		w := townWith(t, sharing)
		var objects []any
		for i := range 2 + r.random.IntN(5) {
			r.add(i)
			objects = append(objects, r.ingresses[i])
		}
		w.put(objects...)
		compiled := w.compile()
		for range requests {
			host := r.one("bank.example", "shop.example", "www.bank.example", "new.example", "elsewhere.test")
			path := "/" + r.one(tenantPaths...)
			at, owner := r.mostSpecific(host)
			got, _, _ := strings.Cut(winner(compiled, host, path), "/")
			granted := got != "" && r.granted(at, owner, got, path)
			must := r.ownerServes(at, owner, path)
			switch {
			case owner == "" || got == owner:
			case must && got == "", got != "" && !granted && (must || sharing == resolve.HostSharingDeny):
				for _, ingress := range r.ingresses {
					t.Logf("%s/%s %s %v", ingress.Namespace, ingress.Name, ingress.CreationTimestamp, ingress.Annotations)
					for _, rule := range ingress.Spec.Rules {
						t.Logf("    %q %s %s", rule.Host, rule.HTTP.Paths[0].Path, *rule.HTTP.Paths[0].PathType)
					}
				}
				t.Fatalf("seed %d, %s: %s%s is served by %q; the host %q belongs to %q", seed, sharing, host, path, got, at, owner)
			}
			served[fmt.Sprintf("owner %v, granted %v", got == owner, granted)]++
		}
	}
	for _, kind := range []string{"owner true, granted false", "owner false, granted true", "owner false, granted false"} {
		if served[kind] < worlds/3 {
			t.Errorf("%s: %d requests only: the test shows little: %v", kind, served[kind], served)
		}
	}
}
