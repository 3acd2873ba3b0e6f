package resolve_test

import (
	"fmt"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// authSite resolves an Ingress with auth-url beside an Ingress of oauth2-proxy for the
// same host, and returns the policy.
func authSite(annotations map[string]string, change func(*resolve.Options), more ...any) (*route.ForwardAuth, *resolve.ResolvedIngress) {
	ingress := ingressOf("a.example.com")
	ingress.Annotations["kubernetes.io/ingress.class"] = "nginx"
	for name, value := range annotations {
		ingress.Annotations[nginx.Prefix+name] = value
	}
	bank := serviceOf("login")
	bank.Namespace = "bank"
	facts := snapshotOf(append(more, ingress, serviceOf("app"), serviceOf("oauth2-proxy"), bank)...)
	facts.SetKind(snapshot.ConfigMap, snapshot.KindKnown)
	facts.Put(&snapshot.Resource{Kind: snapshot.ConfigMap, Namespace: "shop", Name: "headers", Spec: map[string]any{"X-B": "$host", "Host": "auth.internal", "X-Original-Method": "none"}})
	facts.Put(&snapshot.Resource{Kind: snapshot.ConfigMap, Namespace: "shop", Name: "large", Spec: map[string]any{snapshot.OmittedKey: true}})
	facts.Put(&snapshot.Resource{Kind: snapshot.ConfigMap, Namespace: "shop", Name: "wrong", Spec: map[string]any{"X-B": "$unknown"}})
	site := resolved(facts, withNGINX(change))
	for i := range site.Policies {
		if auth := site.Policies[i].ForwardAuth; auth != nil {
			return auth, site
		}
	}
	return nil, site
}

// oauth2Ingress is the Ingress of oauth2-proxy, with annotations in pairs.
func oauth2Ingress(namespace, path string, pairs ...string) *networkingv1.Ingress {
	made := ingressOf("a.example.com")
	made.Namespace, made.Name = namespace, "oauth2"
	made.Annotations["kubernetes.io/ingress.class"] = "nginx"
	for i := 0; i < len(pairs); i += 2 {
		made.Annotations[nginx.Prefix+pairs[i]] = pairs[i+1]
	}
	made.Spec.Rules[0].HTTP.Paths = []networkingv1.HTTPIngressPath{pathTo(path, "oauth2-proxy")}
	return made
}

// TestAuthServer: the backend of auth-url, and what is refused.
func TestAuthServer(t *testing.T) {
	cross := func(o *resolve.Options) { o.CrossNamespace = true }
	external := func(o *resolve.Options) { o.ExternalNames = true }
	ofBank := oauth2Ingress("bank", "/")
	ofBank.Spec.Rules[0].Host = "b.example.com"
	for _, c := range []struct {
		name, url string
		change    func(*resolve.Options)
		more      []any
		// want is the backend, or a part of the refusal.
		want string
	}{
		{"service", "http://oauth2-proxy.shop.svc.cluster.local/auth", nil, nil, "shop/oauth2-proxy:80 nginx"},
		{"service by another domain", "http://oauth2-proxy.shop.svc.corp.internal/auth", nil, nil, "shop/oauth2-proxy:80 nginx"},
		{"single label", "http://oauth2-proxy/auth", nil, nil, "shop/oauth2-proxy:80 nginx"},
		{"service by TLS", "https://oauth2-proxy.shop.svc:80/auth", nil, nil, "shop/oauth2-proxy:80 nginx-tls"},
		{"no such port", "http://oauth2-proxy.shop.svc:4180/auth", nil, nil, "has no port 4180"},
		{"no such Service", "http://none.shop.svc/auth", nil, nil, "there is no Service shop/none"},
		{"other namespace", "http://login.bank.svc/auth", nil, nil, "allowCrossNamespace"},
		{"other namespace allowed", "http://login.bank.svc/auth", cross, nil, "bank/login:80 nginx"},
		{"host of the request", "https://$host/oauth2/auth", nil, []any{oauth2Ingress("shop", "/oauth2")}, "shop/oauth2-proxy:80 nginx"},
		{"host by name", "https://a.example.com/oauth2/auth?x=y", nil, []any{oauth2Ingress("shop", "/oauth2/")}, "shop/oauth2-proxy:80 nginx"},
		{"path beside it", "https://$host/oauth2x/auth", nil, []any{oauth2Ingress("shop", "/oauth2")}, "requires authentication itself"},
		{"rewritten there", "https://$host/oauth2/auth", nil, []any{oauth2Ingress("shop", "/oauth2", "rewrite-target", "/x")}, "rewrites the path"},
		{"with authentication", "https://$host/oauth2/auth", nil, []any{oauth2Ingress("shop", "/oauth2", "auth-url", "http://app/")}, "requires authentication itself"},
		{"settings of the Ingress", "https://$host/oauth2/auth", nil, []any{oauth2Ingress("shop", "/oauth2", "backend-protocol", "HTTPS")}, "shop/oauth2-proxy:80 nginx_oauth2"},
		{"Ingress of another namespace", "https://b.example.com/", nil, []any{ofBank}, "no Ingress of this namespace serves https://b.example.com/"},
		{"only itself", "https://$host/oauth2/auth", nil, nil, "requires authentication itself"},
		{"external", "https://login.example.net/auth", nil, nil, "allowExternalNameServices"},
		{"external allowed", "https://login.example.net/auth", external, nil, "shop/login.example.net:443 host-https"},
		{"external allowed by http", "http://login.example.net:8080/auth", external, nil, "shop/login.example.net:8080 host-http"},
		{"metadata", "http://169.254.169.254/latest", nil, nil, "allowExternalNameServices"},
	} {
		t.Run(c.name, func(t *testing.T) {
			auth, site := authSite(map[string]string{"auth-url": c.url}, c.change, c.more...)
			got := fmt.Sprint(site.Closed)
			if auth != nil {
				got = fmt.Sprintf("%s/%s:%d %s", auth.Backend.Namespace, auth.Backend.Name, auth.Backend.Port, auth.Backend.Variant)
			}
			if (auth != nil) != (site.Closed == nil) || !strings.Contains(got, c.want) || auth != nil && got != c.want {
				t.Errorf("got %s, closed %v; want %s", got, site.Closed, c.want)
			}
		})
	}
}

// TestAuthPolicy: the policy of the annotations.
func TestAuthPolicy(t *testing.T) {
	auth, site := authSite(map[string]string{
		"auth-url": "https://$host/oauth2/auth", "auth-signin": "https://$host/oauth2/start?rd=$escaped_request_uri", "auth-proxy-set-headers": "headers", "auth-method": "POST",
	}, nil, oauth2Ingress("shop", "/oauth2"))
	if auth == nil || site.Closed != nil {
		t.Fatalf("closed: %v", site.Closed)
	}
	if auth.Path != "/oauth2/auth" || auth.Host != "" || auth.AuthRequest.Host != "auth.internal" || auth.Method != "POST" || auth.AuthRequest.Signin != "https://$host/oauth2/start?rd=$escaped_request_uri" {
		t.Errorf("the policy is %+v, %+v", auth, auth.AuthRequest)
	}
	headers := map[string]string{}
	for _, header := range auth.AuthRequest.Headers {
		headers[header.Name] = header.Value
	}
	if headers["X-B"] != "$host" || headers["X-Original-Method"] != "none" || headers["X-Sent-From"] != "nginx-ingress-controller" || len(headers) != len(auth.AuthRequest.Headers) {
		t.Errorf("the headers are %v", auth.AuthRequest.Headers)
	}
	for name, want := range map[string]string{"bank/headers": "allowCrossNamespace", "none": "there is no ConfigMap shop/none", "large": "more than 4096 bytes", "wrong": "no variable $unknown"} {
		auth, site := authSite(map[string]string{"auth-url": "http://app/", "auth-proxy-set-headers": name}, nil)
		if auth != nil || site.Closed == nil || !strings.Contains(site.Closed.Message, want) {
			t.Errorf("%s: %v", name, site.Closed)
		}
	}
}

// TestGlobalAuth: the server of the ConfigMap may be of another namespace, and holds for
// all Ingresses but those of challenges.
func TestGlobalAuth(t *testing.T) {
	global := func(o *resolve.Options) {
		o.NGINX.Defaults, _ = nginx.ParseConfig(map[string]string{"global-auth-url": "http://login.bank.svc/auth"})
	}
	if auth, site := authSite(nil, global); auth == nil || auth.Backend.Namespace != "bank" {
		t.Errorf("without annotations: %+v, %v", auth, site.Closed)
	}
	if auth, site := authSite(map[string]string{"enable-global-auth": "false"}, global); auth != nil || site.Closed != nil {
		t.Errorf("turned off: %+v, %v", auth, site.Closed)
	}
	if auth, _ := authSite(map[string]string{"auth-url": "http://oauth2-proxy/"}, global); auth == nil || auth.Backend.Name != "oauth2-proxy" {
		t.Errorf("with an own server: %+v", auth)
	}
	if auth, site := authSite(map[string]string{"auth-url": "http://login.bank.svc/"}, global); auth != nil || site.Closed == nil {
		t.Errorf("with an own server of another namespace: %+v", auth)
	}
	challenge := ingressOf("a.example.com")
	challenge.Annotations["kubernetes.io/ingress.class"] = "nginx"
	challenge.Spec.Rules[0].HTTP.Paths[0].Path = "/.well-known/acme-challenge/token"
	if site := resolved(snapshotOf(challenge, serviceOf("app")), withNGINX(global)); len(site.Policies) > 0 && site.Policies[len(site.Policies)-1].ForwardAuth != nil || site.Closed != nil {
		t.Errorf("a challenge: %v, %v", site.Policies, site.Closed)
	}
}
