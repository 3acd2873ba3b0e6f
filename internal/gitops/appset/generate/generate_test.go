package generate_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// world is the facts of a test.
type world struct {
	clusters []generate.Cluster
	// trees are the files of repositories, by the end of their address.
	trees map[string]tree.Store
	// asked are the repositories that were asked for.
	asked []string
	// pulls, plugin and decisions are the input of other generators, and fetched
	// are the generators that read it.
	pulls        []generate.PullRequest
	repositories []generate.Repository
	plugin       []map[string]any
	decisions    []generate.Decision
	fetched      []any
}

func (w *world) Repositories(_ context.Context, generator *v1alpha1.SCMProviderGenerator) ([]generate.Repository, error) {
	w.fetched = append(w.fetched, generator)
	return w.repositories, nil
}

func (w *world) PullRequests(_ context.Context, generator *v1alpha1.PullRequestGenerator) ([]generate.PullRequest, error) {
	w.fetched = append(w.fetched, generator)
	return w.pulls, nil
}

func (w *world) Plugin(_ context.Context, name string, generator *v1alpha1.PluginGenerator) ([]map[string]any, error) {
	w.fetched = append(w.fetched, name, generator)
	return w.plugin, nil
}

func (w *world) Decisions(_ context.Context, generator *v1alpha1.DuckTypeGenerator) ([]generate.Decision, error) {
	w.fetched = append(w.fetched, generator)
	return w.decisions, nil
}

func (w *world) Clusters(_ context.Context, selector labels.Selector) ([]generate.Cluster, error) {
	var found []generate.Cluster
	for _, cluster := range w.clusters {
		if selector.Matches(labels.Set(cluster.Labels)) {
			found = append(found, cluster)
		}
	}
	return found, nil
}

func (w *world) Tree(_ context.Context, repoURL, revision string) (tree.Store, string, error) {
	w.asked = append(w.asked, repoURL+"@"+revision)
	store, ok := w.trees[strings.TrimPrefix(repoURL, "https://git/")]
	if !ok {
		return nil, "", errors.New("the server does not answer")
	}
	return store, "c0ffee", nil
}

// decodeSet reads an ApplicationSet.
func decodeSet(t testing.TB, text string) *v1alpha1.ApplicationSet {
	t.Helper()
	var object map[string]any
	must.Do(t, yaml.Unmarshal([]byte(text), &object))
	spec, _ := object["spec"].(map[string]any)
	object = map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindApplicationSet,
		"metadata": map[string]any{"name": "set", "namespace": "argocd"}, "spec": spec,
	}
	set, refused, err := v1alpha1.DecodeSet(object)
	if err != nil || len(refused) > 0 {
		t.Fatalf("%v %v", err, refused)
	}
	return set
}

// line is what of an Application the tests look at.
func line(application *v1alpha1.Application) string {
	destination := application.Spec.Destination
	text := fmt.Sprintf("%s %s -> %s%s/%s", application.Name, application.Spec.Source.Path, destination.Server, destination.Name, destination.Namespace)
	for _, name := range slices.Sorted(maps.Keys(application.Annotations)) {
		text += fmt.Sprintf(" %s=%s", name, application.Annotations[name])
	}
	return text
}

// TestGenerate runs the files in testdata. Each has an ApplicationSet, the files
// of repositories, clusters, and the Applications or the error.
func TestApplications(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := must.Get(txtar.ParseFile(path))(t)
			generateCase(t, archive)
		})
	}
}

func generateCase(t *testing.T, archive *txtar.Archive) {
	facts := &world{trees: map[string]tree.Store{}}
	repositories := map[string]map[string]string{}
	var set, want, wantError string
	for _, file := range archive.Files {
		switch content := string(file.Data); file.Name {
		case "set.yaml":
			set = content
		case "clusters.yaml":
			must.Do(t, yaml.Unmarshal(file.Data, &facts.clusters))
		case "pulls.yaml":
			must.Do(t, yaml.Unmarshal(file.Data, &facts.pulls))
		case "repositories.yaml":
			must.Do(t, yaml.Unmarshal(file.Data, &facts.repositories))
		case "plugin.yaml":
			must.Do(t, yaml.Unmarshal(file.Data, &facts.plugin))
		case "decisions.yaml":
			must.Do(t, yaml.Unmarshal(file.Data, &facts.decisions))
		case "want":
			want = content
		case "error":
			wantError = strings.TrimSpace(content)
		default:
			repository, path, _ := strings.Cut(file.Name, "/")
			if repositories[repository] == nil {
				repositories[repository] = map[string]string{}
			}
			repositories[repository][path] = content
		}
	}
	for name, files := range repositories {
		facts.trees[name] = tree.NewMemory(files)
	}
	applications, err := generate.Applications(t.Context(), decodeSet(t, set), facts)
	if wantError != "" {
		if err == nil || !strings.Contains(err.Error(), wantError) || applications != nil {
			t.Fatalf("error %v, want %q in it", err, wantError)
		}
		return
	}
	must.Do(t, err)
	var got strings.Builder
	for _, application := range applications {
		got.WriteString(line(application) + "\n")
	}
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", got.String(), want)
	}
}

const listed = `
spec:
  goTemplate: true
  generators: [{list: {elements: [{name: a}]}}]
  template:
    metadata: {name: '{{.name}}', labels: {l: '{{.name}}'}}
    spec: {project: default, source: {repoURL: https://git/a, path: x}, destination: {namespace: x}}
`

