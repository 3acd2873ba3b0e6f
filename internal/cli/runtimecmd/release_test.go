package runtimecmd_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/install/release"
	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/must"
)

// quiet are the flags of the tests: nothing here runs the image of the chart's hook,
// and the cluster has no node.
const quiet = " --set installer.skipValidation=true --skip-preflight --yes"

// TestRuntimeLife: R1, R81, R47, R49, R50, R76, R110, R111, R113: a runtime is planned,
// installed until it is online at a real platform, upgraded with its values kept,
// rolled back when the platform does not see the new version, and uninstalled with a
// report of what is left.
func TestRuntimeLife(t *testing.T) {
	w := newReleaseWorld(t, "slipway")
	t.Run("refused", w.testRefused)
	t.Run("dry run", w.testDryRun)
	t.Run("taken back", w.testTakenBack)
	t.Run("install", w.testInstall)
	t.Run("upgrade", w.testUpgrade)
	t.Run("in Git", w.testUpgradeInGit)
	t.Run("rollback", w.testRollback)
	t.Run("uninstall", w.testUninstall)
	t.Run("force", w.testForce)
}

// Errors are reported before anything is touched, with the exit codes of slipway
// helm validate and slipway preflight.
func (w *releaseWorld) testRefused(t *testing.T) {
	w.ends(t, "runtime install prod --create-key --set edge.replicas=many --set agent.replica=2 --yes", 1, "edge.replicas", "agent.replica", "2 errors in the values: nothing was changed")
	w.ends(t, "runtime install prod --create-key --set installer.skipValidation=true --yes", 1, "P3", "checks failed: nothing was changed; --skip-preflight")
	w.ends(t, "runtime install prod"+quiet, 2, "there is no API key in the Secret slipway/slipway-user-token", "--create-key")
	w.ends(t, "runtime install prod --create-key --set installer.skipValidation=true --skip-preflight", 2, "add --yes if it is intended")
	w.ends(t, "runtime install prod --create-key --chart nowhere --yes", 1, "there is no chart at nowhere")
	w.ends(t, "runtime install prod --create-key -f missing.yaml", 2, "missing.yaml")
	w.ends(t, "runtime upgrade prod", 1, "prod")
	w.requireNothing(t)
}

// requireNothing: no namespace, no definition and no key were made.
func (w *releaseWorld) requireNothing(t *testing.T) {
	t.Helper()
	if _, err := w.cluster.Client.CoreV1().Namespaces().Get(t.Context(), "slipway", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace: %v", err)
	}
	if keys := w.Must(t, "api-key list"); strings.Contains(keys, "runtime prod") {
		t.Errorf("a key was made:\n%s", keys)
	}
}

// A dry run shows the plan and the values, and makes nothing.
func (w *releaseWorld) testDryRun(t *testing.T) {
	got := w.ends(t, "runtime install prod --create-key --dry-run --output-values -"+quiet, 0, "Release slipway/slipway-runtime: install gitops-runtime", "Nothing was changed")
	for _, line := range []string{"create Namespace slipway (of the cluster)", "create Secret slipway/slipway-user-token", "create Deployment slipway/slipway-agent", "name: prod"} {
		if !strings.Contains(clitest.TrimLines(got.Stdout), line) {
			t.Errorf("%q is missing in\n%s", line, got.Stdout)
		}
	}
	w.requireNothing(t)
}

// An installation whose Pods do not start is taken back with the reason, and its key
// is no longer good.
func (w *releaseWorld) testTakenBack(t *testing.T) {
	w.asleep.Store(true)
	defer w.asleep.Store(false)
	w.ends(t, "runtime install prod --create-key --timeout 20s"+quiet, 1,
		"Deployment slipway-agent: 0 of 1 available", "not healthy within 20s", "the installation was rolled back")
	ctx, cancel := context.WithTimeout(t.Context(), releasePatience)
	defer cancel()
	must.Get(kube.WaitFor(ctx, w.cluster.Client.CoreV1().Namespaces(), kube.Named("slipway"), func(found []*corev1.Namespace) error {
		if len(found) > 0 {
			return errors.New("the namespace is there")
		}
		return nil
	}))(t)
	w.requireNothing(t)
}

