package render_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

var update = flag.Bool("update", false, "write what was rendered into testdata/*/*.txtar")

// example is one archive: a repository, the request in request.yaml, and in
// want what is rendered. A file called links has lines "path -> target". Files
// below a folder called source-N are those of the source N, from 0.
type example struct {
	file    string
	archive *txtar.Archive
	request render.Request
	want    string
}

// exampleRequest is the content of request.yaml.
type exampleRequest struct {
	App         string
	Namespace   string
	KubeVersion string
	APIVersions []string
	Revision    string
	Sources     []v1alpha1.ApplicationSource
}

func readExample(t testing.TB, file string) *example {
	t.Helper()
	archive := must.Get(txtar.ParseFile(file))(t)
	e := &example{file: file, archive: archive}
	files, links := map[string]string{}, map[string]string{}
	given := exampleRequest{App: "example", Namespace: "default", Revision: "0123456789abcdef"}
	for _, f := range archive.Files {
		switch f.Name {
		case "request.yaml":
			must.Do(t, yaml.UnmarshalStrict(f.Data, &given))
		case "want":
			e.want = string(f.Data)
		case "links":
			for line := range strings.Lines(string(f.Data)) {
				from, to, _ := strings.Cut(strings.TrimSpace(line), " -> ")
				links[from] = to
			}
		default:
			files[f.Name] = string(f.Data)
		}
	}
	e.request = render.Request{App: given.App, Namespace: given.Namespace, KubeVersion: given.KubeVersion, APIVersions: given.APIVersions}
	for i, source := range given.Sources {
		e.request.Inputs = append(e.request.Inputs, render.Input{
			Source: source, Store: exampleStore(t, fmt.Sprintf("source-%d/", i), files, links),
			Path: strings.Trim(source.Path, "./"), Revision: given.Revision, Chart: source.Chart != "",
		})
	}
	return e
}

// exampleStore has the files of one source, or all if none has the prefix.
func exampleStore(t testing.TB, prefix string, files, links map[string]string) tree.Store {
	t.Helper()
	own := map[string]string{}
	for name, text := range files {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			own[rest] = text
		}
	}
	if len(own) == 0 {
		own = files
	}
	if len(links) == 0 {
		return tree.NewMemory(own)
	}
	root := t.TempDir()
	for name, text := range own {
		place := filepath.Join(root, filepath.FromSlash(name))
		must.Do(t, os.MkdirAll(filepath.Dir(place), 0o755))
		must.Do(t, os.WriteFile(place, []byte(text), 0o644))
	}
	for from, to := range links {
		place := filepath.Join(root, filepath.FromSlash(from))
		must.Do(t, os.MkdirAll(filepath.Dir(place), 0o755))
		must.Do(t, os.Symlink(to, place))
	}
	return must.Get(tree.NewFolder(root))(t)
}

// describe is a result as text.
func describe(t testing.TB, result *render.Result, err error) string {
	t.Helper()
	var failure *render.Error
	if errors.As(err, &failure) {
		return fmt.Sprintf("%s: %s\n", failure.Kind, failure)
	}
	must.Do(t, err)
	var text strings.Builder
	for i, kind := range result.Types {
		fmt.Fprintf(&text, "# source %d: %s\n", i, kind)
	}
	for _, warning := range result.Warnings {
		fmt.Fprintf(&text, "# warning: %s\n", warning)
	}
	for _, object := range result.Objects {
		one := must.Get(json.Marshal(object.Object))(t)
		asYAML := must.Get(yaml.JSONToYAML(one))(t)
		fmt.Fprintf(&text, "---\n%s", asYAML)
	}
	return text.String()
}

// check compares a result with want, or writes it there.
func (e *example) check(t *testing.T, got string) {
	t.Helper()
	if got == e.want {
		return
	}
	if !*update {
		t.Errorf("rendered:\n%s\nwant:\n%s", got, e.want)
		return
	}
	for i := range e.archive.Files {
		if e.archive.Files[i].Name == "want" {
			e.archive.Files[i].Data = []byte(got)
		}
	}
	must.Do(t, os.WriteFile(e.file, txtar.Format(e.archive), 0o644))
}
