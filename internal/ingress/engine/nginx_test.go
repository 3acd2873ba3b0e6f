package engine_test

import (
	"slices"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// nginxTown is a town that serves Ingresses of ingress-nginx.
func nginxTown(t *testing.T, sharing resolve.HostSharing) *town {
	facts := snapshot.New()
	options := resolve.Options{StrictPrefix: true, HostSharing: sharing, NGINX: &resolve.NGINXOptions{Class: "nginx", Controller: "k8s.io/ingress-nginx"}}
	return &town{t, facts, engine.New(facts, options), route.NewIndex()}
}

// ofNGINX makes an Ingress one of ingress-nginx, with annotations.
func ofNGINX(ingress *networkingv1.Ingress, pairs ...string) *networkingv1.Ingress {
	ingress.Annotations["kubernetes.io/ingress.class"] = "nginx"
	for i := 0; i < len(pairs); i += 2 {
		ingress.Annotations["nginx.ingress.kubernetes.io/"+pairs[i]] = pairs[i+1]
	}
	return ingress
}

// paths lists the paths of a namespace in the table.
func (w *town) paths(namespace string) string {
	var all []string
	for _, rule := range w.book.Table().Rules {
		if rule.ID.Namespace == namespace && rule.ID.Variant != "host" && rule.ID.Variant != "missing" {
			all = append(all, rule.Host+" "+string(rule.Match.Path.Type)+" "+rule.Match.Path.Value)
		}
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (w *town) wantPaths(namespace, want string) {
	w.t.Helper()
	if got := w.paths(namespace); got != want {
		w.t.Errorf("%s has %s, want %s", namespace, got, want)
	}
}

// One Ingress with use-regex makes the paths of all Ingresses of its host expressions,
// and when it goes they are what they were.
func TestExpressionsOfAHost(t *testing.T) {
	w := nginxTown(t, resolve.HostSharingDeny)
	w.put(ofNGINX(tenant("shop", "cart", 10, "one.example/cart", "two.example/")))
	const plain = "one.example prefix /cart, two.example prefix /"
	w.wantPaths("shop", plain)
	w.put(ofNGINX(tenant("shop", "search", 20, "one.example/s.*"), "use-regex", "true"))
	w.wantPaths("shop", "one.example regexp (?i)^/cart, one.example regexp (?i)^/s.*, two.example prefix /")
	w.remove(snapshot.Ingress, "shop", "search")
	w.wantPaths("shop", plain)
	w.put(ofNGINX(tenant("shop", "search", 20, "one.example/s"), "rewrite-target", "/s"))
	w.wantPaths("shop", "one.example prefix /cart, one.example prefix /s, two.example prefix /")
	w.put(ofNGINX(tenant("shop", "search", 20, "one.example/s"), "rewrite-target", "/"))
	w.wantPaths("shop", "one.example regexp (?i)^/cart, one.example regexp (?i)^/s, two.example prefix /")
	// The path itself is refused; nginx would have it.
	w.put(ofNGINX(tenant("shop", "search", 20, "one.example/s(?!a)"), "use-regex", "true"))
	w.wantPaths("shop", "one.example regexp (?i)^/cart, two.example prefix /")
}

// An Ingress of another namespace changes the paths of a host only with a grant for all
// of it: a tenant could take requests of the owner otherwise.
func TestExpressionsOfAGuest(t *testing.T) {
	for _, c := range []struct {
		sharing     resolve.HostSharing
		grant       string
		owner, shop string
	}{
		{resolve.HostSharingDeny, "", "one.example prefix /a", ""},
		{resolve.HostSharingDeny, "shop=/s", "one.example prefix /a", ""},
		{resolve.HostSharingDeny, "shop", "one.example regexp (?i)^/a", "one.example regexp (?i)^/s"},
		{resolve.HostSharingBehind, "", "one.example prefix /a", "one.example regexp (?i)^/s"},
		{resolve.HostSharingOpen, "", "one.example regexp (?i)^/a", "one.example regexp (?i)^/s"},
	} {
		w := nginxTown(t, c.sharing)
		owner := ofNGINX(tenant("bank", "site", 10, "one.example/a"))
		if c.grant != "" {
			granting(owner, c.grant)
		}
		w.put(owner, ofNGINX(tenant("shop", "cart", 20, "one.example/s"), "use-regex", "true"))
		w.wantPaths("bank", c.owner)
		w.wantPaths("shop", c.shop)
	}
}

// A path that cannot be an expression is refused when its host makes it one.
func TestPathThatIsNoExpression(t *testing.T) {
	w := nginxTown(t, resolve.HostSharingDeny)
	w.put(ofNGINX(tenant("shop", "cart", 10, "one.example/a(b")))
	if got := w.refused(snapshot.Ingress, "shop", "cart"); strings.Contains(got, "expression") {
		t.Errorf("alone it is refused: %s", got)
	}
	w.put(ofNGINX(tenant("shop", "search", 20, "one.example/s"), "use-regex", "true"))
	if got := w.refused(snapshot.Ingress, "shop", "cart"); !strings.Contains(got, "this path is an expression, too") {
		t.Errorf("it is refused with %q", got)
	}
	w.remove(snapshot.Ingress, "shop", "search")
	if got := w.refused(snapshot.Ingress, "shop", "cart"); strings.Contains(got, "expression") {
		t.Errorf("alone again it is refused: %s", got)
	}
}

// A canary gets its share from the Ingress of its path, and is refused without one.
func TestCanaryOfAHost(t *testing.T) {
	w := nginxTown(t, resolve.HostSharingDeny)
	web := serviceNamed("web")
	next := serviceNamed("next")
	canary := ofNGINX(tenant("shop", "canary", 20, "one.example/a"), "canary", "true", "canary-weight", "30")
	canary.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name = "next"
	w.put(web, sliceOf("web", "10.0.0.1"), next, sliceOf("next", "10.0.0.2"), canary)
	if got := w.refused(snapshot.Ingress, "shop", "canary"); !strings.Contains(got, "would be a canary of") {
		t.Errorf("without a path it is refused with %q", got)
	}
	w.put(ofNGINX(tenant("shop", "site", 10, "one.example/a")))
	if got := w.refused(snapshot.Ingress, "shop", "canary"); strings.Contains(got, "canary of") {
		t.Errorf("it is refused with %q", got)
	}
	shares := map[string]uint32{}
	for _, rule := range w.book.Table().Rules {
		for _, backend := range rule.Backends {
			shares[backend.Backend.Name] = backend.Weight
		}
	}
	if shares["web"] != 70 || shares["next"] != 30 || len(shares) != 2 {
		t.Errorf("the shares are %v", shares)
	}
	if got := w.refused(snapshot.Ingress, "shop", "site"); got != "" {
		t.Errorf("the main Ingress is refused with %q", got)
	}
}

// Aliases and redirects from www. give way to an Ingress that has the host.
func TestGuestsOfAHost(t *testing.T) {
	w := nginxTown(t, resolve.HostSharingDeny)
	w.put(ofNGINX(tenant("shop", "site", 10, "one.example/a"), "server-alias", "two.example", "from-to-www-redirect", "true"))
	const own = "one.example prefix /a"
	w.wantPaths("shop", own+", two.example prefix /a, www.one.example prefix /")
	w.put(ofNGINX(tenant("shop", "other", 20, "two.example/b", "www.one.example/c")))
	w.wantPaths("shop", own+", two.example prefix /b, www.one.example prefix /c")
	w.remove(snapshot.Ingress, "shop", "other")
	w.wantPaths("shop", own+", two.example prefix /a, www.one.example prefix /")
}

// An Ingress that leaves the class loses what the class gave it.
func TestLeavingTheClass(t *testing.T) {
	w := nginxTown(t, resolve.HostSharingDeny)
	ref := snapshot.Ref{Kind: snapshot.Ingress, Namespace: "shop", Name: "site"}
	w.put(ofNGINX(tenant("shop", "site", 10, "one.example/a(b")), ofNGINX(tenant("shop", "search", 20, "one.example/s"), "use-regex", "true"))
	if !w.AsNGINX(ref) {
		t.Error("it is none of ingress-nginx")
	}
	w.put(tenant("shop", "site", 10, "one.example/a(b"))
	if w.AsNGINX(ref) || strings.Contains(w.refused(snapshot.Ingress, "shop", "site"), "expression") {
		t.Errorf("without the class: %s", w.refused(snapshot.Ingress, "shop", "site"))
	}
	w.wantPaths("shop", "one.example prefix /a(b, one.example regexp (?i)^/s")
}

// Requests that match no path of a host get 404, and are not those of a wildcard.
func TestMissingPath(t *testing.T) {
	w := nginxTown(t, resolve.HostSharingDeny)
	missing := func() (hosts []string) {
		for _, rule := range w.book.Table().Rules {
			if rule.ID.Variant == "missing" {
				hosts = append(hosts, rule.ID.Name+" "+rule.Host)
				if !rule.Fallback || rule.Response.Status != 404 || rule.HostOwner.Namespace != "shop" {
					t.Errorf("the rule is %+v", rule)
				}
			}
		}
		slices.Sort(hosts)
		return hosts
	}
	want := func(hosts ...string) {
		t.Helper()
		if got := missing(); !slices.Equal(got, hosts) {
			t.Errorf("404 for %v, want %v", got, hosts)
		}
	}
	w.put(ofNGINX(tenant("shop", "site", 10, "one.example/a", "*.example/", "/")), ofNGINX(tenant("shop", "more", 20, "one.example/b", "two.example=/")))
	want("more two.example", "site one.example")
	w.put(ofNGINX(tenant("shop", "hostless", 50, "/x")))
	want("more two.example", "site one.example")
	w.remove(snapshot.Ingress, "shop", "site")
	want("more one.example", "more two.example") // and none for all hosts
	w.put(ofNGINX(tenant("shop", "site", 10, "one.example/a", "*.example/", "/")))
	w.put(ofNGINX(tenant("shop", "third", 30, "one.example/")))
	want("more two.example")
	w.put(tenant("shop", "plain", 40, "two.example/x"))
	want()
	w.remove(snapshot.Ingress, "shop", "plain")
	w.remove(snapshot.Ingress, "shop", "third")
	w.remove(snapshot.Ingress, "shop", "site")
	want("more one.example", "more two.example")
	if got := w.refused(snapshot.Ingress, "shop", "more"); strings.Contains(got, "no request reaches") {
		t.Errorf("it is refused: %s", got)
	}
}
