package engine_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/ingress/engine"
	"slipway.dev/slipway/internal/ingress/resolve"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/route"
)

// town is a cluster with its engine and the table that follows.
type town struct {
	t     *testing.T
	facts *snapshot.Snapshot
	*engine.Engine
	book *route.Index
}

func newTown(t *testing.T) *town { return townWith(t, resolve.HostSharingDeny) }

// townWith is a town whose namespaces share hosts in a way.
func townWith(t *testing.T, sharing resolve.HostSharing) *town {
	facts := snapshot.New()
	for _, kind := range snapshot.CustomKinds() {
		facts.SetKind(kind, snapshot.KindKnown)
	}
	return &town{t, facts, engine.New(facts, resolve.Options{StrictPrefix: true, HostSharing: sharing}), route.NewIndex()}
}

func (w *town) put(objects ...any) engine.Result {
	w.t.Helper()
	var changed []snapshot.Ref
	for _, object := range objects {
		changed = append(changed, w.facts.Put(object)...)
	}
	return w.follow(changed)
}

func (w *town) follow(changed []snapshot.Ref) engine.Result {
	result := w.Update(changed)
	w.book.Apply(&result.Change)
	return result
}

// hostsOf are the hosts of a certificate in the table.
func (w *town) hostsOf(namespace, name string) []string {
	for _, certificate := range w.book.Table().Certificates {
		if certificate.ID == (route.CertificateID{Namespace: namespace, Name: name}) {
			return certificate.Hosts
		}
	}
	return nil
}

// refused are the messages about an object.
func (w *town) refused(kind snapshot.Kind, namespace, name string) string {
	var texts []string
	for _, refusal := range w.Refusals() {
		if refusal.Object == (snapshot.Ref{Kind: kind, Namespace: namespace, Name: name}).Object() {
			texts = append(texts, refusal.Field+": "+refusal.Message)
		}
	}
	return strings.Join(texts, "\n")
}

// rules are the statuses of the rules of an Ingress, 0 for those with a backend.
func (w *town) rules(namespace, name string) []int {
	var statuses []int
	for _, rule := range w.book.Table().Rules {
		if rule.ID.Namespace != namespace || rule.ID.Name != name {
			continue
		}
		status := 0
		if rule.Response != nil {
			status = rule.Response.Status
		}
		statuses = append(statuses, status)
	}
	slices.Sort(statuses)
	return statuses
}

// site is an Ingress for a host with a certificate, made at a second.
func site(namespace, name, host string, second int64) *networkingv1.Ingress {
	prefix := networkingv1.PathTypePrefix
	return &networkingv1.Ingress{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))},
		Spec: networkingv1.IngressSpec{
			Rules: []networkingv1.IngressRule{{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
				Paths: []networkingv1.HTTPIngressPath{{Path: "/", PathType: &prefix, Backend: networkingv1.IngressBackend{
					Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
				}}},
			}}}},
			TLS: []networkingv1.IngressTLS{{Hosts: []string{host}, SecretName: "cert"}},
		},
	}
}

func pair(namespace, name string) *snapshot.SecretBody {
	return &snapshot.SecretBody{Namespace: namespace, Name: name, Data: map[string][]byte{
		"tls.crt": []byte(certificates[0].Chain), "tls.key": []byte(certificates[0].Key),
	}}
}

// A host belongs to the namespace of its oldest Ingress, and so do its
// certificates, until that one goes.
func TestHostBelongsToTheOldest(t *testing.T) {
	w := newTown(t)
	w.put(pair("late", "cert"), site("late", "shop", "one.example", 20))
	if got := w.hostsOf("late", "cert"); !slices.Equal(got, []string{"one.example"}) {
		t.Fatalf("alone it has %v", got)
	}
	w.put(pair("early", "cert"), site("early", "shop", "one.example", 10))
	if got := w.hostsOf("late", "cert"); got != nil {
		t.Errorf("the later one has %v still", got)
	}
	if got := w.hostsOf("early", "cert"); !slices.Equal(got, []string{"one.example"}) {
		t.Errorf("the older one has %v", got)
	}
	if got := w.refused(snapshot.Ingress, "late", "shop"); !strings.Contains(got, "older Ingress of namespace early") {
		t.Errorf("the later one is told %q", got)
	}
	w.follow(w.facts.Delete(snapshot.Ingress, "early", "shop"))
	if got := w.hostsOf("late", "cert"); !slices.Equal(got, []string{"one.example"}) {
		t.Errorf("alone again it has %v", got)
	}
	if got := w.refused(snapshot.Ingress, "late", "shop"); strings.Contains(got, "older") {
		t.Errorf("alone again it is told %q", got)
	}
	if w.hostsOf("early", "cert") != nil {
		t.Error("the certificate that nobody names is still there")
	}
}

