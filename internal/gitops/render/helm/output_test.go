package helm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/loader/archive"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// renderChart renders a chart of the given files. Chart.yaml is added.
func renderChart(t testing.TB, files map[string]string) (*manifest.Set, error) {
	t.Helper()
	all := map[string]string{"Chart.yaml": "apiVersion: v2\nname: a\nversion: 0.1.0\n"}
	maps.Copy(all, files)
	set := manifest.NewSet(1 << 20)
	request := Request{Job: &job.Job{App: "a", Namespace: "default"}, Source: &job.Source{}, Files: tree.NewView(tree.NewMemory(all), tree.DefaultLimits())}
	return set, Render(request, set)
}

// helmTemplate is the output of "helm template" for the same chart, by Helm's
// own library.
func helmTemplate(t testing.TB, files map[string]string) (string, error) {
	t.Helper()
	buffered := []*archive.BufferedFile{{Name: "Chart.yaml", Data: []byte("apiVersion: v2\nname: a\nversion: 0.1.0\n")}}
	for name, text := range files {
		buffered = append(buffered, &archive.BufferedFile{Name: name, Data: []byte(text)})
	}
	loaded := must.Get(loader.LoadFiles(buffered))(t)
	install := action.NewInstall(&action.Configuration{})
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace = "a", "default"
	install.Replace, install.IncludeCRDs = true, true
	made, err := install.Run(loaded, map[string]any{})
	if err != nil {
		return "", err
	}
	rel := made.(*release.Release)
	return printed(rel.Manifest, rel.Hooks), nil
}

// printed is what the command prints of a release.
func printed(text string, hooks []*release.Hook) string {
	var out strings.Builder
	fmt.Fprintln(&out, strings.TrimSpace(text))
	for _, hook := range hooks {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return out.String()
}

// argoObjects are the objects that Argo CD finds in the output of Helm: it
// decodes each document to JSON, and that to an object.
func argoObjects(text string) ([]string, error) {
	decoder := kubeyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var found []string
	for {
		var raw runtime.RawExtension
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return found, err
		}
		content := bytes.TrimSpace(raw.Raw)
		if len(content) == 0 || string(content) == "null" {
			continue
		}
		var object unstructured.Unstructured
		if err := yaml.Unmarshal(content, &object); err != nil {
			return found, err
		}
		sorted, err := json.Marshal(object.Object)
		if err != nil {
			return found, err
		}
		found = append(found, string(sorted))
	}
}

