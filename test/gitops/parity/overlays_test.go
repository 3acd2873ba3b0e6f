package parity

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"slipway.dev/slipway/internal/must"
)

// overlayFiles are what the kustomizations below use.
func overlayFiles() map[string]string {
	return map[string]string{
		"base/kustomization.yaml": "resources: [web.yaml]\nconfigMapGenerator: [{name: conf, literals: [a=1]}]\n",
		"base/web.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, labels: {app: web}}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n" +
			"  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - {name: web, image: \"web:1\", envFrom: [{configMapRef: {name: conf}}]}\n" +
			"---\napiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n",
		"part/kustomization.yaml":   "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches: [{path: replicas.yaml}]\nresources: [extra.yaml]\n",
		"part/replicas.yaml":        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 5}\n",
		"part/extra.yaml":           configMap("extra"),
		"middle/kustomization.yaml": "resources: [../base]\nnamePrefix: mid-\n",
		"chart/own.yaml":            configMap("own"),
		"chart/app.env":             "A=1\nB=two words\n",
		"chart/text.txt":            "some text\n",
		"chart/patch.yaml":          "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  template:\n    spec:\n      containers:\n      - {name: web, resources: {limits: {cpu: 1}}}\n      - {name: side, image: \"side:2\"}\n",
		"chart/delete.yaml":         "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n$patch: delete\n",
	}
}

// overlays are kustomizations of the folder chart, in the shapes of public ones.
func overlays() map[string]string {
	return map[string]string{
		"prefix and suffix":  "resources: [../base]\nnamePrefix: a-\nnameSuffix: -z\n",
		"overlay of overlay": "resources: [../middle, own.yaml]\nnameSuffix: -top\n",
		"namespace":          "resources: [../base]\nnamespace: shop\n",
		"component":          "resources: [../base]\ncomponents: [../part]\n",
		"labels":             "resources: [../base]\nlabels: [{pairs: {team: x}, includeSelectors: true, includeTemplates: true}]\n",
		"common labels":      "resources: [../base]\ncommonLabels: {team: x}\ncommonAnnotations: {note: on-all}\n",
		"images":             "resources: [../base]\nimages: [{name: web, newName: registry.example/web, newTag: \"2\"}]\n",
		"digest":             "resources: [../base]\nimages: [{name: web, digest: sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393}]\n",
		"replicas":           "resources: [../base]\nreplicas: [{name: web, count: 3}]\n",
		"literals":           "configMapGenerator: [{name: g, literals: [a=1, \"b=x y\"], options: {labels: {x: z}}}]\n",
		"files and envs":     "configMapGenerator: [{name: g, files: [text.txt, renamed=text.txt], envs: [app.env]}]\n",
		"secret":             "secretGenerator: [{name: g, type: Opaque, files: [text.txt], literals: [k=v]}]\n",
		"without hashes":     "generatorOptions: {disableNameSuffixHash: true, annotations: {a: b}}\nconfigMapGenerator: [{name: g, literals: [a=1]}]\n",
		"merged generator":   "resources: [../base]\nconfigMapGenerator: [{name: conf, behavior: merge, literals: [b=2]}]\n",
		"strategic patch":    "resources: [../base]\npatches: [{path: patch.yaml}]\n",
		"deleting patch":     "resources: [../base]\npatches: [{path: delete.yaml}]\n",
		"json patch":         "resources: [../base]\npatches: [{target: {kind: Deployment, labelSelector: app=web}, patch: \"- {op: replace, path: /spec/replicas, value: 7}\"}]\n",
		"old patches":        "resources: [../base]\npatchesStrategicMerge: [patch.yaml]\npatchesJson6902: [{target: {version: v1, kind: Service, name: web}, patch: \"- {op: add, path: /spec/type, value: NodePort}\"}]\n",
		"replacements":       "resources: [../base, own.yaml]\nreplacements: [{source: {kind: Service, name: web, fieldPath: metadata.name}, targets: [{select: {kind: ConfigMap, name: own}, fieldPaths: [data.from]}]}]\n",
		"order":              "resources: [own.yaml, ../base]\nsortOptions: {order: legacy}\n",
	}
}

// A kustomization that is complete in Git is what Kustomize's own library builds.
func TestOverlays(t *testing.T) {
	render := folderRenderer(t, serve(t))
	for name, text := range overlays() {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for file, content := range merged(overlayFiles(), map[string]string{"chart/kustomization.yaml": text}) {
				must.Do(t, write(filepath.Join(folder, file), content))
			}
			got := must.Get(render(t, folder))(t)
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
