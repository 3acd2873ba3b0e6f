package engine_test

import (
	"maps"
	"testing"
	"testing/synctest"
	"time"

	networkingv1 "k8s.io/api/networking/v1"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/edge/pkitest"
	"slipway.dev/slipway/internal/ingress/certrequest"
	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

var cartSite = snapshot.Ref{Kind: snapshot.Ingress, Namespace: "shop", Name: "cart"}

// altered gives the conditions that have changed, and fails if they are not
// those that are known from now on.
func (w *town) altered() map[snapshot.Ref]engine.Condition {
	w.t.Helper()
	altered := maps.Collect(w.ChangedConditions())
	for ref, condition := range altered {
		if w.Condition(ref) != condition {
			w.t.Errorf("%s is %+v, and was said to be %+v", ref, w.Condition(ref), condition)
		}
	}
	return altered
}

func (w *town) wantCondition(want engine.Condition) {
	w.t.Helper()
	w.altered()
	if got := w.Condition(cartSite); got != want {
		w.t.Errorf("got %+v, want %+v; refused: %s", got, want, w.refused(snapshot.Ingress, "shop", "cart"))
	}
}

func (w *town) remove(kind snapshot.Kind, namespace, name string) engine.Result {
	w.t.Helper()
	return w.follow(w.facts.Delete(kind, namespace, name))
}

// annotated is the Ingress cart with an annotation.
func annotated(name, value string) *networkingv1.Ingress {
	ingress := site("shop", "cart", "one.example", 1)
	ingress.Annotations = map[string]string{name: value}
	return ingress
}

// with is the Ingress cart with something about it changed.
func with(edit func(*networkingv1.IngressSpec)) *networkingv1.Ingress {
	ingress := site("shop", "cart", "one.example", 1)
	edit(&ingress.Spec)
	return ingress
}

func TestCondition(t *testing.T) {
	web, up, cert := serviceNamed("web"), sliceOf("web", "10.0.0.1"), pair("shop", "cert")
	for _, test := range []struct {
		name    string
		objects []any
		want    engine.Condition
	}{
		{"all is there", []any{site("shop", "cart", "one.example", 1), web, up, cert}, engine.Condition{}},
		{"no endpoint", []any{site("shop", "cart", "one.example", 1), web, sliceOf("web"), cert}, engine.Condition{NoEndpoints: true}},
		{"no Service", []any{site("shop", "cart", "one.example", 1), cert}, engine.Condition{NoEndpoints: true}},
		{"no such port", []any{with(func(s *networkingv1.IngressSpec) {
			s.Rules[0].HTTP.Paths[0].Backend.Service.Port.Number = 81
		}), web, up, cert}, engine.Condition{NoEndpoints: true}},
		{"the default backend alone has no Service", []any{with(func(s *networkingv1.IngressSpec) {
			s.DefaultBackend = &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
				Name: "gone", Port: networkingv1.ServiceBackendPort{Number: 80}}}
		}), web, up, cert}, engine.Condition{NoEndpoints: true}},
		{"no certificate", []any{site("shop", "cart", "one.example", 1), web, up}, engine.Condition{CertificateNotReady: true}},
		{"a certificate without its key", []any{site("shop", "cart", "one.example", 1), web, up, mismatched()}, engine.Condition{CertificateNotReady: true}},
		{"a certificate that cannot be read", []any{site("shop", "cart", "one.example", 1), web, up,
			&snapshot.SecretBody{Namespace: "shop", Name: "cert", Failure: refusal.New("", refusal.Unreadable, "forbidden")}},
			engine.Condition{CertificateNotReady: true}},
		{"a certificate of another namespace", []any{with(func(s *networkingv1.IngressSpec) { s.TLS[0].SecretName = "other/cert" }), web, up, cert},
			engine.Condition{Refused: true}},
		{"neither endpoint nor certificate", []any{site("shop", "cart", "one.example", 1), web}, engine.Condition{NoEndpoints: true, CertificateNotReady: true}},
		{"an annotation that is refused", []any{annotated("slipway.dev/rate-limit", "many"), web, up, cert}, engine.Condition{Refused: true}},
		{"one that has no effect", []any{annotated("slipway.dev/nonsense", "1"), web, up, cert}, engine.Condition{Refused: true}},
		{"a Middleware that is not there", []any{annotated("slipway.dev/middlewares", "staff"), web, up, cert}, engine.Condition{Incomplete: true}},
		{"a Middleware that is refused", []any{annotated("slipway.dev/middlewares", "staff"), web, up, cert,
			&snapshot.Resource{Kind: snapshot.Middleware, Namespace: "shop", Name: "staff", Spec: map[string]any{"nonsense": true}}},
			engine.Condition{Refused: true}},
		{"a backend that cannot be", []any{with(func(s *networkingv1.IngressSpec) {
			s.Rules[0].HTTP.Paths[0].Backend.Service.Name = "other/web"
		}), web, up, cert}, engine.Condition{Refused: true}},
		{"the host of another namespace", []any{site("older", "first", "one.example", 0), site("shop", "cart", "one.example", 1), web, up, cert},
			engine.Condition{Refused: true}},
		{"served encrypted only, and not well", []any{annotated("slipway.dev/tls", "only"), web, cert}, engine.Condition{NoEndpoints: true, EncryptedOnly: true}},
		{"served encrypted only", []any{annotated("slipway.dev/tls", "only"), web, up, cert}, engine.Condition{}},
		{"another controller's", []any{annotated("kubernetes.io/ingress.class", "other")}, engine.Condition{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTown(t)
			w.t = t
			w.put(test.objects...)
			w.wantCondition(test.want)
			if again := w.altered(); len(again) > 0 {
				t.Errorf("said again: %v", again)
			}
		})
	}
}

