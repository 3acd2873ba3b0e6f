package resolve_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// withNGINX are the options of an edge that serves Ingresses of ingress-nginx.
func withNGINX(change func(*resolve.Options)) resolve.Options {
	options := resolve.Options{StrictPrefix: true, NGINX: &resolve.NGINXOptions{Class: "nginx", Controller: "k8s.io/ingress-nginx"}}
	if change != nil {
		change(&options)
	}
	return options
}

// TestClassOfNGINX: which Ingresses are those of ingress-nginx, and which are ours.
func TestClassOfNGINX(t *testing.T) {
	set := func(text string) *string { return &text }
	for _, c := range []struct {
		name              string
		class, annotation *string
		options           resolve.Options
		want              string
	}{
		{"none", nil, nil, withNGINX(nil), "ours"},
		{"none is nginx", nil, nil, withNGINX(func(o *resolve.Options) { o.NGINX.WithoutClass = true }), "nginx"},
		{"empty annotation", nil, set(""), withNGINX(func(o *resolve.Options) { o.NGINX.WithoutClass = true }), "ours"},
		{"annotation", nil, set("nginx"), withNGINX(nil), "nginx"},
		{"annotation is not the option", nil, set("nginx"), withNGINX(func(o *resolve.Options) { o.NGINX.Class = "other" }), ""},
		{"annotation without the provider", nil, set("nginx"), resolve.Options{}, ""},
		{"class", set("theirs"), nil, withNGINX(nil), "nginx"},
		{"class of another controller", set("foreign"), nil, withNGINX(nil), ""},
		{"class is not the option", set("theirs"), nil, withNGINX(func(o *resolve.Options) { o.NGINX.Controller = "example.com/other" }), ""},
		{"our class", set("ours"), nil, withNGINX(nil), "ours"},
		{"class where none are read", set("theirs"), nil, withNGINX(func(o *resolve.Options) { o.NoClassLookup = true }), ""},
		{"class without cluster scope", set("theirs"), nil, withNGINX(func(o *resolve.Options) { o.NoClusterScope = true }), ""},
		{"spec wins", set("ours"), set("nginx"), withNGINX(nil), "ours"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ingress := ingressOf("a.example.com")
			ingress.Spec.IngressClassName = c.class
			if c.annotation != nil {
				ingress.Annotations["kubernetes.io/ingress.class"] = *c.annotation
			}
			site := resolved(snapshotOf(ingress, serviceOf("app"), classOf("ours", resolve.ControllerName), classOf("foreign", "example.com/unknown"), classOf("theirs", "k8s.io/ingress-nginx")), c.options)
			got := ""
			switch {
			case site.NGINX != nil:
				got = "nginx"
			case site.Ours:
				got = "ours"
			}
			if got != c.want || site.Ours != (c.want != "") {
				t.Errorf("it is %q, ours %v; want %q", got, site.Ours, c.want)
			}
		})
	}
}

// nginxSite resolves the Ingress of ingress-nginx with annotations.
func nginxSite(change func(*networkingv1.Ingress), more []any, pairs ...string) *resolve.ResolvedIngress {
	ingress := ingressOf("a.example.com")
	ingress.Annotations["kubernetes.io/ingress.class"] = "nginx"
	for i := 0; i < len(pairs); i += 2 {
		ingress.Annotations[nginx.Prefix+pairs[i]] = pairs[i+1]
	}
	if change != nil {
		change(ingress)
	}
	return resolved(snapshotOf(append(more, ingress, serviceOf("app"))...), withNGINX(nil))
}

