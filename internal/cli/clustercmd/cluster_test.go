package clustercmd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/gitops/gittest"
)

// TestCluster: R116: a cluster is added with a short-lived token after it was shown,
// with all rights or those of namespaces, and removed with what was made. What
// fails leaves nothing behind.
func TestCluster(t *testing.T) {
	w := newFleetWorld(t)
	target := " --kubeconfig " + w.Apps.Kubeconfig + " --system-namespace " + w.Apps.TestNamespace
	dry := w.Run(t, "cluster add far --dry-run"+target)
	if dry.Code != 0 || !strings.Contains(dry.Stdout, "kind: ClusterRoleBinding") || !strings.Contains(dry.Stdout, "name: cluster-admin") || w.Granted(t) != "" {
		t.Fatalf("a dry run: %+v, made %q", dry, w.Granted(t))
	}
	w.Fails(t, "cluster add far"+target, 2, "--yes")
	// The runtime refuses the address: what was made goes again.
	w.Fails(t, "cluster add far --yes --server https://127.0.0.1:1"+target, 1, "nothing was stored")
	w.Fails(t, "cluster add Far_Away --yes"+target, 1, "no name of a cluster")
	if got := w.Granted(t); got != "" {
		t.Fatalf("a failure leaves %q", got)
	}
	added := w.Run(t, "cluster add far --yes --labels env=prod --annotations note=x"+target)
	if added.Code != 0 || !strings.Contains(added.Stderr, "kind: ServiceAccount") || strings.Contains(added.Stdout+added.Stderr, "eyJ") {
		t.Fatalf("add: %+v", added)
	}
	if got := w.Granted(t); got != "account cluster-binding" {
		t.Errorf("made %q", got)
	}
	list := w.Until(t, "cluster list", func(got clitest.Result) bool { return strings.Count(got.Stdout, "Connected") == 2 })
	if !strings.Contains(list.Stdout, "env=prod") || !strings.Contains(list.Stdout, w.Apps.Config.Host) {
		t.Errorf("list:\n%s", list.Stdout)
	}
	w.Fails(t, "cluster add far --yes"+target, 1, "remove it first")
	w.Fails(t, "cluster add other --yes"+target, 1, "already")
	scoped := " --namespaces " + w.Apps.TestNamespace
	w.Fails(t, "cluster add far --yes --dry-run --namespaces missing-one --replace"+target, 1, "no namespace missing-one")
	w.Must(t, "cluster add far --yes --replace"+scoped+target)
	if got := w.Granted(t); got != "account role token-binding" {
		t.Errorf("scoped: %q", got)
	}
	w.Until(t, "cluster list", func(got clitest.Result) bool {
		return strings.Contains(got.Stdout, w.Apps.TestNamespace) && strings.Count(got.Stdout, "Connected") == 2
	})
	w.RemoveClusters(t, target)
}

// componentPod is a Pod of the runtime, which no node runs: its log is the reason.
const componentPod = `apiVersion: v1
kind: Pod
metadata: {name: agent, labels: {app.kubernetes.io/part-of: slipway, app.kubernetes.io/component: agent}}
spec:
  nodeName: missing
  containers: [{name: agent, image: slipway.dev/slipway}]
`

