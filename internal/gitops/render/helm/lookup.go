package helm

import (
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
)

// lookup is the function of templates that reads an object of the cluster. Lists
// are empty: what is in a namespace beside the Application changes without it, and
// each change would be a render.
func (r *Request) lookup(into *manifest.Set) func(apiVersion, kind, namespace, name string) (map[string]any, error) {
	warned := false
	return func(apiVersion, kind, namespace, name string) (map[string]any, error) {
		if name != "" {
			return r.Lookup(job.Lookup{APIVersion: apiVersion, Kind: kind, Namespace: namespace, Name: name})
		}
		if !warned {
			into.Warn("the function lookup finds objects by their names, and no lists of objects: a list of %s is empty", kind)
			warned = true
		}
		return map[string]any{}, nil
	}
}
