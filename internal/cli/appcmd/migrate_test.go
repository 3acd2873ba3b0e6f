package appcmd_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// TestAppMigrate: R29: the command against a real agent: the list, a dry run, the move
// after a question, and the way back, with the ConfigMap the same all the time.
func TestAppMigrate(t *testing.T) {
	w := clitest.NewAppWorld(t)
	argo := w.Namespace(t)
	w.StartAgent(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/settings.yaml": movedSettings})
	argoHas(t, w, argo, repository.URL())
	settings := func() string {
		t.Helper()
		one := must.Get(w.Client.CoreV1().ConfigMaps(w.TestNamespace).Get(t.Context(), "settings", metav1.GetOptions{}))(t)
		return string(one.UID) + " " + one.Annotations["argocd.argoproj.io/tracking-id"]
	}
	before := settings()
	line := "migrate " + argo + "/shop --to " + w.TestNamespace

	if got := w.App(t, "migrate -A --to "+w.TestNamespace+" -n "+argo); got.Code == 0 {
		t.Errorf("-A is no flag: %+v", got)
	}
	if got := w.App(t, "migrate --to "+w.TestNamespace+" -n "+argo); got.Code != 0 || !strings.Contains(got.Stdout, argo+"/shop") || !strings.Contains(got.Stdout, "yes") {
		t.Errorf("%+v", got)
	}
	if got := w.App(t, line+" --dry-run"); got.Code != 0 || !strings.Contains(got.Stdout, "skip-reconcile") || !strings.Contains(got.Stdout, "delete Application") || strings.Contains(got.Stdout, "\ufffd") || settings() != before {
		t.Errorf("%+v", got)
	}
	if got := w.App(t, line); got.Code != 2 || !strings.Contains(got.Stderr, "--yes") || settings() != before {
		t.Errorf("%+v", got)
	}
	if got := w.App(t, line+" --yes"); got.Code != 0 || !strings.Contains(got.Stdout, "untouched") || settings() != before {
		t.Fatalf("%+v: %s became %s", got, before, settings())
	}
	if got := w.App(t, "get shop"); got.Code != 0 || !strings.Contains(got.Stdout, "Synced") {
		t.Errorf("%+v", got)
	}
	if got := w.App(t, line+" --back --yes"); got.Code != 0 || settings() != before {
		t.Fatalf("%+v: %s became %s", got, before, settings())
	}
	if got := w.App(t, "get "+argo+"/shop"); got.Code != 0 {
		t.Errorf("%+v", got)
	}
	if got := w.App(t, line+" --back --yes"); got.Code != 1 || !strings.Contains(got.Stderr, "nothing to take back") {
		t.Errorf("%+v", got)
	}
	if got := w.App(t, line+" --runtime prod"); got.Code != 2 {
		t.Errorf("through a platform: %+v", got)
	}
}

// movedSettings is the manifest of an object that an Application manages when
// it is migrated.
const movedSettings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: green}\n"

// argoHas creates the Application shop and its ConfigMap as Argo CD leaves them
// after a sync: with its tracking annotation, and a status that is Synced. No
// Argo CD runs.
func argoHas(t *testing.T, w *clitest.AppWorld, argo, address string) {
	t.Helper()
	w.ApplyManifests(t, strings.Replace(movedSettings, "{name: settings}", "{name: settings, annotations: {argocd.argoproj.io/tracking-id: 'shop:/ConfigMap:NAMESPACE/settings'}}", 1))
	w.Apply(t, argo, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: %q, path: deploy, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy: {automated: {prune: true}}
`, address, w.TestNamespace))
	status := must.Get(json.Marshal(map[string]any{"status": map[string]any{
		"sync":      map[string]any{"status": "Synced", "comparedTo": map[string]any{"source": map[string]any{"repoURL": address}, "destination": map[string]any{}}},
		"resources": []any{map[string]any{"version": "v1", "kind": "ConfigMap", "namespace": w.TestNamespace, "name": "settings", "status": "Synced"}},
	}}))(t)
	kubetest.Patch(t, w.Dynamic.Resource(clitest.Applications).Namespace(argo), "shop", string(status))
}
