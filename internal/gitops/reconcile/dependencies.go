package reconcile

import (
	"context"
	"slices"

	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tree"
)

// resolveDependency finds what a source needs of elsewhere: the project admits
// it as it admits a source, and opens it with its credentials. For the sources of
// the spec it is polled with them, so that a moved range or branch is noticed.
func (p *reconcileRun) resolveDependency(ctx context.Context, request *render.Request, sources []project.Admitted, wanted render.Dependency, polled bool) (tree.Store, error) {
	if wanted.Plugin != "" {
		return p.generate(ctx, request, wanted, polled)
	}
	admitted, err := p.Sources.AdmitDependency(p.project, wanted)
	if err != nil {
		return nil, asInvalidSpec(err)
	}
	if known := p.session.dependencies; polled && !slices.Contains(known, wanted) {
		// The oldest is the one that is most likely needed no more.
		known = known[max(0, len(known)+1-render.MaxDependencies):]
		p.session.dependencies = append(slices.Clip(known), wanted)
		p.usePolled(sources)
	}
	found, err := p.resolveSource(ctx, admitted, polled)
	if err != nil {
		return nil, err
	}
	return found.Store, nil
}

// usePolled registers sources and their dependencies for polling. A dependency
// that the project does not admit is left out; the render that needs it reports
// that.
func (p *reconcileRun) usePolled(sources []project.Admitted) {
	all := slices.Clip(sources)
	for _, wanted := range p.session.dependencies {
		if admitted, err := p.Sources.AdmitDependency(p.project, wanted); err == nil {
			all = append(all, admitted)
		}
	}
	p.repositories.use(p.id, all)
}

// addDependencies adds to a request what the last render needed of elsewhere, as
// it is now. What cannot be resolved is left out: the sources may not need it any
// more, and if they do the render reports it.
func (p *reconcileRun) addDependencies(ctx context.Context, request *render.Request) {
	for _, wanted := range p.session.dependencies {
		if store, err := request.Resolve(ctx, wanted); err == nil {
			request.Dependencies = append(request.Dependencies, render.DependencyFiles{Dependency: wanted, Store: store})
		}
	}
}
