package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/project"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
	"slipway.dev/slipway/internal/gitops/tree"
)

// ensureDesired renders what the sources have now, unless what was rendered
// before still holds. It reports whether something was rendered. The error is
// kept in the session: a run for another reason returns it without a request.
func (p *reconcileRun) ensureDesired(ctx context.Context) (rendered bool, err error) {
	s := p.session
	retry := s.lastError != nil && p.reasons&reasonTimer != 0
	if p.reasons&(reasonChange|reasonSource) == 0 && !retry && (s.rendering != nil || s.lastError != nil) {
		return false, s.lastError
	}
	rendered, err = p.renderDesired(ctx)
	if !errors.Is(err, errPending) {
		s.lastError = err
	}
	return rendered, err
}

// errPending means that a repository has not been polled yet. The poll enqueues
// the Application when it is done. It is the renderer's, which goes on to request
// the other dependencies of a source.
var errPending = render.ErrPending

// renderDesired resolves the sources and renders them. Neither a render that
// still holds nor one that would fail again is repeated.
func (p *reconcileRun) renderDesired(ctx context.Context) (rendered bool, err error) {
	s := p.session
	sources, err := p.admit(p.app.Spec.AllSources())
	if err != nil {
		return false, err
	}
	if s.rendering == nil && len(s.dependencies) == 0 {
		s.dependencies = p.hints.of(p.hintKey())
	}
	request, err := p.resolve(ctx, sources, true)
	if err != nil {
		return false, err
	}
	hard := p.refresh == refreshHard
	if s.rendering != nil && !hard && s.rendering.holds(request) {
		s.failedRender = nil
		s.rendering.sources = p.app.Spec.AllSources()
		return false, nil
	}
	if s.failedRender != nil && !hard && s.failedRender.Holds(request) {
		return false, s.failedRender
	}
	fresh, err := p.render(ctx, request)
	s.failedRender = nil
	failure, failed := errors.AsType[*render.Error](err)
	if failed || err == nil {
		p.pluginCalls.forget(p.id) // what plugins generated was rendered
	}
	if err != nil {
		s.failedRender = failure
		return false, err
	}
	s.rendering, s.dependencies = fresh, fresh.result.Dependencies
	p.hints.put(p.hintKey(), fresh.result.Dependencies)
	s.forgetComparison()
	return true, nil
}

// holds reports whether a request gives the same result. What the cluster
// serves matters only to charts and plugins.
func (r *rendering) holds(request render.Request) bool {
	if !r.seesCluster() {
		request.KubeVersion, request.APIVersions = r.kubeVersion, r.apiVersions
	}
	return r.result.Holds(request)
}

// admit checks sources against the project, wherever they are named: nothing is
// resolved that was not admitted. The error is an *invalidSpec.
func (p *reconcileRun) admit(sources []v1alpha1.ApplicationSource) ([]project.Admitted, error) {
	admitted := make([]project.Admitted, 0, len(sources))
	for _, one := range sources {
		allowed, err := p.project.Admit(one)
		if err != nil {
			return nil, asInvalidSpec(err)
		}
		admitted = append(admitted, allowed)
	}
	return admitted, nil
}

// asInvalidSpec makes an *invalidSpec of the refusal of a project. Other errors
// stay as they are.
func asInvalidSpec(err error) error {
	if refused, ok := errors.AsType[*refusal.Refusal](err); ok {
		return &invalidSpec{[]refusal.Refusal{*refused}}
	}
	return err
}

// resolve makes a render request of sources. The sources of the spec are
// registered for polling.
func (p *reconcileRun) resolve(ctx context.Context, sources []project.Admitted, polled bool) (render.Request, error) {
	request := render.Request{App: p.id.Name, Project: p.app.Spec.ProjectName(), Namespace: p.app.Spec.Destination.Namespace}
	request.Resolve = func(ctx context.Context, wanted render.Dependency) (tree.Store, error) {
		return p.resolveDependency(ctx, &request, sources, wanted, polled)
	}
	request.Lookup = p.lookup(ctx)
	if polled {
		p.usePolled(sources)
	}
	for _, one := range sources {
		found, err := p.resolveSource(ctx, one, polled)
		if err != nil {
			return request, err
		}
		request.Inputs = append(request.Inputs, render.Input{
			Source: one.Source(), Store: found.Store, Path: found.Path, Revision: found.Revision, Chart: found.Chart,
		})
	}
	version := p.destinationCluster.Kinds.Version
	if known := p.session.rendering; known != nil && !known.seesCluster() {
		// Only charts and plugins depend on it. What becomes one is rendered again
		// at the next run, if the cluster has changed meanwhile.
		version = p.destinationCluster.Kinds.LastVersion
	}
	var err error
	request.KubeVersion, request.APIVersions, err = version(ctx)
	if err != nil {
		return request, fmt.Errorf("the kinds of the cluster cannot be read: %w", err)
	}
	if err := p.matchPlugins(ctx, &request, polled); err != nil {
		return request, err
	}
	if polled {
		p.addDependencies(ctx, &request)
	}
	return request, nil
}

// resolveSource resolves one source to a revision. The sources of the spec are
// taken from the last poll of their repository, so that no worker waits for a
// Git server; those of an operation are fetched now.
func (p *reconcileRun) resolveSource(ctx context.Context, of project.Admitted, polled bool) (*source.Resolved, error) {
	if !polled {
		return p.Sources.Resolve(ctx, of, 0)
	}
	requestedAt, failure, known := p.repositories.lookup(p.id, refOf(of), p.session.refreshSince)
	switch {
	case !known:
		p.requestPoll(polledAddress(of))
		return nil, errPending
	case failure != nil:
		return nil, failure
	}
	return p.Sources.Resolve(ctx, of, max(0, time.Now().Sub(requestedAt)))
}

// render runs the renderer and keeps its result as compact JSON.
func (p *reconcileRun) render(ctx context.Context, request render.Request) (*rendering, error) {
	result, err := p.Renderer.Render(ctx, request)
	if errors.Is(err, errPending) {
		return nil, err // it is repeated after the poll
	}
	p.Metrics.rendered(err)
	if err != nil {
		return nil, err
	}
	return newRendering(request, result)
}

// renderingFor returns what an operation applies: the current rendering, or one
// of the sources and revisions that the operation names.
func (p *reconcileRun) renderingFor(ctx context.Context, sources []v1alpha1.ApplicationSource, revisions []string) (*rendering, error) {
	known := p.session.rendering
	if held := p.session.heldRendering; held != nil && revisions != nil && slices.Equal(held.revisions, revisions) {
		known = held
	}
	if known != nil && equality.Semantic.DeepEqual(known.sources, sources) && (revisions == nil || slices.Equal(known.revisions, revisions)) {
		if revisions == nil && p.session.lastError != nil {
			return nil, p.session.lastError // nothing can be applied while the current render fails
		}
		return known, nil
	}
	if revisions != nil && len(revisions) != len(sources) {
		return nil, fmt.Errorf("there are %d revisions for %d sources: give one for each", len(revisions), len(sources))
	}
	pinned := slices.Clone(sources)
	for i := range pinned {
		if revisions != nil && revisions[i] != "" {
			pinned[i].TargetRevision = revisions[i]
		}
	}
	admitted, err := p.admit(pinned)
	if err != nil {
		return nil, err
	}
	request, err := p.resolve(ctx, admitted, false)
	if err != nil {
		return nil, err
	}
	other, err := p.render(ctx, request)
	if err != nil {
		return nil, err
	}
	other.sources = sources
	return other, nil
}
