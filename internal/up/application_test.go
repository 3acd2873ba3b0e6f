package up

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/must"
)

func TestApplicationObserved(t *testing.T) {
	for _, test := range []struct{ name, status, want string }{
		{"not looked at", ``, "waiting for the agent"},
		{"complete", `{sync: {status: Synced}, health: {status: Healthy}}`, ""},
		{"rolling", `{sync: {status: Synced}, health: {status: Progressing}, resources: [{kind: Deployment, name: demo, health: {status: Progressing, message: 1 of 2}}]}`,
			"the Application is Synced and Progressing: Deployment demo: 1 of 2"},
		{"broken", `{sync: {status: Unknown}, health: {status: Healthy}, conditions: [{type: SharedResourceWarning, message: shared}, {type: ComparisonError, message: "bad\n yaml"}]}`,
			"the Application is Unknown and Healthy: bad yaml"},
		{"behind", `{sync: {status: OutOfSync}, health: {status: Healthy}}`, "the Application is OutOfSync and Healthy"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var status map[string]any
			must.Do(t, yaml.Unmarshal([]byte(test.status), &status))
			var d demoStatus
			err := d.observeApplication([]*unstructured.Unstructured{{Object: map[string]any{"status": status}}})
			if got := errorText(err); !strings.HasPrefix(got, test.want) || (got == "") != (test.want == "") {
				t.Errorf("missing %q, want %q", got, test.want)
			}
		})
	}
	requireText(t, (&demoStatus{}).observeApplication(nil), "there is no Application")
}

// Only the sample's own address is ever changed in an Application.
func TestIsSample(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:8085/demo.git": true, "http://127.0.0.1:9/demo.git": true,
		"https://127.0.0.1:8085/demo.git": false, "http://127.0.0.1:8085/other.git": false,
		"http://example.com:8085/demo.git": false, "git@127.0.0.1:demo.git": false, "": false,
	} {
		if got := isSample(address); got != want {
			t.Errorf("%q: %v, want %v", address, got, want)
		}
	}
}

func TestOwnedByUp(t *testing.T) {
	entry := func(manager string, operation metav1.ManagedFieldsOperationType) *metav1.ObjectMeta {
		return &metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}, {Manager: manager, Operation: operation}}}
	}
	if !ownedByUp(entry(upOwner, metav1.ManagedFieldsOperationApply)) || ownedByUp(entry("slipway", metav1.ManagedFieldsOperationApply)) {
		t.Error("the owner is not recognised")
	}
}
