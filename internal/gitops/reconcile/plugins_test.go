package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/plugin"
	"slipway.dev/slipway/internal/gitops/plugintest"
	"slipway.dev/slipway/internal/gitops/project"
)

// generated is a plugin's output: a ConfigMap with the value of a file and the
// revision.
func generated(_ context.Context, got plugintest.Request) ([]string, error) {
	value, found := got.Files[got.Folder+"/value"]
	if !found {
		return nil, errors.New("there is no value")
	}
	return []string{configMap("made", value+got.Variables["ARGOCD_ENV_SUFFIX"])}, nil
}

// pluginWorld is a world with a folder for plugins, which polls often.
func pluginWorld(t *testing.T) (*world, string) {
	w, folder := newWorld(t), plugintest.Folder(t)
	w.options.Plugins = plugin.New(folder, patience)
	w.options.Interval, w.options.Jitter = 300*time.Millisecond, time.Millisecond
	return w, folder
}

// plugged makes an Application of a project with the options of a plugin.
func (w *world) plugged(project, name string, from *gittest.Repository, options string) {
	w.t.Helper()
	w.cluster.Apply(w.t, w.control, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: %s}
spec:
  project: %s
  source: {repoURL: %q, path: app, targetRevision: main%s}
  destination: {server: https://kubernetes.default.svc, namespace: %s}
  syncPolicy: {automated: {prune: true, selfHeal: true}}
`, name, project, from.URL(), options, w.target))
}

// refreshed refreshes an Application, and waits until that is done.
func (w *world) refreshed(name, how string) {
	w.t.Helper()
	w.patch(name, `{"metadata": {"annotations": {"argocd.argoproj.io/refresh": "`+how+`"}}}`)
	w.wait(name, func(app *v1alpha1.Application) error {
		if app.Annotations["argocd.argoproj.io/refresh"] != "" {
			return errors.New("the refresh is not done")
		}
		return nil
	})
}

// TestPlugin: a plugin is called once for each revision, its error is that of the
// Application and prunes nothing, and it is called again after an error.
func TestPlugin(t *testing.T) {
	w, folder := pluginWorld(t)
	var broken atomic.Bool
	server := plugintest.Serve(t, folder, "values", plugintest.Plugin{Generate: func(ctx context.Context, got plugintest.Request) ([]string, error) {
		if broken.Load() {
			return nil, errors.New("the key is gone")
		}
		return generated(ctx, got)
	}})
	repository := w.repository("shop", map[string]string{"app/value": "one", "beside": "0"})
	w.start()
	w.plugged("default", "shop", repository, `, plugin: {name: values, env: [{name: SUFFIX, value: -$ARGOCD_APP_NAME}]}`)
	app := w.synced("shop", repository.Head(t))
	w.value("made", "one-shop")
	if app.Status.SourceType != v1alpha1.SourcePlugin {
		t.Errorf("the type of the source is %q", app.Status.SourceType)
	}
	w.synced("shop", repository.Commit(t, map[string]string{"app/value": "two"}, "two"))
	w.value("made", "two-shop")
	if calls := server.Generated.Load(); calls != 2 {
		t.Errorf("the plugin was called %d times for two revisions", calls)
	}
	broken.Store(true)
	repository.Commit(t, map[string]string{"app/value": "three"}, "three")
	w.condition("shop", v1alpha1.ConditionComparisonError, `plugin "values": it failed: the key is gone`)
	if !w.exists("made") {
		t.Error("an error of the plugin has pruned what it made before")
	}
	broken.Store(false)
	w.value("made", "three-shop")
	before := server.Generated.Load()
	w.refreshed("shop", "hard")
	if calls := server.Generated.Load(); calls != before+1 {
		t.Errorf("a hard refresh has called the plugin %d times", calls-before)
	}
	repository.Commit(t, map[string]string{"app/.argocd-source.yaml": "plugin: {env: [{name: SUFFIX, value: -overridden}]}"}, "override")
	w.value("made", "three-overridden")
}

// TestPluginOutput: what a plugin generates is text of a stranger: what is no
// manifest is an error, and the gate of the project is for its objects too.
func TestPluginOutput(t *testing.T) {
	w, folder := pluginWorld(t)
	for name, output := range map[string]string{
		"text": "hello", "bomb": "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + bomb(), "role": "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: made-by-plugin}",
	} {
		plugintest.Serve(t, folder, name, plugintest.Plugin{Generate: func(context.Context, plugintest.Request) ([]string, error) { return []string{output}, nil }})
	}
	w.cluster.Apply(t, w.control, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: team, annotations: {%s: "te*, bomb, role"}}
spec: {sourceRepos: ['*'], destinations: [{server: '*', namespace: %s}]}
`, project.PluginsAnnotation, w.target))
	repository := w.repository("shop", map[string]string{"app/value": "one"})
	w.start()
	for name, want := range map[string]string{
		"text": `the output of plugin "text" is not an object`, "bomb": "alias",
	} {
		w.plugged("team", name, repository, ", plugin: {name: "+name+"}")
		w.condition(name, v1alpha1.ConditionComparisonError, want)
	}
	w.plugged("team", "role", repository, ", plugin: {name: role}")
	w.wait("role", func(app *v1alpha1.Application) error {
		if state := app.Status.OperationState; state == nil || !strings.Contains(state.Message, "project team does not allow ClusterRole") {
			return fmt.Errorf("it has %s", summaryOf(app))
		}
		return nil
	})
	// A file of the repository names a plugin that the project may not use.
	server := plugintest.Serve(t, folder, "other", plugintest.Plugin{Generate: generated, Discover: func(plugintest.Request) bool { return true }})
	override := w.repository("override", map[string]string{"app/value": "one", "app/.argocd-source.yaml": "plugin: {name: other}"})
	w.plugged("team", "override", override, "")
	w.condition("override", v1alpha1.ConditionInvalidSpecError, `does not allow the config management plugin "other": add it to the annotation slipway.dev/plugins`)
	w.plugged("team", "named", repository, ", plugin: {name: other}")
	w.condition("named", v1alpha1.ConditionInvalidSpecError, `spec.source.plugin: project team does not allow the config management plugin "other"`)
	w.plugged("team", "gone", repository, ", plugin: {name: text-2}")
	w.condition("gone", v1alpha1.ConditionComparisonError, "there is no such plugin")
	if calls := server.Generated.Load() + server.Matched.Load(); calls != 0 {
		t.Errorf("a plugin that the project may not use was called %d times", calls)
	}
}

