package operation_test

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/gitops/operation"
)

func fromJSON(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	if text == "" {
		return nil
	}
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return object
}

// The words for what was done are kubectl's. What others write while we apply is
// no change of ours; a field that we no longer want is one.
func TestWords(t *testing.T) {
	const (
		owns    = `"managedFields": [{"manager": "slipway", "fieldsV1": {"f:spec": {}}}, {"manager": "other", "fieldsV1": {"f:x": {}}}]`
		more    = `"managedFields": [{"manager": "slipway", "fieldsV1": {"f:spec": {}, "f:data": {}}}]`
		desired = `{"kind": "Deployment", "metadata": {"annotations": {"ours": "1"}}, "spec": {"replicas": 1}}`
		after   = `{"kind": "Deployment", "metadata": {"uid": "1", "annotations": {"ours": "1", "theirs": "2"}, ` + owns + `}, "spec": {"replicas": 1}, "status": {"replicas": 1}}`
	)
	tests := []struct{ name, desired, before, after, want string }{
		{"new", desired, "", after, "created"},
		{"not asked", desired, after, "", "not tried"},
		{"same", desired, after, after, "unchanged"},
		{"status and annotation of others", desired, `{"kind": "Deployment", "metadata": {"uid": "1", "annotations": {"ours": "1"}, ` + owns + `}, "spec": {"replicas": 1}}`, after, "unchanged"},
		{"annotation", desired, `{"kind": "Deployment", "metadata": {"uid": "1", "annotations": {"ours": "0"}, ` + owns + `}, "spec": {"replicas": 1}}`, after, "configured"},
		{"spec", desired, `{"kind": "Deployment", "metadata": {"uid": "1", "annotations": {"ours": "1"}, ` + owns + `}, "spec": {"replicas": 2}}`, after, "configured"},
		{"field removed", desired, `{"kind": "Deployment", "metadata": {"uid": "1", "annotations": {"ours": "1"}, ` + more + `}, "spec": {"replicas": 1}}`, after, "configured"},
		{"by force", desired, `{"metadata": {"uid": "0"}}`, after, "replaced"},
		{
			"secret", `{"stringData": {"a": "new"}, "kind": "Secret"}`,
			`{"kind": "Secret", "metadata": {"uid": "1"}, "data": {"a": "b2xk"}}`,
			`{"kind": "Secret", "metadata": {"uid": "1"}, "data": {"a": "bmV3"}}`, "configured",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := operation.Verb(fromJSON(t, test.desired), fromJSON(t, test.before), fromJSON(t, test.after))
			if got != test.want {
				t.Errorf("it is %q, want %q", got, test.want)
			}
		})
	}
}
