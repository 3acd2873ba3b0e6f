package tenancy

import (
	"context"
	"errors"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/must"
)

const (
	notGranted = "RefusedHostNotGranted: "
	challenge  = "/.well-known/acme-challenge/token"
	highest    = `slipway.dev/priority: "2147483647"`
	traefiks   = `traefik.ingress.kubernetes.io/router.priority: "2147483647"`
	expression = `slipway.dev/path-matcher: PathRegexp`
	anyBackend = "defaultBackend: {service: {name: evil, port: {number: 80}}}"
)

// ingress is an Ingress of evil as YAML: annotations, and the rest of the spec. It
// claims to be old, which the API server ignores.
func ingress(annotations, spec string) string {
	return fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: NAME, creationTimestamp: "2001-01-01T00:00:00Z", annotations: {%s}}
spec:
  %s
`, annotations, spec)
}

// rule is an Ingress with one rule; an empty host is none.
func rule(annotations, host, kind, path string) string {
	if host != "" {
		host = fmt.Sprintf("host: %q, ", host)
	}
	return ingress(annotations, fmt.Sprintf("rules: [{%shttp: {paths: [{path: %q, pathType: %s, backend: {service: {name: evil, port: {number: 80}}}}]}}]", host, path, kind))
}

// hostAttempts are after the traffic of bank's hosts.
func hostAttempts() []attempt {
	login := []string{"bank.example/pay/login", "bank.example/pay"}
	and := func(more ...string) proof { return served(append(more, login...)...) }
	of := func(annotations, kind, path string) string { return rule(annotations, "bank.example", kind, path) }
	return []attempt{
		{name: "longer-path", applies: of("", "Prefix", "/pay/login"), reason: `slipway.dev/host-grants: "evil=/pay/login"`, proof: and()},
		{name: "exact-path", applies: of("", "Exact", "/pay/login"), reason: "belongs to namespace bank", proof: and()},
		{name: "whole-host", applies: of("", "Prefix", "/"), reason: `slipway.dev/host-grants: "evil"`, proof: and()},
		{name: "no-path", applies: of("", "ImplementationSpecific", ""), reason: notGranted, proof: and()},
		{name: "priority", applies: of(highest, "Prefix", "/"), reason: notGranted, proof: and()},
		{name: "priority-of-traefik", applies: of(traefiks, "Exact", "/pay/login"), reason: notGranted, proof: and()},
		{name: "entry-point", applies: of("slipway.dev/entry-points: web", "Exact", "/pay"), reason: notGranted, proof: and()},
		{name: "expression", applies: of(expression, "ImplementationSpecific", "/.*login"), reason: notGranted, proof: and()},
		{name: "challenge", applies: of("", "Exact", challenge), reason: notGranted, proof: served("bank.example" + challenge)},
		{name: "no-host", applies: rule("", "", "Prefix", "/pay"), reason: "without a host", proof: and("unknown.example/pay")},
		{name: "no-host-priority", applies: rule(highest, "", "Prefix", "/"), reason: notGranted, proof: and("api.bank.example/v1")},
		{name: "no-host-traefik", applies: rule(traefiks, "", "Exact", "/pay"), reason: notGranted, proof: and()},
		{name: "no-host-challenge", applies: rule(highest, "", "Prefix", "/.well-known/acme-challenge/"), reason: notGranted,
			proof: served("bank.example"+challenge, "www.bank.example"+challenge, "new.example"+challenge)},
		{name: "no-host-expression", applies: rule(highest+", "+expression, "", "ImplementationSpecific", "/.*"), reason: notGranted, proof: and()},
		{name: "wildcard", applies: rule("", "*.bank.example", "Prefix", "/v2"), reason: notGranted, proof: served("api.bank.example/v2", "www.bank.example/v2")},
		{name: "wildcard-priority", applies: rule(highest, "*.bank.example", "Prefix", "/"), reason: notGranted, proof: served("api.bank.example/v1", "www.bank.example/")},
		{name: "default-of-host", applies: ingress("", anyBackend+"\n  rules: [{host: api.bank.example}]"), reason: notGranted, proof: served("api.bank.example/v2")},
		{name: "default-of-all", applies: ingress(highest, anyBackend), reason: notGranted, proof: and("unknown.example/")},
		{name: "own-grant", applies: of("slipway.dev/host-grants: evil", "Prefix", "/pay"), reason: notGranted, proof: and()},
		{name: "beside-grant", applies: of("", "Prefix", "/shopping"), reason: notGranted, proof: served("bank.example/shopping")},
		{name: "above-grant", applies: of(highest, "Prefix", "/"), reason: notGranted, proof: served("bank.example/sho", "bank.example/")},
		{name: "expression-in-grant", applies: of(expression, "ImplementationSpecific", "/shop|/pay"), reason: notGranted, proof: and()},
		{name: "dots-in-grant", applies: of("", "ImplementationSpecific", "/shop/%2e%2e/pay"), reason: "RefusedInvalid: ",
			proof: and("bank.example/shop/../pay", "bank.example/shop/%2e%2e/pay")},
		{name: "slash-in-grant", applies: of("", "ImplementationSpecific", "/shop%2F..%2Fpay"), reason: "RefusedInvalid: ", proof: and("bank.example/shop%2F..%2Fpay")},
		{name: "letters-of-grant", applies: of("", "Exact", "/SHOP"), reason: notGranted, proof: served("bank.example/SHOP")},
		{name: "capitals", applies: rule("", "BANK.example", "Prefix", "/"), reason: apiServer + "BANK.example", proof: and()},
		{name: "final-dot", applies: rule("", "bank.example.", "Prefix", "/"), reason: apiServer + "bank.example.", proof: and("bank.example./pay", "BANK.example/pay")},
		{name: "certificate", applies: ingress("", "tls: [{hosts: [bank.example, own.evil.example], secretName: evil-cert}]\n"+
			"  rules: [{host: own.evil.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: evil, port: {number: 80}}}}]}}]"),
			reason: "the certificate is not used for bank.example", proof: all(and(), certified)},
		{name: "age", applies: of(highest, "Prefix", "/age"), reason: notGranted, proof: served("bank.example/age")},
		{name: "middleware-of-bank", applies: rule("slipway.dev/middlewares: bank/login", "mw.evil.example", "Prefix", "/"), reason: "allowCrossNamespace", proof: none},
		{name: "users-of-bank", applies: rule(`slipway.dev/basic-auth: "{secret: bank/users}"`, "auth.evil.example", "Prefix", "/"), reason: "allowCrossNamespace", proof: none},
		{name: "mirror-to-bank", applies: rule(`slipway.dev/mirror: "{service: {name: bank, namespace: bank, port: 80}}"`, "mirror.evil.example", "Prefix", "/"), reason: "service.namespace: there is no such field", proof: none},
		{name: "external-name", prepares: "apiVersion: v1\nkind: Service\nmetadata: {name: NAME, namespace: evil}\nspec: {type: ExternalName, externalName: localhost, ports: [{port: 80}]}\n",
			applies: ingress("", "rules: [{host: external.evil.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: NAME, port: {number: 80}}}}]}}]"),
			reason:  "allowExternalNameServices", proof: outside("external.evil.example/corp/external-name")},
	}
}

// authAttempts are after servers that the edge reaches, and evil does not: by the URL of
// an authentication server, with the annotations of ingress-nginx.
func authAttempts() []attempt {
	const prefix = "nginx.ingress.kubernetes.io/"
	of := func(name, url, reason, more string) attempt {
		annotations := fmt.Sprintf("kubernetes.io/ingress.class: nginx, %sauth-url: %q%s", prefix, url, more)
		return attempt{name: name, applies: rule(annotations, name+".evil.example", "Prefix", "/"), reason: reason, proof: outside(name + ".evil.example/")}
	}
	const external = "providers.kubernetesIngress.allowExternalNameServices"
	return []attempt{
		of("auth-service-of-bank", "http://bank.bank.svc.cluster.local/corp", "allowCrossNamespace", ""),
		of("auth-short-service-of-bank", "http://bank.bank.svc/corp", "allowCrossNamespace", ""),
		of("auth-shorter-service-of-bank", "http://bank.bank/corp", external, ""),
		of("auth-api-server", "https://kubernetes.default.svc.cluster.local/api/v1/secrets", "allowCrossNamespace", ""),
		of("auth-metadata", "http://169.254.169.254/latest/meta-data/", external, ""),
		of("auth-own-machine", "http://127.0.0.1:8080/", external, ""),
		of("auth-localhost", "http://localhost:8080/", "there is no Service evil/localhost", ""),
		// Evil has no Ingress for this host; where it has one, the URL leads to the Service of that.
		of("auth-host-of-bank", "http://vault.bank.example/pay", external, ""),
		of("auth-host-of-request", "https://$http_x_host/pay", "its host has a variable", ""),
		of("auth-own-host", "https://$host/oauth2/auth", "requires authentication itself", ""),
		of("auth-user", "http://bank.bank.svc@evil.evil.svc/", "is not a host", ""),
		of("auth-headers-of-bank", "http://evil.evil.svc/", "allowCrossNamespace", ", "+prefix+"auth-proxy-set-headers: bank/headers"),
	}
}

// certified: bank's host does not show evil's certificate.
func certified(w *world) error {
	name, err := w.certificate("bank.example")
	if err == nil && name == "bank.example" {
		err = fmt.Errorf("bank.example shows the certificate of evil")
	}
	return err
}

// outside: a host is not served by what its rule is after.
func outside(target string) proof {
	return func(w *world) error {
		if got, err := w.ask(target); err != nil || got != "503" {
			return fmt.Errorf("%s is served by %s: %w", target, got, err)
		}
		return nil
	}
}

// recreated: an attempt that is deleted and made again while bank edits its
// Ingress is refused as before: the age of that stays.
func (w *world) recreated(t *testing.T) {
	must.Do(t, w.tenant.Client.NetworkingV1().Ingresses(evil).Delete(t.Context(), "longer-path", metav1.DeleteOptions{}))
	w.admin.must(t, "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: others, namespace: bank, labels: {edited: \"true\"}}\nspec:\n"+
		"  rules: [{http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: bank, port: {number: 80}}}}]}},"+
		"{host: \"*.bank.example\", http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: bank, port: {number: 80}}}}]}}]\n")
	again := attempt{name: "longer-path-again", applies: rule("", "bank.example", "Prefix", "/pay/login"), reason: notGranted, proof: served("bank.example/pay/login")}.fill()
	w.apply(t, &again)
	if err := errors.Join(w.awaitReasons(t, []attempt{again})[again.name], again.proof(w)); err != nil {
		t.Error(err)
	}
}

// ownHosts: evil has its own hosts and the path that bank granted, and no more of a
// path that only looks like it.
func (w *world) ownHosts(t *testing.T) {
	for _, one := range []attempt{
		{name: "granted", applies: rule(highest, "bank.example", "Prefix", "/shop")},
		{name: "own", applies: rule("", "own.evil.example", "Prefix", "/")},
	} {
		w.tenant.must(t, one.fill().applies)
	}
	w.eventually(t, "evil is served", func(context.Context) error {
		shop, err := w.ask("bank.example/shop/cart")
		if err != nil {
			return err
		}
		own, err := w.ask("own.evil.example/")
		if err == nil && (shop != evil || own != evil) {
			err = fmt.Errorf("%s and %s", shop, own)
		}
		return err
	})
	for target, want := range map[string]string{
		"bank.example/shop": evil, "bank.example/shop/": evil, "bank.example/%73hop": evil, "BANK.example/shop": evil,
		"bank.example/shopping": bank, "bank.example/shop/../pay": bank, "bank.example/shop/%2e%2e/pay": bank, "bank.example/": bank,
		"www.bank.example/shop": bank, "unknown.example/shop": bank, "api.bank.example/v1": bank,
		// bank has nothing there, and its host falls through to its own rules only.
		"api.bank.example/shop": bank,
	} {
		if got, err := w.ask(target); err != nil || got != want {
			t.Errorf("%s is served by %s, want %s: %v", target, got, want, err)
		}
	}
}
