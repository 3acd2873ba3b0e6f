package installcmd_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// TestCRDs: R22, R23: the commands that preflight names: plan, adopt with a dry run
// and a question, release; and the exit codes.
func TestCRDs(t *testing.T) {
	cluster := kubetest.Start(t, kubetest.WithoutNode()) // definitions have no namespace
	clitest.Clean(t)
	cluster.Apply(t, "default", `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: rollouts.argoproj.io}
spec:
  group: argoproj.io
  scope: Namespaced
  names: {kind: Rollout, listKind: RolloutList, plural: rollouts, singular: rollout}
  versions: [{name: v1alpha1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	run := func(line string) clitest.Result {
		return ran(t, append([]string{"crds"}, append(strings.Fields(line), "--kubeconfig", cluster.Kubeconfig)...)...)
	}
	marks := func() string {
		t.Helper()
		resource := kube.DefinitionResource()
		one := must.Get(cluster.Metadata.Resource(resource).Get(t.Context(), "rollouts.argoproj.io", metav1.GetOptions{}))(t)
		return one.Labels["app.kubernetes.io/managed-by"] + " " + one.Annotations["meta.helm.sh/release-name"] + " " + one.Annotations["meta.helm.sh/release-namespace"]
	}
	if got := run("plan --only rollouts"); got.Code != 0 || !strings.Contains(got.Stdout, "it has no owner") || !strings.Contains(got.Stdout, "absent") {
		t.Errorf("%+v", got)
	}
	const adopt = "adopt --release runtime --namespace here --only rollouts "
	if got := run(adopt + "--dry-run"); got.Code != 0 || !strings.Contains(got.Stdout, `"meta.helm.sh/release-name":"runtime"`) || marks() != "  " {
		t.Errorf("%+v: %s", got, marks())
	}
	if got := run(adopt); got.Code != 2 || !strings.Contains(got.Stderr, "--yes") || marks() != "  " {
		t.Errorf("%+v: %s", got, marks())
	}
	if got := run(adopt + "--yes"); got.Code != 0 || marks() != "Helm runtime here" {
		t.Errorf("%+v: %s", got, marks())
	}
	// The Application of a runtime that was uninstalled leaves its mark.
	mark := func(id string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"argocd.argoproj.io/tracking-id":"%s:apiextensions.k8s.io/CustomResourceDefinition:here/rollouts.argoproj.io"}}}`, id)
		must.Get(cluster.Metadata.Resource(kube.DefinitionResource()).Patch(t.Context(), "rollouts.argoproj.io", types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(t)
	}
	mark("prod")
	if got := run(adopt + "--yes"); got.Code != 0 || !strings.Contains(got.Stdout, "it belongs to the release already") {
		t.Errorf("what the runtime left: %+v", got)
	}
	if got := run("upgrade --only argocd -o json"); got.Code != 0 || !strings.Contains(got.Stdout, "applications.argoproj.io") {
		t.Errorf("%+v", got)
	}
	if got := run(adopt + "--yes"); got.Code != 0 || !strings.Contains(got.Stdout, "it belongs to the release already") {
		t.Errorf("what the runtime left, with Applications: %+v", got)
	}
	for _, foreign := range []string{"adopt --release other --namespace here", "adopt --release runtime --namespace there"} {
		if got := run(foreign + " --only rollouts --yes"); got.Code == 0 || !strings.Contains(got.Stdout+got.Stderr, "it is managed by Argo CD (prod)") {
			t.Errorf("%s: %+v", foreign, got)
		}
	}
	cluster.Apply(t, "default", "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: prod}\nspec: {project: default, destination: {}}\n")
	for id, want := range map[string]string{"prod": "it is managed by Argo CD (prod)", "default_prod": "it is managed by Argo CD (default_prod)", "kube-system_prod": "it belongs to the release already"} {
		mark(id)
		if got := run(adopt + "--yes"); !strings.Contains(got.Stdout+got.Stderr, want) {
			t.Errorf("of the Application %s: %+v", id, got)
		}
	}
	if got := run("release --release runtime --namespace here --only rollouts --yes"); got.Code != 0 || marks() != "  " {
		t.Errorf("%+v: %s", got, marks())
	}
	if got := run("plan --only moon"); got.Code != 2 || !strings.Contains(got.Stderr, "rollouts") {
		t.Errorf("%+v", got)
	}
}