// An Application has what Argo CD gives it: the namespace of its set, and the
// finalizer unless objects are to stay.
func TestMetadata(t *testing.T) {
	for text, finalizers := range map[string]string{
		listed: "[resources-finalizer.argocd.argoproj.io]",
		listed + "  syncPolicy: {preserveResourcesOnDeletion: true}\n":      "[]",
		strings.Replace(listed, "labels:", "finalizers: [own], labels:", 1): "[own]",
		strings.Replace(listed, "labels:", "namespace: argocd, labels:", 1): "[resources-finalizer.argocd.argoproj.io]",
		// Without parameters the template stays as it is written.
		strings.NewReplacer("{name: a}", "{}", "'{{.name}}'", "a").Replace(listed):             "[]",
		strings.Replace(listed, "elements: [{name: a}]", "elementsYaml: '[{\"name\": a}]'", 1): "[resources-finalizer.argocd.argoproj.io]",
	} {
		applications, err := generate.Applications(t.Context(), decodeSet(t, text), &world{})
		if err != nil || len(applications) != 1 {
			t.Fatalf("%v %v", applications, err)
		}
		made := applications[0]
		if got := fmt.Sprint(made.Finalizers); got != finalizers {
			t.Errorf("finalizers %s, want %s", got, finalizers)
		}
		if made.Namespace != "argocd" || made.Kind != "Application" || made.APIVersion != v1alpha1.APIVersion || made.Labels["l"] != "a" {
			t.Errorf("it is %+v", made)
		}
	}
}

// Each repository is asked once, so that all generators see one commit.
func TestOneCommit(t *testing.T) {
	set := decodeSet(t, `
spec:
  goTemplate: true
  generators:
  - matrix:
      generators:
      - git: {repoURL: https://git/a, revision: HEAD, directories: [{path: '*'}]}
      - git: {repoURL: https://git/a, revision: HEAD, files: [{path: '{{.path.path}}/c.yaml'}], pathParamPrefix: file}
  template:
    metadata: {name: '{{.path.basename}}-{{.v}}'}
    spec: {project: default, source: {repoURL: https://git/a, path: x}, destination: {namespace: x}}
`)
	facts := &world{trees: map[string]tree.Store{"a": tree.NewMemory(map[string]string{"x/c.yaml": "v: 1", "z/c.yaml": "v: 2"})}}
	applications, err := generate.Applications(t.Context(), set, facts)
	if err != nil || len(applications) != 2 || len(facts.asked) != 1 {
		t.Errorf("%v %v, asked %v", applications, err, facts.asked)
	}
}

// manyFolders is a repository that never ends.
type manyFolders struct{ tree.Store }

func (manyFolders) List(string) ([]tree.Entry, error) {
	entries := make([]tree.Entry, 300)
	for i := range entries {
		entries[i] = tree.Entry{Name: fmt.Sprint("f", i), Kind: tree.Folder}
	}
	return entries, nil
}

func (manyFolders) Entry(string) (tree.Entry, error)   { return tree.Entry{}, fs.ErrNotExist }
func (manyFolders) Read(string, int64) ([]byte, error) { return nil, fs.ErrNotExist }

// What is too much is an error.
func TestBounded(t *testing.T) {
	rest := `
  template:
    metadata: {name: 'a{{.a}}-{{.b}}'}
    spec: {project: default, source: {repoURL: https://git/a, path: x}, destination: {namespace: x}}
`
	many := "[" + strings.TrimSuffix(strings.Repeat("{a: '1'},", 300), ",") + "]"
	for text, part := range map[string]string{
		"spec:\n  goTemplate: true\n  generators: [{git: {repoURL: https://git/many, revision: HEAD, directories: [{path: '*/*/*'}]}}]" + rest:             "more than 200000 folders",
		"spec:\n  goTemplate: true\n  generators: [{git: {repoURL: https://git/many, revision: HEAD, files: [{path: '*.yaml'}]}}]" + rest:                  "more than 200000 folders",
		"spec:\n  goTemplate: true\n  generators: [{matrix: {generators: [{list: {elements: " + many + "}}, {list: {elements: " + many + "}}]}}]" + rest:   "more than 20000 sets",
		"spec:\n  goTemplate: true\n  generators: [{list: {elementsYaml: '[" + strings.Repeat("{a: x, b: z},", 6000) + "]'}}]" + rest:                      "more than 5000 Applications",
		"spec:\n  goTemplate: true\n  generators: [{git: {repoURL: https://git/large, revision: HEAD, files: [{path: 'large.yaml'}]}}]" + rest:             "larger than",
		"spec:\n  goTemplate: true\n  generators: [{list: {elementsYaml: 'x: &x [a,a,a,a,a,a,a,a]'}}]" + rest:                                              "not a list",
		"spec:\n  goTemplate: true\n  generators: [{list: {elements: [{a: x}]}}]" + strings.Replace(rest, "path: x", "path: '{{repeat 100000000 .a}}'", 1): "KiB",
	} {
		facts := &world{trees: map[string]tree.Store{
			"many": manyFolders{}, "large": tree.NewMemory(map[string]string{"large.yaml": strings.Repeat("a", 2<<20)}),
		}}
		applications, err := generate.Applications(t.Context(), decodeSet(t, text), facts)
		if err == nil || !strings.Contains(err.Error(), part) || applications != nil {
			t.Errorf("%.100s: %d Applications, %v, want %q", text, len(applications), err, part)
		}
	}
}
