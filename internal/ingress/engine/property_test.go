package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// world makes changes of a cluster, few objects with few values each, so that
// they meet.
type world struct {
	random *rand.Rand
	facts  *snapshot.Snapshot
}

func (w *world) one(of ...string) string { return of[w.random.IntN(len(of))] }

func (w *world) meta(names ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: w.one("a", "b"), Name: w.one(names...),
		CreationTimestamp: metav1.NewTime(time.Unix(int64(1000+w.random.IntN(4)), 0)),
	}
}

func (w *world) ingress() *networkingv1.Ingress {
	object := &networkingv1.Ingress{ObjectMeta: w.meta("x", "y", "z")}
	if w.random.IntN(4) == 0 {
		class := w.one("ours", "theirs")
		object.Spec.IngressClassName = &class
	}
	for range w.random.IntN(3) {
		exact := networkingv1.PathType(w.one("Exact", "Prefix"))
		object.Spec.Rules = append(object.Spec.Rules, networkingv1.IngressRule{
			Host: w.one("", "one.example", "two.example", "*.example"),
			IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
				Path: w.one("/", "/p", "/p/q"), PathType: &exact, Backend: w.backend(),
			}}}},
		})
	}
	if w.random.IntN(3) == 0 {
		backend := w.backend()
		object.Spec.DefaultBackend = &backend
	}
	if w.random.IntN(2) == 0 {
		object.Spec.TLS = []networkingv1.IngressTLS{{
			Hosts: []string{w.one("one.example", "two.example", "three.example")}, SecretName: w.one("s", "t", ""),
		}}
	}
	switch w.random.IntN(6) {
	case 5:
		object.Annotations = map[string]string{"slipway.dev/priority": w.one("-1", "7")}
	case 4:
		object.Annotations = map[string]string{"slipway.dev/host-grants": w.one("a", "b", "a=/p b=/p/q", "b=/p", "nonsense=")}
	case 0:
		object.Annotations = map[string]string{"traefik.ingress.kubernetes.io/router.tls.options": object.Namespace + "-" + w.one("o", "q") + "@kubernetescrd"}
	case 1:
		object.Annotations = map[string]string{"slipway.dev/middlewares": w.one("m", "n")}
	}
	return object
}

func (w *world) backend() networkingv1.IngressBackend {
	return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{
		Name: w.one("web", "api"), Port: networkingv1.ServiceBackendPort{Number: int32(80 + w.random.IntN(2))},
	}}
}

func (w *world) service() *corev1.Service {
	object := &corev1.Service{ObjectMeta: w.meta("web", "api")}
	object.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: int32(80 + w.random.IntN(2))}}
	if w.random.IntN(4) == 0 {
		object.Annotations = map[string]string{"traefik.ingress.kubernetes.io/service.serversscheme": w.one("http", "h2c", "nonsense")}
	}
	return object
}

func (w *world) slice() *discoveryv1.EndpointSlice {
	object := &discoveryv1.EndpointSlice{ObjectMeta: w.meta("e", "f"), AddressType: discoveryv1.AddressTypeIPv4}
	object.Labels = map[string]string{discoveryv1.LabelServiceName: w.one("web", "api")}
	name, port := "http", int32(8080)
	object.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &port}}
	for i := range w.random.IntN(3) {
		object.Endpoints = append(object.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.0.%d.%d", i, w.random.IntN(3))}})
	}
	return object
}

// object is any object.
func (w *world) object() any {
	switch w.random.IntN(8) {
	case 0, 1, 2:
		return w.ingress()
	case 3:
		return w.service()
	case 4:
		return w.slice()
	case 5:
		meta := w.meta("s", "t")
		return &snapshot.SecretBody{Namespace: meta.Namespace, Name: meta.Name, Data: map[string][]byte{
			"tls.crt": []byte(certificates[w.random.IntN(len(certificates))].Chain), "tls.key": []byte(certificates[w.random.IntN(len(certificates))].Key),
		}}
	case 6:
		class := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: w.one("ours", "theirs")}}
		class.Spec.Controller = w.one("slipway.dev/ingress-controller", "example.com/other")
		return class
	default:
		meta := w.meta("o", "q", "m", "n")
		if meta.Name == "o" || meta.Name == "q" {
			return &snapshot.Resource{Kind: snapshot.TraefikTLSOption, Namespace: meta.Namespace, Name: meta.Name, Spec: map[string]any{
				"minVersion": w.one("VersionTLS12", "VersionTLS13", "nonsense"),
			}}
		}
		return &snapshot.Resource{Kind: snapshot.Middleware, Namespace: meta.Namespace, Name: meta.Name, Spec: map[string]any{
			"filters": []any{map[string]any{"addPrefix": map[string]any{"prefix": w.one("/x", "/y", "nonsense")}}},
		}}
	}
}

