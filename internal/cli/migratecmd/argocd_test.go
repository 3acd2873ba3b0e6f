package migratecmd_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// world is a cluster with Argo CD's own definitions, a real agent, and
// Applications as Argo CD leaves them.
type world struct {
	*clitest.AppWorld
	argo, target string
	git          *gittest.Repository
}

// newWorld starts the agent. Each name is an Application of one ConfigMap.
func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	cluster := kubetest.Shared(t)
	cluster.DefineFiles(t, filepath.Join(programs.ModuleFolder(t, "github.com/argoproj/argo-cd/v3"), "manifests/crds/*-crd.yaml"))
	w := &world{
		AppWorld: &clitest.AppWorld{Cluster: cluster, TestNamespace: cluster.Namespace(t), UserKubeconfig: cluster.Kubeconfig},
		argo:     cluster.Namespace(t), target: cluster.Namespace(t),
	}
	clitest.Clean(t) // after the cluster, whose variables it takes away
	w.StartAgent(t)
	files := map[string]string{}
	for _, name := range names {
		files[name+"/config.yaml"] = clitest.ConfigMap(name, "one")
	}
	w.git = gittest.Serve(t).Repository(t, "apps", files)
	for _, name := range names {
		w.argoHas(t, name, "one")
	}
	return w
}