// TestNGINXPaths: paths, hosts and backends of an Ingress of ingress-nginx.
func TestNGINXPaths(t *testing.T) {
	site := nginxSite(func(in *networkingv1.Ingress) {
		kind := networkingv1.PathTypeImplementationSpecific
		in.Spec.Rules[0].HTTP.Paths = append(in.Spec.Rules[0].HTTP.Paths, networkingv1.HTTPIngressPath{Path: "", PathType: &kind, Backend: backendTo("app")})
		in.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"B.example.com"}}, {}}
	}, nil, "upstream-vhost", "Other.example", "proxy-connect-timeout", "9", "enable-access-log", "false")
	if len(site.Refusals) > 0 || site.Closed != nil {
		t.Fatalf("refused: %v", site.Refusals)
	}
	for _, path := range site.Paths {
		if path.Match != (route.PathMatch{Type: route.PathPrefix, Value: "/"}) || path.Rewrite == nil || path.Rewrite.Host != "other.example" || path.Target.Backend.Variant != "nginx" || path.Location.Path != "/" {
			t.Errorf("the path is %+v", path)
		}
	}
	if time.Duration(site.Timeouts.Connect) != 9*time.Second || time.Duration(site.Timeouts.Header) != time.Minute || !site.Unrecorded.AccessLog {
		t.Errorf("timeouts %+v, records %+v", site.Timeouts, site.Unrecorded)
	}
	if !slices.Equal(site.NGINX.TLSHosts, []string{"a.example.com", "b.example.com"}) {
		t.Errorf("hosts with TLS: %v", site.NGINX.TLSHosts)
	}
	closed := nginxSite(nil, nil, "configuration-snippet", "return 200;")
	if closed.Closed == nil || !slices.Contains(told(closed), "metadata.annotations[nginx.ingress.kubernetes.io/configuration-snippet] NotAllowed") {
		t.Errorf("a snippet: %v, %v", closed.Closed, told(closed))
	}
	perl := nginxSite(func(in *networkingv1.Ingress) { in.Spec.Rules[0].HTTP.Paths[0].Path = "/a(?!b)" }, nil, "use-regex", "true")
	if len(perl.Paths) != 0 || !strings.Contains(perl.Refusals[0].Message, "a look-ahead, (?!,") {
		t.Errorf("a look-ahead: %+v, %v", perl.Paths, perl.Refusals)
	}
	missing := nginxSite(nil, nil, "auth-type", "basic", "auth-secret", "users")
	if missing.Closed == nil || !slices.Contains(told(missing), "metadata.annotations[nginx.ingress.kubernetes.io/auth-secret] NotFound") {
		t.Errorf("without the users: %v, %v", missing.Closed, told(missing))
	}
	other := nginxSite(nil, nil, "auth-type", "basic", "auth-secret", "bank/users")
	if other.Closed == nil || !strings.Contains(other.Closed.Message, "another namespace") {
		t.Errorf("users of another namespace: %v", other.Closed)
	}
}

// TestNGINXPolicies: the order of policies is that of nginx's phases.
func TestNGINXPolicies(t *testing.T) {
	users := &snapshot.SecretBody{Namespace: "shop", Name: "users", Data: map[string][]byte{"auth": []byte("anna:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n")}}
	site := nginxSite(func(in *networkingv1.Ingress) { in.Annotations["slipway.dev/add-prefix"] = "/x" }, []any{users},
		"app-root", "/app", "permanent-redirect", "https://b.example/", "enable-cors", "true", "limit-rps", "2", "limit-connections", "3",
		"whitelist-source-range", "10.0.0.0/8", "auth-type", "basic", "auth-secret", "users")
	var names []string
	seen := map[route.PolicyID]bool{}
	for i := range site.Policies {
		name, _ := site.Policies[i].Named()
		names = append(names, name)
		if seen[site.Policies[i].ID] {
			t.Errorf("two policies are %s", site.Policies[i].ID)
		}
		seen[site.Policies[i].ID] = true
	}
	const want = "redirectRegexp bodyLimit redirectRegexp cors inFlight rateLimit ipFilter basicAuth retry addPrefix"
	if got := strings.Join(names, " "); got != want || site.Paths[0].Location.At != 4 {
		t.Errorf("policies %s, redirect at %d; want %s (refused %v)", got, site.Paths[0].Location.At, want, site.Refusals)
	}
	limit := site.Policies[5].RateLimit
	if limit == nil || limit.Burst != 11 || limit.Status != 503 || limit.Requests != 2 {
		t.Errorf("the limit is %+v", limit)
	}
}

