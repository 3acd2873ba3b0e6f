package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/source"
)

// want finds out what is desired: what is in Git now, rendered. What was
// rendered stays if everything that was read for it is the same. The error is
// kept too: a pass for another reason does not ask again.
func (p *pass) want(ctx context.Context) error {
	s := p.session
	tryAgain := s.trouble != nil && p.reasons&becauseTime != 0
	if p.reasons&(becauseAsked|becauseSource) == 0 && !tryAgain && (s.rendering != nil || s.trouble != nil) {
		return s.trouble
	}
	err := p.renew(ctx)
	if !errors.Is(err, errPending) {
		s.trouble = err
	}
	return err
}

// errPending says that the repository has not been looked at yet. When it has,
// there is another pass.
var errPending = errors.New("the repository has not been looked at yet")

// renew renders what is in Git, unless it is what was rendered.
func (p *pass) renew(ctx context.Context) error {
	s := p.session
	request, err := p.resolve(ctx, p.app.Spec.AllSources(), true)
	if err != nil {
		return err
	}
	hard := p.refresh == refreshHard
	if s.rendering != nil && !hard && s.rendering.holds(request) {
		s.failed = nil
		s.rendering.sources = p.app.Spec.AllSources()
		return nil
	}
	if s.failed != nil && !hard && s.failed.Holds(request) {
		return s.failed
	}
	fresh, err := p.render(ctx, request)
	s.failed = nil
	if err != nil {
		var failure *render.Error
		if errors.As(err, &failure) {
			s.failed = failure
		}
		return err
	}
	s.rendering = fresh
	s.settle()
	p.fresh = true
	return nil
}

// holds reports whether a request gives the same result.
func (r *rendering) holds(request render.Request) bool {
	if !r.usesCharts() {
		request.KubeVersion, request.APIVersions = r.request.KubeVersion, r.request.APIVersions
	}
	return r.result.Holds(request)
}

// resolve makes a request of sources. Those of the spec are the ones that
// repositories are polled for.
func (p *pass) resolve(ctx context.Context, sources []v1alpha1.ApplicationSource, polled bool) (render.Request, error) {
	request := render.Request{App: p.id.Name, Project: p.app.Spec.ProjectName(), Namespace: p.app.Spec.Destination.Namespace}
	if polled {
		p.repositories.use(p.id, sources)
	}
	for _, one := range sources {
		found, err := p.find(ctx, one, polled)
		if err != nil {
			return request, err
		}
		request.Inputs = append(request.Inputs, render.Input{
			Source: one, Store: found.Store, Path: found.Path, Revision: found.Revision, Chart: found.Chart,
		})
	}
	version := p.to.Kinds.Version
	if known := p.session.rendering; known != nil && !known.usesCharts() {
		// Only charts depend on it. What becomes a chart is rendered again at the
		// next look, if the cluster has changed meanwhile.
		version = p.to.Kinds.LastVersion
	}
	var err error
	request.KubeVersion, request.APIVersions, err = version(ctx)
	if err != nil {
		return request, fmt.Errorf("the kinds of the cluster cannot be read: %w", err)
	}
	return request, nil
}

// find asks for one source. Those of the spec are looked for where their
// repository was looked at for all Applications: no pass waits for a server.
func (p *pass) find(ctx context.Context, of v1alpha1.ApplicationSource, polled bool) (*source.Resolved, error) {
	if !polled {
		return p.Sources.Resolve(ctx, of, 0)
	}
	asked, failure, known := p.repositories.answer(p.id, wishOf(&of), p.session.refreshing)
	switch {
	case !known:
		p.look(of.RepoURL)
		return nil, errPending
	case failure != nil:
		return nil, failure
	}
	return p.Sources.Resolve(ctx, of, max(0, p.Now().Sub(asked)))
}

func (p *pass) render(ctx context.Context, request render.Request) (*rendering, error) {
	result, err := p.Renderer.Render(ctx, request)
	p.Metrics.rendered(err)
	if err != nil {
		return nil, err
	}
	return newRendering(request, result)
}

// renderingFor is what an operation applies: what is desired anyway, or what
// other sources or revisions render.
func (p *pass) renderingFor(ctx context.Context, sources []v1alpha1.ApplicationSource, revisions []string) (*rendering, error) {
	known := p.session.rendering
	if known != nil && equality.Semantic.DeepEqual(known.sources, sources) && (revisions == nil || slices.Equal(known.revisions, revisions)) {
		if revisions == nil && p.session.trouble != nil {
			return nil, p.session.trouble // what is desired is not known
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
	request, err := p.resolve(ctx, pinned, false)
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