// compare fails unless a Set has the objects that Argo CD would have. An error
// here is allowed where Helm gives one, and for keys that are set twice, which
// Helm does not notice.
func compare(t *testing.T, set *manifest.Set, err error, want []string, wantErr error) {
	t.Helper()
	var twice *manifest.DuplicateKeyError
	switch {
	case errors.As(err, &twice) || err != nil && wantErr != nil:
		return
	case err != nil && strings.Contains(err.Error(), "has no apiVersion"):
		return // Argo CD notices it when it applies
	case err != nil || wantErr != nil:
		t.Fatalf("error %v, and Helm: %v", err, wantErr)
	}
	var got []string
	for _, object := range set.Objects() {
		got = append(got, string(object))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%d objects:\n%s\nand in Helm %d:\n%s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
}

// helpers defines the named templates of the generated charts. Each is an
// object that begins and ends differently.
const helpers = `{{ define "cm" }}
apiVersion: v1
kind: ConfigMap
metadata: {name: included}
{{ end }}{{ define "tight" -}}
apiVersion: v1
kind: Secret
metadata: {name: tight}
{{- end }}{{ define "marked" }}---
apiVersion: v1
kind: ConfigMap
metadata: {name: marked}
{{ end }}`

// pieces are what generated templates are made of: separators in all their
// spellings, objects, block scalars at the end, and trim markers around them.
func pieces() []string {
	object := func(kind, name string) string {
		return "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: " + name + "}"
	}
	return []string{
		"---\n", "---", "--- ", "---\t\n", "--- # comment\n", "---# comment\n", "\n---\n", "\r\n---\r\n", " ---\n", "------\n", "---\n---\n", "...\n", "\n",
		" ", "\t", "  \n", "# comment\n", "{{- \"\" }}", "{{ \"\" -}}", "{{/* note */ -}}", "{{- /* note */}}\n",
		object("ConfigMap", "one") + "\n", object("ConfigMap", "two"), object("Service", "three") + "\n\n", object("Namespace", "four") + "\n",
		object("Job", "hook") + "\n", "{{ include \"cm\" . }}", "{{- include \"cm\" . }}\n", "{{ include \"tight\" . -}}\n", "{{- include \"tight\" . -}}",
		"{{- include \"marked\" . }}", "{{ include \"marked\" . | trim }}\n",
		object("ConfigMap", "clip") + "\ndata:\n  text: |\n    a\n    b", object("ConfigMap", "keep") + "\ndata:\n  text: |+\n    a\n\n\n",
		object("ConfigMap", "strip") + "\ndata:\n  text: |-\n    a\n", object("ConfigMap", "fold") + "\ndata:\n  text: >+\n    a  \n\n",
		"apiVersion: v1\nkind: Pod\nmetadata:\n  name: test\n  annotations: {helm.sh/hook: test}\n",
		"apiVersion: v1\nkind: Pod\nmetadata:\n  name: old\n  annotations: {helm.sh/hook: crd-install}\n",
		"{{- if true }}\n---\n{{- end }}\n", "{{ range $i := until 2 }}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: n{{ $i }}}\n{{ end }}",
		"{{- range $i := until 2 }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: m{{ $i }}}\n{{- end }}",
	}
}

// A chart gives as many objects as in Helm, with the same content, however its
// templates spell what is between them.
func TestObjectsAreThoseOfHelm(t *testing.T) {
	quiet(t)
	random := rand.New(rand.NewPCG(1, 2))
	all := pieces()
	rendered, twice := 0, 0
	for range 3000 {
		files := map[string]string{"templates/_helpers.tpl": helpers}
		for _, name := range []string{"templates/a.yaml", "templates/b.yaml"} {
			var text strings.Builder
			for range 1 + random.IntN(7) {
				text.WriteString(all[random.IntN(len(all))])
				if random.IntN(2) == 0 {
					text.WriteString("\n---\n")
				}
			}
			files[name] = text.String()
		}
		set, err := renderChart(t, files)
		output, wantErr := helmTemplate(t, files)
		var want []string
		if wantErr == nil {
			want, wantErr = argoObjects(output)
		}
		if !t.Run("", func(t *testing.T) { compare(t, set, err, want, wantErr) }) {
			t.Fatalf("a.yaml:\n%q\nb.yaml:\n%q\nHelm prints:\n%s", files["templates/a.yaml"], files["templates/b.yaml"], output)
		}
		var duplicate *manifest.DuplicateKeyError
		switch {
		case errors.As(err, &duplicate):
			twice++
		case err == nil && len(want) > 0:
			rendered++
		}
	}
	// The family is worth something only if most of it can be rendered.
	if rendered < 900 || twice < 100 {
		t.Errorf("%d charts were compared, and %d had keys that are set twice", rendered, twice)
	}
}

// quiet keeps what Helm logs out of the output of a test.
func quiet(t *testing.T) {
	t.Helper()
	before := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { slog.SetDefault(before) })
}

// What each spelling of a separator means, and that content is kept to the last
// byte.
func TestSeparators(t *testing.T) {
	const one, two = "apiVersion: v1\nkind: A\nmetadata: {name: one}\n", "apiVersion: v1\nkind: A\nmetadata: {name: two}\n"
	const both = `{"apiVersion":"v1","kind":"A","metadata":{"name":"one"}} {"apiVersion":"v1","kind":"A","metadata":{"name":"two"}}`
	for _, tt := range []struct{ name, text, want string }{
		{"plain", one + "---\n" + two, both},
		{"joined to a key", one + "---" + two, both},
		{"joined to a comment", one + "---# x\n" + two, both},
		{"trimmed include", one + "---\n{{- include \"two\" . }}", both},
		{"trimmed on both sides", one + "---\n{{- include \"two\" . -}}\n", both},
		{"long", one + "------\n" + two, both},
		{"indented", " ---\n" + one + "---\n" + two, both},
		{"last newline", one + "t: |\n  x", `{"apiVersion":"v1","kind":"A","metadata":{"name":"one"},"t":"x\n"}`},
		{"kept newlines", one + "t: |+\n  x\n\n", `{"apiVersion":"v1","kind":"A","metadata":{"name":"one"},"t":"x\n"}`},
		{"kept newlines before another", one + "t: |+\n  x\n\n---\n" + two, `{"apiVersion":"v1","kind":"A","metadata":{"name":"one"},"t":"x\n\n\n"} ` + both[len(both)/2+1:]},
		{"kept newlines of a hook", "apiVersion: v1\nkind: A\nmetadata: {name: one, annotations: {helm.sh/hook: pre-install}}\nt: |+\n  x\n\n",
			`{"apiVersion":"v1","kind":"A","metadata":{"annotations":{"helm.sh/hook":"pre-install"},"name":"one"},"t":"x\n\n\n"}`},
	} {
		set, err := renderChart(t, map[string]string{
			"templates/_two.tpl": "{{ define \"two\" }}\n" + two + "{{ end }}", "templates/a.yaml": tt.text,
		})
		var got []string
		for _, object := range set.Objects() {
			got = append(got, string(object))
		}
		if err != nil || strings.Join(got, " ") != tt.want || len(set.Warnings()) != 0 {
			t.Errorf("%s: %v, %q\n%s\nwant\n%s", tt.name, err, set.Warnings(), strings.Join(got, " "), tt.want)
		}
	}
}

