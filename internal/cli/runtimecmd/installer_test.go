package runtimecmd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/access/mode"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// alone are the flags of a runtime without a platform, in a cluster that has no
// node. The hook of the chart runs, and its Pods succeed.
const alone = " --set global.platform.enabled=false --skip P3 --yes"

// newClusterWorld is a releaseWorld without a platform: a cluster in which Pods
// of some namespaces become ready.
func newClusterWorld(t *testing.T, namespaces ...string) *releaseWorld {
	t.Helper()
	t.Parallel() // it mostly waits
	cluster := kubetest.Start(t, kubetest.WithoutNode())
	w := &releaseWorld{PlatformWorld: &clitest.PlatformWorld{Home: t.TempDir()}, cluster: cluster}
	w.Environ = []string{"KUBECONFIG=" + cluster.Kubeconfig}
	for _, namespace := range namespaces {
		cluster.MakePodsReady(t, namespace, w.asleep.Load)
	}
	return w
}

// TestInstallerRole: R13, R14: a user with exactly the role that P4 prints, and no
// right more, installs, upgrades, repairs and uninstalls a runtime.
func TestInstallerRole(t *testing.T) {
	w := newClusterWorld(t, "slipway")
	w.Environ = []string{"KUBECONFIG=" + w.cluster.KubeconfigAs(t, "default", "installer")}
	got := w.ends(t, "preflight --only P4", 1, "poddisruptionbudgets.policy", "escalate,bind clusterroles", "create,delete namespaces", "--user installer")
	w.ends(t, "runtime install prod"+alone, 1, "slipway preflight --only P4 prints the role")
	_, role, found := strings.Cut(got.Stdout, "apiVersion: rbac")
	if !found {
		t.Fatalf("there is no role in\n%s", got.Stdout)
	}
	w.cluster.Apply(t, "", unindented("apiVersion: rbac"+role)+`
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: slipway-installer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: slipway-installer}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: installer}]
`)
	// The authorizer of the API server reads roles from a cache that lags behind.
	programs.Eventually(t, func(context.Context) error {
		if got := w.release(t, "preflight --only P4"); got.Code != 0 {
			return fmt.Errorf("%s%s", got.Stdout, got.Stderr)
		}
		return nil
	})
	w.ends(t, "runtime install prod"+alone, 0, "The runtime prod is installed.")
	w.ends(t, "runtime upgrade prod --set edge.replicas=3"+alone, 0, "The runtime prod is upgraded.")
	w.ends(t, "runtime upgrade prod --reapply"+alone, 0, "The runtime prod is upgraded.")
	got = w.ends(t, "runtime uninstall prod --yes", 0, "The runtime prod is uninstalled.")
	if strings.Contains(got.Stderr+got.Stdout, "forbidden") {
		t.Errorf("the uninstall was not allowed everything:\n%s%s", got.Stdout, got.Stderr)
	}
}

// unindented removes the indentation that a finding has on the terminal.
func unindented(text string) string {
	var lines []string
	indent := -1
	for line := range strings.SplitSeq(text, "\n") {
		if trimmed := strings.TrimLeft(line, " "); indent < 0 && strings.HasPrefix(trimmed, "kind:") {
			indent = len(line) - len(trimmed)
		}
		lines = append(lines, line)
	}
	for i, line := range lines {
		lines[i] = strings.TrimPrefix(line, strings.Repeat(" ", max(0, indent)))
	}
	return strings.Join(lines, "\n")
}

