package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// fleetWorld is a platform with a runtime that is joined through its tunnel: real
// processes and a real API server.
type fleetWorld struct {
	*platformWorld
	apps *appWorld
}

func newFleetWorld(t *testing.T) *fleetWorld {
	t.Helper()
	apps := newAppWorld(t)
	w := &fleetWorld{platformWorld: newPlatformWorld(t), apps: apps}
	w.login(t)
	w.join(t, "prod")
	return w
}

// join runs an agent as a runtime, and waits until the platform reaches it.
func (w *fleetWorld) join(t *testing.T, name string) {
	t.Helper()
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(w.must(t, "api-key create join-"+name+" --scope runtime-register")), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.Command(os.Args[0],
		"agent", "--log.format=text", "--admin.address=127.0.0.1:0", "--health.address=127.0.0.1:0", "--webhooks.address=127.0.0.1:0", "--access.address=127.0.0.1:0",
		"--applications.controlNamespace="+w.apps.namespace, "--applications.pollInterval=1h", "--leaderElection.leaseName="+w.apps.namespace, "--render.workers=1",
		"--platform.url="+w.url, "--platform.keyFile="+key, "--runtime.name="+name,
	)
	command.Env = append(os.Environ(), programVariable+"=1", "KUBECONFIG="+w.apps.Kubeconfig)
	log := &lockedBuffer{}
	command.Stdout, command.Stderr = log, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	process := &agentProcess{command, log}
	t.Cleanup(func() { process.end(t) })
	w.until(t, "cluster list --runtime "+name, func(got result) bool { return got.code == 0 })
}

// until runs a command line until its result is right.
func (w *fleetWorld) until(t *testing.T, line string, right func(result) bool) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), appPatience)
	defer cancel()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		got := w.run(t, line)
		if right(got) {
			return got
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s: %+v", line, got)
		}
	}
}

// accounts are the names of what a cluster addition makes, as they are now.
func (w *fleetWorld) granted(t *testing.T) string {
	t.Helper()
	var found []string
	client, name := w.apps.Client, "slipway-manager"
	note := func(what string, err error) {
		if err == nil {
			found = append(found, what)
		} else if !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
	}
	_, err := client.CoreV1().ServiceAccounts(w.apps.namespace).Get(t.Context(), name, metav1.GetOptions{})
	note("account", err)
	_, err = client.RbacV1().ClusterRoleBindings().Get(t.Context(), name, metav1.GetOptions{})
	note("cluster-binding", err)
	_, err = client.RbacV1().Roles(w.apps.namespace).Get(t.Context(), name, metav1.GetOptions{})
	note("role", err)
	_, err = client.RbacV1().RoleBindings(w.apps.namespace).Get(t.Context(), name+"-token", metav1.GetOptions{})
	note("token-binding", err)
	return strings.Join(found, " ")
}

// TestCluster: R116: a cluster is added with a short-lived token after it was shown,
// with all rights or those of namespaces, and removed with what was made. What
// fails leaves nothing behind.
func TestCluster(t *testing.T) {
	w := newFleetWorld(t)
	target := " --kubeconfig " + w.apps.Kubeconfig + " --system-namespace " + w.apps.namespace
	dry := w.run(t, "cluster add far --dry-run"+target)
	if dry.code != 0 || !strings.Contains(dry.stdout, "kind: ClusterRoleBinding") || !strings.Contains(dry.stdout, "name: cluster-admin") || w.granted(t) != "" {
		t.Fatalf("a dry run: %+v, made %q", dry, w.granted(t))
	}
	w.fails(t, "cluster add far"+target, 2, "--yes")
	// The runtime refuses the address: what was made goes again.
	w.fails(t, "cluster add far --yes --server https://127.0.0.1:1"+target, 1, "nothing was stored")
	w.fails(t, "cluster add Far_Away --yes"+target, 1, "no name of a cluster")
	if got := w.granted(t); got != "" {
		t.Fatalf("a failure leaves %q", got)
	}
	added := w.run(t, "cluster add far --yes --labels env=prod --annotations note=x"+target)
	if added.code != 0 || !strings.Contains(added.stderr, "kind: ServiceAccount") || strings.Contains(added.stdout+added.stderr, "eyJ") {
		t.Fatalf("add: %+v", added)
	}
	if got := w.granted(t); got != "account cluster-binding" {
		t.Errorf("made %q", got)
	}
	list := w.until(t, "cluster list", func(got result) bool { return strings.Count(got.stdout, "Connected") == 2 })
	if !strings.Contains(list.stdout, "env=prod") || !strings.Contains(list.stdout, w.apps.Config.Host) {
		t.Errorf("list:\n%s", list.stdout)
	}
	w.fails(t, "cluster add far --yes"+target, 1, "remove it first")
	w.fails(t, "cluster add other --yes"+target, 1, "already")
	scoped := " --namespaces " + w.apps.namespace
	w.fails(t, "cluster add far --yes --dry-run --namespaces missing-one --replace"+target, 1, "no namespace missing-one")
	w.must(t, "cluster add far --yes --replace"+scoped+target)
	if got := w.granted(t); got != "account role token-binding" {
		t.Errorf("scoped: %q", got)
	}
	w.until(t, "cluster list", func(got result) bool {
		return strings.Contains(got.stdout, w.apps.namespace) && strings.Count(got.stdout, "Connected") == 2
	})
	w.removeClusters(t, target)
}

