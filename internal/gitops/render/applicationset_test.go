package render_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// setFacts are one repository and some clusters.
type setFacts struct {
	files map[string]string
	err   error
	// opened is called before the files are given.
	opened func(context.Context)
}

func (f *setFacts) Clusters(_ context.Context, selector labels.Selector) ([]generate.Cluster, error) {
	var found []generate.Cluster
	for _, name := range []string{"one", "two"} {
		if cluster := (generate.Cluster{Name: name, Server: "https://" + name, Labels: map[string]string{"is": name}}); selector.Matches(labels.Set(cluster.Labels)) {
			found = append(found, cluster)
		}
	}
	return found, f.err
}

func (f *setFacts) Tree(ctx context.Context, repoURL, revision string) (tree.Store, string, error) {
	if f.opened != nil {
		f.opened(ctx)
	}
	if repoURL != "https://git/a" || revision != "main" {
		return nil, "", fmt.Errorf("%s at %s is another repository", repoURL, revision)
	}
	return tree.NewMemory(f.files), "c0ffee", f.err
}

func (f *setFacts) Repositories(_ context.Context, g *v1alpha1.SCMProviderGenerator) ([]generate.Repository, error) {
	return []generate.Repository{{Name: g.GitHub.Organization + "-a"}}, f.err
}

func (f *setFacts) PullRequests(_ context.Context, g *v1alpha1.PullRequestGenerator) ([]generate.PullRequest, error) {
	return []generate.PullRequest{{Number: 1, Branch: g.GitHub.Owner + "/" + g.GitHub.Repo}}, f.err
}

func (f *setFacts) Plugin(_ context.Context, name string, g *v1alpha1.PluginGenerator) ([]map[string]any, error) {
	return []map[string]any{{"name": name + "-" + g.ConfigMapRef.Name}}, f.err
}

func (f *setFacts) Decisions(_ context.Context, g *v1alpha1.DuckTypeGenerator) ([]generate.Decision, error) {
	return []generate.Decision{{Name: g.ConfigMapRef, Server: "https://" + g.Name}}, f.err
}

// TestGenerateFetched: input of Git hosts, plugins and objects reaches the worker.
func TestGenerateFetched(t *testing.T) {
	renderer := newRenderer(t, render.Options{})
	for spec, want := range map[string]string{
		"generators: [{pullRequest: {github: {owner: a, repo: b}}}]" + strings.Replace(setTemplate, "{{.name}}", "{{.branch_slug}}-{{.number}}", 1): "argocd/a-b-1",
		"generators: [{scmProvider: {github: {organization: o}}}]" + strings.Replace(setTemplate, "{{.name}}", "{{.repository}}", 1):                "argocd/o-a",
		"generators: [{plugin: {configMapRef: {name: x}}}]" + setTemplate:                                                                           "argocd/set-x",
		"generators: [{clusterDecisionResource: {configMapRef: c, name: d}}]" + setTemplate:                                                         "argocd/c",
	} {
		if got, err := generateIn(t, renderer, spec, &setFacts{}); err != nil || got != want {
			t.Errorf("%.60s gives %q, %v, want %q", spec, got, err, want)
		}
		if _, err := generateIn(t, renderer, spec, &setFacts{err: errors.New("no such host")}); err == nil || !strings.Contains(err.Error(), "no such host") {
			t.Errorf("%.60s: %v", spec, err)
		}
	}
}

const setTemplate = `
  template:
    metadata: {name: '{{.name}}'}
    spec: {project: default, source: {repoURL: https://git/a, path: x}, destination: {namespace: x}}
`

func filesSet(pattern string) string {
	return "generators: [{git: {repoURL: https://git/a, revision: main, files: [{path: '" + pattern + "'}]}}]" + setTemplate
}

// setOf is an ApplicationSet with this spec.
func setOf(t *testing.T, spec string) (set map[string]any) {
	t.Helper()
	text := "apiVersion: argoproj.io/v1alpha1\nkind: ApplicationSet\nmetadata: {name: set, namespace: argocd}\nspec:\n  goTemplate: true\n  " + spec
	must.Do(t, yaml.Unmarshal([]byte(text), &set))
	return set
}

const oneElement = "generators: [{list: {elements: [{name: a}]}}]" + setTemplate