// mismatched is the Secret cert with the key of another certificate.
func mismatched() *snapshot.SecretBody {
	body := pair("shop", "cert")
	body.Data["tls.key"] = []byte(certificates[1].Key)
	return body
}

// TestConditionFollows: a condition is reported when it changes, and only for the
// Ingresses that it changes for.
func TestConditionFollows(t *testing.T) {
	w := newTown(t)
	other := site("shop", "other", "two.example", 1)
	other.Spec.TLS = nil
	other.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Name = "api"
	w.put(site("shop", "cart", "one.example", 1), other, serviceNamed("web"), serviceNamed("api"), sliceOf("api", "10.0.0.9"))
	w.wantCondition(engine.Condition{NoEndpoints: true, CertificateNotReady: true})
	steps := []struct {
		name string
		do   func()
		want engine.Condition
	}{
		{"the Pod is ready", func() { w.put(sliceOf("web", "10.0.0.1")) }, engine.Condition{CertificateNotReady: true}},
		{"the Secret is there", func() { w.put(pair("shop", "cert")) }, engine.Condition{}},
		{"the Pod is gone", func() { w.put(sliceOf("web")) }, engine.Condition{NoEndpoints: true}},
		{"the Service is gone", func() { w.remove(snapshot.Service, "shop", "web") }, engine.Condition{NoEndpoints: true}},
		{"both are back", func() { w.put(serviceNamed("web"), sliceOf("web", "10.0.0.2")) }, engine.Condition{}},
		{"the Secret is gone", func() { w.remove(snapshot.Secret, "shop", "cert") }, engine.Condition{CertificateNotReady: true}},
		{"it is another's", func() { w.put(annotated("kubernetes.io/ingress.class", "other")) }, engine.Condition{}},
	}
	was := w.Condition(cartSite)
	for _, step := range steps {
		step.do()
		altered := w.altered()
		got, told := altered[cartSite]
		if told != (was != step.want) || told && got != step.want || len(altered) > 1 {
			t.Errorf("%s: told %+v, want %+v for the Ingress cart", step.name, altered, step.want)
		}
		was = step.want
	}
	w.remove(snapshot.Ingress, "shop", "cart")
	if altered := w.altered(); len(altered) > 0 || !w.Condition(cartSite).Healthy() {
		t.Errorf("an Ingress that is gone has a condition: %v", altered)
	}
}