// TestNGINXClientAuth: client certificates become TLS options of the hosts.
func TestNGINXClientAuth(t *testing.T) {
	authority := pkitest.NewAuthority(t)
	pair := authority.Issue(t, "client")
	ca := &snapshot.SecretBody{Namespace: "shop", Name: "ca", Data: map[string][]byte{"ca.crt": []byte(pair.Chain)}}
	for mode, want := range map[string]route.ClientAuth{"on": "verify", "optional": "verifyIfGiven", "optional_no_ca": "request"} {
		site := nginxSite(nil, []any{ca}, "auth-tls-secret", "shop/ca", "auth-tls-verify-client", mode)
		if len(site.Handshakes) != 1 || site.Handshakes[0].Closed != nil || site.Handshakes[0].Conditions.Options.ClientAuth != want {
			t.Errorf("%s: %+v, %v", mode, site.Handshakes, site.Refusals)
		}
	}
	if site := nginxSite(nil, []any{ca}, "auth-tls-secret", "shop/ca", "auth-tls-verify-client", "off"); len(site.Handshakes) != 0 {
		t.Errorf("off: %+v", site.Handshakes)
	}
	if site := nginxSite(nil, nil, "auth-tls-secret", "shop/ca"); site.Closed == nil || len(site.Handshakes) != 1 || site.Handshakes[0].Closed == nil {
		t.Errorf("without the Secret: %+v, %v", site.Handshakes, site.Closed)
	}
}

// TestNGINXCanary: a canary has no rules, and one without a backend gets no share.
func TestNGINXCanary(t *testing.T) {
	for name, summary := range map[string]resolve.BackendSummary{"ready": {}, "empty": {Empty: true}} {
		ingress := ingressOf("a.example.com")
		ingress.Annotations["kubernetes.io/ingress.class"], ingress.Annotations[nginx.Prefix+"canary"] = "nginx", "true"
		ingress.Spec.DefaultBackend = &networkingv1.IngressBackend{Service: backendTo("app").Service}
		ingress.Spec.Rules[0].HTTP.Paths = append(ingress.Spec.Rules[0].HTTP.Paths, pathTo("/gone", "gone"))
		s := snapshotOf(ingress, serviceOf("app"))
		site := resolve.Ingress(s.View(), "shop", "cart", withNGINX(nil), &looks{of: map[string]resolve.BackendSummary{"app": summary}})
		want := 1
		if summary.Empty {
			want = 0
		}
		if len(site.Paths) != 0 || len(site.NGINX.Canaries) != want {
			t.Errorf("%s: paths %+v, canaries %+v", name, site.Paths, site.NGINX.Canaries)
		}
	}
}

// TestNGINXWWW: hosts without a name, and wildcards, have no other host with www.
func TestNGINXWWW(t *testing.T) {
	ingress := ingressOf("", "*.b.example", "www.c.example", "d.example")
	ingress.Annotations["kubernetes.io/ingress.class"], ingress.Annotations[nginx.Prefix+"from-to-www-redirect"] = "nginx", "true"
	site := resolved(snapshotOf(ingress, serviceOf("app")), withNGINX(nil))
	if want := []string{"", "*.b.example", "c.example", "d.example", "www.c.example", "www.d.example"}; !slices.Equal(site.Hosts, want) {
		t.Errorf("hosts %v, want %v", site.Hosts, want)
	}
	for _, path := range site.Paths[4:] {
		if path.Response == nil || path.Response.Status != 308 || path.Response.Redirect.Host == path.Host {
			t.Errorf("the redirect is %+v", path)
		}
	}
}
