package watch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/watch"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const shop = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: cart
  labels: {team: a}
  annotations: {slipway.dev/rate-limit: "10", example.com/other: dropped}
spec:
  defaultBackend: {service: {name: cart, port: {number: 80}}}
---
apiVersion: v1
kind: Service
metadata: {name: cart, labels: {team: a}}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: cart-one, labels: {kubernetes.io/service-name: cart, other: label}}
addressType: IPv4
endpoints: [{addresses: [10.1.2.3]}]
ports: [{port: 8080}]
`

// What is there comes first, trimmed, and then each change.
func TestObjectsAndChanges(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, shop)
	r := read(t, cluster.Connect(t), watch.Options{})
	if r.Synced() {
		t.Error("synced before anything was read")
	}
	r.untilSynced()
	ingress := r.snapshot.Ingress(namespace, "cart")
	if ingress == nil || len(ingress.Annotations) != 1 || ingress.Labels != nil || ingress.ManagedFields != nil {
		t.Fatalf("the Ingress is %+v, want it with one annotation, without labels and managed fields", ingress)
	}
	view := r.snapshot.View()
	slices := view.Slices(namespace, "cart")
	if len(slices) != 1 || slices[0].Service != "cart" {
		t.Errorf("the slices are %+v, want one of the Service", slices)
	}
	if service := view.Service(namespace, "cart"); service == nil || len(service.Spec.Ports) == 0 {
		t.Errorf("the Service is %+v", service)
	}
	if nodes := view.Nodes(); len(nodes) != 1 || len(nodes[0].Internal) == 0 || !nodes[0].Ready {
		t.Errorf("the nodes are %+v, want the one of the cluster", nodes)
	}

	ingresses := cluster.Client.NetworkingV1().Ingresses(namespace)
	must.Get(ingresses.Patch(t.Context(), "cart", types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"slipway.dev/rate-limit": "20"}}}`), metav1.PatchOptions{}))(t)
	r.until("the change is seen", func() bool {
		return r.snapshot.Ingress(namespace, "cart").Annotations["slipway.dev/rate-limit"] == "20"
	})
	must.Do(t, ingresses.Delete(t.Context(), "cart", deleted))
	must.Do(t, cluster.Client.DiscoveryV1().EndpointSlices(namespace).Delete(t.Context(), "cart-one", deleted))
	r.until("the deletions are seen", func() bool {
		return r.snapshot.Ingress(namespace, "cart") == nil && len(r.snapshot.View().Slices(namespace, "cart")) == 0
	})
	if len(r.Failures()) > 0 {
		t.Errorf("failures %v", r.Failures())
	}
}

// Whether we wrote the status of an Ingress is kept of its managed fields.
func TestStatusOwner(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, shop)
	must.Get(cluster.Client.NetworkingV1().Ingresses(namespace).Patch(t.Context(), "cart", types.ApplyPatchType,
		[]byte(`{"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}`),
		metav1.PatchOptions{FieldManager: "slipway-edge"}, "status"))(t)
	r := read(t, cluster.Connect(t), watch.Options{Namespaces: []string{namespace}})
	r.untilSynced()
	want := []metav1.ManagedFieldsEntry{{Manager: "slipway-edge", Subresource: "status"}}
	ingress := r.snapshot.Ingress(namespace, "cart")
	if !slices.EqualFunc(ingress.ManagedFields, want, func(a, b metav1.ManagedFieldsEntry) bool { return a == b }) {
		t.Errorf("managed fields are %+v, want %+v", ingress.ManagedFields, want)
	}
	if len(ingress.Status.LoadBalancer.Ingress) != 1 {
		t.Errorf("the status is %+v", ingress.Status)
	}
}

func TestSelector(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, shop)
	other := strings.NewReplacer("name: cart\n  labels: {team: a}", "name: other\n  labels: {team: other}").Replace(shop)
	cluster.Apply(t, namespace, other)
	r := read(t, cluster.Connect(t), watch.Options{Namespaces: []string{namespace}, Selector: "team in (other)"})
	r.untilSynced()
	if !r.has(snapshot.Ingress, namespace, "other") || r.has(snapshot.Ingress, namespace, "cart") {
		t.Error("want the Ingress other and not cart")
	}
	if !r.has(snapshot.Service, namespace, "cart") {
		t.Error("the selector is for Ingresses only, and a Service is missing")
	}
}

func TestOptions(t *testing.T) {
	cluster := kubetest.Shared(t).Connect(t)
	tests := []struct {
		name    string
		options watch.Options
		want    string
	}{
		{"selector", watch.Options{Selector: "a in"}, "providers.kubernetesIngress.labelSelector"},
		{"empty namespace", watch.Options{Namespaces: []string{"a", ""}}, "providers.kubernetesIngress.namespaces"},
		{"no namespace", watch.Options{Namespaces: []string{"a/b"}}, `"a/b" is not a namespace`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := watch.New(cluster, test.options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want it to contain %q", err, test.want)
			}
		})
	}
}

