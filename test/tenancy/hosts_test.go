package tenancy

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/must"
)

// bankManifest is what bank has: a host, a wildcard, and the traffic without a host
// of its own. evil may have rules below /shop.
const bankManifest = `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: site, annotations: {slipway.dev/host-grants: evil=/shop}}
spec:
  rules:
  - {host: bank.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: bank, port: {number: 80}}}}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: others}
spec:
  rules:
  - {host: "*.bank.example", http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: bank, port: {number: 80}}}}]}}
  - {http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: bank, port: {number: 80}}}}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: api}
spec:
  rules:
  - {host: api.bank.example, http: {paths: [{path: /v1, pathType: Prefix, backend: {service: {name: bank, port: {number: 80}}}}]}}
`

// attempt is an Ingress of evil.
type attempt struct {
	name        string
	annotations string
	// rule is a rule, as host, path type and path, or the rest of the spec.
	rule [3]string
	spec string
	// targets are the requests that it is after.
	targets []string
	// reason is that of the Event, or APIServer where that refuses the object, and
	// text is a part of its note.
	reason, text string
}

const (
	notGranted = "RefusedHostNotGranted"
	apiServer  = "APIServer"
	challenge  = "/.well-known/acme-challenge/token"
	highest    = `slipway.dev/priority: "2147483647"`
	traefiks   = `traefik.ingress.kubernetes.io/router.priority: "2147483647"`
	expression = `slipway.dev/path-matcher: PathRegexp`
	anyBackend = "defaultBackend: {service: {name: evil, port: {number: 80}}}"
)

