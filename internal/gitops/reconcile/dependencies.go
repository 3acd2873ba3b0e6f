package reconcile

import (
	"context"
	"slices"
	"sync"

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

// hintKey is what Applications have in common that most likely need the same of
// elsewhere: the project, and the place of their first source.
type hintKey struct{ project, repoURL, path, chart string }

// hintKey is that of the Application.
func (p *reconcileRun) hintKey() hintKey {
	sources := p.app.Spec.AllSources()
	if len(sources) == 0 {
		return hintKey{}
	}
	return hintKey{p.app.Spec.ProjectName(), sources[0].RepoURL, sources[0].Path, sources[0].Chart}
}

// maxHints bounds the hints. When there are more they are dropped, and the next
// renders fill them again.
const maxHints = 1000

// dependencyHints are what the last render of a source needed of elsewhere. The
// first render of another Application with that source then has it, and need not
// find out. They are no permission: each is admitted as if the render had requested
// it. The zero value is empty; it is safe for concurrent use.
type dependencyHints struct {
	mu  sync.Mutex
	all map[hintKey][]render.Dependency
}

// put keeps the dependencies of a render. What plugins generate is for one
// Application alone.
func (h *dependencyHints) put(key hintKey, needed []render.Dependency) {
	kept := slices.DeleteFunc(slices.Clone(needed), func(one render.Dependency) bool { return one.Plugin != "" })
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(kept) == 0 {
		delete(h.all, key)
		return
	}
	if h.all == nil || len(h.all) >= maxHints {
		h.all = map[hintKey][]render.Dependency{}
	}
	h.all[key] = kept
}

// of returns the dependencies of the last render of a source; nil if there are
// none. The caller must not change them.
func (h *dependencyHints) of(key hintKey) []render.Dependency {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clip(h.all[key])
}
