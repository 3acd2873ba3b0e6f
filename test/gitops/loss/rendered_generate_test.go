package loss

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// pieces are what files are made of: ID is a number of its own, and most forms
// have one object of the name object-ID with that number as data.
var pieces = []string{
	"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: object-ID\ndata:\n  id: \"ID\"\n",
	"# before\napiVersion: v1\nkind: Secret\nmetadata: {name: object-ID, labels: , annotations: }\nstringData: {id: \"ID\"}\n# behind\n",
	"{apiVersion: v1, kind: ConfigMap, metadata: {name: object-ID}, data: {id: \"ID\"}}\n",
	"{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"object-ID\"}, \"data\": {\"id\": \"ID\"}}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: object-ID, labels: {x: once, x: again}}\ndata: {id: \"ID\", text: \"\\n---\\n\"}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: object-ID}\ndata:\n  id: \"ID\"\n  text: |\n    a\n    ---\n    kind: Secret\n    ...\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: object-ID\n  annotations: {helm.sh/hook: pre-install}\ndata: {id: \"ID\"}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: object-ID-, annotations: {argocd.argoproj.io/hook: Sync}}\ndata: {id: \"ID\"}\n",
	"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: object-ID}, data: {id: \"ID\"}}\n- {apiVersion: v1, kind: Secret, metadata: {name: object-ID-second}}\n",
	"{apiVersion: v1, kind: ConfigMapList, items: [{metadata: {name: object-ID}, data: {id: \"ID\"}}]}\n",
	"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  - {apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: object-ID}, data: {id: \"ID\"}}]}\n",
	// The same object twice: the last one counts.
	"{apiVersion: v1, kind: ConfigMap, metadata: {name: twice}, data: {id: \"ID\"}}\n",
	// These have none.
	"", "\n", "# only a comment\n", "null\n", "~\n", "{apiVersion: v1, kind: List, items: null}\n", "{apiVersion: v1, kind: List, items: []}\n",
}

// wrongPieces are objects that cannot be applied, and text that is no object.
var wrongPieces = []string{
	"apiVersion: unheard.example/v1\nkind: Gadget\nmetadata: {name: object-ID}\n",
	"apiVersion: v1\nkind: List\nitems: [{apiVersion: unheard.example/v1, kind: Gadget, metadata: {name: object-ID}}]\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: object-ID-}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata:\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: 5\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: object-ID}\ndata: {id: \"ID\"}\ndata: {id: \"0\"}\n",
	"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: object-ID\n",
	"apiVersion: v1\nkind: List\nitems: [5]\n",
	strings.Repeat("{apiVersion: v1, kind: List, items: [", 7) + "{apiVersion: v1, kind: ConfigMap, metadata: {name: object-ID}}" + strings.Repeat("]}", 7) + "\n",
	"kind: ConfigMap\nmetadata: {name: object-ID}\n",
	"apiVersion: v1\nmetadata: {name: object-ID}\n",
	"a: 1\n", "- a\n", "text\n", "\tkind: ConfigMap\n",
}

// separators stand between pieces. Those of wrongSeparators make one document of
// two, or mean something else to Helm than to kubectl.
var (
	separators      = []string{"---\n", "--- \n", "---\t\n", "--- # comment\n", "---# comment\n", "\n---\n\n", "---\n---\n", "---\n# comment\n---\n", "...\n---\n"}
	wrongSeparators = []string{"", "---", "------\n", "...\n", "---x\n", "-- -\n", indented}
)

// indented is a mark to Helm, which trims documents, and text to kubectl. It is in
// templates only.
const indented = " ---\n"

// spellings change a whole file.
var spellings = []func(string) string{
	func(text string) string { return text },
	func(text string) string { return "---\n" + text },
	func(text string) string { return text + "---\n" },
	func(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") },
	func(text string) string { return "\ufeff" + text },
	func(text string) string { return "\ufeff---\r\n" + strings.ReplaceAll(text, "\n", "\r\n") },
	func(text string) string { return strings.TrimRight(text, "\n") },
	func(text string) string { return "%YAML 1.1\n---\n" + text },
}

// pointer is what Git LFS leaves in the place of a file.
const pointer = "version https://git-lfs.github.com/spec/v1\n" +
	"oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

// inputDice makes files of pieces. Each piece has an ID of its own.
type inputDice struct {
	*rand.Rand
	pieces int
	// chart: the files are templates.
	chart bool
}

// generateInput makes the files of a folder, or of a chart.
func generateInput(seed uint64) (files map[string]string, isChart bool) {
	// Numbers have two digits, so that no name is the beginning of another.
	dice := &inputDice{Rand: rand.New(rand.NewPCG(seed, 19)), chart: seed%3 == 0, pieces: 10}
	files, folder := map[string]string{}, "app/"
	if dice.chart {
		files["app/Chart.yaml"] = "apiVersion: v2\nname: chart\nversion: 1.0.0\n"
		folder += "templates/"
	}
	for i := range 1 + dice.IntN(3) {
		files[fmt.Sprintf("%sfile-%d.yaml", folder, i)] = dice.file()
	}
	if !dice.chart {
		switch dice.IntN(12) {
		case 0:
			files["app/large.yaml"] = pointer
		case 1:
			files["app/notes.yml"] = "title: no manifest\n"
		case 2:
			files["app/one.json"] = dice.fill(pieces[3])
		}
	}
	return files, dice.chart
}

// file makes the text of one file. Few of its parts are wrong, so that there are
// files which are right.
func (d *inputDice) file() string {
	var text strings.Builder
	for i := range d.IntN(5) {
		if i > 0 {
			separator := d.oneOf(separators, wrongSeparators)
			if separator == indented && !d.chart {
				separator = ""
			}
			text.WriteString(separator)
		}
		piece := d.fill(d.oneOf(pieces, wrongPieces))
		if d.chart && d.IntN(3) == 0 {
			piece = "{{- if true }}\n" + piece + "{{- end }}\n"
		}
		text.WriteString(piece)
	}
	return spellings[d.IntN(len(spellings))](text.String())
}

// oneOf is mostly one of the first.
func (d *inputDice) oneOf(right, wrong []string) string {
	if d.IntN(20) == 0 {
		return wrong[d.IntN(len(wrong))]
	}
	return right[d.IntN(len(right))]
}

func (d *inputDice) fill(piece string) string {
	d.pieces++
	return strings.ReplaceAll(piece, "ID", fmt.Sprint(d.pieces))
}
