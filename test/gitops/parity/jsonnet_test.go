package parity

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-jsonnet"

	"slipway.dev/slipway/internal/must"
)

// jsonnetCase is a source of Jsonnet: main.jsonnet in the folder chart, options of
// Argo CD, and what the command jsonnet gets for them.
type jsonnetCase struct {
	name, text, options string
	prepare             func(*jsonnet.VM)
}

// jsonnetCases are the shapes of public sources.
func jsonnetCases() []jsonnetCase {
	const made = "{apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: %s}}"
	object := func(name string) string { return strings.Replace(made, "%s", name, 1) }
	return []jsonnetCase{
		{name: "object", text: object("'a'")},
		{name: "list", text: "[" + object("'a'") + ", " + object("'b'") + "]"},
		{name: "comprehension", text: "[" + object("name") + " for name in ['x', 'y', 'z'] if name != 'y']"},
		{name: "function", text: "local make(name) = " + object("name") + "; [make('a' + i) for i in std.range(1, 3)]"},
		{name: "import", text: "local lib = import 'near.libsonnet'; lib.make('a')"},
		{name: "imported text", text: object("'a'") + " + {data: {text: importstr 'text.txt'}}"},
		{name: "merged objects", text: object("'a'") + " + {metadata+: {labels+: {x: 'y'}}, data: {sum: std.toString(1 + 2)}}"},
		{name: "library", text: "(import 'far.libsonnet').make('far')", options: "libs: [vendor]"},
		{name: "variables", text: object("std.extVar('name')") + " + {data: {sum: std.toString(std.extVar('count') + 1)}}", options: "extVars: [{name: name, value: outer}, {name: count, value: '41', code: true}]",
			prepare: func(vm *jsonnet.VM) { vm.ExtVar("name", "outer"); vm.ExtCode("count", "41") }},
		{name: "arguments", text: "function(name, count) [" + object("name + '-' + i") + " for i in std.range(1, count)]", options: "tlas: [{name: name, value: top}, {name: count, value: '2', code: true}]",
			prepare: func(vm *jsonnet.VM) { vm.TLAVar("name", "top"); vm.TLACode("count", "2") }},
	}
}

// A source of Jsonnet gives the objects of Jsonnet's own library.
func TestJsonnet(t *testing.T) {
	render := folderRenderer(t, serve(t))
	for _, c := range jsonnetCases() {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			const library = "{make(name):: {apiVersion: 'v1', kind: 'ConfigMap', metadata: {name: name}}}"
			for name, text := range map[string]string{
				"chart/main.jsonnet": c.text, "chart/near.libsonnet": library, "chart/text.txt": "text\n", "vendor/far.libsonnet": library,
				"chart/.argocd-source.yaml": "directory: {jsonnet: {" + c.options + "}}\n",
			} {
				must.Do(t, write(filepath.Join(folder, name), text))
			}
			vm := jsonnet.MakeVM()
			vm.Importer(&jsonnet.FileImporter{JPaths: []string{filepath.Join(folder, "vendor"), filepath.Join(folder, "chart")}})
			if c.prepare != nil {
				c.prepare(vm)
			}
			text := must.Get(vm.EvaluateFile(filepath.Join(folder, "chart/main.jsonnet")))(t)
			var list []json.RawMessage
			if json.Unmarshal([]byte(text), &list) != nil {
				list = []json.RawMessage{json.RawMessage(text)}
			}
			var want []string
			for _, one := range list {
				want = append(want, canonical(t, one))
			}
			slices.Sort(want)
			if got := must.Get(render(t, folder))(t); !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("got\n%s\nJsonnet has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