func (w *fleetWorld) removeClusters(t *testing.T, target string) {
	t.Helper()
	w.fails(t, "cluster remove", 2, "by its name, or by --server-url")
	w.fails(t, "cluster remove nothing --yes", 1, "has no cluster nothing")
	w.fails(t, "cluster remove in-cluster --yes --clean-up"+target, 2, "choose its --context")
	w.fails(t, "cluster remove far", 2, "--yes")
	got := w.run(t, "cluster remove --server-url "+w.apps.Config.Host+" --yes --clean-up"+target)
	if got.code != 0 || strings.Count(got.stderr, "is deleted") != 5 {
		t.Errorf("remove: %+v", got)
	}
	if got := w.granted(t); got != "" {
		t.Errorf("left %q", got)
	}
	w.until(t, "cluster list", func(got result) bool { return !strings.Contains(got.stdout, "far") })
}

// TestRuntimeThroughPlatform: commands for a runtime, through the platform and the
// tunnel.
func TestRuntimeThroughPlatform(t *testing.T) {
	w := newFleetWorld(t)
	if got := w.must(t, "integration git list"); !strings.HasPrefix(got, "NAME") {
		t.Errorf("integrations: %s", got)
	}
	w.fails(t, "integration git status", 1, "slipway integration git set-runtime-token --runtime prod")
	got := w.runWith(t, "canary-token", "integration git register default --runtime prod --token-file -")
	if got.code == 0 || strings.Contains(got.stdout+got.stderr, "canary") {
		t.Errorf("R82: register before the provider is known: %+v", got)
	}
	visible := w.run(t, "integration git register default --runtime prod --token canary-token")
	if !strings.Contains(visible.stderr, "prefer --token-file") || strings.Contains(visible.stdout+visible.stderr, "canary") {
		t.Errorf("R82: %+v", visible)
	}
	w.fails(t, "integration git register default --runtime prod", 2, "--token-file")
	w.must(t, "integration git add default --runtime prod --provider github --api-url https://127.0.0.1:1")
	if got := w.must(t, "integration git list"); !strings.Contains(trimLines(got), "default github https://127.0.0.1:1") {
		t.Errorf("R82: after add: %s", got)
	}
	w.must(t, "integration git remove default --yes")
	if got := w.run(t, "git-source create apps --repo-url https://git.example/apps.git"); got.code != 1 {
		t.Errorf("a Git Source without a Shared Configuration Repository: %+v", got)
	}
	w.fails(t, "git-source create apps", 2, "--repo-url is missing")
	w.fails(t, "git-source delete nothing --yes", 1, "")
	w.fails(t, "runtime configure prod", 1, "")
	got = w.run(t, "runtime logs prod --output logs.tar.gz")
	if info, err := os.Stat(filepath.Join(w.home, "logs.tar.gz")); got.code != 0 || err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("R118: %+v, %v", got, err)
	}
	w.fails(t, "runtime logs prod --component nothing", 1, "nothing")
	w.registered(t, "other")
	w.fails(t, "git-source list", 2, "the account has 2 runtimes (other, prod)")
	w.must(t, "config set-runtime prod")
	w.must(t, "git-source list")
	w.environ = []string{"SLIPWAY_RUNTIME=other"}
	w.fails(t, "git-source list", 1, "offline")
	if got := w.run(t, "__complete runtime get"); got.code != 0 {
		t.Errorf("completion: %+v", got)
	}
	completed := exec.Command(os.Args[0], "__complete", "runtime", "get", "")
	completed.Env = w.command(t.Context(), nil).Env
	var out bytes.Buffer
	completed.Stdout = &out
	if err := completed.Run(); err != nil || !strings.Contains(out.String(), "prod\t") {
		t.Errorf("completion: %v, %s", err, &out)
	}
}

