// Package parity compares what Slipway renders with what Helm's and Kustomize's
// own libraries make of the same files, called as Argo CD calls them, with Helm
// repositories, registries and Git servers on loopback: 68 charts, 46
// kustomizations and 10 sources of Jsonnet, in the shapes that public repositories
// have.
package parity

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	charter "helm.sh/helm/v4/pkg/chart"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/downloader"
	"helm.sh/helm/v4/pkg/getter"
	"helm.sh/helm/v4/pkg/registry"
	release "helm.sh/helm/v4/pkg/release/v1"
	"helm.sh/helm/v4/pkg/repo/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/argotest"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// The test program is its own render worker, and the command helm of Kustomize.
func TestMain(m *testing.M) {
	if isHelm(os.Args) {
		if err := runHelm(os.Args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	argotest.Main(m, func(m *testing.M) { os.Exit(m.Run()) })
}

// library is a chart that is published in some versions: it has an object with
// its version and a value.
func library(name, version, more string) map[string]string {
	return map[string]string{
		"Chart.yaml":       "apiVersion: v2\nname: " + name + "\nversion: " + version + "\n" + more,
		"values.yaml":      "colour: green\nexports: {shared: {exported: yes}}\n",
		"templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Chart.Name }}-{{ .Chart.Version }}\"}\ndata: {colour: {{ .Values.colour | quote }}, global: {{ (.Values.global | default dict).x | default `none` | quote }}}\n",
		"crds/crd.yaml":    "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: " + name + "s.example.com}\n",
	}
}

// dependencyCase is a chart in Git, in the folder chart, and what is there
// besides it.
type dependencyCase struct {
	name         string
	dependencies string // of Chart.yaml
	values       string
	// lock: Chart.lock is written, by Helm, before newer versions are published.
	lock  bool
	files map[string]string
}

// dependencyCases are the shapes of public charts.
func dependencyCases() []dependencyCase {
	one := func(fields string) string { return "dependencies: [{name: redis, repository: HELM, " + fields + "}]\n" }
	return []dependencyCase{
		{name: "exact", dependencies: one("version: 1.0.0")},
		{name: "range", dependencies: one("version: 1.x")},
		{name: "partial", dependencies: one(`version: "1.1"`)},
		{name: "tilde", dependencies: one(`version: "~1.1.0"`)},
		{name: "with a v", dependencies: one("version: v1.0.0")},
		{name: "pre-release", dependencies: one(`version: ">=2.0.0-0"`)},
		{name: "any", dependencies: one(`version: "*"`)},
		{name: "locked range", dependencies: one("version: 1.x"), lock: true},
		{name: "registry", dependencies: "dependencies: [{name: redis, repository: OCI, version: 1.1.0}]\n"},
		{name: "range in a registry", dependencies: "dependencies: [{name: redis, repository: OCI, version: ^1.0.0}]\n"},
		{name: "metadata in a registry", dependencies: "dependencies: [{name: redis, repository: OCI, version: 1.2.0+build.1}]\n"},
		{name: "locked in a registry", dependencies: "dependencies: [{name: redis, repository: OCI, version: ^1.0.0}]\n", lock: true},
		{name: "alias", dependencies: one("version: 1.0.0, alias: cache"), values: "cache: {colour: blue}\n"},
		{name: "two versions", dependencies: "dependencies: [{name: redis, repository: HELM, version: 1.0.0, alias: old}, {name: redis, repository: HELM, version: 1.1.0, alias: new}]\n",
			values: "old: {colour: blue}\nnew: {colour: red}\n"},
		{name: "two aliases", dependencies: "dependencies: [{name: redis, repository: HELM, version: 1.0.0, alias: a}, {name: redis, repository: HELM, version: 1.0.0, alias: b}]\n",
			values: "a: {colour: blue}\n", lock: true},
		{name: "by name", dependencies: "dependencies: [{name: redis, repository: \"@repository\", version: 1.x}]\n"},
		{name: "by alias of a repository", dependencies: "dependencies: [{name: redis, repository: \"alias:repository\", version: 1.x}]\n", lock: true},
		{name: "condition", dependencies: one("version: 1.0.0, condition: redis.enabled"), values: "redis: {enabled: false}\n"},
		{name: "tags", dependencies: "dependencies: [{name: redis, repository: HELM, version: 1.0.0, tags: [x]}, {name: web, repository: HELM, version: 1.0.0, tags: [y]}]\n", values: "tags: {x: false}\n"},
		{name: "import values", dependencies: one("version: 1.0.0, import-values: [shared]"), values: "global: {x: of the parent}\n"},
		{name: "nested in the archive", dependencies: "dependencies: [{name: nested, repository: HELM, version: 1.0.0}]\n", values: "nested: {redis: {colour: deep}}\n"},
		{name: "local", dependencies: "dependencies: [{name: near, repository: \"file://../near\", version: 0.1.0}]\n", files: prefixed("near/", library("near", "0.1.0", ""))},
		{name: "local and far", dependencies: "dependencies: [{name: near, repository: \"file://../near\", version: 0.x}, {name: redis, repository: HELM, version: 1.0.0}]\n",
			files: prefixed("near/", library("near", "0.1.0", "")), lock: true},
		{name: "in charts", dependencies: "dependencies: [{name: near, version: 0.1.0}, {name: redis, repository: HELM, version: 1.0.0}]\n", files: prefixed("chart/charts/near/", library("near", "0.1.0", ""))},
		{name: "all in charts", dependencies: one("version: 2.0.0"), files: prefixed("chart/charts/redis/", library("redis", "1.0.0", ""))},
	}
}

// prefixed has files in a folder.
func prefixed(folder string, files map[string]string) map[string]string {
	moved := map[string]string{}
	for name, text := range files {
		moved[folder+name] = text
	}
	return moved
}

// A chart with dependencies renders to the objects of "helm dependency build" and
// "helm template", from real repositories and registries.
func TestChartDependencies(t *testing.T) {
	for _, c := range dependencyCases() {
		t.Run(c.name, func(t *testing.T) {
			s := serve(t)
			for _, version := range []string{"0.9.0", "1.0.0", "1.1.0"} {
				s.publish(t, library("redis", version, ""))
			}
			s.publish(t, library("web", "1.0.0", ""))
			nested := library("nested", "1.0.0", "dependencies: [{name: redis, repository: HELM, version: 1.0.0}]\n")
			for name, text := range prefixed("charts/redis/", library("redis", "1.0.0", "")) {
				nested[name] = text
			}
			s.publish(t, nested)
			folder := c.write(t, s)
			chart := filepath.Join(folder, "chart")
			if c.lock {
				must.Do(t, helmManager(t, s, chart).Update())
				must.Do(t, os.RemoveAll(filepath.Join(chart, "charts", "")))
				for name, text := range c.files {
					must.Do(t, write(filepath.Join(folder, name), s.replace(text)))
				}
			}
			for _, version := range []string{"1.1.7", "1.2.0+build.1", "2.0.0-rc.1"} {
				s.publish(t, library("redis", version, ""))
			}
			got := must.Get(slipwayObjects(t, s, folder))(t)
			want := helmObjects(t, s, chart)
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nHelm has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if len(want) == 0 {
				t.Error("nothing was rendered")
			}
		})
	}
}

// write writes the folder of a case.
func (c *dependencyCase) write(t *testing.T, s *servers) string {
	t.Helper()
	folder := t.TempDir()
	files := map[string]string{
		"chart/Chart.yaml":       "apiVersion: v2\nname: shop\nversion: 0.1.0\n" + c.dependencies,
		"chart/values.yaml":      c.values,
		"chart/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shop}\ndata: {exported: {{ .Values.exported | default `no` | quote }}}\n",
	}
	for name, text := range c.files {
		files[name] = text
	}
	for name, text := range files {
		must.Do(t, write(filepath.Join(folder, name), s.replace(text)))
	}
	return folder
}

// write writes a file and the folders above it.
func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// helmManager is what the helm command uses for its dependencies.
func helmManager(t *testing.T, s *servers, chart string) *downloader.Manager {
	t.Helper()
	home := t.TempDir()
	config := repo.NewFile()
	config.Add(&repo.Entry{Name: "repository", URL: s.helm()})
	file := filepath.Join(home, "repositories.yaml")
	must.Do(t, config.WriteFile(file, 0o600))
	client := must.Get(registry.NewClient(registry.ClientOptPlainHTTP(), registry.ClientOptWriter(io.Discard), registry.ClientOptCredentialsFile(filepath.Join(home, "registry.json"))))(t)
	return &downloader.Manager{
		Out: io.Discard, ChartPath: chart, Getters: getter.All(cli.New(), getter.WithRegistryClient(client), getter.WithPlainHTTP(true)), RegistryClient: client,
		RepositoryConfig: file, RepositoryCache: filepath.Join(home, "cache"), ContentCache: filepath.Join(home, "content"),
	}
}

// helmObjects are those of Helm's library, called as Argo CD calls helm: the
// dependencies are built if one of them is missing.
func helmObjects(t *testing.T, s *servers, chart string) []string {
	t.Helper()
	loaded := must.Get(loader.LoadDir(chart))(t)
	if action.CheckDependencies(loaded, must.Get(charter.NewAccessor(loaded))(t).MetaDependencies()) != nil {
		must.Do(t, helmManager(t, s, chart).Build())
		loaded = must.Get(loader.LoadDir(chart))(t)
	}
	install := action.NewInstall(&action.Configuration{})
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace, install.Replace, install.IncludeCRDs = "shop", "default", true, true
	made := must.Get(install.Run(loaded, map[string]any{}))(t).(*release.Release)
	var objects []string
	for _, object := range decodePrinted(t, printed(made)) {
		objects = append(objects, canonical(t, object))
	}
	slices.Sort(objects)
	return objects
}

// printed is what the command helm template prints of a release.
func printed(of *release.Release) string {
	var out strings.Builder
	fmt.Fprintln(&out, strings.TrimSpace(of.Manifest))
	for _, hook := range of.Hooks {
		fmt.Fprintf(&out, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return out.String()
}

// decodePrinted reads the objects of a text with the decoder of kubectl, which
// Argo CD uses too: a defect of our own one would be in both sides of a comparison.
func decodePrinted(t *testing.T, text string) []json.RawMessage {
	t.Helper()
	decoder := kubeyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	var objects []json.RawMessage
	for {
		var object json.RawMessage
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		must.Do(t, err)
		if len(object) == 0 || string(object) == "null" {
			continue // only comments
		}
		var list struct {
			Kind  string
			Items []json.RawMessage
		}
		must.Do(t, json.Unmarshal(object, &list))
		if list.Kind == "List" {
			objects = append(objects, list.Items...)
		} else {
			objects = append(objects, object)
		}
	}
}

// canonical is an object with sorted keys.
func canonical(t *testing.T, text []byte) string {
	t.Helper()
	var object any
	must.Do(t, json.Unmarshal(text, &object))
	return string(must.Get(json.Marshal(object))(t))
}

// slipwayObjects are those of our renderer, in a worker.
func slipwayObjects(t *testing.T, s *servers, folder string) ([]string, error) {
	t.Helper()
	return folderRenderer(t, s)(t, folder)
}

// folderRenderer is slipwayObjects for many folders: a worker is started once for
// all of them.
func folderRenderer(t *testing.T, s *servers) func(t *testing.T, folder string) ([]string, error) {
	t.Helper()
	renderer := must.Get(render.New(render.Options{}))(t)
	t.Cleanup(func() { _ = renderer.Close() })
	book := &credential.Store{}
	book.Set(types.NamespacedName{Namespace: "argocd", Name: "registry"}, credential.Credential{Scope: credential.Repository, URL: s.oci(), InsecureOCIForceHTTP: true})
	book.Set(types.NamespacedName{Namespace: "argocd", Name: "charts"}, credential.Credential{Scope: credential.Repository, Kind: credential.Helm, Name: "repository", URL: s.helm()})
	sources := must.Get(source.New(source.Options{Folder: t.TempDir(), Credentials: book, Indexes: renderer}))(t)
	t.Cleanup(func() { _ = sources.Close() })
	return func(t *testing.T, folder string) ([]string, error) {
		t.Helper()
		return renderedObjects(t, renderer, sources, must.Get(tree.NewFolder(folder))(t), "https://git.example/a.git")
	}
}

// renderedObjects are those of the folder chart of a repository.
func renderedObjects(t *testing.T, renderer *render.Renderer, sources *source.Sources, store tree.Store, url string) ([]string, error) {
	t.Helper()
	result, err := renderer.Render(t.Context(), render.Request{
		App: "shop", Namespace: "default", Resolve: sources.Dependencies(project.Unlimited(""), -1),
		Inputs: []render.Input{{Source: v1alpha1.ApplicationSource{RepoURL: url, Path: "chart"}, Store: store, Path: "chart"}},
	})
	if err != nil {
		return nil, err
	}
	var objects []string
	for _, object := range result.Objects {
		objects = append(objects, canonical(t, must.Get(object.MarshalJSON())(t)))
	}
	slices.Sort(objects)
	return objects, nil
}
