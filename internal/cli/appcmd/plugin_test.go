package appcmd_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/plugintest"
)

// TestAppDiffOfPlugin: plugins run beside the agent. On the machine of a user the
// difference of such an Application is an error, and not that of its files.
func TestAppDiffOfPlugin(t *testing.T) {
	w := clitest.NewAppWorld(t)
	folder := plugintest.Folder(t)
	plugintest.Serve(t, folder, "values", plugintest.Plugin{
		Discover: func(plugintest.Request) bool { return true },
		Generate: func(context.Context, plugintest.Request) ([]string, error) {
			return []string{clitest.ConfigMap("made", "1")}, nil
		},
	})
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"deploy/one.yaml": clitest.ConfigMap("one", "1")})
	w.StartAgent(t, "--plugins.socketDir="+folder)
	w.ManualApp(t, repository, "")
	w.Await(t, "shop", func(app *unstructured.Unstructured) error {
		if kind, _, _ := unstructured.NestedString(app.Object, "status", "sourceType"); kind != "Plugin" {
			return errors.New("no plugin has matched it")
		}
		return nil
	})
	diff := func(want string) {
		t.Helper()
		if got := w.App(t, "diff shop --control-namespace "+w.TestNamespace); got.Code != 2 || !strings.Contains(got.Stderr, want) {
			t.Errorf("%+v", got)
		}
	}
	diff("a config management plugin generates")
	w.Patch(t, "shop", map[string]any{"spec": map[string]any{"source": map[string]any{"plugin": map[string]any{"name": "values"}}}})
	diff("config management plugins run beside the agent only")
	if got := w.App(t, "sync shop --timeout 60s"); got.Code != 0 || !w.Has(t, "made") || w.Has(t, "one") {
		t.Errorf("%+v", got)
	}
}
