package engine_test

import (
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
