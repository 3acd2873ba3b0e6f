// Package kustomize builds kustomizations in this process, from files that it
// is given, without writing any.
//
// The result is that of "kustomize build" after "kustomize edit" with the
// options of the Application, as Argo CD runs it. Files have to be in or below
// the folder of the kustomization that names them, which is Kustomize's
// default; folders can be anywhere in the repository.
//
// Bases and components of other Git repositories become folders of the file
// system that Kustomize sees; resources at an address become files, and
// helmCharts files with their objects. It
// refuses, before Kustomize starts, everything that would run a program or use
// the network: other addresses and Git references in any field that names files,
// plugins and functions; and paths that leave their repository. Kustomize runs
// git for such references itself (CVE-2026-113708), so that a check afterwards
// would be too late.
package kustomize

import (
	"errors"
	"fmt"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/openapi"

	"slipway.dev/slipway/internal/gitops/render/job"
	"slipway.dev/slipway/internal/gitops/render/manifest"
)

// Request is a kustomization and what it is built with.
type Request struct {
	Job    *job.Job
	Source *job.Source
	Files  job.Files
	// Dependencies are charts and repositories of elsewhere that the job has.
	Dependencies map[job.Dependency]job.Files
}

// Render adds the objects of a kustomization. Bases and components of other
// repositories are those that the job has; what it does not have is a
// *[job.Incomplete].
func Render(request Request, into *manifest.Set) error {
	source := request.Source
	disk := newFileSystem(request.Files, request.Dependencies)
	scan := &scanner{disk: disk, seen: map[string]bool{}, job: request.Job, into: into}
	if options := source.Source.Kustomize; options != nil {
		scan.options = *options
		if err := disk.edit(source.Path, options); err != nil {
			return err
		}
	}
	// The scan comes after the edit, so that it also covers the components and
	// patches that the Application adds.
	if err := scan.folder(source.Path); err != nil {
		return err
	}
	if len(scan.missing) > 0 {
		return &job.Incomplete{Missing: scan.missing}
	}
	if scan.openapi {
		// A schema is kept for the whole process; the next build must not see it.
		defer openapi.ResetOpenAPI()
	}
	built, err := build(disk, source.Path)
	if err != nil {
		// The refusal is more specific than the text that Kustomize made of it.
		if disk.refused != nil {
			return disk.refused
		}
		return errors.New(job.Shorten(err.Error()))
	}
	for _, resource := range built.Resources() {
		name := fmt.Sprintf("the %s %q of the kustomization", resource.GetKind(), resource.GetName())
		text, err := resource.MarshalJSON()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := into.AddJSON(name, text); err != nil {
			return err
		}
	}
	return nil
}

// build runs Kustomize, which panics on some input. A panic must not end the
// worker, which would fail the render as a crash and hide the cause.
func build(disk *fileSystem, folder string) (built resmap.ResMap, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("kustomize cannot build it: %v", reason)
		}
	}()
	return krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/"+folder)
}
