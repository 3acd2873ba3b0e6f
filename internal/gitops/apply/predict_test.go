package apply_test

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/tools/txtar"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/gitops/plan"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

const widgets = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.predict.example.test}
spec:
  group: predict.example.test
  scope: Namespaced
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
          spec:
            type: object
            properties:
              size: {type: integer}
              ratio: {type: number}
              text: {type: string, default: nothing}
              tags: {type: array, x-kubernetes-list-type: set, items: {type: string}}
              ports:
                type: array
                x-kubernetes-list-type: map
                x-kubernetes-list-map-keys: [port, protocol]
                items:
                  type: object
                  required: [port, protocol]
                  properties:
                    port: {type: integer}
                    protocol: {type: string, default: TCP}
                    name: {type: string}
              fixed: {type: array, items: {type: object, properties: {a: {type: integer}}}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
`

// defineWidgets makes the kind Widget, and waits until it is served.
func (w *world) defineWidgets() {
	w.t.Helper()
	w.cluster.Apply(w.t, "", widgets)
	definitions := w.cluster.Dynamic.Resource(kube.DefinitionResource())
	kubetest.WaitFor(w.t, definitions, metav1.ListOptions{FieldSelector: "metadata.name=widgets.predict.example.test"}, patience,
		func(found []*unstructured.Unstructured) error {
			for _, definition := range found {
				w.kinds.Learn(definition)
			}
			_, err := w.kinds.Mapping(w.t.Context(), schema.GroupVersionKind{Group: "predict.example.test", Version: "v1", Kind: "Widget"})
			return err
		})
}

// compare compares a manifest with what is live, and returns the requests
// that it took.
func (w *world) compare(by *apply.Applier, step *plan.Step) (plan.SyncState, []string) {
	w.t.Helper()
	var state plan.SyncState
	requests := w.requests(func() {
		var err error
		if state, err = plan.Compare(step.Object, step.Live, nil, by.Predict(w.context(), nil)); err != nil {
			w.t.Error(err)
		}
	})
	return state, requests
}

// After an apply, comparing sends no request.
func TestPredictAfterApply(t *testing.T) {
	w := enter(t)
	w.defineWidgets()
	archive := must.Get(txtar.ParseFile("testdata/common.txtar"))(t)
	for _, file := range archive.Files {
		t.Run(file.Name, func(t *testing.T) {
			w.t = t
			w.apply(string(file.Data))
			step := w.step(string(file.Data))
			folder, _, _ := strings.Cut(file.Name, "/")
			dry := []string{"PATCH dry"}
			state, requests := w.compare(w.Applier, step)
			if want := map[string][]string{"asked": dry}[folder]; state != plan.Synced || !slices.Equal(requests, want) {
				t.Errorf("it is %s after %q, want %q", state, requests, want)
			}
			want := map[string][]string{"asked": dry, "written": dry}[folder]
			other := w.restarted()
			state, requests = w.compare(other, w.step(string(file.Data)))
			// A controller may have changed it since it was read.
			requests = slices.DeleteFunc(requests, func(method string) bool { return method == "GET" })
			if state != plan.Synced || !slices.Equal(requests, want) {
				t.Errorf("after a restart it is %s after %q, want %q", state, requests, want)
			}
			state, requests = w.compare(other, w.step(string(file.Data)))
			if state != plan.Synced || len(requests) > 0 {
				t.Errorf("the second time it is %s after %q", state, requests)
			}
		})
	}
}

// A change of another manager is seen, or found by a request.
func TestPredictDrift(t *testing.T) {
	w := enter(t)
	w.defineWidgets()
	const widget = `
apiVersion: predict.example.test/v1
kind: Widget
metadata: {name: web}
spec: {size: 3, tags: [a, b], ports: [{port: 80}]}
`
	for _, tt := range []struct {
		name, manifest, desired, patch string
		want                           plan.SyncState
		asked                          bool
	}{
		{"a field that is ours", settings, "", `{"data":{"color":"red"}}`, plan.OutOfSync, true},
		{"a field that is ours and gone", settings, "", `{"data":{"color":null}}`, plan.OutOfSync, true},
		{"a field that is not ours", settings, "", `{"data":{"other":"red"}}`, plan.Synced, false},
		{"our label", settings, "", `{"metadata":{"labels":null}}`, plan.OutOfSync, true},
		{"a label more", settings, "", `{"metadata":{"labels":{"x":"y"}}}`, plan.Synced, false},
		{"the status", webDeployment, "", `{"status":{"replicas":7}}`, plan.Synced, false},
		{"an element more", widget, "", `{"spec":{"ports":[{"port":80,"protocol":"TCP"},{"port":81,"protocol":"TCP"}]}}`, plan.Synced, true},
		{"an element of a set gone", widget, "", `{"spec":{"tags":["a"]}}`, plan.OutOfSync, true},
		{"elements in another order", widget, "", `{"spec":{"tags":["b","a"]}}`, plan.OutOfSync, true},
		{"a field that Git has no more", settings, strings.ReplaceAll(settings, ", size: large", ""), `{}`, plan.OutOfSync, true},
		{"a field that Git has now", settings, strings.ReplaceAll(settings, "size: large", "size: large, new: field"), `{}`, plan.OutOfSync, true},
		{"an element that Git has no more", widget, strings.ReplaceAll(widget, "[a, b]", "[a]"), `{}`, plan.OutOfSync, true},
		{"an empty field that Git has now", widget, strings.ReplaceAll(widget, "size: 3", "size: 3, free: {}"), `{}`, plan.OutOfSync, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.t = t
			object := w.apply(tt.manifest)
			w.patch(object, "somebody", tt.patch)
			tt.desired = cmp.Or(tt.desired, tt.manifest)
			state, requests := w.compare(w.Applier, w.step(tt.desired))
			if state != tt.want || (len(requests) > 0) != tt.asked {
				t.Errorf("it is %s after %q, want %s", state, requests, tt.want)
			}
			w.apply(tt.manifest)
		})
	}
}

// A live object in another version than the desired one is compared in the
// version of the desired one.
func TestPredictAnotherVersion(t *testing.T) {
	w := enter(t)
	const scaler = `
apiVersion: autoscaling/v1
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec: {maxReplicas: 3, targetCPUUtilizationPercentage: 50, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
`
	w.apply(scaler)
	// The controller of autoscalers writes the status once, because there is no Deployment.
	scalers := w.cluster.Client.AutoscalingV2().HorizontalPodAutoscalers(w.namespace)
	kubetest.WaitFor(t, scalers, kube.Named("web"), patience, func(found []*autoscalingv2.HorizontalPodAutoscaler) error {
		if len(found) != 1 || len(found[0].Status.Conditions) == 0 {
			return errors.New("no status")
		}
		return nil
	})
	step := w.step(scaler)
	other := step.Object.DeepCopy()
	other.SetAPIVersion("autoscaling/v2")
	step.Live = w.live(other)
	if state, _ := w.compare(w.Applier, step); state != plan.Synced {
		t.Errorf("it is %s", state)
	}
	if state, requests := w.compare(w.Applier, step); state != plan.Synced || len(requests) > 0 {
		t.Errorf("the second time it is %s after %q", state, requests)
	}
	must.Do(t, unstructured.SetNestedField(step.Object.Object, int64(4), "spec", "maxReplicas"))
	if state, _ := w.compare(w.Applier, step); state != plan.OutOfSync {
		t.Errorf("it is %s", state)
	}
}

// A kind that the cluster does not have, although it is known, is a NotFound error with
// the reason.
func TestKindIsGone(t *testing.T) {
	w := enter(t)
	w.defineWidgets()
	const widget = "apiVersion: gone.example.test/v1\nkind: Widget\nmetadata: {name: web}\nspec: {size: 3}\n"
	w.kinds.Learn(established(w.object(strings.ReplaceAll(widgets, "predict.example.test", "gone.example.test"))))
	object := w.object(widget)
	w.fails(stepOf(object, nil), apply.NotFound, "does not have the kind, or does not serve it yet")
}

// established is a definition with the condition Established.
func established(definition *unstructured.Unstructured) *unstructured.Unstructured {
	definition.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	return definition
}

// What is live may be newer than what was looked at. What controllers did since
// is no difference.
func TestPredictStale(t *testing.T) {
	w := enter(t)
	archive := must.Get(txtar.ParseFile("testdata/common.txtar"))(t)
	at := slices.IndexFunc(archive.Files, func(file txtar.File) bool { return file.Name == "asked/nulls" })
	manifest := string(archive.Files[at].Data)
	object := w.apply(manifest)
	step := w.step(manifest)
	w.patch(object, "controller", `{"metadata":{"annotations":{"noted":"yes"}},"data":{"more":"data"}}`)
	if state, requests := w.compare(w.Applier, step); state != plan.Synced || !slices.Equal(requests, []string{"PATCH dry", "GET"}) {
		t.Errorf("it is %s after %q", state, requests)
	}
	var once sync.Once
	w.respond(func(request *http.Request) (*http.Response, error) {
		if request.Method == http.MethodGet {
			once.Do(func() { w.patch(object, "controller", `{"data":{"more":"between"}}`) })
		}
		return nil, nil
	})
	if state, requests := w.compare(w.restarted(), step); state != plan.Synced || !slices.Equal(requests, []string{"PATCH dry", "GET", "PATCH dry", "GET"}) {
		t.Errorf("with a change between the requests it is %s after %q", state, requests)
	}
	w.patch(object, "somebody", `{"data":{"a":"changed"}}`)
	if state, _ := w.compare(w.Applier, step); state != plan.OutOfSync {
		t.Errorf("it is %s", state)
	}
}