// argoHas makes an Application and its ConfigMap with a value, as Argo CD leaves
// them after a sync.
func (w *world) argoHas(t *testing.T, name, value string) {
	t.Helper()
	w.Apply(t, w.target, fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %[1]s, annotations: {argocd.argoproj.io/tracking-id: '%[1]s:/ConfigMap:%[2]s/%[1]s'}}\ndata: {value: %[3]q}\n", name, w.target, value))
	w.Apply(t, w.argo, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %[1]s, labels: {app: %[1]s}}
spec:
  project: default
  source: {repoURL: %[2]q, path: %[1]s, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %[3]s}
  syncPolicy: {automated: {prune: true}}
status:
  sync: {status: Synced, revision: %[4]s, comparedTo: {source: {repoURL: %[2]q}, destination: {}}}
  health: {status: Healthy}
  resources: [{version: v1, kind: ConfigMap, namespace: %[3]s, name: %[1]s, status: Synced}]
`, name, w.git.URL(), w.target, w.git.Head(t)))
}

// migrate runs slipway migrate argocd.
func (w *world) migrate(t *testing.T, line string) clitest.Result {
	t.Helper()
	return clitest.Run(t, "migrate argocd -n "+w.argo+" --to "+w.TestNamespace+" --kubeconfig "+w.UserKubeconfig+" "+line)
}

// identity is what may not change of the ConfigMap of an Application.
func (w *world) identity(t *testing.T, name string) string {
	t.Helper()
	one := must.Get(w.Client.CoreV1().ConfigMaps(w.target).Get(t.Context(), name, metav1.GetOptions{}))(t)
	return string(one.UID) + " " + one.Annotations["argocd.argoproj.io/tracking-id"] + " " + one.Data["value"]
}

// places returns where the Applications are: "argo" or "runtime" by name.
func (w *world) places(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for namespace, place := range map[string]string{w.argo: "argo", w.TestNamespace: "runtime"} {
		for _, app := range must.Get(w.Dynamic.Resource(clitest.Applications).Namespace(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items {
			found[app.GetName()] += place
		}
	}
	return found
}

// TestMigrateArgoCD: R121: the report, a take-over of a group, and the way back, against
// a real agent; the objects are the same all the time.
func TestMigrateArgoCD(t *testing.T) {
	w := newWorld(t, "shop", "web", "drift")
	w.argoHas(t, "drift", "two") // Argo CD reports it as Synced
	before := w.identity(t, "shop") + w.identity(t, "web") + w.identity(t, "drift")

	got := w.migrate(t, "")
	for _, want := range []string{"Application.argoproj.io " + w.argo + "/shop", "1 resource rendered at", "the first sync would change it", "+  value: one"} {
		if got.Code != 0 || !strings.Contains(got.Stdout, want) {
			t.Errorf("the report has no %q: %+v", want, got)
		}
	}
	if !strings.Contains(got.Stderr, "can be taken over: 2 of 3") {
		t.Errorf("%+v", got)
	}
	var report struct {
		Objects []struct {
			Kind, Name, Effect string
			Fields             []struct{ Name, Effect string }
		}
	}
	encoded := w.migrate(t, "-o json")
	must.Do(t, json.Unmarshal([]byte(encoded.Stdout), &report))
	effects := map[string]string{}
	for _, object := range report.Objects {
		effects[object.Kind+" "+object.Name] = object.Effect
		if object.Kind == "Application" && len(object.Fields) < 6 {
			t.Errorf("%+v", object)
		}
	}
	if effects["Application shop"] != "same" || effects["Application drift"] != "differs" {
		t.Errorf("%v", effects)
	}

	if got := w.migrate(t, "--all --take-over --dry-run"); got.Code != 1 || !strings.Contains(got.Stderr, "skip-reconcile") && !strings.Contains(got.Stderr, "lets go") {
		t.Errorf("%+v", got)
	}
	if got := w.migrate(t, "--all --take-over"); got.Code != 2 || !strings.Contains(got.Stderr, "--yes") {
		t.Errorf("%+v", got)
	}
	if places := w.places(t); places["shop"] != "argo" || places["web"] != "argo" {
		t.Fatalf("nothing was confirmed: %v", places)
	}
	if got := w.migrate(t, "--all --take-over --group-size 1 --yes"); got.Code != 1 || !strings.Contains(got.Stderr, "2 Applications taken over. Untouched resources: 2 of 2") || !strings.Contains(got.Stderr, "1 Application not taken over") {
		t.Fatalf("%+v", got)
	}
	if places := w.places(t); places["shop"] != "runtime" || places["web"] != "runtime" || places["drift"] != "argo" {
		t.Errorf("%v", places)
	}
	if got := w.migrate(t, "-l app=web --back --yes"); got.Code != 0 || !strings.Contains(got.Stderr, "1 Application returned") {
		t.Errorf("%+v", got)
	}
	if places := w.places(t); places["shop"] != "runtime" || places["web"] != "argo" {
		t.Errorf("%v", places)
	}
	if got := w.migrate(t, "--all --back --yes"); got.Code != 0 || !strings.Contains(got.Stderr, "1 Application returned") {
		t.Errorf("%+v", got)
	}
	if after := w.identity(t, "shop") + w.identity(t, "web") + w.identity(t, "drift"); after != before || w.places(t)["shop"] != "argo" {
		t.Errorf("%s became %s", before, after)
	}
	if got := w.migrate(t, "--all --back --yes"); got.Code != 1 || !strings.Contains(got.Stderr, "nothing to return") {
		t.Errorf("%+v", got)
	}
}

// sets returns where the sets are.
func (w *world) sets(t *testing.T) string {
	t.Helper()
	found := ""
	for _, set := range must.Get(w.Dynamic.Resource(v1alpha1.SetResource()).List(t.Context(), metav1.ListOptions{}))(t).Items {
		if set.GetName() == "teams" {
			found += map[string]string{w.argo: "argo", w.TestNamespace: "runtime"}[set.GetNamespace()]
		}
	}
	return found
}

// TestMigrateSet: R121: an ApplicationSet is taken over with its Applications, which
// the runtime's set adopts, and returned; the objects are the same all the time.
func TestMigrateSet(t *testing.T) {
	w := newWorld(t, "shop", "web")
	before := w.identity(t, "shop") + w.identity(t, "web")
	set := w.Apply(t, w.argo, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: ApplicationSet
metadata: {name: teams}
spec:
  goTemplate: true
  generators: [{list: {elements: [{name: shop}, {name: web}]}}]
  syncPolicy: {preserveResourcesOnDeletion: true}
  template:
    metadata: {name: "{{ .name }}", labels: {app: "{{ .name }}"}}
    spec:
      project: default
      source: {repoURL: %q, path: "{{ .name }}", targetRevision: main}
      destination: {server: https://kubernetes.default.svc, namespace: %s}
      syncPolicy: {automated: {prune: true}}
`, w.git.URL(), w.target))[0]
	for _, name := range []string{"shop", "web"} {
		kubetest.Patch(t, w.Dynamic.Resource(clitest.Applications).Namespace(w.argo), name,
			fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"argoproj.io/v1alpha1","kind":"ApplicationSet","name":"teams","uid":%q,"controller":true}]}}`, set.GetUID()))
	}
	// One by one they are refused: the set would make them again.
	if got := w.migrate(t, "shop --take-over --yes"); got.Code != 1 || !strings.Contains(got.Stdout, "--set "+w.argo+"/teams") || w.places(t)["shop"] != "argo" {
		t.Errorf("%+v", got)
	}
	if got := w.migrate(t, "--set teams --take-over --dry-run"); got.Code != 0 || !strings.Contains(got.Stderr, "delete ApplicationSet "+w.argo+"/teams") || w.sets(t) != "argo" {
		t.Errorf("%+v", got)
	}
	if got := w.migrate(t, "--set teams --take-over --yes"); got.Code != 0 || !strings.Contains(got.Stderr, "2 Applications taken over. Untouched resources: 2 of 2") {
		t.Fatalf("%+v", got)
	}
	if places := w.places(t); places["shop"] != "runtime" || places["web"] != "runtime" || w.sets(t) != "runtime" {
		t.Errorf("%v, %s", places, w.sets(t))
	}
	ours := must.Get(w.Dynamic.Resource(clitest.Applications).Namespace(w.TestNamespace).Get(t.Context(), "web", metav1.GetOptions{}))(t)
	if owners := ours.GetOwnerReferences(); len(owners) != 1 || owners[0].Name != "teams" || ours.GetAnnotations()["slipway.dev/migrated-from"] == "" {
		t.Errorf("%+v", ours.Object["metadata"])
	}
	if got := w.migrate(t, "--set teams --back --yes"); got.Code != 0 || !strings.Contains(got.Stderr, "2 Applications returned") {
		t.Fatalf("%+v", got)
	}
	if places := w.places(t); places["shop"] != "argo" || places["web"] != "argo" || w.sets(t) != "argo" {
		t.Errorf("%v, %s", places, w.sets(t))
	}
	if after := w.identity(t, "shop") + w.identity(t, "web"); after != before {
		t.Errorf("%s became %s", before, after)
	}
}

// TestCopySettings: the runtime gets the Secrets and ConfigMaps that it lacks, and
// keeps what it has; no password is shown.
func TestCopySettings(t *testing.T) {
	w := newWorld(t, "shop")
	const password = "correct-horse"
	w.Apply(t, w.argo, `apiVersion: v1