// TestRuntimeThroughPlatform: commands for a runtime, through the platform and the
// tunnel.
func TestRuntimeThroughPlatform(t *testing.T) {
	w := newFleetWorld(t)
	if got := w.Must(t, "integration git list"); !strings.HasPrefix(got, "NAME") {
		t.Errorf("integrations: %s", got)
	}
	w.Fails(t, "integration git status", 1, "slipway integration git set-runtime-token --runtime prod")
	got := w.RunWith(t, "canary-token", "integration git register default --runtime prod --token-file -")
	if got.Code == 0 || strings.Contains(got.Stdout+got.Stderr, "canary") {
		t.Errorf("R82: register before the provider is known: %+v", got)
	}
	visible := w.Run(t, "integration git register default --runtime prod --token canary-token")
	if !strings.Contains(visible.Stderr, "prefer --token-file") || strings.Contains(visible.Stdout+visible.Stderr, "canary") {
		t.Errorf("R82: %+v", visible)
	}
	w.Fails(t, "integration git register default --runtime prod", 2, "--token-file")
	w.Must(t, "integration git add default --runtime prod --provider github --api-url https://127.0.0.1:1")
	if got := w.Must(t, "integration git list"); !strings.Contains(clitest.TrimLines(got), "default github https://127.0.0.1:1") {
		t.Errorf("R82: after add: %s", got)
	}
	for _, tt := range [][2]string{
		{"--sharing admins", "default github https://127.0.0.1:1/api/v3 admins"},
		{"--api-url=", "default github https://api.github.com admins"},
		{"--sharing=", "default github https://api.github.com all-users"},
		{"--provider gitlab", "default gitlab https://gitlab.com/api/v4 all-users"},
	} {
		if got := w.Must(t, "integration git edit default --runtime prod "+tt[0]); !strings.Contains(clitest.TrimLines(got), tt[1]) {
			t.Errorf("after edit %s: %s", tt[0], got)
		}
	}
	w.Must(t, "integration git remove default --yes")
	if got := w.Run(t, "git-source create apps --repo-url https://git.example/apps.git"); got.Code != 1 {
		t.Errorf("a Git Source without a Shared Configuration Repository: %+v", got)
	}
	w.Fails(t, "git-source create apps", 2, "--repo-url is missing")
	w.Fails(t, "git-source delete nothing --yes", 1, "")
	w.Fails(t, "runtime configure prod", 1, "")
	w.Fails(t, "runtime logs prod --output logs.tar.gz", 1, "it runs as processes")
	w.Apps.Apply(t, w.Apps.Cluster.Cluster.Namespace, componentPod)
	t.Cleanup(func() {
		_ = w.Apps.Client.CoreV1().Pods(w.Apps.Cluster.Cluster.Namespace).Delete(context.Background(), "agent", metav1.DeleteOptions{})
	})
	got = w.Run(t, "runtime logs prod --output logs.tar.gz")
	if info, err := os.Stat(filepath.Join(w.Home, "logs.tar.gz")); got.Code != 0 || err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("R118: %+v, %v", got, err)
	}
	w.Fails(t, "runtime logs prod --component nothing", 1, "no component of the runtime is named nothing: there are agent")
	w.Registered(t, "other")
	w.Fails(t, "git-source list", 2, "the account has 2 runtimes (other, prod)")
	w.Must(t, "config set-runtime prod")
	w.Must(t, "git-source list")
	w.Environ = []string{"SLIPWAY_RUNTIME=other"}
	w.Fails(t, "git-source list", 1, "offline")
	if got := w.Run(t, "__complete runtime get"); got.Code != 0 {
		t.Errorf("completion: %+v", got)
	}
	completed := exec.Command(os.Args[0], "__complete", "runtime", "get", "")
	completed.Env = w.Command(t.Context(), nil).Env
	var out bytes.Buffer
	completed.Stdout = &out
	if err := completed.Run(); err != nil || !strings.Contains(out.String(), "prod\t") {
		t.Errorf("completion: %v, %s", err, &out)
	}
}

// TestAppsOfAllRuntimes: app list shows what all runtimes reported; other commands
// find the runtime by the name, and refuse when there are several.
func TestAppsOfAllRuntimes(t *testing.T) {
	w := newFleetWorld(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/one.yaml": clitest.ConfigMap("one", "1")})
	w.Apps.ManualApp(t, repository, "")
	w.Until(t, "app list -o name", func(got clitest.Result) bool {
		return strings.Contains(got.Stdout, "prod/"+w.Apps.TestNamespace+"/shop\n")
	})
	if got := w.Must(t, "app list"); !strings.HasPrefix(clitest.TrimLines(got), "RUNTIME NAMESPACE NAME PROJECT SYNC HEALTH REVISION OPERATION\nprod "+w.Apps.TestNamespace+" shop default OutOfSync") {
		t.Errorf("list:\n%s", got)
	}
	if got := w.Must(t, "app sync shop --timeout 60s"); !strings.Contains(got, "is synced to") {
		t.Errorf("sync: %s", got)
	}
	w.Must(t, "app get shop")
	w.Must(t, "app history "+w.Apps.TestNamespace+"/shop")
	direct := w.Run(t, "app list --direct --kubeconfig "+w.Apps.Kubeconfig+" -n "+w.Apps.TestNamespace)
	if direct.Code != 0 || !strings.HasPrefix(direct.Stdout, "NAME") {
		t.Errorf("direct: %+v", direct)
	}
	w.Fails(t, "app get shop --direct --runtime prod", 2, "cannot be combined")
	w.Fails(t, "app get nothing", 1, "no runtime has reported an Application nothing")
	w.Fails(t, "app list -l !x", 2, "key=value")
	w.ReportShop(t, "other")
	w.Fails(t, "app get shop", 2, "there are 2 Applications shop: write one of")
	w.Must(t, "app get shop --runtime prod")
	w.Must(t, "config set-runtime prod")
	w.Must(t, "app get shop")
	var list struct {
		Applications []struct{ Runtime, Name string }
	}
	if err := json.Unmarshal([]byte(w.Must(t, "app list -o json")), &list); err != nil || len(list.Applications) != 2 {
		t.Errorf("as JSON: %+v, %v", list, err)
	}
	if got := w.Must(t, "app list --runtime prod -o name"); got != w.Apps.TestNamespace+"/shop\n" {
		t.Errorf("of one runtime: %q", got)
	}
}
