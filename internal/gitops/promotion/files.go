package promotion

import (
	"context"
	"fmt"
	"path"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/imageupdate/edit"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/kube"
)

// place is where the files of an Application are.
type place struct {
	app     *v1alpha1.Application
	project *project.Project
	source  v1alpha1.ApplicationSource
	// branch is empty for the default one, and folder is below the root.
	branch, folder string
}

// files reads files of Applications.
type files struct {
	cluster          *kube.Cluster
	sources          *source.Sources
	controlNamespace string
}

// locate finds the files of an Application, whose project has to allow it.
func (f *files) locate(ctx context.Context, app *v1alpha1.Application) (place, error) {
	refuse := func(format string, args ...any) (place, error) {
		return place{}, &refusal.Refusal{
			Object: refusal.Object{Group: v1alpha1.Group, Kind: v1alpha1.KindApplication, Namespace: app.Namespace, Name: app.Name},
			Field:  "spec.source", Reason: refusal.Unsupported, Message: fmt.Sprintf(format, args...),
		}
	}
	// With several sources it would be unclear which one a file of the template is in.
	sources := app.Spec.AllSources()
	if len(sources) != 1 {
		return refuse("it has %d sources, and promotions need one", len(sources))
	}
	if sources[0].Chart != "" {
		return refuse("it is a chart of a repository, which has no files to promote: use a chart in Git that depends on it")
	}
	// The project decides which repositories an Application may name, here too: a
	// Promotion must not write where the Application could not read.
	asLocal := app
	if runtimeOf(app) != "" {
		// Its namespace is one of another cluster: the Environment names the project.
		changed := *app
		changed.Namespace = f.controlNamespace
		asLocal = &changed
	}
	compiled, err := project.Read(ctx, f.cluster.Dynamic, f.controlNamespace, asLocal)
	if err != nil {
		return place{}, err
	}
	made := place{app: app, project: compiled, source: sources[0], branch: sources[0].TargetRevision, folder: strings.TrimPrefix(path.Clean("/"+sources[0].Path), "/")}
	// HEAD is the default branch, which an empty name stands for.
	if made.branch == "HEAD" {
		made.branch = ""
	}
	return made, nil
}

// readerAt reads files of an Application at a revision.
func (f *files) readerAt(ctx context.Context, at *place, revision string) (reader, error) {
	// The revision is a commit id: what a branch is at now does not matter, and a commit
	// that is on the disk needs no request.
	given := at.source
	given.TargetRevision = revision
	admitted, err := at.project.Admit(given)
	if err != nil {
		return nil, err
	}
	resolved, err := f.sources.Resolve(ctx, admitted, -1)
	if err != nil {
		return nil, err
	}
	return func(file string) ([]byte, bool, error) {
		// The store follows no links, so that a file cannot lead out of the repository.
		text, err := resolved.Store.Read(path.Join(resolved.Path, file), edit.MaxBytes)
		if isMissing(err) {
			return nil, false, nil
		}
		return text, err == nil, err
	}, nil
}
