package watch_test

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/ingress/snapshot"
	"slipway.dev/slipway/internal/ingress/watch"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
)

// A kind that comes late is found, its objects are followed, and its end is
// seen. An object that makes no sense harms no other.
func TestCustomKind(t *testing.T) {
	cluster, namespace := kubetest.SharedNamespace(t)
	r := read(t, cluster.Connect(t), watch.Options{}, func(w *watch.Watcher) { w.Hurry(200 * time.Millisecond) })
	const kind = snapshot.TraefikMiddleware
	state := func() snapshot.KindState {
		_, state := r.snapshot.View().Resource(kind, namespace, "any")
		return state
	}
	r.untilSynced()
	r.want(snapshot.Ref{Kind: kind})
	r.untilSynced()
	if state() != snapshot.KindMissing {
		t.Fatalf("the kind is in state %d, want missing", state())
	}
	define(t, cluster)
	r.until("the kind is known", func() bool { return state() == snapshot.KindKnown })
	if !r.Synced() || len(r.Failures()) > 0 {
		t.Errorf("synced %t, failures %v", r.Synced(), r.Failures())
	}
	const strip = `
apiVersion: traefik.io/v1alpha1
kind: Middleware
metadata: {name: strip, labels: {a: b}}
`
	cluster.Apply(t, namespace, strip+"spec: {stripPrefix: {prefixes: [/api], number: 7}}\nstatus: {big: text}")
	cluster.Apply(t, namespace, "apiVersion: traefik.io/v1alpha1\nkind: Middleware\nmetadata: {name: odd}\nspec: [1, 2]")
	r.until("both are there", func() bool { return r.has(kind, namespace, "strip") && r.has(kind, namespace, "odd") })
	found, _ := r.snapshot.View().Resource(kind, namespace, "strip")
	prefix, _ := found.Spec["stripPrefix"].(map[string]any)
	if prefix["number"] != int64(7) || len(found.Spec) != 1 || found.Version == "" {
		t.Errorf("the object is %+v", found)
	}
	if odd, _ := r.snapshot.View().Resource(kind, namespace, "odd"); odd.Spec != nil {
		t.Errorf("the object without sense has the spec %v, want none", odd.Spec)
	}
	cluster.Apply(t, namespace, strip+"spec: {compress: {}}")
	r.until("the change is seen", func() bool {
		found, _ := r.snapshot.View().Resource(kind, namespace, "strip")
		return found.Spec["compress"] != nil
	})
	undefine(t, cluster)
	r.until("the kind is missing again", func() bool { return state() == snapshot.KindMissing })
	if r.has(kind, namespace, "strip") {
		t.Error("an object of a kind that is gone is left")
	}
}

// A kind that may not be read is reported as forbidden. Where it may be read in one namespace, it
// is known there.
func TestCustomKindForbidden(t *testing.T) {
	cluster := kubetest.Shared(t)
	allowed, denied := cluster.Namespace(t), cluster.Namespace(t)
	define(t, cluster)
	const base = `
- {apiGroups: [networking.k8s.io], resources: [ingresses], verbs: [list, watch]}
- {apiGroups: [""], resources: [services], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
`
	cluster.Apply(t, allowed, role(allowed, base))
	cluster.Apply(t, denied, role(allowed, base))
	options := watch.Options{Namespaces: []string{allowed, denied}, NoClasses: true, NoNodes: true}
	r := read(t, cluster.Connect(t, kubetest.Account(allowed, "edge")), options, func(w *watch.Watcher) { w.Hurry(200 * time.Millisecond) })
	r.want(snapshot.Ref{Kind: snapshot.TraefikMiddleware, Namespace: allowed, Name: "one"}, snapshot.Ref{Kind: "Unknown.example.com"})
	r.untilSynced()
	if _, state := r.snapshot.View().Resource(snapshot.TraefikMiddleware, allowed, "one"); state != snapshot.KindForbidden {
		t.Errorf("the kind is in state %d, want forbidden", state)
	}
	cluster.Apply(t, allowed, "apiVersion: traefik.io/v1alpha1\nkind: Middleware\nmetadata: {name: one}\nspec: {a: b}"+
		role(allowed, base+"- {apiGroups: [traefik.io], resources: [middlewares], verbs: [list, watch]}\n"))
	r.until("it is known in one namespace", func() bool {
		found, state := r.snapshot.View().Resource(snapshot.TraefikMiddleware, allowed, "one")
		return state == snapshot.KindKnown && found != nil
	})
}

var definitions = kube.DefinitionResource()

func define(t *testing.T, cluster *kubetest.Cluster) {
	t.Helper()
	cluster.Apply(t, "", kubetest.Definition("traefik.io", "v1alpha1", "Middleware"))
	t.Cleanup(func() { undefine(t, cluster) })
	served := cluster.Dynamic.Resource(schema.GroupVersionResource{Group: "traefik.io", Version: "v1alpha1", Resource: "middlewares"})
	// Established comes before served: the list is what shows it.
	kubetest.WaitFor(t, served, kube.Labelled(""), patience, func([]*unstructured.Unstructured) error { return nil })
}

// undefine takes the kind away, and waits until it is gone.
func undefine(t *testing.T, cluster *kubetest.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	const name = "middlewares.traefik.io"
	err := cluster.Dynamic.Resource(definitions).Delete(ctx, name, deleted)
	if apierrors.IsNotFound(err) {
		return
	}
	if err == nil {
		_, err = kube.WaitFor(ctx, cluster.Dynamic.Resource(definitions), kube.Named(name), func(left []*unstructured.Unstructured) error {
			if len(left) > 0 {
				return errors.New("the kind is still there")
			}
			return nil
		})
	}
	if err != nil {
		t.Error(err)
	}
}
