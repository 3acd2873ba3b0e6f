package gitops

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/plugin"
	"slipway.dev/slipway/internal/gitops/plugintest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// testPlugins has an agent call plugins: one that works, and some that fail,
// hang, flood or are not allowed, while another Application goes on.
func (s *suite) testPlugins(t *testing.T) {
	h := &hostility{suite: s, git: gittest.Serve(t), control: s.cluster.Namespace(t), target: s.cluster.Namespace(t)}
	folder := plugintest.Folder(t)
	options := s.options(h.control, "--leaderElection.enabled=false", "--applications.workers=2", "--plugins.socketDir="+folder, "--plugins.timeout=10s")
	options.TraceFile = filepath.Join(t.TempDir(), "executed")
	agent := agentprocess.Start(t, options)
	stop := agent.FollowMemory()
	h.good = h.git.Repository(t, "good", settings("0"))
	s.application(t, h.control, h.target, "good", mainOf(h.good))
	agentprocess.Await(t, s.applications(h.control), "good", agentprocess.InOrder(h.good.Head(t)))

	t.Run("works", func(t *testing.T) { h.testWorkingPlugin(t, folder) })
	t.Run("hostile", func(t *testing.T) { h.testHostilePlugins(t, folder) })

	if peak := stop(); peak.Agent == 0 || peak.Agent > agentMemory {
		t.Errorf("the agent has had %d bytes, and may have %d", peak.Agent, agentMemory)
	}
	agent.Stop(t)
	s.checkExecuted(t, agent, options.TraceFile)
}