func (w *releaseWorld) testInstall(t *testing.T) {
	got := w.ends(t, "runtime install prod --create-key"+quiet, 0, "Deployment slipway-agent: 1 of 1 available", "The runtime prod is installed.", "slipway runtime get prod")
	if list := clitest.TrimLines(w.Must(t, "runtime list")); !strings.Contains(list, "prod slipway") || !strings.Contains(list, " yes ") {
		t.Errorf("the platform knows\n%s", list)
	}
	found := must.Get(w.cluster.Client.CoreV1().Secrets("slipway").Get(t.Context(), "slipway-user-token", metav1.GetOptions{}))(t)
	key := string(found.Data["token"])
	if !strings.HasPrefix(key, "slw_") || strings.Contains(got.Stdout+got.Stderr, key) || key == w.Key(t) {
		t.Errorf("the key in the Secret is not one of its own, or is shown: %+v", got)
	}
	helm, err := w.cluster.Client.CoreV1().Secrets("slipway").List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,status=deployed,name=slipway-runtime"})
	if err != nil || len(helm.Items) != 1 {
		t.Errorf("helm list would show %v, %v", helm.Items, err)
	}
	w.ends(t, "runtime install prod --create-key"+quiet, 1, "slipway runtime upgrade prod changes it")
}

// R76: the values before are kept; what changes is shown as a diff, without secrets.
func (w *releaseWorld) testUpgrade(t *testing.T) {
	got := w.ends(t, "runtime upgrade prod --set edge.replicas=3 --skip-preflight --yes", 0,
		"The values of revision 1 are kept", "=== Deployment slipway/slipway-edge", "-  replicas: 2", "+  replicas: 3", "(another value)", "The runtime prod is upgraded.")
	if strings.Contains(got.Stdout, "eyJ") || strings.Contains(got.Stdout, "Z2xvYmFs") { // base64 of { and of global
		t.Errorf("values of a Secret are shown:\n%s", got.Stdout)
	}
	w.ends(t, "runtime upgrade prod --skip-preflight --yes", 0, "There is nothing to change.")
	w.ends(t, "runtime upgrade prod --set global.runtime.name=other --yes", 2, "a runtime cannot be renamed")
}

// R110: a runtime that is an Application of itself is changed in Git, and the command
// shows which files, and what to write: the version, the values, or both.
func (w *releaseWorld) testUpgradeInGit(t *testing.T) {
	w.cluster.Apply(t, "slipway", `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: prod, labels: {slipway.dev/entity: runtime}}
spec:
  project: default
  source: {repoURL: "https://git.example/config.git", path: resources/prod/chart}
  destination: {server: "https://kubernetes.default.svc", namespace: slipway}
`)
	applications := w.cluster.Dynamic.Resource(clitest.Applications).Namespace("slipway")
	t.Cleanup(func() { must.Do(t, applications.Delete(context.Background(), "prod", metav1.DeleteOptions{})) })
	const version, values = "resources/prod/chart/Chart.yaml", "resources/prod/chart/values.yaml"
	got := w.ends(t, "runtime upgrade prod --set edge.replicas=4 --set global.runtime.gitCredentials.password.value=canary --skip-preflight --yes", 1,
		"#   "+values+"\n#     gitops-runtime:\n#       edge:\n#         replicas: 4\n", "keep global.runtime.gitCredentials.password.value in a Secret", "nothing was changed")
	if strings.Contains(got.Stdout, version) || strings.Contains(got.Stdout, "canary") {
		t.Errorf("an upgrade of values has the version, or a secret:\n%s", got.Stdout)
	}
	if got := w.ends(t, "runtime upgrade prod --chart "+w.chart(t, "9.9.9")+" --skip-preflight --yes", 1, "to 9.9.9 in\n#   "+version); strings.Contains(got.Stdout, values) {
		t.Errorf("an upgrade without values has some:\n%s", got.Stdout)
	}
	w.ends(t, "runtime upgrade prod --chart "+w.chart(t, "9.9.9")+" --set edge.replicas=4 --skip-preflight --yes", 1, version, values, "replicas: 4")
	w.ends(t, "runtime upgrade prod --skip-preflight --yes", 1, version)
	w.ends(t, "runtime upgrade prod --reset-values --set global.runtime.name=prod --skip-preflight --yes", 1, "remove the other values from "+values)
}

