package gitops

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/plugintest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/test/gitops/agentprocess"
)

// variableArgoCD is the path of the argocd command, which is argocd-cmp-server too.
const variableArgoCD = "ARGOCD"

// testCMPServer has an agent call plugins behind argocd-cmp-server itself, as sidecars
// have it: by name and by each kind of discovery, and some that fail.
func (s *suite) testCMPServer(t *testing.T) {
	if os.Getenv(variableArgoCD) == "" {
		t.Skip("it takes minutes to compile argocd: make argocd-cli")
	}
	h := &hostility{suite: s, git: gittest.Serve(t), control: s.cluster.Namespace(t), target: s.cluster.Namespace(t)}
	folder := plugintest.Folder(t)
	for name, spec := range cmpPlugins {
		startCMPServer(t, folder, name, spec)
	}
	options := s.options(h.control, "--leaderElection.enabled=false", "--plugins.socketDir="+folder, "--plugins.timeout=10s")
	options.TraceFile = filepath.Join(t.TempDir(), "executed")
	agent := agentprocess.Start(t, options)
	t.Run("name", h.testNamedPlugin)
	t.Run("discovery", h.testDiscoveredPlugins)
	t.Run("errors", h.testFailingPlugins)
	agent.Stop(t)
	s.checkExecuted(t, agent, options.TraceFile)
}

// cmpPlugins are the specs of plugins by name.
var cmpPlugins = map[string]string{
	"substitute": `
  version: v1.0
  preserveFileMode: true
  init: {command: [sh, -c, 'printf "%s by init" "$PARAM_SIZE" > made']}
  generate: {command: [sh, -c], args: ['./generate.sh "$ARGOCD_APP_NAME" "$(cat made)"']}
  parameters: {static: [{name: size, string: small}], dynamic: {command: [echo, '[]']}}
`,
	"by-command": discovering("find: {command: [sh, -c, 'test ! -e found || echo yes']}"),
	"by-glob":    discovering("find: {glob: '**/deep/*.marker'}"),
	"by-name":    discovering("fileName: './*.subst'"),
	"fails":      "\n  generate: {command: [sh, -c, 'echo no such key >&2; exit 3']}\n",
	"init-fails": "\n  init: {command: [sh, -c, 'echo no network >&2; exit 4']}\n  generate: {command: ['true']}\n",
	"hangs":      "\n  generate: {command: [sleep, '60']}\n",
	"wants-git":  "\n  provideGitCreds: true\n  generate: {command: ['true']}\n",
}

// discovering is the spec of a plugin that matches sources, and makes a ConfigMap with
// the name of the Application and the files of its folder.
func discovering(how string) string {
	return `
  discover: {` + how + `}
  generate: {command: [sh, -c, 'printf "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\ndata: {files: \"%s\"}\n" "$ARGOCD_APP_NAME" "$(ls | tr "\n" " ")"']}
`
}

// startCMPServer runs argocd-cmp-server with a plugin.yaml, as a sidecar does.
func startCMPServer(t *testing.T, folder, name, spec string) {
	t.Helper()
	config := t.TempDir()
	text := "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {name: " + name + "}\nspec:" + spec
	must.Do(t, os.WriteFile(filepath.Join(config, "plugin.yaml"), []byte(text), 0o600))
	command := exec.Command(os.Getenv(variableArgoCD), "--config-dir-path="+config, "--loglevel=debug")
	command.Env = programs.Environment(t, "ARGOCD_BINARY_NAME=argocd-cmp-server", "ARGOCD_PLUGINSOCKFILEPATH="+folder, "ARGOCD_CMP_WORKDIR="+t.TempDir())
	log := &programs.Output{}
	command.Stdout, command.Stderr = log, log
	if strings.Contains(spec, "version: v1.0") {
		name += "-v1.0"
	}
	programs.Run(t, "argocd-cmp-server "+name, command).AwaitListener(t, "unix", filepath.Join(folder, name+".sock"))
}