// testWorkingPlugin: an Application with a plugin is synced, and follows commits.
// The plugin has the files of the repository with their modes and links.
func (h *hostility) testWorkingPlugin(t *testing.T, folder string) {
	problems := make(chan error, 1)
	plugintest.Serve(t, folder, "substitute-v1", plugintest.Plugin{Generate: func(_ context.Context, got plugintest.Request) ([]string, error) {
		if got.Files["app/link"] != "-> ../beside/text" || got.Files["beside/text"] != "beside" || !slices.Equal(got.Executable, []string{"app/run.sh"}) || got.Files["elsewhere/out"] != "" {
			problems <- fmt.Errorf("the plugin got %q, and as programs %q", got.Files, got.Executable)
		}
		return []string{strings.NewReplacer("NAME", got.Variables["ARGOCD_APP_NAME"], "COLOUR", got.Variables["ARGOCD_ENV_COLOUR"], "SIZE", got.Variables["PARAM_SIZE"]).Replace(got.Files["app/template"])}, nil
	}})
	repository := h.git.Repository(t, "plugged", map[string]string{
		"app/template": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {colour: COLOUR, size: SIZE}\n", "beside/text": "beside",
	})
	repository.Program(t, "app/run.sh", "#!/bin/sh\n")
	repository.Link(t, "app/link", "../beside/text")
	repository.Link(t, "elsewhere/out", "../../../etc/passwd")
	repository.Submodule(t, "elsewhere/module")
	h.application(t, h.control, h.target, "plugged", fmt.Sprintf("{repoURL: %q, path: app, targetRevision: main, plugin: {name: substitute-v1, env: [{name: COLOUR, value: blue}], parameters: [{name: size, string: large}]}}", repository.URL()))
	app := agentprocess.Await(t, h.applications(h.control), "plugged", agentprocess.InOrder(repository.Head(t)))
	select {
	case err := <-problems:
		t.Error(err)
	default:
	}
	if app.Status.SourceType != v1alpha1.SourcePlugin || len(app.Status.Resources) != 1 || app.Status.Resources[0].Name != "plugged" {
		t.Errorf("it has the type %q and %+v", app.Status.SourceType, app.Status.Resources)
	}
	head := repository.Commit(t, map[string]string{"app/template": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME-two}\n"}, "two")
	app = agentprocess.Await(t, h.applications(h.control), "plugged", agentprocess.InOrder(head))
	if len(app.Status.Resources) != 1 || app.Status.Resources[0].Name != "plugged-two" {
		t.Errorf("after a commit it has %+v", app.Status.Resources)
	}
}

// testHostilePlugins: plugins that fail, do not end or send too much, and sources
// that a plugin does not get. Each Application has the reason, and a push to
// another one is synced meanwhile.
func (h *hostility) testHostilePlugins(t *testing.T, folder string) {
	endless := func(ctx context.Context, _ plugintest.Request) ([]string, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, generate := range map[string]func(context.Context, plugintest.Request) ([]string, error){
		"fails": func(context.Context, plugintest.Request) ([]string, error) {
			return nil, errors.New("exit status 3: no such key")
		},
		"hangs": endless,
		"floods": func(context.Context, plugintest.Request) ([]string, error) {
			return []string{strings.Repeat("a", plugin.MaxOutputBytes+1)}, nil
		},
		"panics": func(context.Context, plugintest.Request) ([]string, error) {
			return []string{strings.Repeat("[", 9<<20)}, nil
		},
		"escapes": func(context.Context, plugintest.Request) ([]string, error) {
			return []string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: escapes, namespace: kube-system}\n"}, nil
		},
		"no-right": func(context.Context, plugintest.Request) ([]string, error) { return []string{config("no-right")}, nil },
	} {
		plugintest.Serve(t, folder, name, plugintest.Plugin{Generate: generate})
	}
	listener := must.Get(net.Listen("unix", filepath.Join(folder, "silent.sock")))(t)
	defer listener.Close()
	h.cluster.Apply(t, h.control, fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: team, annotations: {slipway.dev/plugins: "fails, hangs, floods, panics, escapes, silent, gone"}}
spec: {sourceRepos: ['*'], destinations: [{server: '*', namespace: %s}]}
`, h.target))
	n := &neighbours{hostility: h}
	repository := h.git.Repository(t, "hostile-plugins", map[string]string{"app/text": "text"})
	// More than the agent has workers for plugins.
	for i := range 12 {
		n.application(t, "team", fmt.Sprint("hangs-", i), h.plugged(repository, "hangs"))
	}
	for name, want := range map[string]string{
		"fails": `plugin "fails": it failed: exit status 3: no such key`, "floods": "its output is larger than 10485760 bytes",
		"silent": "it took longer than 10s and was stopped", "panics": `the output of plugin "panics"`, "gone": "there is no such plugin",
		"escapes": "does not allow namespace kube-system", "no-right": `project team does not allow the config management plugin "no-right"`,
	} {
		n.application(t, "team", name, h.plugged(repository, name))
		h.push(t)
		app := agentprocess.Await(t, h.applications(h.control), name, func(app *v1alpha1.Application) error {
			if text := agentprocess.Reported(app); !strings.Contains(text, want) {
				return fmt.Errorf("no condition has %q: %s", want, text)
			}
			return nil
		})
		if app.Status.Sync.Status == v1alpha1.SyncSynced {
			t.Errorf("%s is Synced", name)
		}
		h.remove(t, name)
	}
	module := h.git.Repository(t, "module", map[string]string{"app/text": "text"})
	module.Submodule(t, "app/module")
	n.application(t, "team", "module", h.plugged(module, "fails"))
	agentprocess.Await(t, h.applications(h.control), "module", func(app *v1alpha1.Application) error {
		if text := agentprocess.Reported(app); !strings.Contains(text, "app/module: it is a submodule, which no plugin gets") {
			return fmt.Errorf("it reports %s", text)
		}
		return nil
	})
	h.push(t)
}

// plugged is a source of the folder app of a repository with a plugin, in YAML.
func (h *hostility) plugged(repository *gittest.Repository, name string) string {
	return fmt.Sprintf("{repoURL: %q, path: app, targetRevision: main, plugin: {name: %s}}", repository.URL(), name)
}