// generateIn gives the names of Applications.
func generateIn(t *testing.T, r *render.Renderer, spec string, facts generate.Facts) (string, error) {
	t.Helper()
	var names []string
	err := r.Generate(t.Context(), setOf(t, spec), facts, func(application []byte) error {
		var decoded struct {
			Metadata struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal(application, &decoded); err != nil {
			return err
		}
		names = append(names, decoded.Metadata.Namespace+"/"+decoded.Metadata.Name)
		return nil
	})
	return strings.Join(names, " "), err
}

// A worker gives the Applications of a set, with files and clusters that it
// requests.
func TestGenerate(t *testing.T) {
	r := newRenderer(t, render.Options{})
	facts := &setFacts{files: map[string]string{"apps/a.json": `{"name": "a"}`, "apps/b.yaml": "[{name: b}, {name: c}]", "other": "x"}}
	for spec, want := range map[string]string{
		filesSet("apps/*"): "argocd/a argocd/b argocd/c",
		"generators: [{clusters: {selector: {matchLabels: {is: two}}}}]" + setTemplate:                                                                                                                     "argocd/two",
		"generators: [{matrix: {generators: [{clusters: {}}, {git: {repoURL: https://git/a, revision: main, directories: [{path: '*'}]}}]}}]" + strings.Replace(setTemplate, ".name", ".path.basename", 1): "several Applications would be called apps",
		"generators: [{list: {elements: []}}]" + setTemplate:                                                                                                                                               "",
	} {
		got, err := generateIn(t, r, spec, facts)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
	}
	// Errors have their place, and are complete.
	facts.err = errors.New("the server is away")
	for spec, want := range map[string]string{
		filesSet("apps/*"): "spec.generators[0]: the server is away",
		"generators: [{list: {elements: []}}, {clusters: {}}]" + setTemplate: "spec.generators[1]: the clusters cannot be read: the server is away",
	} {
		if got, err := generateIn(t, r, spec, facts); err == nil || err.Error() != want {
			t.Errorf("%s: %q, %v, want %q", spec, got, err, want)
		}
	}
	if result, err := r.Render(t.Context(), small()); err != nil || len(result.Objects) != 1 {
		t.Errorf("a render afterwards: %v", err)
	}
}

// Sets beyond a limit are refused with what to change, and what the caller does
// not take is an error.
func TestGenerateLimits(t *testing.T) {
	many := strings.Repeat("{a: 1},", 140000)
	for name, tt := range map[string]struct {
		options render.Options
		files   map[string]string
		spec    string
		want    string
	}{
		"file":     {render.Options{}, map[string]string{"a.json": strings.Repeat(" ", 1<<20+1)}, filesSet("*"), "a.json: a file of parameters has 1048577 bytes, and may have 1048576: split it"},
		"memory":   {render.Options{MemoryBytes: 64 << 20}, map[string]string{"a.yaml": "name: a\nx: [" + many + "]", "b.yaml": "name: b\nx: [" + many + "]"}, filesSet("*"), "64 MiB of memory and was stopped: make the files that the generators read smaller, or raise render.memoryLimit of the agent"},
		"output":   {render.Options{OutputBytes: 1 << 10}, map[string]string{"a.yaml": "[{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]"}, filesSet("*"), "larger than 1024 bytes together: use several ApplicationSets, or raise render.outputLimit of the agent"},
		"aliases":  {render.Options{}, map[string]string{"a.yaml": aliases()}, filesSet("*"), "a.yaml"},
		"not JSON": {render.Options{}, map[string]string{"a.yaml": "- a\n"}, filesSet("*"), "neither an object nor a list"},
	} {
		r := newRenderer(t, tt.options)
		got, err := generateIn(t, r, tt.spec, &setFacts{files: tt.files})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if _, err := generateIn(t, r, oneElement, &setFacts{}); err != nil && name != "output" {
			t.Errorf("%s: afterwards: %v", name, err)
		}
	}
	r := newRenderer(t, render.Options{})
	if err := r.Generate(t.Context(), setOf(t, oneElement), &setFacts{}, func([]byte) error { return io.ErrShortWrite }); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("what is not taken: %v", err)
	}
}

// Sets that wait for Git keep no Application from being rendered, and end with
// the call.
func TestGenerateWaits(t *testing.T) {
	r := newRenderer(t, render.Options{Workers: 1})
	ctx, cancel := context.WithCancel(t.Context())
	opened, ended := make(chan struct{}), make(chan error, 2)
	facts := &setFacts{opened: func(ctx context.Context) {
		opened <- struct{}{}
		<-ctx.Done()
	}}
	set := setOf(t, filesSet("*"))
	for range 2 {
		go func() { ended <- r.Generate(ctx, set, facts, func([]byte) error { return nil }) }()
	}
	for range 2 {
		select {
		case <-opened:
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		}
	}
	if result, err := r.Render(t.Context(), small()); err != nil || len(result.Objects) != 1 {
		t.Errorf("a render meanwhile: %v", err)
	}
	cancel()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	}
}