// A newer chart whose runtime is not seen in the new version goes back, and an older
// one is refused.
func (w *releaseWorld) testRollback(t *testing.T) {
	older, newer := w.chart(t, "0.0.9"), w.chart(t, "9.9.9")
	w.ends(t, "runtime upgrade prod --chart "+older+" --skip-preflight --yes", 2, "0.0.9 is older than", "--force")
	w.ends(t, "runtime upgrade prod --chart "+newer+" --skip-preflight --yes --timeout 25s", 1,
		"the runtime prod still reports the version", "not healthy within 25s", "the release was rolled back to revision 2")
	found, err := w.cluster.Client.AppsV1().Deployments("slipway").Get(t.Context(), "slipway-edge", metav1.GetOptions{})
	if err != nil || *found.Spec.Replicas != 3 || strings.Contains(found.Labels["helm.sh/chart"], "9.9.9") {
		t.Errorf("after the rollback the edge is %v, %v", found, err)
	}
}

// chart is ours with another version, in a folder.
func (w *releaseWorld) chart(t *testing.T, version string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "gitops-runtime")
	must.Do(t, os.CopyFS(dir, os.DirFS("../../../charts/gitops-runtime")))
	file := filepath.Join(dir, "Chart.yaml")
	text := must.Get(os.ReadFile(file))(t)
	changed := strings.Replace(string(text), "\nversion: 0.1.0\n", "\nversion: "+version+"\n", 1)
	if changed == string(text) {
		t.Fatal("the version of the chart is not where it was")
	}
	must.Do(t, os.WriteFile(file, []byte(changed), 0o600))
	return dir
}

// The runtime takes leave of the platform first; then everything goes but what the
// report names.
func (w *releaseWorld) testUninstall(t *testing.T) {
	w.cluster.Apply(t, "slipway", `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: "https://git.example/shop.git", path: .}
  destination: {server: "https://kubernetes.default.svc", namespace: shop}
`)
	w.ends(t, "runtime uninstall other --yes", 2, "the release slipway/slipway-runtime is the runtime prod, and not other")
	w.ends(t, "runtime uninstall other --release other --yes", 1, "no platform has the runtime other")
	w.ends(t, "runtime uninstall prod --dry-run", 0, "delete", "Deployment slipway/slipway-agent", "cleans up first")
	got := w.ends(t, "runtime uninstall prod --yes -o json", 0, "has cleaned up and left", "The runtime prod is uninstalled.")
	var report struct{ Leftovers []release.Leftover }
	if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil {
		t.Fatalf("%v in\n%s", err, got.Stdout)
	}
	for _, one := range report.Leftovers {
		switch one.Kind {
		case "CustomResourceDefinition", "Namespace", "Application":
		default:
			t.Errorf("left: %+v", one)
		}
		if one.Command == "" {
			t.Errorf("there is no command for %+v", one)
		}
	}
	if list := w.Run(t, "runtime list"); list.Stdout != "" {
		t.Errorf("the platform still knows\n%s", list.Stdout)
	}
	roles, err := w.cluster.Client.RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=slipway"})
	if err != nil || len(roles.Items) > 0 {
		t.Errorf("roles are left: %v, %v", roles.Items, err)
	}
}

// A runtime that is offline, and whose cluster is lost, goes with --force: the platform
// forgets it.
func (w *releaseWorld) testForce(t *testing.T) {
	w.Registered(t, "lost")
	w.ends(t, "runtime uninstall lost --yes", 1, "there is no release slipway/slipway-runtime in this cluster", "--force")
	w.ends(t, "runtime uninstall lost --yes --force", 0, "is offline", "The runtime lost is uninstalled.")
	if list := w.Run(t, "runtime list"); list.Stdout != "" {
		t.Errorf("the platform still knows\n%s", list.Stdout)
	}
}
