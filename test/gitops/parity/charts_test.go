package parity

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// chartCase is a chart without dependencies on other repositories. Its template
// makes objects; files are others of the chart.
type chartCase struct {
	name, template, values string
	files                  map[string]string
}

// object is a manifest in a template, with a value as text.
func object(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\ndata:\n  value: " + value + "\n"
}

// near is a chart in the folder charts.
func near(name, more string) map[string]string {
	return prefixed("charts/"+name+"/", library(name, "0.1.0", more))
}

// plainCharts are the shapes of templates.
func plainCharts() []chartCase {
	return []chartCase{
		{name: "plain", template: object("a", "b")},
		{name: "two documents", template: object("a", "b") + "---\n" + object("c", "d")},
		{name: "text behind a separator", template: object("a", "b") + "---" + object("c", "d")},
		{name: "comment behind a separator", template: object("a", "b") + "--- # next\n" + object("c", "d")},
		{name: "separator at the ends", template: "---\n" + object("a", "b") + "---\n---\n"},
		{name: "separator by a template", template: object("a", "b") + "{{ range list `x` `y` }}\n---\n" + object("{{ . }}", "b") + "{{ end }}"},
		{name: "trimmed whitespace", template: "{{- if true }}\n" + object("a", "b") + "{{- end }}\n---\n{{- with `z` }}\n" + object("{{ . }}", "b") + "{{- end -}}"},
		{name: "empty document", template: object("a", "b") + "---\n{{ if false }}\n" + object("c", "d") + "{{ end }}"},
		{name: "only comments", template: object("a", "b"), files: map[string]string{"templates/z.yaml": "# nothing\n{{/* nothing */}}\n"}},
		{name: "map in order", template: "{{ range $k, $v := .Values.all }}\n---\n" + object("{{ $k }}", "{{ $v | quote }}") + "{{ end }}", values: "all: {z: 1, a: 2, m: 3}\n"},
		{name: "else", template: "{{ with .Values.missing }}" + object("with", "x") + "{{ else }}" + object("else", "x") + "{{ end }}"},
		{name: "named template", template: object("a", "b") + "{{ include `more` . | nindent 2 }}\n", files: map[string]string{"templates/_more.tpl": "{{ define `more` }}more: {{ .Chart.Name }}{{ end }}"}},
		{name: "template in values", template: object("a", "{{ tpl .Values.text . | quote }}"), values: "text: '{{ .Release.Name }}-x'\n"},
		{name: "to yaml", template: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n{{ toYaml .Values.data | indent 2 }}\n", values: "data: {b: \"1\", a: 'x: y', c: \"multi\\nline\\n\"}\n"},
		{name: "to json", template: object("a", "{{ .Values | toJson | fromJson | toJson | quote }}"), values: "big: 12345678901\nfloat: 1.5\nlist: [1, two, null]\n"},
		{name: "to toml", template: object("a", "{{ dict `a` (dict `b` 1) | toToml | quote }}")},
		{name: "required and default", template: object("a", "{{ required `no` .Values.is }}-{{ coalesce .Values.no .Values.is }}-{{ .Values.no | default `d` }}"), values: "is: x\n"},
		{name: "capabilities", template: object("a", "{{ semverCompare `>=1.10-0` .Capabilities.KubeVersion.Version }}-{{ .Capabilities.APIVersions.Has `apps/v1` }}") + "  \n"},
		{name: "release", template: object("a", "{{ .Release.Name }}-{{ .Release.Namespace }}-{{ .Release.Service }}-{{ .Release.IsInstall }}-{{ .Release.Revision }}")},
		{name: "name of the template", template: object("a", "{{ .Template.Name | quote }}")},
		{name: "file", template: object("a", "{{ .Files.Get `conf/a.ini` | quote }}"), files: map[string]string{"conf/a.ini": "a=1\nb=2\n"}},
		{name: "files as config", template: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n{{ (.Files.Glob `conf/**`).AsConfig | indent 2 }}\n", files: map[string]string{"conf/a.ini": "a=1\n", "conf/b.ini": "b=2\n"}},
		{name: "files as secrets", template: "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata:\n{{ (.Files.Glob `conf/*`).AsSecrets | indent 2 }}\n", files: map[string]string{"conf/a.ini": "a=1\n"}},
		{name: "lines of a file", template: "{{ range .Files.Lines `names` }}\n---\n" + object("{{ . }}", "x") + "{{ end }}", files: map[string]string{"names": "a\nb"}},
		{name: "subchart", template: object("a", "b"), values: "global: {x: all}\nsub: {colour: blue}\n", files: near("sub", "")},
		{name: "subchart that is off", template: object("a", "b"), values: "sub: {enabled: false}\n",
			files: merged(near("sub", ""), map[string]string{"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\ndependencies: [{name: sub, version: 0.1.0, condition: sub.enabled}]\n"})},
		{name: "subchart twice", template: object("a", "b"), values: "other: {colour: red}\n",
			files: merged(near("sub", ""), map[string]string{"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\ndependencies: [{name: sub, version: 0.1.0}, {name: sub, version: 0.1.0, alias: other}]\n"})},
		{name: "library", template: "{{ include `lib.object` . }}", files: map[string]string{
			"charts/lib/Chart.yaml": "apiVersion: v2\nname: lib\nversion: 0.1.0\ntype: library\n", "charts/lib/templates/_o.tpl": "{{ define `lib.object` }}" + object("of-{{ .Chart.Name }}", "x") + "{{ end }}"}},
		{name: "hook", template: object("a", "b"), files: map[string]string{"templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n"}},
		{name: "hooks with weights", template: object("a", "b"), files: map[string]string{
			"templates/hook.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, annotations: {helm.sh/hook: \"pre-install,post-upgrade\", helm.sh/hook-weight: \"-5\"}}\n---\n" +
				"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: two, annotations: {helm.sh/hook: post-install, helm.sh/hook-delete-policy: hook-succeeded}}\n"}},
		{name: "notes", template: object("a", "b"), files: map[string]string{"templates/NOTES.txt": "Thank you for {{ .Chart.Name }}: {{ .Release.Name }}"}},
		{name: "empty annotations", template: "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations:\n  labels:\n"},
		{name: "value that is removed", template: object("a", "{{ .Values.sub | toJson | quote }}"), values: "sub: {kept: 1, removed: null}\n"},
		{name: "block scalar at the end", template: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  text: |\n    one\n    two\n"},
		{name: "kept newlines", template: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  text: |+\n    one\n\n  more: >-\n    a\n    b\n"},
		{name: "list of objects", template: "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n"},
		{name: "definitions", template: object("a", "b"), files: map[string]string{"crds/a.yaml": "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\n"}},
		{name: "ignored files", template: object("a", "{{ len (.Files.Glob `conf/*`) | quote }}"), files: map[string]string{".helmignore": "*.bak\n", "conf/a": "a", "conf/b.bak": "b"}},
		{name: "folders of templates", template: object("a", "b"), files: map[string]string{"templates/deep/er/b.yaml": object("b", "{{ .Template.BasePath }}")}},
		{name: "numbers as text", template: object("a", "{{ .Values.n | quote }}") + "  mode: \"0755\"\n  date: \"2001-01-01\"\n  yes: \"on\"\n", values: "n: 1e3\n"},
		{name: "other letters", template: object("a", "{{ .Values.text | upper | quote }}"), values: "text: grüße 日本\n"},
		{name: "nothing is looked up", template: object("a", "{{ if lookup `v1` `Secret` `x` `y` }}found{{ else }}nothing{{ end }}")},
		{name: "schema", template: object("a", "{{ .Values.port | quote }}"), values: "port: 80\n", files: map[string]string{"values.schema.json": `{"type": "object", "properties": {"port": {"type": "integer"}}}`}},
	}
}

// merged is the files of both.
func merged(files, more map[string]string) map[string]string {
	for name, text := range more {
		files[name] = text
	}
	return files
}

// A chart that is complete in Git renders to the objects of "helm template".
func TestCharts(t *testing.T) {
	s := serve(t)
	render := folderRenderer(t, s)
	for _, c := range plainCharts() {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			files := map[string]string{"Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\n", "values.yaml": c.values, "templates/a.yaml": c.template}
			for name, text := range merged(files, c.files) {
				must.Do(t, write(filepath.Join(folder, "chart", name), text))
			}
			got := must.Get(render(t, folder))(t)
			if want := helmObjects(t, s, filepath.Join(folder, "chart")); !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("got\n%s\nHelm has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// The number of cases is what the package promises.
func TestNumberOfCharts(t *testing.T) {
	if found := len(plainCharts()) + len(dependencyCases()); found < 60 {
		t.Errorf("%d charts are compared", found)
	}
}
