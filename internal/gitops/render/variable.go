package render

import (
	"os"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/gitops/render/job"
)

// variables are Argo CD's build environment: names that fields of a source can
// use as $NAME or ${NAME}. $$ is a $, and a name that does not exist is empty.
type variables struct {
	values map[string]string
	refs   []string
	// revision: a name was used that is another for each revision.
	revision bool
}

// newVariables returns the variables of one source.
func newVariables(work *job.Job, source *job.Source) *variables {
	v := &variables{values: job.BuildEnvironment(work, source)}
	for i := range work.Sources {
		if ref := work.Sources[i].Source.Ref; ref != "" {
			v.refs = append(v.refs, ref)
		}
	}
	return v
}

// replace puts values in place of names. os.Expand calls the function for $$
// with the name "$".
func (v *variables) replace(text string) string {
	if !strings.Contains(text, "$") {
		return text
	}
	return os.Expand(text, func(name string) string {
		if name == "$" {
			return "$"
		}
		// A result that contains the revision holds for this revision only.
		if strings.HasPrefix(name, "ARGOCD_APP_REVISION") {
			v.revision = true
		}
		return v.values[name]
	})
}

// replaceFile keeps the reference to a source at the beginning of a path, also
// one that does not exist: the render reports it with its name.
func (v *variables) replaceFile(text string) string {
	first, rest, _ := strings.Cut(text, "/")
	name, ok := strings.CutPrefix(first, "$")
	_, known := v.values[name]
	if ok && (slices.Contains(v.refs, name) || !known && isName(name)) {
		return first + "/" + v.replace(rest)
	}
	return v.replace(text)
}

// isName reports whether a text can be the ref of a source.
func isName(text string) bool {
	return text != "" && strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

// apply replaces names in the fields that Argo CD replaces them in. The source
// is the worker's own. Other fields, such as values, are passed on as they are,
// because a $ in them may be meant for the application.
func (v *variables) apply(source *job.Source) {
	if helm := source.Source.Helm; helm != nil {
		for i := range helm.Parameters {
			helm.Parameters[i].Value = v.replace(helm.Parameters[i].Value)
		}
		for i := range helm.FileParameters {
			helm.FileParameters[i].Path = v.replaceFile(helm.FileParameters[i].Path)
		}
		for i := range helm.ValueFiles {
			helm.ValueFiles[i] = v.replaceFile(helm.ValueFiles[i])
		}
	}
	if kustomize := source.Source.Kustomize; kustomize != nil {
		for i := range kustomize.Images {
			kustomize.Images[i] = v.replace(kustomize.Images[i])
		}
		for name, value := range kustomize.CommonLabels {
			kustomize.CommonLabels[name] = v.replace(value)
		}
		// Annotations have a switch of their own: their texts often are templates of
		// other programs.
		for name, value := range kustomize.CommonAnnotations {
			if kustomize.CommonAnnotationsEnvsubst {
				kustomize.CommonAnnotations[name] = v.replace(value)
			}
		}
	}
	if directory := source.Source.Directory; directory != nil && directory.Jsonnet != nil {
		for i := range directory.Jsonnet.ExtVars {
			directory.Jsonnet.ExtVars[i].Value = v.replace(directory.Jsonnet.ExtVars[i].Value)
		}
		for i := range directory.Jsonnet.TLAs {
			directory.Jsonnet.TLAs[i].Value = v.replace(directory.Jsonnet.TLAs[i].Value)
		}
	}
}
