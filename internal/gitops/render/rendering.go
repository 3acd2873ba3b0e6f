package render

import (
	"errors"
	"fmt"
	"io/fs"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/directory"
	"slipway.dev/slipway/internal/gitops/render/frame"
	"slipway.dev/slipway/internal/gitops/render/helm"
	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/kustomize"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/gitops/tree"
)

// rendering is one render under way.
type rendering struct {
	*call
	into *manifest.Set
	// dependencies are the files of elsewhere that the job has.
	dependencies map[job.Dependency]job.Files
	// lookups are the objects of the cluster that charts have read: one that is
	// read twice is the same.
	lookups map[job.Lookup]map[string]any
}

// render renders all sources.
func (c *call) render() error {
	// All sources share one Set, so that the limit is for the whole result.
	r := &rendering{call: c, into: manifest.NewSet(c.job.OutputBytes), dependencies: map[job.Dependency]job.Files{}, lookups: map[job.Lookup]map[string]any{}}
	all := make([]job.Files, len(c.job.Sources))
	refs := map[string]job.Files{}
	for i := range all {
		all[i] = r.files(i, c.job.Sources[i].Source.RepoURL, !c.job.Sources[i].Chart)
		if ref := c.job.Sources[i].Source.Ref; ref != "" {
			refs[ref] = all[i]
		}
	}
	for i, dependency := range c.job.Dependencies {
		isRepository := !dependency.File && dependency.OID == "" && dependency.Chart == "" && dependency.Plugin == ""
		r.dependencies[dependency] = r.files(len(all)+i, dependency.RepoURL, isRepository)
	}
	incompleteSource := -1 // the first source that lacks something
	for i := range c.job.Sources {
		c.source = i
		before := len(c.missing)
		kind, err := r.source(&c.job.Sources[i], all[i], refs)
		if incomplete, ok := errors.AsType[*job.Incomplete](err); ok {
			c.lacks(incomplete.Missing...)
		}
		// The other sources may need more, which is fetched together. An error may
		// be the text of one about what was missing before.
		if len(c.missing) > before || err != nil && len(c.missing) > 0 {
			if incompleteSource < 0 {
				incompleteSource = i
			}
			continue
		}
		if err != nil {
			return err
		}
		c.report.Types = append(c.report.Types, kind)
	}
	if len(c.missing) > 0 {
		c.source = incompleteSource
		return &job.Incomplete{Missing: c.missing}
	}
	c.output, c.report.Warnings = r.into.Objects(), r.into.Warnings()
	return nil
}

// files are those of a source or a dependency: if it is a repository, with its
// submodules and what Git LFS keeps of it.
func (r *rendering) files(source int, address string, isRepository bool) *remoteFiles {
	return &remoteFiles{
		call: r.call, source: source, responses: map[string]fileResponse{},
		dependencies: r.dependencies, address: address, repository: isRepository,
	}
}

// source renders one source.
func (r *rendering) source(source *job.Source, files job.Files, refs map[string]job.Files) (v1alpha1.SourceType, error) {
	if source.OnlyFiles {
		return "", nil
	}
	if err := checkFolder(files, source.Path); err != nil {
		return "", err
	}
	if err := applyOverrides(files, r.job.App, source); err != nil {
		return "", err
	}
	// Overrides go first: they may contain variables.
	variables := newVariables(&r.job, source)
	variables.apply(source)
	r.report.Revision = r.report.Revision || variables.revision
	kind, err := sourceType(files, source)
	if err != nil {
		return "", err
	}
	switch kind {
	case v1alpha1.SourceHelm:
		request := helm.Request{Job: &r.job, Source: source, Files: files, Refs: refs, Dependencies: r.dependencies}
		if r.job.Lookup {
			request.Lookup = r.lookup
		}
		err = helm.Render(request, r.into)
	case v1alpha1.SourceKustomize:
		err = kustomize.Render(kustomize.Request{Job: &r.job, Source: source, Files: files, Dependencies: r.dependencies}, r.into)
	case v1alpha1.SourcePlugin:
		err = r.addGenerated(source)
	default:
		err = directory.Render(files, source, r.into)
	}
	return kind, err
}

// checkFolder returns a clear error if the folder of the application is
// missing, before an engine fails with one of its own.
func checkFolder(files job.Files, folder string) error {
	entry, err := files.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("the folder %q does not exist: correct the path of the source", folder)
	case err != nil:
		return err
	case entry.Kind != tree.Folder:
		return fmt.Errorf("%q is not a folder: correct the path of the source", folder)
	}
	return nil
}

// failureOf classifies an error for the renderer. Error types do not survive
// the pipe, so that their kinds are sent as flags.
func failureOf(source int, err error) *frame.Failure {
	var refused *refusal.Refusal
	failure := &frame.Failure{
		Source:  source,
		Refused: errors.As(err, &refused),
		Large:   errors.Is(err, manifest.ErrTooLarge),
		Message: err.Error(),
	}
	if incomplete, ok := errors.AsType[*job.Incomplete](err); ok {
		failure.Refused, failure.Missing = true, incomplete.Missing
	}
	return failure
}