// attempts are what evil tries.
func attempts() []attempt {
	bank := func(kind, path string) [3]string { return [3]string{"bank.example", kind, path} }
	none := func(kind, path string) [3]string { return [3]string{"", kind, path} }
	login := []string{"bank.example/pay/login", "bank.example/pay"}
	return []attempt{
		{name: "longer-path", rule: bank("Prefix", "/pay/login"), targets: login, reason: notGranted, text: `"evil=/pay/login"`},
		{name: "exact-path", rule: bank("Exact", "/pay/login"), targets: login, reason: notGranted, text: "belongs to namespace bank"},
		{name: "whole-host", rule: bank("Prefix", "/"), targets: login, reason: notGranted, text: `slipway.dev/host-grants: "evil"`},
		{name: "no-path", rule: bank("ImplementationSpecific", ""), targets: login, reason: notGranted},
		{name: "priority", annotations: highest, rule: bank("Prefix", "/"), targets: login, reason: notGranted},
		{name: "priority-of-traefik", annotations: traefiks, rule: bank("Exact", "/pay/login"), targets: login, reason: notGranted},
		{name: "entry-point", annotations: "slipway.dev/entry-points: web", rule: bank("Exact", "/pay"), targets: login, reason: notGranted},
		{name: "expression", annotations: expression, rule: bank("ImplementationSpecific", "/.*login"), targets: login, reason: notGranted},
		{name: "challenge", rule: bank("Exact", challenge), targets: []string{"bank.example" + challenge}, reason: notGranted},
		{name: "no-host", rule: none("Prefix", "/pay"), targets: append(login, "unknown.example/pay"), reason: notGranted, text: "without a host"},
		{name: "no-host-priority", annotations: highest, rule: none("Prefix", "/"), targets: append(login, "api.bank.example/v1"), reason: notGranted},
		{name: "no-host-traefik", annotations: traefiks, rule: none("Exact", "/pay"), targets: login, reason: notGranted},
		{name: "no-host-challenge", annotations: highest, rule: none("Prefix", "/.well-known/acme-challenge/"),
			targets: []string{"bank.example" + challenge, "www.bank.example" + challenge, "new.example" + challenge}, reason: notGranted},
		{name: "no-host-expression", annotations: highest + ", " + expression, rule: none("ImplementationSpecific", "/.*"), targets: login, reason: notGranted},
		{name: "wildcard", rule: [3]string{"*.bank.example", "Prefix", "/v2"}, targets: []string{"api.bank.example/v2", "www.bank.example/v2"}, reason: notGranted},
		{name: "wildcard-priority", annotations: highest, rule: [3]string{"*.bank.example", "Prefix", "/"},
			targets: []string{"api.bank.example/v1", "www.bank.example/"}, reason: notGranted},
		{name: "default-of-host", spec: anyBackend + "\n  rules: [{host: api.bank.example}]", targets: []string{"api.bank.example/v2"}, reason: notGranted, text: "spec.defaultBackend"},
		{name: "default-of-all", annotations: highest, spec: anyBackend, targets: append(login, "unknown.example/"), reason: notGranted, text: "spec.defaultBackend"},
		{name: "own-grant", annotations: "slipway.dev/host-grants: evil", rule: bank("Prefix", "/pay"), targets: login, reason: notGranted},
		{name: "beside-grant", rule: bank("Prefix", "/shopping"), targets: []string{"bank.example/shopping"}, reason: notGranted},
		{name: "above-grant", annotations: highest, rule: bank("Prefix", "/"), targets: []string{"bank.example/sho", "bank.example/"}, reason: notGranted},
		{name: "expression-in-grant", annotations: expression, rule: bank("ImplementationSpecific", "/shop|/pay"), targets: login, reason: notGranted},
		{name: "dots-in-grant", rule: bank("ImplementationSpecific", "/shop/%2e%2e/pay"), targets: append(login, "bank.example/shop/../pay", "bank.example/shop/%2e%2e/pay"), reason: "RefusedInvalid", text: "path"},
		{name: "slash-in-grant", rule: bank("ImplementationSpecific", "/shop%2F..%2Fpay"), targets: append(login, "bank.example/shop%2F..%2Fpay"), reason: "RefusedInvalid", text: "path"},
		{name: "letters-of-grant", rule: bank("Exact", "/SHOP"), targets: []string{"bank.example/SHOP"}, reason: notGranted},
		{name: "capitals", rule: [3]string{"BANK.example", "Prefix", "/"}, targets: login, reason: apiServer, text: "BANK.example"},
		{name: "final-dot", rule: [3]string{"bank.example.", "Prefix", "/"}, targets: append(login, "bank.example./pay", "BANK.example/pay"), reason: apiServer, text: "bank.example."},
		{name: "certificate", spec: "tls: [{hosts: [bank.example, own.evil.example], secretName: evil-cert}]\n" +
			"  rules: [{host: own.evil.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: evil, port: {number: 80}}}}]}}]",
			targets: login, reason: "RefusedConflict", text: "the certificate is not used for bank.example"},
		{name: "age", annotations: highest, rule: bank("Prefix", "/age"), targets: []string{"bank.example/age"}, reason: notGranted},
	}
}

// manifest is the Ingress of an attempt. It claims to be old, which the API server
// ignores.
func (a *attempt) manifest() string {
	spec := a.spec
	if spec == "" {
		host := ""
		if a.rule[0] != "" {
			host = fmt.Sprintf("host: %q, ", a.rule[0])
		}
		spec = fmt.Sprintf("rules: [{%shttp: {paths: [{path: %q, pathType: %s, backend: {service: {name: evil, port: {number: 80}}}}]}}]", host, a.rule[2], a.rule[1])
	}
	return fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %s, creationTimestamp: "2001-01-01T00:00:00Z", annotations: {%s}}
spec:
  %s