// Two objects that became one are an error with the file and the line of the
// rendered text, and so is nothing else that Helm accepts.
func TestKeysSetTwice(t *testing.T) {
	const object = "apiVersion: v1\nkind: A\nmetadata: {name: one}\n"
	_, err := renderChart(t, map[string]string{"templates/a.yaml": "# first\n" + object + "---\n\n" + object + object})
	var twice *manifest.DuplicateKeyError
	if !errors.As(err, &twice) || twice.Where != "a/templates/a.yaml" || twice.Line != 10 || twice.Key != "apiVersion" {
		t.Errorf("%v", err)
	}
	set, err := renderChart(t, map[string]string{"templates/a.yaml": object + "---\n" + object + "data:\n  a: 1\n  a: 2\n"})
	if err != nil || len(set.Objects()) != 2 || !strings.Contains(string(set.Objects()[1]), `"data":{"a":2}`) {
		t.Errorf("%s, %v", set.Objects(), err)
	}
	if len(set.Warnings()) != 1 || !strings.Contains(set.Warnings()[0], `a/templates/a.yaml: line 10: key "a" already set`) {
		t.Errorf("%q", set.Warnings())
	}
}

// What Helm leaves out is reported: a hook that does not exist, and text behind
// the end of a document.
func TestLeftOutIsReported(t *testing.T) {
	quiet(t)
	const object = "apiVersion: v1\nkind: A\nmetadata: {name: one}\n"
	for _, tt := range []struct{ text, want string }{
		{"apiVersion: v1\nkind: A\nmetadata: {name: b, annotations: {helm.sh/hook: crd-install}}\n", "a/templates/a.yaml has an object with a helm.sh/hook that does not exist"},
		{object + "...\n" + object, `what follows the line "..." is not read`},
	} {
		set, err := renderChart(t, map[string]string{"templates/a.yaml": tt.text, "templates/b.yaml": object})
		if err != nil || len(set.Warnings()) != 1 || !strings.Contains(set.Warnings()[0], tt.want) {
			t.Errorf("%q: %q, %v", tt.text, set.Warnings(), err)
		}
	}
	set, err := renderChart(t, map[string]string{"templates/a.yaml": object + "...\n# end\n", "templates/b.yaml": object + "...x: 1\n"})
	if err != nil || len(set.Warnings()) != 0 {
		t.Errorf("%q, %v", set.Warnings(), err)
	}
}

// FuzzOutput compares the objects of any rendered text with those that Argo CD
// would have of it.
func FuzzOutput(f *testing.F) {
	for _, piece := range pieces() {
		f.Add(piece, "apiVersion: v1\nkind: A\n---\n"+piece)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		files := func() map[string]string { return map[string]string{"a/templates/a.yaml": a, "a/templates/b.yaml": b} }
		var want []string
		hooks, generic, wantErr := releaseutil.SortManifests(files(), nil, releaseutil.InstallOrder)
		if wantErr == nil {
			var text strings.Builder
			for _, entry := range generic {
				fmt.Fprintf(&text, "---\n# Source: %s\n%s\n", entry.Name, entry.Content)
			}
			want, wantErr = argoObjects(printed(text.String(), hooks))
		}
		set := manifest.NewSet(1 << 20)
		request := Request{Job: &job.Job{}, Source: &job.Source{}}
		err := request.collect(&chart.Chart{Metadata: &chart.Metadata{Name: "a"}}, files(), set)
		if err != nil && wantErr == nil {
			return // refusals of our own, such as keys that are set twice
		}
		compare(t, set, err, want, wantErr)
	})
}
