package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// fetchingTown is a town with the resolver le, whose edge is at home in slipway.
func fetchingTown(t *testing.T) *town {
	facts := snapshot.New()
	return &town{t, facts, engine.New(facts, resolve.Options{
		StrictPrefix: true, Resolvers: map[string]resolve.CertificateResolver{"le": {}}, Home: "slipway",
	}), route.NewIndex()}
}

// requester is an Ingress that wants a certificate for its host.
func requester(namespace, name, host string, second int64) *networkingv1.Ingress {
	ingress := site(namespace, name, host, second)
	ingress.Spec.TLS = nil
	ingress.Annotations = map[string]string{"traefik.ingress.kubernetes.io/router.tls.certresolver": "le"}
	return ingress
}

// requested lists the requests as namespace, hosts, requesters and whether they are
// there.
func (w *town) requested() []string {
	var all []string
	for _, wanted := range w.Requests() {
		text := wanted.Secret.Namespace + " " + strings.Join(wanted.Hosts, ",")
		for _, from := range wanted.From {
			text += " " + from.Object.Name
		}
		if wanted.Ready {
			text += " ready"
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return all
}

func (w *town) wantRequests(want ...string) {
	w.t.Helper()
	if got := w.requested(); !slices.Equal(got, want) {
		w.t.Errorf("requested: %q, want %q", got, want)
	}
}

// TestRequestsOfOwner: only the namespace that has a host has certificates fetched
// for it, and it changes hands with the host.
func TestRequestsOfOwner(t *testing.T) {
	w := fetchingTown(t)
	if result := w.put(requester("late", "thief", "one.example", 5)); !result.RequestsChanged {
		t.Error("a request is not reported")
	}
	w.wantRequests("late one.example thief")
	owner := requester("shop", "cart", "one.example", 1)
	if result := w.put(owner); !result.RequestsChanged {
		t.Error("a new owner is no news")
	}
	w.wantRequests("shop one.example cart")
	if got := w.refused(snapshot.Ingress, "late", "thief"); !strings.Contains(got, "no certificate is fetched for one.example: an older Ingress of namespace shop") {
		t.Errorf("refused: %s", got)
	}
	if got := w.refused(snapshot.Ingress, "shop", "cart"); !strings.Contains(got, "is being requested by the resolver le") {
		t.Errorf("refused: %s", got)
	}
	// Two of one namespace are one certificate request.
	w.put(requester("shop", "cart2", "one.example", 2))
	w.wantRequests("shop one.example cart cart2")
	// Nothing of it concerns another host.
	if result := w.put(requester("other", "x", "two.example", 3)); !result.RequestsChanged {
		t.Error("a request is not reported")
	}
	w.facts.Delete(snapshot.Ingress, "shop", "cart2")
	w.follow([]snapshot.Ref{{Kind: snapshot.Ingress, Namespace: "shop", Name: "cart2"}})
	w.facts.Delete(snapshot.Ingress, "shop", "cart")
	w.follow([]snapshot.Ref{{Kind: snapshot.Ingress, Namespace: "shop", Name: "cart"}})
	w.wantRequests("late one.example thief", "other two.example x")
	if got := w.refused(snapshot.Ingress, "late", "thief"); strings.Contains(got, "older") {
		t.Errorf("refused: %s", got)
	}
}

// TestRequestBecomesReady: a certificate is used as soon as its Secret is there, and
// requested for again when it is gone.
func TestRequestBecomesReady(t *testing.T) {
	w := fetchingTown(t)
	w.put(requester("shop", "cart", "one.example", 1), serviceNamed("web"), sliceOf("web", "10.0.0.1"))
	name := certrequest.SecretName("le", []string{"one.example"})
	body := &snapshot.SecretBody{Namespace: "shop", Name: name, Data: map[string][]byte{
		"tls.crt": []byte(certificates[0].Chain), "tls.key": []byte(certificates[0].Key),
	}}
	if result := w.put(body); !result.RequestsChanged {
		t.Error("a certificate that came is no news")
	}
	w.wantRequests("shop one.example cart ready")
	if got := w.hostsOf("shop", name); !slices.Equal(got, []string{"one.example"}) {
		t.Errorf("it is shown for %q", got)
	}
	if got := w.refused(snapshot.Ingress, "shop", "cart"); got != "" {
		t.Errorf("refused: %s", got)
	}
	w.facts.Delete(snapshot.Secret, "shop", name)
	w.follow([]snapshot.Ref{{Kind: snapshot.Secret, Namespace: "shop", Name: name}})
	w.wantRequests("shop one.example cart")
	if got := w.rules("shop", "cart"); slices.Contains(got, 503) {
		t.Errorf("an Ingress without its certificate is closed: %v", got)
	}
}

// TestChallengesAreRules: the tokens in the Secret of challenges are served, before
// everything else, and nothing else of it is.
func TestChallengesAreRules(t *testing.T) {
	w := fetchingTown(t)
	w.put(requester("shop", "cart", "one.example", 1))
	if !slices.Contains(slices.Collect(w.Wants()), snapshot.Ref{Kind: snapshot.Secret, Namespace: "slipway", Name: certrequest.ChallengesSecret}) {
		t.Error("the Secret of challenges is not followed")
	}
	good := certrequest.Challenge{Host: "one.example", EntryPoint: "web", KeyAuthorization: "-tok_en.thumb", Created: time.Now()}
	body := func(data map[string][]byte) *snapshot.SecretBody {
		return &snapshot.SecretBody{Namespace: "slipway", Name: certrequest.ChallengesSecret, Data: data}
	}
	result := w.put(body(map[string][]byte{
		"-tok_en": good.Encode(), "broken": []byte("{"), "wild": certrequest.Challenge{Host: "*.example", EntryPoint: "web", KeyAuthorization: "x"}.Encode(),
	}))
	if !result.TokensChanged || !slices.Equal(w.Tokens(), []string{"-tok_en"}) {
		t.Errorf("tokens: %q, changed %v", w.Tokens(), result.TokensChanged)
	}
	var found *route.Rule
	for _, rule := range w.book.Table().Rules {
		if rule.ID.Kind == "Challenge" {
			found = rule
		}
	}
	if found == nil || found.Match.Path.Value != "/.well-known/acme-challenge/-tok_en" || found.Response.Body != "-tok_en.thumb" ||
		found.Host != "one.example" || !slices.Equal(found.EntryPoints, []string{"web"}) {
		t.Fatalf("rule: %+v", found)
	}
	redirect := &route.Rule{ID: route.ID{Name: "redirect"}, Priority: 1<<31 - 1, Match: route.Match{Scheme: route.SchemeHTTP}}
	if route.OrderOf(found).Compare(route.OrderOf(redirect)) >= 0 {
		t.Error("a redirection with the highest priority comes before it")
	}
	if got := w.refused(snapshot.Secret, "slipway", certrequest.ChallengesSecret); !strings.Contains(got, "broken: ") || !strings.Contains(got, "wild: ") {
		t.Errorf("refused: %s", got)
	}
	if result := w.put(body(nil)); !result.TokensChanged || len(w.Tokens()) > 0 || len(result.Change.Rules.Removed) != 1 {
		t.Errorf("tokens after their end: %q", w.Tokens())
	}
}
