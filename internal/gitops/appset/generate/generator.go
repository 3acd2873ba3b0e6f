package generate

import "slipway.dev/slipway/api/argo/v1alpha1"

// run returns the sets of parameters of a generator. Its texts can use the
// parameters of the generator before it in a matrix. The selector filters after
// the count: sets that it drops have cost the same work.
func (r *runner) run(g *v1alpha1.Generator, outer map[string]any) ([]map[string]any, error) {
	var sets []map[string]any
	var err error
	switch {
	case g.List != nil:
		sets, err = r.listSets(g.List, outer)
	case g.Clusters != nil:
		sets, err = r.clusterSets(g.Clusters, outer)
	case g.Git != nil:
		sets, err = r.gitSets(g.Git, outer)
	case g.SCMProvider != nil:
		sets, err = r.repositorySets(g.SCMProvider, outer)
	case g.PullRequest != nil:
		sets, err = r.pullRequestSets(g.PullRequest, outer)
	case g.Plugin != nil:
		sets, err = r.pluginSets(g.Plugin, outer)
	case g.ClusterDecisionResource != nil:
		sets, err = r.decisionSets(g.ClusterDecisionResource, outer)
	case g.Matrix != nil:
		sets, err = r.matrixSets(g.Matrix, outer)
	case g.Merge != nil:
		sets, err = r.mergeSets(g, outer)
	default:
		err = errNothing
	}
	if err == nil {
		err = r.count(len(sets))
	}
	if err != nil {
		return nil, located(g.Place, err)
	}
	sets, err = r.selected(g.Selector, sets)
	return sets, located(g.Place, err)
}
