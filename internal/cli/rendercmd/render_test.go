package rendercmd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

// writeFiles writes a folder.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// renderFiles is a repository with one folder for each way to render.
func renderFiles() map[string]string {
	return map[string]string{
		"plain/one.yaml":        clitest.ConfigMap("one", "1"),
		"plain/more/two.yaml":   clitest.ConfigMap("two", "2"),
		"chart/Chart.yaml":      "apiVersion: v2\nname: chart\nversion: 1.0.0\n",
		"chart/values.yaml":     "colour: green\n",
		"chart/blue.yaml":       "colour: blue\n",
		"chart/templates/a.txt": "",
		"chart/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}, namespace: {{ .Release.Namespace }}}\n" +
			"data: {colour: {{ .Values.colour | quote }}, kube: {{ .Capabilities.KubeVersion.Version | quote }}}\n",
		"base/kustomization.yaml":             "resources: [one.yaml]\n",
		"base/one.yaml":                       clitest.ConfigMap("one", "base"),
		"overlay/kustomization.yaml":          "resources: [../base]\n",
		"changed/.argocd-source-changed.yaml": "kustomize: {namePrefix: green-}\n",
		"changed/kustomization.yaml":          "resources: [../base]\n",
		"strict/Chart.yaml":                   "apiVersion: v2\nname: strict\nversion: 1.0.0\n",
		"strict/values.schema.json":           `{"required": ["colour"]}`,
		"strict/templates/a.yaml":             "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: strict}\n",
		"json/net.jsonnet":                    "function(colour='red') {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: 'net'}, data: {colour: colour}}\n",
		"apps/shop.yaml": `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: shop, namespace: argocd}
spec:
  project: default
  source: {repoURL: https://git.example/x.git, path: chart, helm: {valueFiles: [blue.yaml], parameters: [{name: colour, value: cyan}]}}
  destination: {namespace: shop}
`,
	}
}

// TestRender: the same folder, rendered with flags or with an Application.
func TestRender(t *testing.T) {
	clitest.Clean(t)
	dir := writeFiles(t, renderFiles())
	const one = "---\napiVersion: v1\ndata:\n  value: \"1\"\nkind: ConfigMap\nmetadata:\n  name: one\n"
	for _, c := range []struct{ name, line, want string }{
		{"plain", "--path plain", one},
		{"recursive names", "--path plain --directory-recurse -o name", "ConfigMap two\nConfigMap one\n"},
		{"excluded", "--path plain --directory-recurse --directory-exclude one.yaml -o name", "ConfigMap two\n"},
		{"chart", "--path chart --name web --namespace shop --helm-values blue.yaml --kube-version v1.30.1",
			"---\napiVersion: v1\ndata:\n  colour: blue\n  kube: v1.30.1\nkind: ConfigMap\nmetadata:\n  name: web\n  namespace: shop\n"},
		{"chart with a value", "--path chart --helm-set colour=red --kube-version v1.30.1",
			"---\napiVersion: v1\ndata:\n  colour: red\n  kube: v1.30.1\nkind: ConfigMap\nmetadata:\n  name: chart\n  namespace: default\n"},
		{"overlay", "--path overlay --kustomize-name-prefix blue- -o name", "ConfigMap blue-one\n"},
		{"overrides", "--path changed -o name", "ConfigMap green-one\n"},
		{"chart without its schema", "--path strict --helm-skip-schema-validation -o name", "ConfigMap strict\n"},
		{"jsonnet", "--path json --jsonnet-tla colour=teal", "---\napiVersion: v1\ndata:\n  colour: teal\nkind: ConfigMap\nmetadata:\n  name: net\n"},
		{"application", "-f " + filepath.Join(dir, "apps/shop.yaml") + " --kube-version v1.30.1",
			"---\napiVersion: v1\ndata:\n  colour: cyan\n  kube: v1.30.1\nkind: ConfigMap\nmetadata:\n  name: shop\n  namespace: shop\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := clitest.Run(t, "render "+dir+" "+c.line); got.Code != 0 || got.Stdout != c.want {
				t.Errorf("got %+v, wanted\n%s", got, c.want)
			}
		})
	}
	var list struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(clitest.Run(t, "render "+dir+" --path plain -o json").Stdout), &list); err != nil || len(list.Items) != 1 {
		t.Errorf("as JSON: %v, %+v", err, list)
	}
}

// TestRenderRefusals: the same as in the agent, with the reason, and mistakes of
// the command line.
func TestRenderRefusals(t *testing.T) {
	clitest.Clean(t)
	files := renderFiles()
	files["remote/kustomization.yaml"] = "resources: [\"https://files.example/base.yaml?token=x\"]\n"
	files["broken/bad.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n"
	files["apps/plugin.yaml"] = strings.Replace(files["apps/shop.yaml"], "helm: {valueFiles: [blue.yaml], parameters: [{name: colour, value: cyan}]}", "plugin: {name: x}", 1)
	files["apps/hydrator.yaml"] = strings.Replace(files["apps/shop.yaml"], "project:", "sourceHydrator: {a: b}\n  project:", 1)
	files["apps/two.yaml"] = "---\n# two of them\n---\n" + files["apps/shop.yaml"] + "---\n" + files["apps/shop.yaml"]
	dir := writeFiles(t, files)
	outside := filepath.Join(t.TempDir(), "outside.yaml")
	must.Do(t, os.WriteFile(outside, []byte(clitest.ConfigMap("outside", "1")), 0o600))
	must.Do(t, os.MkdirAll(filepath.Join(dir, "links"), 0o755))
	must.Do(t, os.Symlink(outside, filepath.Join(dir, "links", "x.yaml")))
	for _, c := range []struct {
		name, line string
		code       int
		want       string
	}{
		{"remote base", dir + " --path remote", 1, "files.example/base.yaml"},
		{"link that leaves", dir + " --path links", 1, "links/x.yaml"},
		{"path that leaves", dir + " --path ../..", 2, "leaves the repository"},
		{"malformed", dir + " --path broken", 1, "broken/bad.yaml"},
		{"no such path", dir + " --path nowhere", 1, "nowhere"},
		{"no such folder", dir + "/nowhere", 1, "read the folder"},
		{"no folder", "", 2, "slipway render DIR"},
		{"options of two kinds", dir + " --path chart --helm-set a=b --kustomize-name-prefix x", 2, "do not go together"},
		{"no value", dir + " --helm-set a", 2, `--helm-set "a" is not of the form name=value`},
		{"application and path", dir + " --path chart -f " + dir + "/apps/shop.yaml", 2, "leave out --path"},
		{"refused field", dir + " -f " + dir + "/apps/hydrator.yaml", 1, "sourceHydrator"},
		{"plugin", dir + " -f " + dir + "/apps/plugin.yaml", 1, `plugin "x": plugin: config management plugins run beside the agent only`},
		{"two Applications", dir + " -f " + dir + "/apps/two.yaml", 1, "several documents"},
		{"not an Application", dir + " -f " + dir + "/plain/one.yaml", 1, "one.yaml"},
		{"output", dir + " -o xml", 2, "choose one of yaml, json, name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := clitest.Run(t, "render "+c.line)
			if got.Code != c.code || got.Stdout != "" || !strings.Contains(got.Stderr, c.want) {
				t.Errorf("got %+v, wanted %d and %q", got, c.code, c.want)
			}
		})
	}
}
