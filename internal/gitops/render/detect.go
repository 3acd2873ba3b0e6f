package render

import (
	"errors"
	"io/fs"
	"path"
	"reflect"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/tree"
)

// sourceType returns how a source is rendered: by its options, by the plugin that
// matches it, or else by the files in its folder. As in Argo CD, a folder with both
// a chart and a kustomization is a kustomization.
func sourceType(files job.Files, source *job.Source) (v1alpha1.SourceType, error) {
	given := &source.Source
	switch {
	case isGiven(given.Plugin):
		return v1alpha1.SourcePlugin, nil
	case isGiven(given.Helm), source.Plugin == "" && (source.Chart || given.Chart != ""):
		return v1alpha1.SourceHelm, nil
	case isGiven(given.Kustomize):
		return v1alpha1.SourceKustomize, nil
	case isGiven(given.Directory):
		return v1alpha1.SourceDirectory, nil
	case source.Plugin != "":
		return v1alpha1.SourcePlugin, nil
	}
	// The order decides: a kustomization goes before a chart.
	for _, mark := range []struct {
		name  string
		means v1alpha1.SourceType
	}{
		{"kustomization.yaml", v1alpha1.SourceKustomize},
		{"kustomization.yml", v1alpha1.SourceKustomize},
		{"Kustomization", v1alpha1.SourceKustomize},
		{"Chart.yaml", v1alpha1.SourceHelm},
	} {
		// A folder of that name does not count. A refusal is returned: the type
		// must not depend on a file that cannot be read.
		entry, err := files.Stat(path.Join(source.Path, mark.name))
		if err == nil && entry.Kind == tree.File {
			return mark.means, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return v1alpha1.SourceDirectory, nil
}

// isGiven reports whether options are set; an empty object is not. Argo CD
// treats "helm: {}" as absent too, and then detects the type by the files.
func isGiven[T any](options *T) bool {
	return options != nil && !reflect.ValueOf(options).Elem().IsZero()
}
