package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/plugin"
	"slipway.dev/slipway/internal/gitops/plugintest"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// files is a repository with an application, and files beside it.
func files() tree.Store {
	return tree.NewMemory(map[string]string{"apps/shop/values.env": "a=1", "apps/other/x": "y", "README": strings.Repeat("long ", 100_000)})
}

// request is that of an Application with the options of a plugin.
func request(options *v1alpha1.ApplicationSourcePlugin) *render.Request {
	return &render.Request{
		App: "shop", Project: "team", Namespace: "prod", KubeVersion: "v1.36.1", APIVersions: []string{"v1", "apps/v1/Deployment"},
		Inputs: []render.Input{{
			Source: v1alpha1.ApplicationSource{RepoURL: "https://git.example/apps.git", Path: "apps/shop", TargetRevision: "main", Plugin: options},
			Store:  files(), Path: "apps/shop", Revision: "0123456789abcdef",
		}},
	}
}

// generate calls a plugin by its options as JSON.
func generate(t *testing.T, plugins *plugin.Plugins, options string) ([]byte, error) {
	t.Helper()
	call := must.Get(plugin.NewCall(request(nil), render.Dependency{Plugin: options}))(t)
	return plugins.Generate(t.Context(), call)
}

// empty is a plugin that generates nothing.
func empty(context.Context, plugintest.Request) ([]string, error) { return nil, nil }

// TestGenerate: a plugin gets all files and the variables that Argo CD documents,
// and its manifests are returned in their order.
func TestGenerate(t *testing.T) {
	folder := plugintest.Folder(t)
	calls := make(chan plugintest.Request, 1)
	plugintest.Serve(t, folder, "envsubst-v1.0", plugintest.Plugin{Generate: func(_ context.Context, sent plugintest.Request) ([]string, error) {
		calls <- sent
		return []string{`{"kind": "A"}`, "kind: B"}, nil
	}})
	output, err := generate(t, plugin.New(folder, programs.Timeout), `{"name": "envsubst-v1.0", "env": [{"name": "A", "value": "x $ARGOCD_APP_NAME $$ ${KUBE_VERSION} $HOME"}],
		"parameters": [{"name": "values-files", "array": ["a.yaml", "b.yaml"]}, {"name": "image", "map": {"tag": "v1", "a.b": "<c>"}}, {"name": "x", "string": ""}]}`)
	if err != nil || string(output) != "{\"kind\": \"A\"}\n---\nkind: B" {
		t.Errorf("%q, %v", output, err)
	}
	got := <-calls
	if got.Folder != "apps/shop" || got.FolderName != "shop" || len(got.Files) != 3 || got.Files["apps/shop/values.env"] != "a=1" || len(got.Files["README"]) != 500_000 {
		t.Errorf("the plugin got %q %q and %d files", got.Folder, got.FolderName, len(got.Files))
	}
	if want := map[string]string{
		"ARGOCD_APP_NAME": "shop", "ARGOCD_APP_NAMESPACE": "prod", "ARGOCD_APP_PROJECT_NAME": "team",
		"ARGOCD_APP_REVISION": "0123456789abcdef", "ARGOCD_APP_REVISION_SHORT": "0123456", "ARGOCD_APP_REVISION_SHORT_8": "01234567",
		"ARGOCD_APP_SOURCE_REPO_URL": "https://git.example/apps.git", "ARGOCD_APP_SOURCE_PATH": "apps/shop", "ARGOCD_APP_SOURCE_TARGET_REVISION": "main",
		"KUBE_VERSION": "1.36.1", "KUBE_API_VERSIONS": "v1,apps/v1/Deployment", "ARGOCD_ENV_A": "x shop $ 1.36.1 ",
		"ARGOCD_APP_PARAMETERS": `[{"array":["a.yaml","b.yaml"],"name":"values-files"},{"map":{"a.b":"\u003cc\u003e","tag":"v1"},"name":"image"},{"name":"x","string":""}]`,
		"PARAM_VALUES_FILES_0":  "a.yaml", "PARAM_VALUES_FILES_1": "b.yaml", "PARAM_IMAGE_TAG": "v1", "PARAM_IMAGE_A_B": "<c>", "PARAM_X": "",
	}; !reflect.DeepEqual(got.Variables, want) {
		t.Errorf("the plugin got the variables %v", got.Variables)
	}
}