// bomb is YAML whose aliases expand to much.
func bomb() string {
	var text strings.Builder
	for i := 'b'; i < 'k'; i++ {
		fmt.Fprintf(&text, "%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c, *%c]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	return text.String()
}

// TestPluginDiscovery: a source without options of a type is that of the plugin
// that matches it, which is asked again when the folder changes and not for every
// commit; without its plugin the source is an error, and nothing is pruned.
func TestPluginDiscovery(t *testing.T) {
	w, folder := pluginWorld(t)
	server := plugintest.Serve(t, folder, "values", plugintest.Plugin{
		Generate: generated, Discover: func(got plugintest.Request) bool { _, found := got.Files[got.Folder+"/value"]; return found },
	})
	matched := w.repository("matched", map[string]string{"app/value": "one"})
	plain := w.repository("plain", map[string]string{"app/a.yaml": configMap("plain", "one")})
	w.start()
	w.plugged("default", "matched", matched, "")
	w.plugged("default", "plain", plain, "")
	w.synced("matched", matched.Head(t))
	w.value("made", "one")
	if app := w.synced("plain", plain.Head(t)); app.Status.SourceType != v1alpha1.SourceDirectory {
		t.Errorf("the type of the source is %q", app.Status.SourceType)
	}
	before := server.Matched.Load()
	plain.Commit(t, map[string]string{"beside": "1"}, "beside")
	w.refreshed("plain", "normal")
	if more := server.Matched.Load() - before; more != 0 {
		t.Errorf("a commit beside the folder was matched %d times", more)
	}
	plain.Commit(t, map[string]string{"app/value": "two"}, "for the plugin")
	w.wait("plain", func(app *v1alpha1.Application) error {
		if app.Status.SourceType != v1alpha1.SourcePlugin {
			return fmt.Errorf("the type of the source is %q", app.Status.SourceType)
		}
		return nil
	})
	matched.Commit(t, map[string]string{"app/value": gittest.Gone, "app/a.yaml": configMap("instead", "one")}, "not for the plugin")
	w.condition("matched", v1alpha1.ConditionComparisonError, "a config management plugin matched the source before, and none does now")
	if w.exists("instead") || !w.exists("made") {
		t.Error("a source that no plugin matches any more was synced")
	}
}