// withOptions gives an Ingress TLS options by name.
func withOptions(object *networkingv1.Ingress, name string) *networkingv1.Ingress {
	object.Annotations = map[string]string{"slipway.dev/tls-options": name}
	return object
}

func options(namespace, name, version string) *snapshot.Resource {
	return &snapshot.Resource{Kind: snapshot.TLSOption, Namespace: namespace, Name: name, Spec: map[string]any{"minVersion": version}}
}

// Of two Ingresses with different TLS options for a host, the later one is
// closed: serving it under other options than it asked for would be wrong. A grant
// is about rules only.
func TestOptionsOfTheOldestCount(t *testing.T) {
	w := newTown(t)
	fourth := site("shop", "fourth", "one.example", 40)
	fourth.Annotations = map[string]string{"slipway.dev/host-grants": "other"}
	w.put(options("shop", "new", "1.3"), options("shop", "old", "1.2"), options("other", "new", "1.3"),
		withOptions(site("shop", "first", "one.example", 10), "new"), withOptions(site("shop", "second", "one.example", 20), "old"),
		withOptions(site("other", "third", "one.example", 30), "new"), fourth)
	var live []string
	for _, o := range w.book.Table().TLSOptions {
		live = append(live, o.ID.String()+" "+string(o.MinVersion)+" "+strings.Join(o.Hosts, ","))
	}
	if !slices.Equal(live, []string{"shop/new 1.3 one.example"}) {
		t.Errorf("the table has %q", live)
	}
	if got := w.refused(snapshot.Ingress, "shop", "second"); !strings.Contains(got, "other TLS options for one.example") {
		t.Errorf("the second is told %q", got)
	}
	if got := w.refused(snapshot.Ingress, "other", "third"); !strings.Contains(got, "older Ingress of namespace shop") {
		t.Errorf("the third is told %q", got)
	}
	reasons := map[string]route.Reason{}
	for _, rule := range w.book.Table().Rules {
		reasons[rule.ID.Name] = rule.Response.Reason
	}
	for name, want := range map[string]route.Reason{
		"first": route.ReasonNoService, "second": route.ReasonRefused, "third": route.ReasonRefused, "fourth": route.ReasonNoService,
	} {
		if reasons[name] != want {
			t.Errorf("%s answers because of %s, want %s", name, reasons[name], want)
		}
	}
	w.put(withOptions(site("shop", "second", "one.example", 20), "new"))
	if got := w.refused(snapshot.Ingress, "shop", "second"); strings.Contains(got, "TLS options") {
		t.Errorf("with the same options it is told %q", got)
	}
}

// An update that changes nothing that routes are made of changes nothing, and
// an endpoint changes its backend only.
func TestWorkFollowsTheChange(t *testing.T) {
	v := newTown(t)
	v.put(serviceNamed("web"), sliceOf("web", "10.0.0.1"), site("shop", "one", "one.example", 1), site("shop", "two", "two.example", 1))
	labelled := site("shop", "one", "one.example", 1)
	labelled.Labels = map[string]string{"x": "y"}
	labelled.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "10.0.0.9"}}
	if result := v.put(labelled, serviceNamed("web"), sliceOf("web", "10.0.0.1")); !result.Change.Empty() {
		t.Errorf("nothing changed, and the table does by %+v", result.Change)
	}
	result := v.put(sliceOf("web", "10.0.0.1", "10.0.0.2"))
	if change := result.Change; !change.Rules.Empty() || len(change.Backends.Changed) != 1 || len(change.Backends.Added)+len(change.Backends.Removed) > 0 {
		t.Errorf("an endpoint changes %+v", change)
	}
	if got := v.rules("shop", "one"); !slices.Equal(got, []int{0}) {
		t.Errorf("the rules answer %v", got)
	}
	if result := v.put(sliceOf("web")); len(result.Change.Rules.Changed) != 2 {
		t.Errorf("without endpoints, %d rules change", len(result.Change.Rules.Changed))
	}
}
