package parity

import (
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/must"
)

// configMap is a manifest.
func configMap(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {from: " + name + "}\n"
}

// A kustomization with bases and components of other repositories is what
// Kustomize's own library builds with git.
func TestRemoteBases(t *testing.T) {
	server := gittest.Serve(t)
	leaf := server.Repository(t, "leaf", map[string]string{"kustomization.yaml": "resources: [leaf.yaml]\n", "leaf.yaml": configMap("leaf")})
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(configMap("of"+strings.ReplaceAll(strings.TrimSuffix(r.URL.Path, ".yaml"), "/", "-")) + "---\n" + configMap("second-"+path.Base(path.Dir(r.URL.Path)))))
	}))
	t.Cleanup(files.Close)
	base := server.Repository(t, "base", map[string]string{
		"base/kustomization.yaml":      "resources: [one.yaml]\n",
		"base/one.yaml":                configMap("one"),
		"file/kustomization.yaml":      "resources: [" + files.URL + "/main/install.yaml]\nnameSuffix: -file\n",
		"overlay/kustomization.yaml":   "resources: [../base]\nnamePrefix: over-\n",
		"component/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations: {component: added}\n",
		"chain/kustomization.yaml":     "resources: [\"" + leaf.URL() + "//?ref=main\"]\nnameSuffix: -chain\n",
	})
	base.Tag(t, "v1")
	base.Commit(t, map[string]string{"base/one.yaml": configMap("changed")}, "change")
	for name, text := range map[string]string{
		"branch":           "resources: [\"BASE//base?ref=main\"]\n",
		"tag":              "resources: [\"BASE//base?ref=v1\", own.yaml]\nnamePrefix: a-\n",
		"commit":           "resources: [\"BASE//base?ref=" + base.Head(t) + "\"]\n",
		"default":          "resources: [\"BASE//base\"]\n",
		"suffix":           "resources: [BASE/base]\n",
		"overlay":          "resources: [\"BASE//overlay?ref=v1\"]\n",
		"component":        "resources: [own.yaml]\ncomponents: [\"BASE//component?ref=v1\"]\n",
		"old field":        "bases: [\"BASE//base?ref=v1\"]\n",
		"two":              "resources: [\"BASE//overlay?ref=v1\", \"BASE//base?ref=main\"]\n",
		"file":             "resources: [\"FILES/main/install.yaml\", own.yaml]\nnamePrefix: a-\n",
		"files":            "resources: [\"FILES/main/install.yaml\", \"FILES/v2/install.yaml\"]\n",
		"base with a file": "resources: [\"BASE//file?ref=main\"]\n",
		"chain":            "resources: [\"BASE//chain?ref=main\"]\npatches: [{target: {kind: ConfigMap}, patch: \"- {op: add, path: /data/patched, value: x}\"}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			must.Do(t, write(filepath.Join(folder, "chart/kustomization.yaml"), strings.NewReplacer("BASE", base.URL(), "FILES", files.URL).Replace(text)))
			must.Do(t, write(filepath.Join(folder, "chart/own.yaml"), configMap("own")))
			got := must.Get(slipwayObjects(t, serve(t), folder))(t)
			built := must.Get(krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(folder, "chart")))(t)
			var want []string
			for _, resource := range built.Resources() {
				want = append(want, canonical(t, must.Get(resource.MarshalJSON())(t)))
			}
			slices.Sort(want)
			if !slices.Equal(got, want) || len(want) == 0 {
				t.Errorf("got\n%s\nKustomize has\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