// A queue without a reader holds the reflectors back and loses nothing.
func TestBackPressure(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	var manifests strings.Builder
	const many, limit = 40, 8
	names := make([]string, many)
	for i := range many {
		names[i] = "s" + strings.Repeat("x", i)
		manifests.WriteString("---\napiVersion: v1\nkind: Service\nmetadata: {name: " + names[i] + "}\nspec: {ports: [{port: 80}]}\n")
	}
	cluster.Apply(t, namespace, manifests.String())
	r := read(t, cluster.Connect(t), watch.Options{Namespaces: []string{namespace}}, func(w *watch.Watcher) { w.Narrow(limit) })
	r.poll("the queue is full", func() bool { return r.Queued() == limit })
	largest := 0
	for !r.Synced() {
		before := len(r.events)
		r.until("a batch comes", func() bool { return len(r.events) > before || r.Synced() })
		largest = max(largest, len(r.events)-before)
	}
	if largest > limit {
		t.Errorf("one call returned %d events, want %d at most", largest, limit)
	}
	for _, name := range names {
		if !r.has(snapshot.Service, namespace, name) {
			t.Errorf("the Service %s was lost", name)
		}
	}
}

// A watcher that waits for room in the queue stops too.
func TestStopWhileFull(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, shop)
	r := read(t, cluster.Connect(t), watch.Options{}, func(w *watch.Watcher) { w.Narrow(1) })
	r.poll("the queue is full", func() bool { return r.Queued() == 1 })
	r.stop()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if _, err := r.Next(ctx); err != nil {
			if errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stopped") {
				t.Errorf("Next returned %v after the end, want that the watcher has stopped", err)
			}
			break
		}
	}
	if err := r.Run(t.Context()); err == nil {
		t.Error("a watcher ran twice")
	}
}

// A kind that may not be read keeps the whole from being synced, reports the reason, and
// is read once the right is there.
func TestForbidden(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	cluster.Apply(t, namespace, shop+role(namespace, `
- {apiGroups: [""], resources: [services], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
`))
	options := watch.Options{Namespaces: []string{namespace}, NoClasses: true, NoNodes: true}
	r := read(t, cluster.Connect(t, kubetest.Account(namespace, "edge")), options)
	r.until("the rest is read", func() bool { return r.has(snapshot.EndpointSlice, namespace, "cart-one") && len(r.Failures()) > 0 })
	if err := r.Failures()["ingresses"]; !apierrors.IsForbidden(err) {
		t.Errorf("the failures are %v, want that ingresses are forbidden", r.Failures())
	}
	if r.Synced() {
		t.Error("synced without Ingresses")
	}
	cluster.Apply(t, namespace, role(namespace, roleRules))
	r.untilSynced()
	if !r.has(snapshot.Ingress, namespace, "cart") || len(r.Failures()) > 0 {
		t.Errorf("the Ingress is missing, or there are failures: %v", r.Failures())
	}
}

// With namespaces given, rights in these are enough, and nothing else is asked
// for.
func TestNamespacesOnly(t *testing.T) {
	cluster := kubetest.Shared(t)
	namespace, other := cluster.Namespace(t), cluster.Namespace(t)
	cluster.Apply(t, namespace, shop+role(namespace, roleRules)+`
---
apiVersion: v1
kind: Secret
metadata: {name: cart}
stringData: {key: value}
`)
	cluster.Apply(t, other, shop)
	sent := &kubetest.Gate{}
	options := watch.Options{Namespaces: []string{namespace, namespace}, NoClasses: true, NoNodes: true}
	r := read(t, cluster.Connect(t, kubetest.Account(namespace, "edge"), sent.Option), options)
	r.Want(secrets(namespace, "cart"))
	r.untilSynced()
	r.want(
		snapshot.Ref{Kind: snapshot.Secret, Namespace: namespace, Name: "cart"},
		snapshot.Ref{Kind: snapshot.Secret, Namespace: other, Name: "cart"},
		snapshot.Ref{Kind: snapshot.Middleware},
	)
	r.untilSynced()
	if body := r.secret(namespace, "cart"); body == nil || string(body.Data["key"]) != "value" {
		t.Errorf("the Secret is %+v", body)
	}
	if body := r.secret(other, "cart"); body == nil || body.Failure == nil || body.Failure.Reason != refusal.Unreadable {
		t.Errorf("the Secret of a namespace that is not read is %+v, want a failure", body)
	}
	if !r.has(snapshot.Ingress, namespace, "cart") || r.has(snapshot.Ingress, other, "cart") {
		t.Error("want the Ingress of one namespace")
	}
	for _, line := range sent.Requests() {
		if !strings.Contains(line, "/namespaces/"+namespace+"/") {
			t.Errorf("sent %s, which is not for the namespace", line)
		}
	}
}

const roleRules = `
- {apiGroups: [networking.k8s.io], resources: [ingresses], verbs: [list, watch]}
- {apiGroups: [""], resources: [services], verbs: [list, watch]}
- {apiGroups: [""], resources: [secrets], verbs: [list, watch, get]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
- {apiGroups: [slipway.dev], resources: [middlewares], verbs: [list, watch]}
`

// role gives rights to the service account edge of a namespace.
func role(namespace, rules string) string {
	return `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: edge}
rules:` + rules + `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: edge}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: edge}
subjects: [{kind: ServiceAccount, namespace: ` + namespace + `, name: edge}]
`
}
