package reconcile

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/gitops/plugin"
	"slipway.dev/slipway/internal/gitops/render"
	"slipway.dev/slipway/internal/gitops/tracking"
	"slipway.dev/slipway/internal/gitops/tree"
)

// pluginCallers is how many calls of plugins a project has at a time. They are not
// the workers of Applications: a plugin that hangs must not delay syncs of others.
const pluginCallers = 4

// pluginCalls are the calls of plugins for the sources of specs: those that run,
// and those whose result was not rendered yet. It is safe for concurrent use.
type pluginCalls struct {
	mu sync.Mutex
	of map[tracking.App]*applicationCalls
}

// applicationCalls are the calls of an Application, by their keys.
type applicationCalls struct {
	// revisions are those that the calls are for. Calls for others are dropped,
	// so that no Application keeps more than it has sources.
	revisions string
	calls     map[string]*pluginCall
}

// pluginCall is one call. run is not changed; done guards output and err.
type pluginCall struct {
	run    func(context.Context) ([]byte, error)
	done   bool
	output []byte
	err    error
}

// newPluginCalls has no calls.
func newPluginCalls() *pluginCalls { return &pluginCalls{of: map[tracking.App]*applicationCalls{}} }

// request returns the result of a call, or registers it. An error is returned
// once: the next run calls again.
func (c *pluginCalls) request(id tracking.App, revisions, key string, run func(context.Context) ([]byte, error)) (output []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.of[id]
	if known == nil || known.revisions != revisions {
		known = &applicationCalls{revisions: revisions, calls: map[string]*pluginCall{}}
		c.of[id] = known
	}
	call := known.calls[key]
	switch {
	case call == nil:
		known.calls[key] = &pluginCall{run: run}
		return nil, errPending
	case !call.done:
		return nil, errPending
	case call.err != nil:
		delete(known.calls, key)
	}
	return call.output, call.err
}

// find is a call that is not done; nil if there is none.
func (c *pluginCalls) find(id tracking.App, key string) *pluginCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.of[id]; known != nil && known.calls[key] != nil && !known.calls[key].done {
		return known.calls[key]
	}
	return nil
}

// finish keeps the result of a call.
func (c *pluginCalls) finish(call *pluginCall, output []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call.done, call.output, call.err = true, output, err
}

// forget drops the calls of an Application. Those that run end by their deadline.
func (c *pluginCalls) forget(id tracking.App) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, id)
}

// runPluginCall runs a call, and enqueues its Application when it is done.
func (c *Controller) runPluginCall(ctx context.Context, id tracking.App, key string) {
	call := c.pluginCalls.find(id, key)
	if call == nil {
		return
	}
	output, err := call.run(ctx)
	if ctx.Err() != nil {
		return
	}
	c.pluginCalls.finish(call, output, err)
	c.queue.add(item{app: id}, reasonSource)
}

// pluginInterval is how often the folder of plugins is listed.
const pluginInterval = 5 * time.Second

// followPlugins enqueues all Applications when a plugin comes or goes: one that
// starts after the agent may match sources, or be named by them.
func (c *Controller) followPlugins(ctx context.Context) {
	if c.Plugins == nil {
		return
	}
	known := c.Plugins.Names()
	for backoff.Sleep(ctx, pluginInterval) == nil {
		if now := c.Plugins.Names(); !slices.Equal(now, known) {
			c.Log.Info("config management plugins changed", "before", known, "now", now)
			known = now
			c.SettingsChanged()
		}
	}
}

// callPlugin returns the result of a call. For the sources of the spec a worker
// of its own makes the call, so that none of Applications waits; those of an
// operation are called now.
func (p *reconcileRun) callPlugin(ctx context.Context, request *render.Request, key string, polled bool, run func(context.Context) ([]byte, error)) ([]byte, error) {
	if !polled {
		return run(ctx)
	}
	var revisions []string
	for _, input := range request.Inputs {
		revisions = append(revisions, input.Revision)
	}
	output, err := p.pluginCalls.request(p.id, strings.Join(revisions, " "), key, run)
	if errors.Is(err, errPending) {
		p.pluginQueue.add(item{app: p.id, call: key}, reasonChange)
	}
	return output, err
}

