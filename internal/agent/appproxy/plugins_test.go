package appproxy_test

import (
	"context"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/agent/appproxy"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/plugin"
	"slipway.dev/slipway/internal/gitops/plugintest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/runtimev1"
)

// TestDiffWithPlugins: the difference of a source that a plugin generates, by its
// name or by discovery, is made with the plugin, within the right of the project.
func TestDiffWithPlugins(t *testing.T) {
	folder := plugintest.Folder(t)
	for name, discover := range map[string]func(plugintest.Request) bool{
		"named": nil, "discovered": func(got plugintest.Request) bool { return got.Files["discover"] != "" },
	} {
		plugintest.Serve(t, folder, name, plugintest.Plugin{Discover: discover, Generate: func(context.Context, plugintest.Request) ([]string, error) {
			return []string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made-by-" + name + "}\n"}, nil
		}})
	}
	w := newWorld(t, func(options *appproxy.Options) { options.Plugins = plugin.New(folder, programs.Timeout) })
	project := func(plugins string) {
		w.apply(t, strings.ReplaceAll(`apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: narrow, annotations: {slipway.dev/plugins: "PLUGINS"}}
spec:
  sourceRepos: ["*"]
  destinations: [{server: https://kubernetes.default.svc, namespace: NAMESPACE}]
  namespaceResourceWhitelist: [{group: "", kind: ConfigMap}]
`, "PLUGINS", plugins))
	}
	repository := gittest.Serve(t).Repository(t, "shop", map[string]string{"discover": "me", "a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plain}\n"})
	for _, one := range []struct{ allowed, options, made, reason string }{
		{"named", ", plugin: {name: named}", "made-by-named", ""},
		{"other", ", plugin: {name: named}", "", `does not allow the config management plugin "named"`},
		{"*", "", "made-by-discovered", ""},
		{"named", "", "plain", ""},
	} {
		project(one.allowed)
		w.apply(t, strings.NewReplacer("REPOSITORY", repository.URL(), "OPTIONS", one.options).Replace(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop}
spec:
  project: narrow
  source: {repoURL: "REPOSITORY", path: ".", targetRevision: mainOPTIONS}
  destination: {server: https://kubernetes.default.svc, namespace: NAMESPACE}
`))
		response, err := w.apps(t).Diff(t.Context(), connect.NewRequest(&runtimev1.DiffRequest{Ref: shopRef()}))
		switch {
		case one.reason != "":
			if err == nil || !strings.Contains(err.Error(), one.reason) {
				t.Errorf("%+v: %v", one, err)
			}
		case err != nil || len(response.Msg.Objects) != 1 || response.Msg.Objects[0].Ref.Name != one.made:
			t.Errorf("%+v: %v, %v", one, response, err)
		}
	}
}
