package health

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/cache"
	"slipway.dev/slipway/internal/gitops/glob"
	"slipway.dev/slipway/internal/gitops/script"
)

// Runner runs the scripts of settings, with limits on time, memory and output. It
// is a *render.Renderer.
type Runner interface {
	RunScript(ctx context.Context, source string, given script.Input) (any, error)
}

// Rules are the rules of a cluster: scripts of its settings, and the built-in
// ones for all other kinds. A nil Rules has the built-in ones only. It is safe
// for concurrent use.
type Rules struct {
	runner  Runner
	scripts atomic.Pointer[settingsRules]
}

// NewRules returns the built-in rules, until Set adds others.
func NewRules(runner Runner) *Rules { return &Rules{runner: runner} }

// Set replaces the scripts of the settings. The keys are "Kind" or "group/Kind",
// and may be patterns. Patterns that are malformed match nothing.
func (r *Rules) Set(scripts map[string]string) {
	rules := &settingsRules{byKind: scripts, results: cache.NewLRU[version, judgement](cache.Limits{Bytes: maxResults})}
	for _, key := range slices.Sorted(maps.Keys(scripts)) {
		if pattern, err := glob.Compile(key); err == nil {
			rules.patterns = append(rules.patterns, keyPattern{pattern, scripts[key]})
		}
	}
	r.scripts.Store(rules)
}

// Of returns the health of an object: nil if it has none, and Missing if there
// is no object. The time decides whether a deletion takes too long.
func (r *Rules) Of(live *unstructured.Unstructured, now time.Time) *Status {
	return r.of(live, now, func(err error, _ func() *Status) *Status { return unknown("%s", err) })
}

// ForSync returns the health that a sync waits for. It is that of Of, but for a
// script that fails: the next rule decides then, because an error in a rule must
// neither fail a sync nor hold it.
func (r *Rules) ForSync(live *unstructured.Unstructured, now time.Time) *Status {
	return r.of(live, now, func(_ error, next func() *Status) *Status { return next() })
}

// onFailure returns the health of an object whose script failed. The next rule
// is the one that would decide without the script.
type onFailure func(err error, next func() *Status) *Status

// of returns the health of an object.
func (r *Rules) of(live *unstructured.Unstructured, now time.Time, failed onFailure) *Status {
	if live == nil || live.Object == nil {
		return status(v1alpha1.Missing, "")
	}
	o := read(live)
	// The deletion comes first: the status of such an object is no longer
	// updated by most controllers.
	if result := o.deletion(now); result != nil {
		return result
	}
	builtin := func() *Status { return o.byRule(now, failed) }
	if r == nil || r.scripts.Load() == nil {
		return builtin()
	}
	rules := r.scripts.Load()
	source := rules.find(o.kind.GroupKind())
	if source == "" {
		return builtin()
	}
	result, err := rules.resultFor(r.runner, source, live, now)
	if err != nil {
		return failed(err, builtin)
	}
	return result
}

// resultFor returns the health that a script gives to an object.
func (r *settingsRules) resultFor(runner Runner, source string, live *unstructured.Unstructured, now time.Time) (*Status, error) {
	// An object is judged once for each of its versions: reconciles are far more
	// frequent than changes.
	at := version{live.GetUID(), live.GetResourceVersion()}
	if known, found := r.results.Get(at); found && at.uid != "" {
		return known.status, known.err
	}
	result, err := r.run(runner, source, live, now)
	if err != nil {
		// It may be that of a worker, and is not kept.
		return nil, fmt.Errorf("the health rule failed: %w", err)
	}
	judged := judgement{}
	judged.status, judged.err = fromResult(result)
	if at.uid != "" {
		r.results.Add(at, judged, 1)
	}
	return judged.status, judged.err
}

// maxResults bounds the results of scripts that are kept. With the longest
// messages they take 12 MB.
const maxResults = 20_000

// settingsRules are the scripts of one version of the settings, with their
// results.
type settingsRules struct {
	byKind   map[string]string
	patterns []keyPattern
	results  *cache.LRU[version, judgement]
	// exhausted are scripts that cost a worker, with an exhaustion each.
	exhausted sync.Map
}

// judgement is the result of a script for one version of an object.
type judgement struct {
	status *Status
	err    error
}

// exhaustion is why a script does not run until a time.
type exhaustion struct {
	reason error
	until  time.Time
}

// exhaustionPause is how long a script that cost a worker does not run: with
// thousands of objects each would cost another one. It runs again because a busy
// machine can be the reason.
const exhaustionPause = 10 * time.Minute

// keyPattern is a script for the kinds that a pattern matches.
type keyPattern struct {
	key    glob.Pattern
	source string
}

// version is one version of an object.
type version struct {
	uid             types.UID
	resourceVersion string
}

// find returns the script for a kind; empty if there is none. An exact key comes
// before patterns, and these in the order of their text: Argo CD takes any.
func (r *settingsRules) find(kind schema.GroupKind) string {
	key := kind.Kind
	if kind.Group != "" {
		key = kind.Group + "/" + kind.Kind
	}
	if source := r.byKind[key]; source != "" {
		return source
	}
	for _, pattern := range r.patterns {
		if pattern.key.Match(key) {
			return pattern.source
		}
	}
	return ""
}

// run runs a script, unless it was exhausted lately.
func (r *settingsRules) run(runner Runner, source string, live *unstructured.Unstructured, now time.Time) (any, error) {
	if found, failed := r.exhausted.Load(source); failed {
		if last := found.(exhaustion); now.Before(last.until) {
			return nil, fmt.Errorf("it does not run for %s, or until argocd-cm changes: %w", exhaustionPause, last.reason)
		}
	}
	// The runner has a timeout of its own.
	result, err := runner.RunScript(context.Background(), source, script.Input{Object: live.Object, Now: now})
	if errors.Is(err, script.ErrExhausted) {
		r.exhausted.Store(source, exhaustion{err, now.Add(exhaustionPause)})
	}
	return result, err
}
