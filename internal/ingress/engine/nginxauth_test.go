package engine_test

import (
	"fmt"
	"maps"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/nginx"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// authNamespace returns the namespace that the sub-requests of an Ingress go to.
func (w *town) authNamespace(namespace string) string {
	for _, rule := range w.book.Table().Rules {
		if rule.ID.Namespace != namespace {
			continue
		}
		for i := range rule.Policies {
			if auth := rule.Policies[i].ForwardAuth; auth != nil {
				return auth.Backend.Namespace
			}
		}
	}
	return ""
}

// The sub-requests of global-auth-url go to the owner of its host, and to no namespace
// whose Ingress for the host is refused: it would get the cookies of all clients, and could
// admit each of them.
func TestGlobalAuthGoesToTheOwner(t *testing.T) {
	facts := snapshot.New()
	options := resolve.Options{StrictPrefix: true, HostSharing: resolve.HostSharingDeny, NGINX: &resolve.NGINXOptions{Class: "nginx", Controller: "k8s.io/ingress-nginx"}}
	options.NGINX.Defaults, _ = nginx.ParseConfig(map[string]string{"global-auth-url": "https://login.example/auth"})
	w := &town{t, facts, engine.New(facts, options), route.NewIndex()}
	for _, namespace := range []string{"bank", "shop", "mail"} {
		service := serviceNamed("web")
		slice := sliceOf("web", "10.0.0.1")
		service.Namespace, slice.Namespace = namespace, namespace
		w.put(service, slice)
	}
	w.put(
		ofNGINX(tenant("mail", "box", 40, "mail.example/")),
		ofNGINX(tenant("shop", "trap", 10, "login.example/auth"), "enable-global-auth", "false"),
		ofNGINX(tenant("bank", "login", 20, "login.example/"), "enable-global-auth", "false"),
	)
	if got := w.authNamespace("mail"); got != "shop" {
		t.Errorf("sub-requests go to %q, want the namespace of the oldest Ingress", got)
	}
	// spec.tls claims a host, too.
	older := ofNGINX(tenant("bank", "certificate", 5, "other.example/"))
	older.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"login.example"}}}
	w.put(older)
	if got := w.authNamespace("mail"); got != "bank" {
		t.Errorf("sub-requests go to %q, want the owner of the host", got)
	}
	w.remove(snapshot.Ingress, "bank", "login")
	if got := w.authNamespace("mail"); got != "" {
		t.Errorf("sub-requests go to %q, which does not own the host", got)
	}
	w.put(ofNGINX(tenant("bank", "login", 50, "login.example/"), "enable-global-auth", "false"))
	if got := w.authNamespace("mail"); got != "bank" {
		t.Errorf("sub-requests go to %q, want the owner of the host", got)
	}
}

// New defaults of the ConfigMap reach the rules and backends of all Ingresses of
// ingress-nginx, unless an annotation has another value.
func TestDefaultsOfNGINXChange(t *testing.T) {
	facts := snapshot.New()
	options := resolve.Options{HostSharing: resolve.HostSharingDeny, NGINX: &resolve.NGINXOptions{Class: "nginx", Controller: "k8s.io/ingress-nginx"}}
	w := &town{t, facts, engine.New(facts, options), route.NewIndex()}
	w.put(serviceNamed("web"), sliceOf("web", "10.0.0.1"),
		ofNGINX(tenant("shop", "default", 10, "one.example/")), ofNGINX(tenant("shop", "own", 20, "two.example/"), "proxy-body-size", "3m"))
	limits := func() map[string]int64 {
		found := map[string]int64{}
		for _, rule := range w.book.Table().Rules {
			for i := range rule.Policies {
				if limit := rule.Policies[i].BodyLimit; limit != nil {
					found[rule.Host] = limit.MaxBytes >> 20
				}
			}
		}
		return found
	}
	for _, size := range []int64{1, 5, 7} {
		if size > 1 {
			options.NGINX.Defaults, _ = nginx.ParseConfig(map[string]string{"proxy-body-size": fmt.Sprintf("%dm", size)})
			w.follow(w.NGINXObjects())
		}
		if want := map[string]int64{"one.example": size, "two.example": 3}; !maps.Equal(limits(), want) {
			t.Errorf("the limits are %v MiB, want %v", limits(), want)
		}
	}
}