// TestConditionByEdge: the problems that the edge reports for rules and certificates count.
func TestConditionByEdge(t *testing.T) {
	w := newTown(t)
	result := w.put(site("shop", "cart", "one.example", 1), serviceNamed("web"), sliceOf("web", "10.0.0.1"), pair("shop", "cert"))
	w.wantCondition(engine.Condition{})
	w.NoteRules(&result.Change, []route.Problem{route.NewProblem(result.Change.Rules.Added[0].ID, "", refusal.Invalid, "too many")})
	w.wantCondition(engine.Condition{Refused: true})
	w.NoteRules(&result.Change, nil)
	w.wantCondition(engine.Condition{})
	w.NoteCertificates([]refusal.Refusal{{Object: refusal.Object{Kind: "certificate", Namespace: "shop", Name: "cert"}, Field: "one.example", Message: "not made for it"}})
	w.wantCondition(engine.Condition{CertificateNotReady: true})
	w.NoteCertificates(nil)
	w.wantCondition(engine.Condition{})
}

// TestConditionOfRequest: an Ingress whose certificate is being fetched is not well
// until it has it.
func TestConditionOfRequest(t *testing.T) {
	w := fetchingTown(t)
	w.put(requester("shop", "cart", "one.example", 1), serviceNamed("web"), sliceOf("web", "10.0.0.1"))
	w.wantCondition(engine.Condition{CertificateNotReady: true})
	name := certrequest.SecretName("le", []string{"one.example"})
	body := pair("shop", name)
	w.put(body)
	w.wantCondition(engine.Condition{})
}

// TestConditionByTime: a certificate that runs out gives an Ingress a condition, and
// one that begins clears it, though no object changes. The edge gets
// the certificate again, so that it loads it.
func TestConditionByTime(t *testing.T) {
	for name, of := range map[string]func() (*networkingv1.Ingress, *snapshot.SecretBody){
		"of a Secret": func() (*networkingv1.Ingress, *snapshot.SecretBody) {
			return site("shop", "cart", "one.example", 1), pair("shop", "cert")
		},
		"fetched": func() (*networkingv1.Ingress, *snapshot.SecretBody) {
			return requester("shop", "cart", "one.example", 1), pair("shop", certrequest.SecretName("le", []string{"one.example"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := fetchingTown(t)
				ingress, body := of()
				now := time.Now()
				body.Data = pkitest.SelfSigned(t, pkitest.Certificate{Names: []string{"one.example"}, From: now.Add(time.Hour), Until: now.Add(3 * time.Hour)}).Data()
				w.put(ingress, body, serviceNamed("web"), sliceOf("web", "10.0.0.1"))
				w.wantCondition(engine.Condition{CertificateNotReady: true})
				w.passes(time.Hour-time.Second, 0)
				w.wantCondition(engine.Condition{CertificateNotReady: true})
				w.passes(time.Second, 1)
				w.wantCondition(engine.Condition{})
				w.passes(2*time.Hour, 0) // the last second of it
				w.passes(time.Second, 1)
				w.wantCondition(engine.Condition{CertificateNotReady: true})
				w.passes(100*time.Hour, 0)
			})
		})
	}
}

// passes lets time go by, and wants so many certificates to have turned.
func (w *town) passes(span time.Duration, want int) {
	w.t.Helper()
	<-time.After(span)
	turned := w.ValidityChanged(time.Now())
	if len(turned) != want {
		w.t.Fatalf("after %s: %v have turned, want %d", span, turned, want)
	}
	if want == 0 {
		return
	}
	if result := w.follow(turned); len(result.Change.Certificates.Changed) != want {
		w.t.Errorf("the edge is told of %d certificates, want %d", len(result.Change.Certificates.Changed), want)
	}
}
