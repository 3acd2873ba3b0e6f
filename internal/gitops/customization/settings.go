package customization

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/plan"
)

// ConfigMap has the settings, in the control namespace.
const ConfigMap = "argocd-cm"

// The keys of the ConfigMap.
const (
	prefix        = "resource.customizations"
	exclusionsKey = "resource.exclusions"
	inclusionsKey = "resource.inclusions"
	optionsKey    = "resource.compareoptions"
)

// Settings are what is set about kinds. They are not changed after Read.
type Settings struct {
	// Health has Lua scripts by "Kind" or "group/Kind", which may be patterns.
	Health map[string]string
	// Actions has scripts by "Kind" or "group/Kind".
	Actions map[string]Actions
	// IgnoreDifferences are the rules for all Applications.
	IgnoreDifferences []v1alpha1.ResourceIgnoreDifferences
	// KnownFields are fields of which another spelling is no difference.
	KnownFields []plan.KnownField
	// Problems are settings that have no effect, and why.
	Problems []string

	exclusions, inclusions []Filter
}

// Actions are the actions of a kind.
type Actions struct {
	// Discovery is a script that returns the actions that an object has.
	Discovery string `json:"discovery.lua"`
	// MergeBuiltin keeps the built-in actions of the kind.
	MergeBuiltin bool `json:"mergeBuiltinActions"`
	Definitions  []struct {
		Name   string `json:"name"`
		Script string `json:"action.lua"`
	} `json:"definitions"`
}

// Script returns the script of an action; empty if there is none.
func (a *Actions) Script(name string) string {
	for _, one := range a.Definitions {
		if one.Name == name {
			return one.Script
		}
	}
	return ""
}

// override is what is set about one kind, as in the spelling with one key for
// all.
type override struct {
	Health      string       `json:"health.lua"`
	Differences string       `json:"ignoreDifferences"`
	Actions     string       `json:"actions"`
	KnownFields []knownField `json:"knownTypeFields"`
	// This one has no effect here.
	Updates string `json:"ignoreResourceUpdates"`
}

// Read reads the data of the ConfigMap. The evaluator checks expressions of jq.
func Read(data map[string]string, paths plan.PathEvaluator) *Settings {
	s := &Settings{Health: map[string]string{}, Actions: map[string]Actions{}}
	together := map[string]override{}
	if err := yaml.Unmarshal([]byte(data[prefix]), &together); err != nil {
		s.problem(prefix, err)
	}
	for _, key := range slices.Sorted(maps.Keys(together)) {
		s.add(prefix, key, together[key], paths)
	}
	// The keys of single kinds count on top of the one for all.
	for _, key := range slices.Sorted(maps.Keys(data)) {
		what, kind, found := split(key)
		if !found {
			continue
		}
		one := override{}
		switch what {
		case "health":
			one.Health = data[key]
		case "ignoreDifferences":
			one.Differences = data[key]
		case "actions":
			one.Actions = data[key]
		case "knownTypeFields":
			if err := yaml.Unmarshal([]byte(data[key]), &one.KnownFields); err != nil {
				s.problem(key, err)
			}
		case "useOpenLibs": // all scripts have the same libraries
		case "ignoreResourceUpdates": // the agent reports these keys
		default:
			s.problem(key, fmt.Errorf("there is no customization %s", what))
		}
		s.add(key, kind, one, paths)
	}
	s.compareOptions(data[optionsKey])
	s.exclusions = s.filters(exclusionsKey, data)
	s.inclusions = s.filters(inclusionsKey, data)
	return s
}

// split splits a key such as resource.customizations.health.batch_Job into what
// it sets and the kind, as "group/Kind". The key all is for all kinds.
func split(key string) (what, kind string, found bool) {
	rest, found := strings.CutPrefix(key, prefix+".")
	what, kind, named := strings.Cut(rest, ".")
	if !found || !named {
		return "", "", false
	}
	if kind == "all" {
		return what, "*/*", true
	}
	return what, strings.Replace(kind, "_", "/", 1), true
}

// add adds what is set about a kind. The name is that of the key in the
// ConfigMap.
func (s *Settings) add(name, kind string, one override, paths plan.PathEvaluator) {
	if one.Health != "" {
		s.Health[kind] = one.Health
	}
	if err := s.ignore(kind, one.Differences, paths); err != nil {
		s.problem(name, err)
	}
	if one.Actions != "" {
		var actions Actions
		if err := yaml.Unmarshal([]byte(one.Actions), &actions); err != nil {
			s.problem(name, fmt.Errorf("actions of %s: %w", kind, err))
		} else {
			s.Actions[kind] = actions
		}
	}
	if one.Updates != "" {
		s.problem(name, fmt.Errorf("ignoreResourceUpdates of %s has no effect", kind))
	}
	if len(one.KnownFields) > 0 {
		s.addKnown(name, kind, one.KnownFields)
	}
}

// ignore adds a rule of differences that do not count.
func (s *Settings) ignore(kind, text string, paths plan.PathEvaluator) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	rule := v1alpha1.ResourceIgnoreDifferences{}
	if err := yaml.Unmarshal([]byte(text), &rule); err != nil {
		return err
	}
	rule.Name, rule.Namespace, rule.Group, rule.Kind = "", "", "", kind
	if group, name, found := strings.Cut(kind, "/"); found {
		rule.Group, rule.Kind = group, name
	}
	if _, err := plan.NewIgnore([]v1alpha1.ResourceIgnoreDifferences{rule}, paths); err != nil {
		return err
	}
	// The key of a single kind replaces what the one for all has.
	s.IgnoreDifferences = slices.DeleteFunc(s.IgnoreDifferences, func(before v1alpha1.ResourceIgnoreDifferences) bool {
		return before.Group == rule.Group && before.Kind == rule.Kind
	})
	s.IgnoreDifferences = append(s.IgnoreDifferences, rule)
	return nil
}

// compareOptions reads the options of comparisons. A status is never compared
// where the API server keeps it apart, so that ignoreResourceStatusField changes
// nothing.
func (s *Settings) compareOptions(text string) {
	var options struct {
		IgnoreAggregatedRoles bool `json:"ignoreAggregatedRoles"`
	}
	if err := yaml.Unmarshal([]byte(text), &options); err != nil {
		s.problem(optionsKey, err)
	}
	if options.IgnoreAggregatedRoles {
		s.IgnoreDifferences = append(s.IgnoreDifferences, v1alpha1.ResourceIgnoreDifferences{
			Group: "rbac.authorization.k8s.io", Kind: "ClusterRole",
			JQPathExpressions: []string{"select(.aggregationRule) | .rules"},
		})
	}
}

// problem records a setting that is malformed.
func (s *Settings) problem(key string, err error) {
	s.Problems = append(s.Problems, key+": "+err.Error())
}