// TestSecondRuntime: a second runtime of a cluster is stopped before Helm is, with
// the value that lets both live; and its uninstall does not offer to delete the
// definitions of the first.
func TestSecondRuntime(t *testing.T) {
	w := newClusterWorld(t, "slipway", "second")
	w.ends(t, "runtime install prod"+alone, 0, "The runtime prod is installed.")
	w.ends(t, "runtime install second --namespace second"+alone, 1,
		"IngressClass slipway", "belongs to the Helm release slipway-runtime of the namespace slipway", "--set edge.ingressClass.name=NAME", "nothing was changed")
	w.ends(t, "runtime install other --release other"+alone, 1, "Deployment slipway/slipway-agent", "helm uninstall slipway-runtime --namespace slipway")
	w.ends(t, "runtime install second --namespace second --set edge.ingressClass.name=second"+alone, 0, "The runtime second is installed.")
	got := w.ends(t, "runtime uninstall second --namespace second --yes -o json", 0)
	var report struct{ Leftovers []release.Leftover }
	must.Do(t, json.Unmarshal([]byte(got.Stdout), &report))
	for _, one := range report.Leftovers {
		if one.Kind == "CustomResourceDefinition" {
			t.Errorf("a definition of the first runtime is a leftover of the second: %+v", one)
		}
	}
	got = w.ends(t, "runtime uninstall prod --yes", 0)
	if !strings.Contains(got.Stdout, "CustomResourceDefinition applications.argoproj.io") {
		t.Errorf("its own definitions are not listed:\n%s", got.Stdout)
	}
}

// TestRepairThroughRelease: a repair of slipway preflight goes through the release,
// so that the upgrades after it succeed; and an upgrade takes over what an earlier
// version has repaired beside the release.
func TestRepairThroughRelease(t *testing.T) {
	w := newClusterWorld(t, "slipway")
	w.cluster.DefineFiles(t, "../../access/mode/testdata/crds.yaml")
	quiet := quiet + " --set global.platform.enabled=false"
	w.ends(t, "runtime install prod --mode mesh --ingress-url https://prod.example.com --gateway istio-system/public"+quiet, 0)
	services := w.cluster.Dynamic.Resource(schema.GroupVersionResource{Group: mode.IstioGroup, Version: mode.IstioVersion, Resource: "virtualservices"}).Namespace("slipway")
	_, err := services.Patch(t.Context(), "internal-router", types.MergePatchType, []byte(`{"spec": {"http": []}}`), metav1.PatchOptions{FieldManager: "kubectl-edit"})
	must.Do(t, err)
	w.ends(t, "preflight --stage after --only P20", 1, "no route matches", "slipway runtime upgrade prod --namespace slipway --release slipway-runtime --reapply")
	w.ends(t, "preflight --stage after --only P20 --fix --yes", 0, "apply the release slipway/slipway-runtime again", "1 change was made")
	w.upgradesTo(t, "second.example.com", quiet)
	// What slipway preflight --fix has done in earlier versions.
	settings := mode.MeshSettings{Runtime: "prod", Namespace: "slipway", Gateway: "istio-system/public", Hosts: []string{"second.example.com"}}
	text, err := mode.YAML(mode.VirtualServices(settings)...)
	must.Do(t, err)
	for _, manager := range []string{"slipway-preflight", "slipway-mesh"} {
		_, err = w.cluster.Cluster.Apply(t.Context(), kube.Target{Namespace: "slipway", Manager: manager}, text)
		must.Do(t, err)
	}
	w.upgradesTo(t, "third.example.com", quiet)
	// Another tool is a conflict, which only --reapply decides.
	_, err = services.Patch(t.Context(), "internal-router", types.MergePatchType, []byte(`{"spec": {"hosts": ["other.example.com"]}}`), metav1.PatchOptions{FieldManager: "other-tool"})
	must.Do(t, err)
	w.ends(t, "runtime upgrade prod --set global.runtime.ingressUrl=https://fourth.example.com"+quiet, 1, "other-tool")
	w.ends(t, "runtime upgrade prod"+quiet, 0, "There is nothing to change")
	w.ends(t, "runtime upgrade prod --reapply"+quiet, 0, "The runtime prod is upgraded.")
	w.requireHost(t, "third.example.com")
}

// upgradesTo changes the host of the mesh by an upgrade.
func (w *releaseWorld) upgradesTo(t *testing.T, host, flags string) {
	t.Helper()
	w.ends(t, "runtime upgrade prod --set global.runtime.ingressUrl=https://"+host+flags, 0, "The runtime prod is upgraded.")
	w.requireHost(t, host)
}

// requireHost: the VirtualService of the chart is for the host, with all paths.
func (w *releaseWorld) requireHost(t *testing.T, host string) {
	t.Helper()
	w.ends(t, "runtime mesh verify --runtime prod --gateway istio-system/public --host "+host, 0, "/app-proxy")
}