// TestAppsOfAllRuntimes: app list shows what all runtimes reported; other commands
// find the runtime by the name, and say so when there are several.
func TestAppsOfAllRuntimes(t *testing.T) {
	w := newFleetWorld(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/one.yaml": configMap("one", "1")})
	w.apps.manualApp(t, repository, "")
	w.until(t, "app list -o name", func(got result) bool { return strings.Contains(got.stdout, "prod/"+w.apps.namespace+"/shop\n") })
	if got := w.must(t, "app list"); !strings.HasPrefix(trimLines(got), "RUNTIME NAMESPACE NAME PROJECT SYNC HEALTH REVISION OPERATION\nprod "+w.apps.namespace+" shop default OutOfSync") {
		t.Errorf("list:\n%s", got)
	}
	if got := w.must(t, "app sync shop --timeout 60s"); !strings.Contains(got, "is synced to") {
		t.Errorf("sync: %s", got)
	}
	w.must(t, "app get shop")
	w.must(t, "app history "+w.apps.namespace+"/shop")
	direct := w.run(t, "app list --direct --kubeconfig "+w.apps.Kubeconfig+" -n "+w.apps.namespace)
	if direct.code != 0 || !strings.HasPrefix(direct.stdout, "NAME") {
		t.Errorf("direct: %+v", direct)
	}
	w.fails(t, "app get shop --direct --runtime prod", 2, "do not go together")
	w.fails(t, "app get nothing", 1, "no runtime has told of an Application nothing")
	w.fails(t, "app list -l !x", 2, "key=value")
	w.reportShop(t, "other")
	w.fails(t, "app get shop", 2, "there are 2 Applications shop: write one of")
	w.must(t, "app get shop --runtime prod")
	w.must(t, "config set-runtime prod")
	w.must(t, "app get shop")
	var list struct {
		Applications []struct{ Runtime, Name string }
	}
	if err := json.Unmarshal([]byte(w.must(t, "app list -o json")), &list); err != nil || len(list.Applications) != 2 {
		t.Errorf("as JSON: %+v, %v", list, err)
	}
	if got := w.must(t, "app list --runtime prod -o name"); got != w.apps.namespace+"/shop\n" {
		t.Errorf("of one runtime: %q", got)
	}
}

// reportShop has another runtime tell of an Application of the same name.
func (w *fleetWorld) reportShop(t *testing.T, runtime string) {
	t.Helper()
	agent := w.registered(t, runtime)
	events := []*platformv1.ReportEvent{
		{Number: 1, Event: &platformv1.ReportEvent_ResyncBegin{ResyncBegin: true}},
		{Number: 2, Event: &platformv1.ReportEvent_Application{Application: &platformv1.Application{Namespace: "argocd", Name: "shop", Uid: "u", Sync: "Synced", Health: "Healthy"}}},
		{Number: 3, Event: &platformv1.ReportEvent_ResyncEnd{ResyncEnd: true}},
	}
	answer, err := agent.Report(t.Context(), connect.NewRequest(&platformv1.ReportRequest{Stream: "s", Events: events}))
	if err != nil || answer.Msg.GetStored() != 3 {
		t.Fatalf("%v, %v", answer, err)
	}
}
