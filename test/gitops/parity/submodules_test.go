package parity

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// A repository with submodules renders to what a recursive clone of it renders
// to.
func TestSubmodules(t *testing.T) {
	server := gittest.Serve(t)
	deep := server.Repository(t, "deep", map[string]string{"kustomization.yaml": "resources: [deep.yaml]\n", "deep.yaml": configMap("deep")})
	module := server.Repository(t, "module", map[string]string{
		".gitmodules":             "[submodule \"d\"]\n\tpath = inner/deep\n\turl = ../deep.git\n",
		"base/kustomization.yaml": "resources: [one.yaml, ../inner/deep]\n",
		"base/one.yaml":           configMap("one"),
	})
	pinned := module.SubmoduleAt(t, "inner/deep", deep.Head(t))
	module.Commit(t, map[string]string{"base/one.yaml": configMap("newer")}, "change")
	chart := server.Repository(t, "library", library("near", "0.1.0", ""))
	for name, files := range map[string]map[string]string{
		"base":      {"chart/kustomization.yaml": "resources: [../libs/module/base, own.yaml]\n", "chart/own.yaml": configMap("own")},
		"recursion": {"chart/own.yaml": configMap("own"), "chart/.argocd-source.yaml": "directory: {recurse: true, exclude: '{**/kustomization.yaml,**/Chart.yaml,**/values.yaml,**/templates/*}'}\n"},
		"chart":     {"chart/Chart.yaml": "apiVersion: v2\nname: shop\nversion: 0.1.0\n", "chart/templates/own.yaml": configMap("own")},
	} {
		t.Run(name, func(t *testing.T) {
			files[".gitmodules"] = "[submodule \"m\"]\n\tpath = libs/module\n\turl = " + module.URL() + "\n" +
				"[submodule \"c\"]\n\tpath = chart/charts/near\n\turl = ./../library.git\n"
			repository := server.Repository(t, "super-"+name, files)
			repository.SubmoduleAt(t, "libs/module", pinned)
			repository.SubmoduleAt(t, "chart/charts/near", chart.Head(t))
			clone := filepath.Join(t.TempDir(), "clone")
			if out, err := exec.Command("git", "clone", "--quiet", "--recurse-submodules", repository.URL(), clone).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			renderer := must.Get(render.New(render.Options{}))(t)
			t.Cleanup(func() { _ = renderer.Close() })
			sources := must.Get(source.New(source.Options{Folder: t.TempDir(), Indexes: renderer}))(t)
			t.Cleanup(func() { _ = sources.Close() })
			admitted := must.Get(project.Unlimited("").Admit(v1alpha1.ApplicationSource{RepoURL: repository.URL(), TargetRevision: "main"}))(t)
			got := must.Get(renderedObjects(t, renderer, sources, must.Get(sources.Resolve(t.Context(), admitted, 0))(t).Store, repository.URL()))(t)
			want := must.Get(renderedObjects(t, renderer, sources, must.Get(tree.NewFolder(clone))(t), repository.URL()))(t)
			if !slices.Equal(got, want) || len(want) < 2 {
				t.Errorf("got\n%s\nthe clone has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// A submodule that the project does not allow is not requested, and the error has
// the submodule and the field to change.
func TestForbiddenSubmodule(t *testing.T) {
	server, others := gittest.Serve(t), gittest.Serve(t)
	secret := others.Repository(t, "secret", map[string]string{"a.yaml": configMap("stolen")})
	repository := server.Repository(t, "super", map[string]string{
		".gitmodules": "[submodule \"m\"]\n\tpath = chart/module\n\turl = " + secret.URL() + "\n", "chart/.argocd-source.yaml": "directory: {recurse: true}\n",
	})
	repository.SubmoduleAt(t, "chart/module", secret.Head(t))
	renderer := must.Get(render.New(render.Options{}))(t)
	t.Cleanup(func() { _ = renderer.Close() })
	sources := must.Get(source.New(source.Options{Folder: t.TempDir()}))(t)
	t.Cleanup(func() { _ = sources.Close() })
	limits, refused := project.Compile(&v1alpha1.AppProject{Spec: v1alpha1.AppProjectSpec{SourceRepos: []string{repository.URL()}}})
	admitted := must.Get(limits.Admit(v1alpha1.ApplicationSource{RepoURL: repository.URL(), TargetRevision: "main"}))(t)
	found := must.Get(sources.Resolve(t.Context(), admitted, 0))(t)
	before := len(others.Requests())
	result, err := renderer.Render(t.Context(), render.Request{
		App: "shop", Resolve: sources.Dependencies(limits, -1),
		Inputs: []render.Input{{Source: v1alpha1.ApplicationSource{RepoURL: repository.URL(), Path: "chart"}, Store: found.Store, Path: "chart"}},
	})
	if err == nil || !strings.Contains(err.Error(), "chart/module is a submodule") || !strings.Contains(err.Error(), "sourceRepos") {
		t.Errorf("%v, %+v, %v", err, result, refused)
	}
	if requests := others.Requests()[before:]; len(requests) > 0 {
		t.Errorf("the server was asked %q", requests)
	}
}

// A chain of submodules ends, with a reason, and each of its commits is fetched
// once: here each commit of a repository has the one before as its submodule.
func TestSubmoduleChain(t *testing.T) {
	server := gittest.Serve(t)
	chain := server.Repository(t, "chain", map[string]string{"a.yaml": configMap("end"), "chart/.argocd-source.yaml": "directory: {recurse: true}\n"})
	chain.Commit(t, map[string]string{".gitmodules": "[submodule \"next\"]\n\tpath = chart/next\n\turl = " + chain.URL() + "\n"}, "address")
	for range 20 {
		chain.SubmoduleAt(t, "chart/next", chain.Head(t))
	}
	renderer := must.Get(render.New(render.Options{}))(t)
	t.Cleanup(func() { _ = renderer.Close() })
	sources := must.Get(source.New(source.Options{Folder: t.TempDir()}))(t)
	t.Cleanup(func() { _ = sources.Close() })
	admitted := must.Get(project.Unlimited("").Admit(v1alpha1.ApplicationSource{RepoURL: chain.URL(), TargetRevision: "main"}))(t)
	found := must.Get(sources.Resolve(t.Context(), admitted, 0))(t)
	before := len(server.Requests())
	_, err := renderedObjects(t, renderer, sources, found.Store, chain.URL())
	if err == nil || !strings.Contains(err.Error(), "more than 16 deep") {
		t.Errorf("%v", err)
	}
	fetches := 0
	for _, request := range server.Requests()[before:] {
		if strings.HasPrefix(request, "POST ") {
			fetches++
		}
	}
	if fetches != 16 {
		t.Errorf("%d fetches for 16 commits", fetches)
	}
}