// generate returns what a plugin generates of a source, if the project allows the
// plugin.
func (p *reconcileRun) generate(ctx context.Context, request *render.Request, wanted render.Dependency, polled bool) (tree.Store, error) {
	if p.Plugins == nil {
		return nil, errors.New("this agent has no config management plugins")
	}
	call, err := plugin.NewCall(request, wanted)
	if err != nil {
		return nil, err
	}
	if err := p.project.AdmitPlugin(call.Name()); err != nil {
		return nil, asInvalidSpec(err)
	}
	output, err := p.callPlugin(ctx, request, call.Key(), polled, func(ctx context.Context) ([]byte, error) { return p.Plugins.Generate(ctx, call) })
	if err != nil {
		return nil, err
	}
	return plugin.Output(output), nil
}

// maxMatches bounds what is kept of the matches of an Application.
const maxMatches = 64

// matchPlugins names the plugins that match the inputs whose files decide how
// they are rendered. It costs nothing where the project may use no plugin that is
// there.
func (p *reconcileRun) matchPlugins(ctx context.Context, request *render.Request, polled bool) error {
	if p.Plugins == nil {
		return nil
	}
	candidates := p.Plugins.Candidates(p.project.AdmitPlugin)
	for i := range request.Inputs {
		if !request.Inputs[i].Untyped() {
			continue
		}
		name, err := "", error(nil)
		if len(candidates) > 0 {
			name, err = p.matchPlugin(ctx, request, i, candidates, polled)
		}
		before := p.typeBefore(request, i)
		switch {
		case errors.Is(err, errPending):
			return err
		case err != nil && before != "" && before != v1alpha1.SourcePlugin:
			// It was no plugin's before; a plugin that fails does not stop it.
			p.log.Warn("a config management plugin cannot be matched", "error", err)
		case err != nil:
			return err
		case name == "" && before == v1alpha1.SourcePlugin:
			return &plugin.Error{Message: "a config management plugin matched the source before, and none does now: start its container, " +
				"or, if the source is for no plugin any more, give it options of its type, such as directory.include: '*'"}
		}
		request.Inputs[i].Plugin = name
	}
	return nil
}

// matchPlugin returns the plugin that matches an input. It is kept for as long as
// the folder of the Application is the same.
func (p *reconcileRun) matchPlugin(ctx context.Context, request *render.Request, input int, candidates []string, polled bool) (string, error) {
	call := plugin.NewMatch(request, input)
	key := call.MatchKey(candidates)
	if name, known := p.session.matches[key]; known && key != "" {
		return name, nil
	}
	name, err := p.callPlugin(ctx, request, "match "+key, polled, func(ctx context.Context) ([]byte, error) {
		name, err := p.Plugins.Match(ctx, call, candidates)
		return []byte(name), err
	})
	if errors.Is(err, errPending) {
		return "", err
	}
	if p.session.matches == nil || len(p.session.matches) >= maxMatches {
		p.session.matches = map[string]string{}
	}
	if before := p.typeBefore(request, input); err == nil || before != "" && before != v1alpha1.SourcePlugin {
		p.session.matches[key] = string(name)
	}
	return string(name), err
}

// typeBefore is how a source without options of a type was rendered for the status;
// empty if it is another source now.
func (p *reconcileRun) typeBefore(request *render.Request, input int) v1alpha1.SourceType {
	compared, types := p.app.Status.Sync.ComparedTo.Sources, p.app.Status.SourceTypes
	if source := p.app.Status.Sync.ComparedTo.Source; source != nil {
		compared, types = []v1alpha1.ApplicationSource{*source}, []v1alpha1.SourceType{p.app.Status.SourceType}
	}
	if input >= len(compared) || !slices.Equal(placeOf(request.Inputs[input].Source), placeOf(compared[input])) {
		return ""
	}
	// Sources that only have files for others have no type.
	before, rendered := render.Input{Source: compared[input]}, 0
	for _, source := range compared[:input] {
		if one := (render.Input{Source: source}); !one.OnlyFiles() {
			rendered++
		}
	}
	if !before.Untyped() || rendered >= len(types) {
		return ""
	}
	return types[rendered]
}

// placeOf is where a source is.
func placeOf(source v1alpha1.ApplicationSource) []string {
	return []string{source.RepoURL, source.Path, source.Chart}
}