// testNamedPlugin: init and generate run in the folder of the source, with the files of the
// whole repository, their modes and links, and with all variables.
func (h *hostility) testNamedPlugin(t *testing.T) {
	const large = 300_000 // several messages of the protocol
	repository := h.git.Repository(t, "named", map[string]string{"beside/text": "beside", "beside/large": strings.Repeat("a", large)})
	repository.Program(t, "app/generate.sh", `#!/bin/sh
cat <<END
apiVersion: v1
kind: ConfigMap
metadata: {name: $1}
data: {init: "$2", colour: "$ARGOCD_ENV_COLOUR", link: "$(cat link)", large: "$(wc -c < ../beside/large)", item: "$PARAM_LIST_1", key: "$PARAM_MAP_KEY",
  revision: "$ARGOCD_APP_REVISION", parameters: '$ARGOCD_APP_PARAMETERS'}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: $1-second}
END
`)
	repository.Link(t, "app/link", "../beside/text")
	head := repository.Head(t)
	h.application(t, h.control, h.target, "named", fmt.Sprintf(`{repoURL: %q, path: app, targetRevision: main, plugin: {name: substitute-v1.0,
    env: [{name: COLOUR, value: blue of $ARGOCD_APP_NAME}],
    parameters: [{name: size, string: large}, {name: list, array: [a, b]}, {name: map, map: {key: value}}]}}`, repository.URL()))
	app := agentprocess.Await(t, h.applications(h.control), "named", agentprocess.InOrder(head))
	if app.Status.SourceType != v1alpha1.SourcePlugin || len(app.Status.Resources) != 2 {
		t.Errorf("it has the type %q and %+v", app.Status.SourceType, app.Status.Resources)
	}
	want := map[string]string{
		"init": "large by init", "colour": "blue of named", "link": "beside", "large": strconv.Itoa(large), "item": "b", "key": "value", "revision": head,
		"parameters": `[{"name":"size","string":"large"},{"array":["a","b"],"name":"list"},{"map":{"key":"value"},"name":"map"}]`,
	}
	if got := h.data(t, "named"); !maps.Equal(got, want) {
		t.Errorf("the plugin generated %q, want %q", got, want)
	}
}

// data returns what is in a ConfigMap of the target.
func (h *hostility) data(t *testing.T, name string) map[string]string {
	t.Helper()
	return must.Get(h.cluster.Client.CoreV1().ConfigMaps(h.target).Get(t.Context(), name, metav1.GetOptions{}))(t).Data
}

// testDiscoveredPlugins: sources without a type are those of the plugins that match them,
// also the root of a repository; others are rendered as ever.
func (h *hostility) testDiscoveredPlugins(t *testing.T) {
	repository := h.git.Repository(t, "discovered", map[string]string{
		"name/a.subst": "", "glob/a/deep/b.marker": "", "command/found": "", "c.subst": "",
		"none/plain.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: found-none}\ndata: {files: plain}\n",
	})
	for folder, want := range map[string]string{"name": "a.subst ", "glob": "a ", "command": "found ", ".": "c.subst command glob name none ", "none": "plain"} {
		name := "found-" + strings.ReplaceAll(folder, ".", "root")
		h.application(t, h.control, h.target, name, fmt.Sprintf("{repoURL: %q, path: %q, targetRevision: main}", repository.URL(), folder))
		app := agentprocess.Await(t, h.applications(h.control), name, agentprocess.InOrder(repository.Head(t)))
		if isPlugin := app.Status.SourceType == v1alpha1.SourcePlugin; isPlugin != (folder != "none") {
			t.Errorf("%s has the type %q", name, app.Status.SourceType)
		}
		if got := h.data(t, name)["files"]; got != want {
			t.Errorf("%s has the files %q, want %q", name, got, want)
		}
	}
	h.application(t, h.control, h.target, "mismatch", fmt.Sprintf("{repoURL: %q, path: none, targetRevision: main, plugin: {name: by-name}}", repository.URL()))
	h.awaitReport(t, "mismatch", "its discovery does not match the source")
}

// testFailingPlugins: the error of a command and the end of its time are conditions.
func (h *hostility) testFailingPlugins(t *testing.T) {
	repository := h.git.Repository(t, "failing", map[string]string{"app/text": "text"})
	for name, want := range map[string]string{
		"fails": "no such key", "init-fails": "no network", "hangs": "it took longer than 10s and was stopped", "wants-git": "it has provideGitCreds",
	} {
		h.application(t, h.control, h.target, name, h.plugged(repository, name))
		h.awaitReport(t, name, want)
	}
}

// awaitReport waits until an Application that is not Synced has a text in a condition.
func (h *hostility) awaitReport(t *testing.T, name, want string) {
	t.Helper()
	app := agentprocess.Await(t, h.applications(h.control), name, func(app *v1alpha1.Application) error {
		if text := agentprocess.Reported(app); !strings.Contains(text, want) {
			return fmt.Errorf("no condition has %q: %s", want, text)
		}
		return nil
	})
	if app.Status.Sync.Status == v1alpha1.SyncSynced {
		t.Errorf("%s is Synced", name)
	}
	t.Logf("%s reports %s", name, agentprocess.Reported(app))
}
