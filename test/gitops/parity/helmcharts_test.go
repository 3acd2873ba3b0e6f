package parity

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"slipway.dev/slipway/internal/must"
)

// Charts of a kustomization are what Kustomize makes of them with the command
// helm.
func TestHelmCharts(t *testing.T) {
	s := serve(t)
	chart := library("redis", "1.0.0", "")
	chart["templates/hook.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hook, annotations: {helm.sh/hook: pre-install}}\n"
	chart["templates/role.yaml"] = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Release.Name }}\", namespace: {{ .Release.Namespace }}}\ndata: {list: {{ .Values.list | toJson | quote }}, kube: {{ .Capabilities.KubeVersion.Version }}}\n"
	s.publish(t, chart)
	s.publish(t, library("redis", "1.1.0", ""))
	const one = "helmCharts: [{name: redis, releaseName: cache, repo: HELM, version: 1.0.0, kubeVersion: v1.30.0"
	for name, text := range map[string]string{
		"plain":      one + "}]\n",
		"registry":   strings.Replace(one, "HELM", "OCI", 1) + "}]\n",
		"crds":       one + ", includeCRDs: true}]\n",
		"namespace":  one + ", namespace: shop}]\nnamespace: other\nresources: [own.yaml]\n",
		"no hooks":   one + ", skipHooks: true}]\n",
		"inline":     one + ", valuesInline: {colour: blue, list: [1]}}]\n",
		"override":   one + ", valuesFile: values.yaml, valuesInline: {colour: blue, list: [1]}}]\n",
		"merge":      one + ", valuesFile: values.yaml, valuesMerge: merge, valuesInline: {colour: blue, list: [1], more: x}}]\n",
		"replace":    one + ", valuesFile: values.yaml, valuesMerge: replace, valuesInline: {list: [1]}}]\n",
		"additional": one + ", additionalValuesFiles: [values.yaml], valuesInline: {colour: blue}}]\n",
		"edited":     one + "}]\nnamePrefix: a-\ncommonLabels: {x: z}\npatches: [{target: {kind: ConfigMap, name: cache}, patch: \"- {op: add, path: /data/patched, value: x}\"}]\n",
		"local":      "helmCharts: [{name: near, releaseName: cache}]\n",
		"home":       "helmGlobals: {chartHome: elsewhere}\nhelmCharts: [{name: near, releaseName: cache}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			files := map[string]string{"kustomization.yaml": text, "own.yaml": configMap("own"), "values.yaml": "colour: red\nlist: [2, 3]\n"}
			for _, home := range []string{"charts/near/", "elsewhere/near/"} {
				for name, text := range prefixed(home, library("near", "0.1.0", "")) {
					files[name] = text
				}
			}
			for name, text := range files {
				must.Do(t, write(filepath.Join(folder, "chart", name), s.replace(text)))
			}
			got := must.Get(slipwayObjects(t, s, folder))(t)
			options := krusty.MakeDefaultOptions()
			options.PluginConfig = types.EnabledPluginConfig(types.BploUseStaticallyLinked)
			options.PluginConfig.HelmConfig.Command = must.Get(os.Executable())(t)
			built := must.Get(krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Join(folder, "chart")))(t)
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
