package apply_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
)

// pausable is a definition of a kind that has a status, with or without a
// subresource for it.
func pausable(plural, kind, subresources string) string {
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[1]s.patch.example.com}
spec:
  group: patch.example.com
  scope: Namespaced
  names: {plural: %[1]s, kind: %[2]s}
  versions:
  - name: v1
    served: true
    storage: true
    %[3]s
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, plural, kind, subresources)
}

// An action may change the spec and the status of an object. Where the API server
// keeps the status apart they are two requests, and where it does not, both are in
// one patch of the object: the status is not lost, and nothing else is changed.
func TestPatch(t *testing.T) {
	w := enter(t)
	for _, definition := range w.cluster.Define(t, pausable("aparts", "Apart", "subresources: {status: {}}")+"---"+pausable("togethers", "Together", "")) {
		// It is established now, and was not when it was made.
		w.kinds.Learn(must.Get(w.cluster.Dynamic.Resource(kube.DefinitionResource()).Get(w.context(), definition.GetName(), metav1.GetOptions{}))(t))
	}
	for kind, subresources := range map[string][]string{"Apart": {"status"}, "Together": nil} {
		object := w.apply("apiVersion: patch.example.com/v1\nkind: " + kind + "\nmetadata: {name: one}\nspec: {paused: true, list: [1, 2]}\n")
		status := []byte(`{"status":{"paused":true,"others":"stay"}}`)
		live := must.Get(w.resource(object).Patch(w.context(), "one", types.MergePatchType, status, metav1.PatchOptions{}, subresources...))(t)
		changed := live.DeepCopy()
		must.Do(t, unstructured.SetNestedField(changed.Object, false, "spec", "paused"))
		must.Do(t, unstructured.SetNestedField(changed.Object, false, "status", "paused"))
		for _, dry := range []bool{true, false} {
			must.Do(t, w.Patch(w.context(), live, changed, apply.Options{DryRun: dry}))
			is := w.live(object)
			got := at(t, is, "spec") + "\n" + at(t, is, "status")
			expected := fmt.Sprintf("list:\n- 1\n- 2\npaused: %[1]t\nothers: stay\npaused: %[1]t", dry)
			if got != expected {
				t.Errorf("%s: after a patch (dry run: %t) it is\n%s\nwant\n%s", kind, dry, got, expected)
			}
		}
		// The object has changed since it was read.
		w.isFault(w.Patch(w.context(), live, changed, apply.Options{}), apply.Conflict)
		// Only the status changes.
		live = w.live(object)
		changed = live.DeepCopy()
		must.Do(t, unstructured.SetNestedField(changed.Object, true, "status", "paused"))
		must.Do(t, w.Patch(w.context(), live, changed, apply.Options{}))
		if is := w.live(object); at(t, is, "status", "paused") != "true" || at(t, is, "spec", "paused") != "false" {
			t.Errorf("%s: it is %v", kind, is.Object)
		}
		// An object that is gone is not one without a status of its own.
		must.Do(t, w.resource(object).Delete(w.context(), "one", metav1.DeleteOptions{}))
		w.isFault(w.Patch(w.context(), live, changed, apply.Options{}), apply.NotFound)
	}
}