// TestErrors: what a plugin does wrong, and what is wrong with it, is in the error.
func TestErrors(t *testing.T) {
	folder := plugintest.Folder(t)
	serve := func(name string, plugin plugintest.Plugin) { plugintest.Serve(t, folder, name, plugin) }
	serve("fails", plugintest.Plugin{Generate: func(context.Context, plugintest.Request) ([]string, error) {
		return nil, errors.New("error generating manifests: `sh -c false` failed exit status 1: no such key")
	}})
	serve("large", plugintest.Plugin{Generate: func(context.Context, plugintest.Request) ([]string, error) {
		return []string{strings.Repeat("x", plugin.MaxOutputBytes)}, nil
	}})
	serve("fits", plugintest.Plugin{Generate: func(context.Context, plugintest.Request) ([]string, error) {
		return []string{strings.Repeat("x", plugin.MaxOutputBytes-8)}, nil
	}})
	serve("credentials", plugintest.Plugin{Generate: empty, GitCreds: true})
	serve("others", plugintest.Plugin{Generate: empty, Discover: func(plugintest.Request) bool { return false }})
	serve("matching", plugintest.Plugin{Generate: empty, Discover: func(plugintest.Request) bool { return true }})
	must.Do(t, os.WriteFile(filepath.Join(folder, "file.sock"), nil, 0o600))
	must.Do(t, os.Symlink(filepath.Join(folder, "fits.sock"), filepath.Join(folder, "link.sock")))
	plugins := plugin.New(folder, programs.Timeout)
	for name, want := range map[string]string{
		"fails": "it failed: error generating manifests: `sh -c false` failed exit status 1: no such key",
		"large": "its output is larger than 10485760 bytes", "fits": "",
		"credentials": "provideGitCreds", "others": "its discovery does not match the source", "matching": "",
		"gone": "there is no such plugin", "file": "file.sock is not a socket", "link": "link.sock is not a socket",
		"../x": "is not the name of a plugin", "": "is not the name of a plugin",
	} {
		_, err := generate(t, plugins, fmt.Sprintf(`{"name": %q}`, name))
		failure, _ := errors.AsType[*plugin.Error](err)
		if want == "" && err != nil || want != "" && (failure == nil || failure.Slow || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// TestSlow: a plugin that does not respond is left after the timeout: one that
// generates without end, and one that accepts nothing.
func TestSlow(t *testing.T) {
	folder := plugintest.Folder(t)
	plugintest.Serve(t, folder, "hangs", plugintest.Plugin{Generate: func(ctx context.Context, _ plugintest.Request) ([]string, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	listener := must.Get(net.Listen("unix", filepath.Join(folder, "silent.sock")))(t)
	defer listener.Close()
	for _, name := range []string{"hangs", "silent"} {
		_, err := generate(t, plugin.New(folder, time.Second), fmt.Sprintf(`{"name": %q}`, name))
		if failure, _ := errors.AsType[*plugin.Error](err); failure == nil || !failure.Slow || !strings.Contains(err.Error(), "it took longer than 1s and was stopped") {
			t.Errorf("%s: %v", name, err)
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	call := must.Get(plugin.NewCall(request(nil), render.Dependency{Plugin: `{"name": "hangs"}`}))(t)
	if _, err := plugin.New(folder, programs.Timeout).Generate(canceled, call); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

// TestMatch: the first plugin with discovery that is allowed and matches is
// chosen; one that fails counts only if no other matches.
func TestMatch(t *testing.T) {
	folder := plugintest.Folder(t)
	env := func(got plugintest.Request) bool { _, found := got.Files[got.Folder+"/values.env"]; return found }
	plugintest.Serve(t, folder, "a-undiscovered", plugintest.Plugin{Generate: empty})
	plugintest.Serve(t, folder, "b-other", plugintest.Plugin{Discover: func(plugintest.Request) bool { return false }})
	plugintest.Serve(t, folder, "c-env", plugintest.Plugin{Discover: env})
	plugintest.Serve(t, folder, "d-env", plugintest.Plugin{Discover: env})
	listener := must.Get(net.Listen("unix", filepath.Join(folder, "0-broken.sock")))(t)
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	must.Do(t, listener.Close())
	plugins := plugin.New(folder, programs.Timeout)
	for _, one := range []struct{ allowed, want, problem string }{
		{"*", "c-env", ""},
		{"d-*", "d-env", ""},
		{"b-*", "", ""},
		{"a-*", "", ""},
		{"0-*", "", "plugin 0-broken: it cannot be called"},
		{"", "", ""},
	} {
		candidates := plugins.Candidates(func(name string) error {
			if matched, _ := filepath.Match(one.allowed, name); !matched {
				return errors.New("it is not allowed")
			}
			return nil
		})
		name, err := plugins.Match(t.Context(), plugin.NewMatch(request(nil), 0), candidates)
		if name != one.want || one.problem == "" && err != nil || one.problem != "" && (err == nil || !strings.Contains(err.Error(), one.problem)) {
			t.Errorf("%q: %q, %v", one.allowed, name, err)
		}
	}
	// A plugin that failed is not matched again for a while.
	must.Do(t, os.Remove(filepath.Join(folder, "0-broken.sock")))
	repaired := plugintest.Serve(t, folder, "0-broken", plugintest.Plugin{Discover: env})
	if name, err := plugins.Match(t.Context(), plugin.NewMatch(request(nil), 0), []string{"0-broken"}); err == nil || repaired.Matched.Load() != 0 {
		t.Errorf("right after it failed: %q, %v", name, err)
	}
	if name, err := plugin.New(folder, programs.Timeout).Match(t.Context(), plugin.NewMatch(request(nil), 0), []string{"0-broken"}); name != "0-broken" || err != nil {
		t.Errorf("repaired: %q, %v", name, err)
	}
	if names := plugin.New(folder+"/none", time.Second).Names(); names != nil {
		t.Errorf("without a folder: %v", names)
	}
}

// TestKeys: calls are equal if files and variables are; a match is also for
// another revision with the same folder.
func TestKeys(t *testing.T) {
	keys := func(change func(*render.Request)) (string, string) {
		changed := request(nil)
		change(changed)
		call := must.Get(plugin.NewCall(changed, render.Dependency{Plugin: `{"name": "a"}`}))(t)
		return call.Key(), plugin.NewMatch(changed, 0).MatchKey([]string{"a", "b"})
	}
	call, match := keys(func(*render.Request) {})
	for name, one := range map[string]struct {
		change              func(*render.Request)
		sameCall, sameMatch bool
	}{
		"equal":    {func(*render.Request) {}, true, true},
		"revision": {func(r *render.Request) { r.Inputs[0].Revision = "fedcba" }, false, true},
		"beside": {func(r *render.Request) {
			r.Inputs[0].Store = tree.NewMemory(map[string]string{"apps/shop/values.env": "a=1"})
		}, false, true},
		"folder":  {func(r *render.Request) { r.Inputs[0].Store = tree.NewMemory(map[string]string{"apps/shop/a": "b"}) }, false, false},
		"cluster": {func(r *render.Request) { r.KubeVersion = "v1.37.0" }, false, false},
	} {
		otherCall, otherMatch := keys(one.change)
		if (otherCall == call) != one.sameCall || (otherMatch == match) != one.sameMatch || call == "" || match == "" {
			t.Errorf("%s: call %t, match %t", name, otherCall == call, otherMatch == match)
		}
	}
}