kind: Secret
metadata: {name: repo, labels: {argocd.argoproj.io/secret-type: repository}}
stringData: {url: "`+w.git.URL()+`", username: a, password: `+password+`}
---
apiVersion: v1
kind: Secret
metadata: {name: far, labels: {argocd.argoproj.io/secret-type: cluster}}
stringData: {server: "https://far.example.com", config: '{"bearerToken": "`+password+`"}'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-cm}
data: {url: "https://argocd.example.com", resource.customizations.health.batch_Job: "return {status = 'Healthy'}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-rbac-cm}
data: {policy.default: "role:admin"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: argocd-tls-certs-cm}
data: {git.example.com: theirs}
`)
	w.Apply(t, w.TestNamespace, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: argocd-tls-certs-cm}\ndata: {git.example.com: ours}\n")
	// The cluster has Applications of other tests, too, none of which is ready.
	got := w.migrate(t, "")
	for _, want := range []string{"--copy-settings", "the runtime's own has other values of git.example.com"} {
		if !strings.Contains(got.Stdout, want) || !strings.Contains(got.Stderr, "can be taken over: 0 of ") {
			t.Errorf("%+v", got)
		}
	}
	if got := w.migrate(t, "--copy-settings --yes"); got.Code != 0 || strings.Contains(got.Stdout+got.Stderr, password) {
		t.Fatalf("%+v", got)
	}
	copied := must.Get(w.Client.CoreV1().Secrets(w.TestNamespace).Get(t.Context(), "repo", metav1.GetOptions{}))(t)
	if string(copied.Data["password"]) != password || copied.Labels["argocd.argoproj.io/secret-type"] != "repository" {
		t.Errorf("%v", copied.Labels)
	}
	settings := must.Get(w.Client.CoreV1().ConfigMaps(w.TestNamespace).Get(t.Context(), "argocd-cm", metav1.GetOptions{}))(t)
	kept := must.Get(w.Client.CoreV1().ConfigMaps(w.TestNamespace).Get(t.Context(), "argocd-tls-certs-cm", metav1.GetOptions{}))(t)
	if len(settings.Data) != 1 || kept.Data["git.example.com"] != "ours" {
		t.Errorf("%v, %v", settings.Data, kept.Data)
	}
	// Access to clusters and rights are for an administrator to give.
	if _, err := w.Client.CoreV1().Secrets(w.TestNamespace).Get(t.Context(), "far", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	if _, err := w.Client.CoreV1().ConfigMaps(w.TestNamespace).Get(t.Context(), "argocd-rbac-cm", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	if got := w.migrate(t, "--copy-settings --yes"); got.Code != 0 || !strings.Contains(got.Stderr, "0 objects to copy") {
		t.Errorf("%+v", got)
	}
	if got := w.migrate(t, ""); !strings.Contains(got.Stderr, "can be taken over: 1 of ") {
		t.Errorf("%+v", got)
	}
}

// TestMigrateUsage: what does not go together is refused before anything is read.
func TestMigrateUsage(t *testing.T) {
	clitest.Clean(t)
	for line, want := range map[string]string{
		"--take-over --back --all":         "do not go together",
		"--take-over":                      "which Applications?",
		"--all shop --back":                "--all does not go with",
		"--to argocd":                      "the same namespace",
		"--selector a==b==c --back":        "--selector",
		"a/b/c":                            "no name of an Application",
		"--all --take-over --group-size 0": "at least 1",
		"--set a --all --back":             "--set does not go with",
		"--set a/b/c --back":               "no name of an ApplicationSet",
		"--copy-settings --all":            "for the whole installation",
	} {
		if got := clitest.Run(t, "migrate argocd "+line); got.Code != 2 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