// step changes some of the cluster and gives what changed.
func (w *world) step() []snapshot.Ref {
	var changed []snapshot.Ref
	for range 1 + w.random.IntN(3) {
		if w.random.IntN(4) > 0 {
			changed = append(changed, w.facts.Put(w.object())...)
			continue
		}
		kind := []snapshot.Kind{
			snapshot.Ingress, snapshot.IngressClass, snapshot.Service, snapshot.EndpointSlice, snapshot.Secret, snapshot.Middleware, snapshot.TraefikTLSOption,
		}[w.random.IntN(7)]
		var all [][2]string
		for namespace, name := range w.facts.Names(kind) {
			all = append(all, [2]string{namespace, name})
		}
		slices.SortFunc(all, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
		if len(all) > 0 {
			gone := all[w.random.IntN(len(all))]
			changed = append(changed, w.facts.Delete(kind, gone[0], gone[1])...)
		}
	}
	return changed
}

func encoded(t *testing.T, table *route.Table) string {
	t.Helper()
	var text bytes.Buffer
	must.Do(t, route.Encode(&text, table))
	return text.String()
}

// However a cluster came to be as it is, the table, the refusals and the wants
// are those of a cluster that was always so.
func TestChangesLeadToTheSame(t *testing.T) {
	for seed := range uint64(16) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := &world{random: rand.New(rand.NewPCG(seed, 1)), facts: snapshot.New()}
			for _, kind := range snapshot.CustomKinds() {
				w.facts.SetKind(kind, snapshot.KindKnown)
			}
			options := resolve.Options{StrictPrefix: true, HostSharing: []resolve.HostSharing{
				resolve.HostSharingDeny, resolve.HostSharingBehind, resolve.HostSharingDeny, resolve.HostSharingOpen,
			}[seed%4]}
			followed := engine.New(w.facts, options)
			book := route.NewIndex()
			wants := map[snapshot.Ref]struct{}{}
			for range 100 {
				result := followed.Update(w.step())
				if fit := book.Fit(&result.Change); len(fit.Rules.Added) != len(result.Change.Rules.Added) || len(fit.Backends.Removed) != len(result.Change.Backends.Removed) {
					t.Fatalf("a change does not fit what was said before")
				}
				book.Apply(&result.Change)
				noteWants(t, followed, wants, &result)
				compareFresh(t, w.facts, options, followed, book)
			}
		})
	}
}

// firstDifference shows where two texts part.
func firstDifference(a, b string) string {
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	from := max(0, at-200)
	return a[from:min(len(a), at+300)] + "\n" + b[from:min(len(b), at+300)]
}

// noteWants follows what is wanted. An object becomes wanted or unwanted only once.
func noteWants(t *testing.T, followed *engine.Engine, wants map[snapshot.Ref]struct{}, result *engine.Result) {
	t.Helper()
	for _, ref := range result.Wanted {
		if _, known := wants[ref]; known {
			t.Fatalf("%s is wanted twice", ref)
		}
		wants[ref] = struct{}{}
	}
	for _, ref := range result.Unwanted {
		if _, known := wants[ref]; !known {
			t.Fatalf("%s is not wanted any more, and was not before", ref)
		}
		delete(wants, ref)
	}
	if got, want := len(wants), len(slices.Collect(followed.Wants())); got != want {
		t.Fatalf("%d objects are wanted by changes, and %d in all", got, want)
	}
}

func compareFresh(t *testing.T, facts *snapshot.Snapshot, options resolve.Options, followed *engine.Engine, book *route.Index) {
	t.Helper()
	fresh := engine.New(facts, options)
	freshBook := route.NewIndex()
	result := fresh.All()
	freshBook.Apply(&result.Change)
	if got, want := encoded(t, book.Table()), encoded(t, freshBook.Table()); got != want {
		t.Fatalf("by changes, and at once:\n%s", firstDifference(got, want))
	}
	if got, want := followed.Refusals(), fresh.Refusals(); !slices.Equal(got, want) {
		t.Fatalf("refusals by changes:\n%v\nat once:\n%v", got, want)
	}
	if got, want := slices.SortedFunc(followed.Wants(), snapshot.Ref.Compare), slices.SortedFunc(fresh.Wants(), snapshot.Ref.Compare); !slices.Equal(got, want) {
		t.Fatalf("wants by changes: %v, at once: %v", got, want)
	}
	compareConditions(t, facts, followed, fresh)
	table := *book.Table()
	if problems := table.Validate(); len(problems) > 0 {
		t.Fatalf("the table has problems: %v", problems)
	}
}

func compareConditions(t *testing.T, facts *snapshot.Snapshot, followed, fresh *engine.Engine) {
	t.Helper()
	for range followed.ChangedConditions() {
	}
	for range fresh.ChangedConditions() {
	}
	for namespace, name := range facts.Names(snapshot.Ingress) {
		ref := snapshot.Ref{Kind: snapshot.Ingress, Namespace: namespace, Name: name}
		if got, want := followed.Condition(ref), fresh.Condition(ref); got != want {
			t.Fatalf("%s by changes: %+v, at once: %+v", ref, got, want)
		}
	}
}
