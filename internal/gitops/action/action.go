package action

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/argoproj/argo-cd/v3/resource_customizations"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"slipway.dev/slipway/internal/gitops/customization"
	"slipway.dev/slipway/internal/gitops/script"
)

// Runner runs the scripts of settings, with limits on time, memory and output. It
// is a *render.Renderer.
type Runner interface {
	RunScript(ctx context.Context, source string, given script.Input) (any, error)
}

// Set has the actions of a cluster: those of its settings, and Argo CD's.
type Set struct {
	Runner   Runner
	Settings *customization.Settings
}

// Action is what can be done with an object.
type Action struct {
	Name string
	// DisplayName is for people; it may be empty.
	DisplayName string
	// Disabled: it would have no effect now.
	Disabled bool
	// Parameters are the names of what has to be given, such as replicas.
	Parameters []string
}

// Discover returns the actions that an object has now, by name.
func (s *Set) Discover(ctx context.Context, object *unstructured.Unstructured, now time.Time) ([]Action, error) {
	given := script.Input{Object: object.Object, Now: now}
	found := map[string]Action{}
	custom, isCustom := s.Settings.Actions[settingsKey(object)]
	if !isCustom || custom.MergeBuiltin {
		if source := upstream(object.GroupVersionKind(), "discovery.lua"); source != "" {
			result, err := runUpstream(source, given)
			if err != nil {
				return nil, err
			}
			addActions(found, result)
		}
	}
	// Those of the settings replace built-in ones of the same name.
	if isCustom && custom.Discovery != "" {
		result, err := s.Runner.RunScript(ctx, custom.Discovery, given)
		if err != nil {
			return nil, err
		}
		addActions(found, result)
	}
	return slices.SortedFunc(maps.Values(found), func(a, b Action) int { return strings.Compare(a.Name, b.Name) }), nil
}

// Plan returns what an action would change. It does not check whether the action
// is disabled, as in Argo CD: that may have changed since it was shown.
func (s *Set) Plan(ctx context.Context, object *unstructured.Unstructured, name string, parameters map[string]string, now time.Time) ([]Change, error) {
	given := script.Input{Object: object.Object, Parameters: parameters, Now: now}
	custom := s.Settings.Actions[settingsKey(object)]
	var result any
	var err error
	if source := custom.Script(name); source != "" {
		result, err = s.Runner.RunScript(ctx, source, given)
	} else {
		source := upstream(object.GroupVersionKind(), path.Join(name, "action.lua"))
		if source == "" || path.Base(name) != name {
			return nil, fmt.Errorf("%s has no action %q", object.GroupVersionKind().GroupKind(), name)
		}
		result, err = runUpstream(source, given)
	}
	if err != nil {
		return nil, err
	}
	return changes(object, result)
}

// settingsKey is the key of a kind in the settings.
func settingsKey(object *unstructured.Unstructured) string {
	kind := object.GroupVersionKind()
	return path.Join(kind.Group, kind.Kind)
}

// upstream returns a script of Argo CD's module; empty if there is none.
func upstream(kind schema.GroupVersionKind, file string) string {
	// A name that is no path is one without a file.
	source, _ := fs.ReadFile(resource_customizations.Embedded, path.Join(kind.Group, kind.Kind, "actions", file))
	return string(source)
}

// runUpstream runs a script of Argo CD's module.
func runUpstream(source string, given script.Input) (any, error) {
	compiled, err := script.Compile("action", source)
	if err != nil {
		return nil, err
	}
	return compiled.Run(given)
}