`, a.name, a.annotations, spec)
}

// TestHostsOfAnotherTenant: no attempt has an effect, and each is refused with a
// reason.
func TestHostsOfAnotherTenant(t *testing.T) {
	w := newWorld(t)
	must.Do(t, w.apply(t, "bank", bankManifest))
	pair := pkitest.NewAuthority(t).Issue(t, "bank.example")
	must.Do(t, w.apply(t, "evil", fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: evil-cert}\ntype: kubernetes.io/tls\ndata: {tls.crt: %s, tls.key: %s}\n",
		base64.StdEncoding.EncodeToString([]byte(pair.Chain)), base64.StdEncoding.EncodeToString([]byte(pair.Key)))))
	w.eventually(t, "bank is served", func() error {
		if got := w.ask(t, "api.bank.example/v1"); got != "bank" {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
	all := attempts()
	if len(all) < 20 {
		t.Fatalf("only %d attempts", len(all))
	}
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) { w.try(t, &a) })
	}
	t.Run("all together", func(t *testing.T) {
		for _, a := range all {
			w.noEffect(t, &a)
		}
		if name := w.certificate(t, "bank.example"); strings.Contains(name, "bank.example") {
			t.Errorf("bank.example shows the certificate of evil")
		}
	})
	t.Run("again and younger", func(t *testing.T) { w.recreate(t, &all[0]) })
	t.Run("what evil may", w.allowed)
}

// try makes an attempt, and waits for its refusal.
func (w *world) try(t *testing.T, a *attempt) {
	err := w.apply(t, "evil", a.manifest())
	if a.reason == apiServer {
		if err == nil || !strings.Contains(err.Error(), a.text) {
			t.Errorf("the API server does not refuse it: %v", err)
		}
	} else {
		must.Do(t, err)
		w.awaitEvent(t, a.name, a.reason, a.text)
	}
	w.noEffect(t, a)
}

// noEffect fails if a request that the attempt is after reaches evil.
func (w *world) noEffect(t *testing.T, a *attempt) {
	t.Helper()
	for _, target := range a.targets {
		if got := w.ask(t, target); got == "evil" || got == "503" {
			t.Errorf("%s: %s is served by %s", a.name, target, got)
		}
	}
}

// recreate deletes an attempt and makes it again while bank edits its Ingress: the
// age of that stays.
func (w *world) recreate(t *testing.T, a *attempt) {
	ingresses := w.cluster.Client.NetworkingV1().Ingresses("evil")
	must.Do(t, ingresses.Delete(t.Context(), a.name, metav1.DeleteOptions{}))
	must.Do(t, w.apply(t, "bank", strings.Replace(bankManifest, "name: site,", "name: site, labels: {edited: \"true\"},", 1)))
	again := *a
	again.name += "-again"
	w.try(t, &again)
}

// allowed: evil has its own hosts and the path that bank granted, and no more of a
// path that only looks like it.
func (w *world) allowed(t *testing.T) {
	granted := attempt{name: "granted", annotations: highest, rule: [3]string{"bank.example", "Prefix", "/shop"}}
	own := attempt{name: "own", rule: [3]string{"own.evil.example", "Prefix", "/"}}
	for _, a := range []attempt{granted, own} {
		must.Do(t, w.apply(t, "evil", a.manifest()))
	}
	w.eventually(t, "evil is served", func() error {
		if shop, own := w.ask(t, "bank.example/shop/cart"), w.ask(t, "own.evil.example/"); shop != "evil" || own != "evil" {
			return fmt.Errorf("%s and %s", shop, own)
		}
		return nil
	})
	for target, want := range map[string]string{
		"bank.example/shop": "evil", "bank.example/shop/": "evil", "bank.example/%73hop": "evil", "BANK.example/shop": "evil",
		"bank.example/shopping": "bank", "bank.example/shop/../pay": "bank", "bank.example/shop/%2e%2e/pay": "bank", "bank.example/": "bank",
		"www.bank.example/shop": "bank", "unknown.example/shop": "bank", "api.bank.example/v1": "bank",
		// bank has nothing there, and its host falls through to its own rules only.
		"api.bank.example/shop": "bank",
	} {
		if got := w.ask(t, target); got != want {
			t.Errorf("%s is served by %s, want %s", target, got, want)
		}
	}
}
