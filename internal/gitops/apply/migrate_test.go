package apply_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/must"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// The fields that Git no longer has: what another manager set must go with them.
const older = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {team: web}}
data: {color: blue, size: large, gone: "yes"}
`

// made makes an object as some tool does, without our marks.
func (w *world) made(manager string, how metav1.ManagedFieldsOperationType) *unstructured.Unstructured {
	w.t.Helper()
	object := w.object(older)
	object.SetLabels(nil)
	object.SetAnnotations(map[string]string{"team": "web"})
	if how == metav1.ManagedFieldsOperationApply {
		return must.Get(w.resource(object).Apply(w.context(), object.GetName(), object, metav1.ApplyOptions{FieldManager: manager}))(w.t)
	}
	if !strings.HasPrefix(manager, "kubectl-") || manager == "kubectl-client-side-apply" {
		raw := must.Get(json.Marshal(object))(w.t)
		object.SetAnnotations(map[string]string{"team": "web", lastApplied: string(raw)})
	}
	return must.Get(w.resource(object).Create(w.context(), object, metav1.CreateOptions{FieldManager: manager}))(w.t)
}

// managers are those of an object, without subresources.
func managers(object *unstructured.Unstructured) []string {
	var names []string
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource == "" {
			names = append(names, entry.Manager+" "+string(entry.Operation))
		}
	}
	slices.Sort(names)
	return names
}

// Objects that kubectl or Argo CD made become ours, once.
func TestMigration(t *testing.T) {
	for _, tt := range []struct {
		name, manager string
		how           metav1.ManagedFieldsOperationType
		// other is another manager that owns a field, or empty.
		other string
		data  string
		left  []string
		first []string
	}{
		{"kubectl apply", "kubectl-client-side-apply", "Update", "", "color: blue\nsize: large", []string{"slipway Apply"}, []string{"PATCH", "PATCH"}},
		{"kubectl apply, and somebody else", "kubectl-client-side-apply", "Update", "robot", "color: blue\nrobot: here\nsize: large",
			[]string{"robot Update", "slipway Apply"}, []string{"PATCH", "PATCH"}},
		{"Argo CD", "argocd-controller", "Update", "", "color: blue\nsize: large", []string{"slipway Apply"}, []string{"PATCH", "PATCH"}},
		{"Argo CD with ServerSideApply=true", "argocd-controller", "Apply", "", "color: blue\nsize: large", []string{"slipway Apply"}, []string{"PATCH", "PATCH"}},
		{"kubectl create", "kubectl-create", "Update", "", "color: blue\nsize: large", []string{"slipway Apply"}, []string{"PATCH", "PATCH"}},
		{"kubectl create, and somebody else", "kubectl-create", "Update", "robot", "color: blue\ngone: \"yes\"\nrobot: here\nsize: large",
			[]string{"kubectl-create Update", "robot Update", "slipway Apply"}, []string{"PATCH"}},
		{"a tool that we do not know", "tool", "Apply", "", "color: blue\ngone: \"yes\"\nsize: large", []string{"slipway Apply", "tool Apply"}, []string{"PATCH"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := enter(t)
			object := w.made(tt.manager, tt.how)
			if tt.other != "" {
				w.patch(object, tt.other, `{"data":{"robot":"here"}}`)
			}
			step := w.step(settings)
			requests := w.requests(func() {
				must.Get(w.Apply(w.context(), step, apply.Options{}))(t)
			})
			is := w.live(object)
			if data := at(t, is, "data"); data != tt.data {
				t.Errorf("the data is\n%s", data)
			}
			if left := managers(is); !slices.Equal(left, tt.left) {
				t.Errorf("the managers are %q, want %q", left, tt.left)
			}
			if _, has := is.GetAnnotations()[lastApplied]; has {
				t.Error("the copy of the object is still in its annotation")
			}
			if !slices.Equal(requests, tt.first) {
				t.Errorf("it took %q, want %q", requests, tt.first)
			}
			again := w.step(strings.ReplaceAll(settings, "blue", "green"))
			requests = w.requests(func() {
				must.Get(w.Apply(w.context(), again, apply.Options{}))(t)
			})
			if !slices.Equal(requests, []string{"PATCH"}) {
				t.Errorf("the second apply took %q", requests)
			}
		})
	}
}

// What was looked at may be older than what is there.
func TestMigrationOfWhatChanged(t *testing.T) {
	w := enter(t)
	object := w.made("kubectl-client-side-apply", metav1.ManagedFieldsOperationUpdate)
	step := w.step(settings)
	w.patch(object, "robot", `{"data":{"robot":"here"}}`)
	requests := w.requests(func() {
		must.Get(w.Apply(w.context(), step, apply.Options{}))(t)
	})
	if data := at(t, w.live(object), "data"); data != "color: blue\nrobot: here\nsize: large" {
		t.Errorf("the data is\n%s", data)
	}
	if !slices.Equal(requests, []string{"PATCH", "GET", "PATCH", "PATCH"}) {
		t.Errorf("it took %q", requests)
	}
}

// An object from before managedFields has an entry that owns everything, also
// what controllers set. That must stay.
func TestMigrationOfBeforeFirstApply(t *testing.T) {
	w := enter(t)
	object := w.object("apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {type: NodePort, ports: [{port: 80, nodePort: 30111}]}\n")
	made := must.Get(w.resource(object).Create(w.context(), object, metav1.CreateOptions{FieldManager: "old"}))(t)
	// An empty list of entries is how an object looks that has none.
	must.Get(w.resource(object).Patch(w.context(), "web", types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`), metav1.PatchOptions{}))(t)
	other := object.DeepCopy()
	delete(other.Object, "spec")
	other.SetAnnotations(map[string]string{"other": "here"})
	must.Get(w.resource(object).Apply(w.context(), "web", other, metav1.ApplyOptions{FieldManager: "other", Force: true}))(t)
	if names := managers(w.live(object)); !slices.Contains(names, "before-first-apply Update") {
		t.Fatalf("the managers are %q", names)
	}
	answer := w.apply("apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}\n")
	if slices.Contains(managers(answer), "before-first-apply Update") {
		t.Errorf("the managers are %q", managers(answer))
	}
	if at(t, answer, "spec", "clusterIP") != at(t, made, "spec", "clusterIP") || at(t, answer, "spec", "type") != "NodePort" {
		t.Errorf("the spec is\n%s", at(t, answer, "spec"))
	}
}
