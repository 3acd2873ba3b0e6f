package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/job"
)

// applyOverrides merges the files .argocd-source.yaml and
// .argocd-source-NAME.yaml of the application's folder into its source, as Argo
// CD does. They change how files are rendered, but not which: the address, path
// and revision were checked by the project and must not move. The file of one
// application comes second and wins over the common one.
func applyOverrides(files job.Files, app string, source *job.Source) error {
	names := []string{".argocd-source.yaml"}
	if app != "" {
		names = append(names, ".argocd-source-"+app+".yaml")
	}
	for _, name := range names {
		file := path.Join(source.Path, name)
		text, err := files.Read(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var patch map[string]any
		if err := yaml.Unmarshal(text, &patch); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		renameForceString(patch)
		merged, err := mergeSource(source.Source, patch)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		source.Source = *merged
	}
	return nil
}

// renameForceString renames a field of parameters that Argo CD's Image Updater writes in
// lower case, and Argo CD reads in any.
func renameForceString(patch map[string]any) {
	helm, _ := patch["helm"].(map[string]any)
	parameters, _ := helm["parameters"].([]any)
	for _, one := range parameters {
		parameter, _ := one.(map[string]any)
		if value, there := parameter["forcestring"]; there {
			delete(parameter, "forcestring")
			parameter["forceString"] = value
		}
	}
}

// mergeSource is a source with some of its fields replaced. It passes the same
// checks as one that is in an Application.
func mergeSource(source v1alpha1.ApplicationSource, patch map[string]any) (*v1alpha1.ApplicationSource, error) {
	text, err := json.Marshal(source)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	if err := utiljson.Unmarshal(text, &content); err != nil {
		return nil, err
	}
	// These fields stay as they are in the Application: the project has checked
	// them.
	kept := map[string]any{}
	for _, field := range []string{"repoURL", "path", "chart", "targetRevision", "tagPrefix", "ref", "name"} {
		if value, ok := content[field]; ok {
			kept[field] = value
		}
		delete(patch, field)
	}
	// Through text, so that numbers have the types that Decode expects.
	mergedText, err := json.Marshal(mergePatch(content, patch))
	if err != nil {
		return nil, err
	}
	var merged map[string]any
	if err := utiljson.Unmarshal(mergedText, &merged); err != nil {
		return nil, err
	}
	maps.Copy(merged, kept)
	if source.RepoURL == "" {
		merged["repoURL"] = localRepository
	}
	// Decode checks the merged source as it would in an Application, so that a
	// file in Git cannot use a field that is refused there.
	application, refused, err := v1alpha1.Decode(map[string]any{
		"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.KindApplication,
		"metadata": map[string]any{"name": "overrides"},
		"spec": map[string]any{
			"project": v1alpha1.DefaultProject, "destination": map[string]any{}, "sources": []any{merged},
		},
	})
	switch {
	case err != nil:
		return nil, err
	case len(refused) > 0:
		return nil, &refusal.Refusal{Reason: refusal.Invalid, Message: refusal.Summary(refused)}
	case len(application.Spec.Sources) != 1:
		return nil, errors.New("it is not a source")
	}
	made := &application.Spec.Sources[0]
	made.RepoURL = source.RepoURL
	return made, nil
}

// localRepository stands for the address of a folder on this machine, which has
// none: a source in an Application must have one, and a source of "slipway
// render" has not.
const localRepository = "file:///"

// mergePatch is a JSON merge patch: null removes, objects merge, all else
// replaces. It changes target, which the caller has decoded for this purpose.
func mergePatch(target, patch map[string]any) map[string]any {
	if target == nil {
		target = map[string]any{}
	}
	for key, value := range patch {
		switch value := value.(type) {
		case nil:
			delete(target, key)
		case map[string]any:
			below, _ := target[key].(map[string]any)
			target[key] = mergePatch(below, value)
		default:
			target[key] = value
		}
	}
	return target
}
