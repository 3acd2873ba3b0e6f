package customization

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/glob"
)

// Filter selects kinds. Groups and clusters are patterns, and a kind is its name
// or *. An empty list selects all.
type Filter struct {
	APIGroups []string `json:"apiGroups"`
	Kinds     []string `json:"kinds"`
	Clusters  []string `json:"clusters"`
}

// filters reads a list of filters.
func (s *Settings) filters(key string, data map[string]string) []Filter {
	var filters []Filter
	if err := yaml.Unmarshal([]byte(data[key]), &filters); err != nil {
		s.problem(key, err)
		return nil
	}
	for _, one := range filters {
		for _, text := range slices.Concat(one.APIGroups, one.Clusters) {
			if _, err := glob.Compile(text); err != nil {
				s.problem(key, err)
			}
		}
	}
	return filters
}

// Excludes reports whether a kind is left out in a cluster: some exclusion
// selects it, or the cluster has inclusions and none selects it.
func (s *Settings) Excludes(kind schema.GroupKind, server string) bool {
	inCluster := func(one Filter) bool { return anyMatches(one.Clusters, server) }
	selects := func(one Filter) bool {
		named := len(one.Kinds) == 0 || slices.Contains(one.Kinds, "*") || slices.Contains(one.Kinds, kind.Kind)
		return named && anyMatches(one.APIGroups, kind.Group) && inCluster(one)
	}
	if slices.ContainsFunc(s.exclusions, selects) {
		return true
	}
	return slices.ContainsFunc(s.inclusions, inCluster) && !slices.ContainsFunc(s.inclusions, selects)
}

// anyMatches reports whether one of the patterns matches, or there are none.
func anyMatches(patterns []string, text string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(one string) bool {
		pattern, err := glob.Compile(one)
		return err == nil && pattern.Match(text)
	})
}
