package apply_test

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/apply"
	"slipway.dev/slipway/internal/must"
)

// clusterKinds are objects of the whole cluster, also one that another part of the
// API server stores.
const clusterKinds = `
-- cluster/clusterrole --
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: create.example.test}
rules: [{apiGroups: [""], resources: [configmaps], verbs: [get]}]
-- cluster/namespace --
apiVersion: v1
kind: Namespace
metadata: {name: create-example-test}
-- cluster/definition --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: creations.create.example.test}
spec:
  group: create.example.test
  names: {kind: Creation, plural: creations}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`

// TestCreate: the API server creates an object that is applied with the version of
// none, as if the version were not there, and does not change one that exists.
func TestCreate(t *testing.T) {
	archive := must.Get(txtar.ParseFile("testdata/common.txtar"))(t)
	archive.Files = append(archive.Files, txtar.Parse([]byte(clusterKinds)).Files...)
	w := enter(t)
	w.defineWidgets()
	for _, file := range archive.Files {
		if strings.HasPrefix(file.Name, "asked/") {
			continue // some are refused
		}
		t.Run(file.Name, func(t *testing.T) {
			w.t = t
			applied := w.apply(string(file.Data))
			step := w.step(strings.ReplaceAll(string(file.Data), "create", "created"))
			if step.Live != nil {
				step.Object.SetName(step.Key.Name + "-2")
				step = stepOf(step.Object, nil)
			}
			step.Options.Create = true
			w.sent.Take()
			created := must.Get(w.Apply(w.context(), step, apply.Options{}))(t)
			if sent := w.sent.Requests(step.Key.Name); len(sent) != 1 || !strings.HasPrefix(sent[0], "PATCH") {
				t.Errorf("creating took %q", sent)
			}
			if got, want := fieldsOf(created), fieldsOf(applied); got != want {
				t.Errorf("created with the fields\n%s, and applied with\n%s", got, want)
			}
			step.Object.SetLabels(map[string]string{"changed": "yes"})
			w.sent.Take()
			w.fails(step, apply.Conflict, "created meanwhile")
			if sent := w.sent.Requests(step.Key.Name); len(sent) != 1 {
				t.Errorf("an object that exists took %q", sent)
			}
			if is := w.live(step.Object); is.GetLabels()["changed"] != "" || is.GetResourceVersion() == "1" {
				t.Errorf("an object that exists was changed: %v", is)
			}
		})
	}
}

// fieldsOf are the fields that we own.
func fieldsOf(object *unstructured.Unstructured) string {
	var lines []string
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == apply.Manager {
			lines = append(lines, string(entry.Operation)+" "+entry.Subresource+" "+string(entry.FieldsV1.Raw))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
