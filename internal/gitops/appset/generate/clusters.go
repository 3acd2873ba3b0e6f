package generate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// clusterSets returns one set for each cluster, or one with all of them. Values
// are added to the set of each cluster before a flat list is made of them, so
// that they are in its elements.
func (r *runner) clusterSets(clusters *v1alpha1.ClusterGenerator, outer map[string]any) ([]map[string]any, error) {
	expanded, err := r.inOuterSelector(clusters.Selector, outer)
	if err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	// Without a selector all clusters match, including the own one.
	if expanded == nil {
		expanded = &metav1.LabelSelector{}
	}
	selector, err := metav1.LabelSelectorAsSelector(expanded)
	if err != nil {
		return nil, fmt.Errorf("selector: %w", err)
	}
	found, err := r.facts.Clusters(r.ctx, selector)
	if err != nil {
		return nil, fmt.Errorf("the clusters cannot be read: %w", err)
	}
	found = slices.Clone(found)
	// By name, so that the order of Applications does not change between runs.
	slices.SortStableFunc(found, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	sets := make([]map[string]any, 0, len(found))
	for _, cluster := range found {
		params := r.clusterParams(cluster)
		if err := r.withValues(params, clusters.Values, outer); err != nil {
			return nil, err
		}
		sets = append(sets, params)
	}
	if !clusters.FlatList {
		return sets, nil
	}
	// flatList gives one Application for all clusters together.
	all := make([]any, len(sets))
	for i, params := range sets {
		all[i] = params
	}
	return []map[string]any{{"clusters": all}}, nil
}

// lastApplied contains a copy of the Secret with its credentials, and is never
// a parameter.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// clusterParams returns the parameters of one cluster. Without goTemplate the
// parameters are flat names, and a label may contain dots of its own.
func (r *runner) clusterParams(cluster Cluster) map[string]any {
	params := map[string]any{
		"name": cluster.Name, "nameNormalized": normalized(cluster.Name), "server": cluster.Server, "project": cluster.Project,
	}
	annotations := maps.Clone(cluster.Annotations)
	delete(annotations, lastApplied)
	if r.goForm {
		metadata := map[string]any{}
		if len(annotations) > 0 {
			metadata["annotations"] = annotations
		}
		if len(cluster.Labels) > 0 {
			metadata["labels"] = cluster.Labels
		}
		if len(metadata) > 0 {
			params["metadata"] = metadata
		}
		return params
	}
	for name, value := range annotations {
		params["metadata.annotations."+name] = value
	}
	for name, value := range cluster.Labels {
		params["metadata.labels."+name] = value
	}
	return params
}
