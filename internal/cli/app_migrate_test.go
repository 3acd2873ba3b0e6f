package cli_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/internal/gitops/gittest"
)

const movedSettings = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {colour: green}\n"

// TestAppMigrate: R29: the command against a real agent: the list, a dry run, the move
// after a question, and the way back, with the ConfigMap the same all the time.
func TestAppMigrate(t *testing.T) {
	w := newAppWorld(t)
	argo := w.Namespace(t)
	w.startAgent(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/settings.yaml": movedSettings})
	w.argoHas(t, argo, repository.URL())
	settings := func() string {
		t.Helper()
		one, err := w.Client.CoreV1().ConfigMaps(w.namespace).Get(t.Context(), "settings", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return string(one.UID) + " " + one.Annotations["argocd.argoproj.io/tracking-id"]
	}
	before := settings()
	line := "migrate " + argo + "/shop --to " + w.namespace

	if got := w.app(t, "migrate -A --to "+w.namespace+" -n "+argo); got.code == 0 {
		t.Errorf("-A is no flag: %+v", got)
	}
	if got := w.app(t, "migrate --to "+w.namespace+" -n "+argo); got.code != 0 || !strings.Contains(got.stdout, argo+"/shop") || !strings.Contains(got.stdout, "yes") {
		t.Errorf("%+v", got)
	}
	if got := w.app(t, line+" --dry-run"); got.code != 0 || !strings.Contains(got.stdout, "skip-reconcile") || !strings.Contains(got.stdout, "delete Application") || settings() != before {
		t.Errorf("%+v", got)
	}
	if got := w.app(t, line); got.code != 2 || !strings.Contains(got.stderr, "--yes") || settings() != before {
		t.Errorf("%+v", got)
	}
	if got := w.app(t, line+" --yes"); got.code != 0 || !strings.Contains(got.stdout, "untouched") || settings() != before {
		t.Fatalf("%+v: %s became %s", got, before, settings())
	}
	if got := w.app(t, "get shop"); got.code != 0 || !strings.Contains(got.stdout, "Synced") {
		t.Errorf("%+v", got)
	}
	if got := w.app(t, line+" --back --yes"); got.code != 0 || settings() != before {
		t.Fatalf("%+v: %s became %s", got, before, settings())
	}
	if got := w.app(t, "get "+argo+"/shop"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := w.app(t, line+" --back --yes"); got.code != 1 || !strings.Contains(got.stderr, "nothing to take back") {
		t.Errorf("%+v", got)
	}
	if got := w.app(t, line+" --runtime prod"); got.code != 2 {
		t.Errorf("through a platform: %+v", got)
	}
}

// argoHas makes an Application as Argo CD leaves it after a sync.
func (w *appWorld) argoHas(t *testing.T, argo, address string) {
	t.Helper()
	w.apply(t, strings.Replace(movedSettings, "{name: settings}", "{name: settings, annotations: {argocd.argoproj.io/tracking-id: 'shop:/ConfigMap:NAMESPACE/settings'}}", 1))
	w.Apply(t, argo, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: default
  source: {repoURL: %q, path: deploy, targetRevision: main}
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy: {automated: {prune: true}}
`, address, w.namespace))
	status := mustJSON(t, map[string]any{"status": map[string]any{
		"sync":      map[string]any{"status": "Synced", "comparedTo": map[string]any{"source": map[string]any{"repoURL": address}, "destination": map[string]any{}}},
		"resources": []any{map[string]any{"version": "v1", "kind": "ConfigMap", "namespace": w.namespace, "name": "settings", "status": "Synced"}},
	}})
	_, err := w.Dynamic.Resource(applications).Namespace(argo).Patch(t.Context(), "shop", types.MergePatchType, status, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
