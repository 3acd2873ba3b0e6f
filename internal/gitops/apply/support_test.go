package apply_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/live"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const patience = 45 * time.Second

// world is an Applier in a namespace of its own.
type world struct {
	*apply.Applier
	t         testing.TB
	cluster   *kubetest.Cluster
	connected *kube.Cluster
	// others is the connection of all other clients.
	others    *kube.Cluster
	kinds     *live.Kinds
	namespace string
	sent      *kubetest.Gate
}

// enter connects as the agent does.
func enter(t testing.TB, options ...kube.Option) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	w := &world{t: t, cluster: cluster, namespace: cluster.Namespace(t), sent: &kubetest.Gate{}}
	connected := connect(t, cluster, append([]kube.Option{w.sent.Option}, options...)...)
	w.others = connect(t, cluster)
	w.kinds, w.connected = live.NewKinds(connected), connected
	w.Applier = w.restarted()
	w.kinds.Scope(schema.GroupKind{Kind: "ConfigMap"})
	return w
}

func connect(t testing.TB, cluster *kubetest.Cluster, options ...kube.Option) *kube.Cluster {
	t.Helper()
	return cluster.Connect(t, append([]kube.Option{kube.Rate(-1, 0)}, options...)...)
}

// restarted is an Applier that remembers nothing, as after a restart.
func (w *world) restarted() *apply.Applier {
	fresh := apply.New(w.connected, w.kinds)
	fresh.Hurry(5*time.Millisecond, 50*time.Millisecond)
	return fresh
}

func (w *world) context() context.Context {
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	w.t.Cleanup(cancel)
	return ctx
}

// object reads a manifest. It gets the namespace and the marks of an Application,
// as plan gives them.
func (w *world) object(manifest string) *unstructured.Unstructured {
	w.t.Helper()
	raw := must.Get(yaml.YAMLToJSON([]byte(manifest)))(w.t)
	object := &unstructured.Unstructured{}
	must.Do(w.t, object.UnmarshalJSON(raw))
	if w.kinds.Scope(tracking.KeyOf(object).GroupKind()) == plan.NamespaceScope {
		object.SetNamespace(w.namespace)
	}
	tracking.Tracker{ControlNamespace: "argocd"}.Stamp(object, tracking.App{Namespace: "argocd", Name: "shop"})
	return object
}

// step is that of a manifest, with what is live now.
func (w *world) step(manifest string) *plan.Step {
	w.t.Helper()
	object := w.object(manifest)
	return &plan.Step{StepID: plan.StepID{Phase: plan.Sync, Key: tracking.KeyOf(object)}, Action: plan.Apply, Object: object, Live: w.live(object)}
}

func (w *world) resource(object *unstructured.Unstructured) dynamic.ResourceInterface {
	w.t.Helper()
	mapping := must.Get(w.kinds.Mapping(w.context(), object.GroupVersionKind()))(w.t)
	if !mapping.Namespaced {
		return w.others.Dynamic.Resource(mapping.Resource)
	}
	return w.others.Dynamic.Resource(mapping.Resource).Namespace(object.GetNamespace())
}

// live is the object in the cluster, or nil.
func (w *world) live(object *unstructured.Unstructured) *unstructured.Unstructured {
	w.t.Helper()
	found := must.Get(w.resource(object).List(w.context(), kube.Named(object.GetName())))(w.t)
	if len(found.Items) == 0 {
		return nil
	}
	return &found.Items[0]
}

// apply applies a manifest, and fails the test if that fails.
func (w *world) apply(manifest string) *unstructured.Unstructured {
	w.t.Helper()
	return must.Get(w.Apply(w.context(), w.step(manifest), apply.Options{}))(w.t)
}

// fails runs a step, which must fail in a way.
func (w *world) fails(step *plan.Step, kind apply.ErrorKind, parts ...string) *apply.Error {
	w.t.Helper()
	_, err := w.Apply(w.context(), step, apply.Options{})
	return w.isFault(err, kind, parts...)
}

func (w *world) isFault(err error, kind apply.ErrorKind, parts ...string) *apply.Error {
	w.t.Helper()
	fault, ok := errors.AsType[*apply.Error](err)
	if !ok || fault.Kind != kind {
		w.t.Fatalf("got %v, want an error of the kind %s", err, kind)
	}
	for _, part := range parts {
		if !strings.Contains(fault.Message, part) {
			w.t.Errorf("the message is %q, want %q in it", fault.Message, part)
		}
	}
	return fault
}

// patch changes a live object as another manager.
func (w *world) patch(object *unstructured.Unstructured, manager, patch string) *unstructured.Unstructured {
	w.t.Helper()
	return must.Get(w.resource(object).Patch(w.context(), object.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: manager}))(w.t)
}

// at is a field of an object as text.
func at(t testing.TB, object *unstructured.Unstructured, fields ...string) string {
	t.Helper()
	if object == nil {
		return "no object"
	}
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, fields...)
	must.Do(t, err)
	if !found {
		return "nothing"
	}
	raw := must.Get(yaml.Marshal(value))(t)
	return strings.TrimSpace(string(raw))
}

// requests are those that a function sends, without discovery: their methods,
// and whether they are dry runs.
func (w *world) requests(do func()) []string {
	w.sent.Take()
	do()
	var found []string
	for _, line := range w.sent.Requests("/namespaces/") {
		method, rest, _ := strings.Cut(line, " ")
		if strings.Contains(rest, "dryRun=") {
			method += " dry"
		}
		found = append(found, method)
	}
	return found
}

// respond has a function respond to requests that are not for discovery; one
// for which it has neither response nor error is sent.
func (w *world) respond(turn func(*http.Request) (*http.Response, error)) {
	w.sent.Handle(func(request *http.Request, send kubetest.Send) (*http.Response, error) {
		if strings.Contains(request.URL.Path, "/namespaces/") {
			if response, err := turn(request); response != nil || err != nil {
				return response, err
			}
		}
		return send(request)
	})
}

// stepOf is a step for an object that may be there already.
func stepOf(object, is *unstructured.Unstructured) *plan.Step {
	return &plan.Step{StepID: plan.StepID{Phase: plan.Sync, Key: tracking.KeyOf(object)}, Action: plan.Apply, Object: object, Live: is}
}
