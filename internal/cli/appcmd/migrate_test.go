package appcmd_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/gitops/gittest"
)

// TestAppMigrate: R29: the command against a real agent: the list, a dry run, the move
// after a question, and the way back, with the ConfigMap the same all the time.
func TestAppMigrate(t *testing.T) {
	w := clitest.NewAppWorld(t)
	argo := w.Namespace(t)
	w.StartAgent(t)
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/settings.yaml": clitest.MovedSettings})
	w.ArgoHas(t, argo, repository.URL())
	settings := func() string {
		t.Helper()
		one, err := w.Client.CoreV1().ConfigMaps(w.TestNamespace).Get(t.Context(), "settings", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
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
	if got := w.App(t, line+" --dry-run"); got.Code != 0 || !strings.Contains(got.Stdout, "skip-reconcile") || !strings.Contains(got.Stdout, "delete Application") || settings() != before {
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
