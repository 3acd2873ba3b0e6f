package appset

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// generator is a generator of any level. One of its kinds is set.
type generator struct {
	// place is its path in the ApplicationSet, for errors.
	place    string
	list     *v1alpha1.ListGenerator
	clusters *v1alpha1.ClusterGenerator
	git      *v1alpha1.GitGenerator
	matrix   []*generator
	merge    []*generator
	keys     []string // of merge
	selector *metav1.LabelSelector
	// template is that of a generator of the first level.
	template *v1alpha1.ApplicationSetTemplate
}

// topGenerator converts a generator of the first level.
func topGenerator(given *v1alpha1.ApplicationSetGenerator, place string) *generator {
	g := &generator{place: place, list: given.List, clusters: given.Clusters, git: given.Git, selector: given.Selector}
	switch {
	case given.List != nil:
		g.template = given.List.Template
	case given.Clusters != nil:
		g.template = given.Clusters.Template
	case given.Git != nil:
		g.template = given.Git.Template
	case given.Matrix != nil:
		g.matrix, g.template = nested(given.Matrix.Generators, place+".matrix"), given.Matrix.Template
	case given.Merge != nil:
		g.merge, g.keys, g.template = nested(given.Merge.Generators, place+".merge"), given.Merge.MergeKeys, given.Merge.Template
	}
	return g
}

// nested converts generators in a matrix or merge generator. The API allows one
// more level in a nested matrix or merge, and none in that: a nested generator
// has no template.
func nested(given []v1alpha1.NestedGenerator, place string) []*generator {
	var generators []*generator
	for i := range given {
		one := &given[i]
		g := &generator{place: fmt.Sprintf("%s.generators[%d]", place, i), list: one.List, clusters: one.Clusters, git: one.Git, selector: one.Selector}
		switch {
		case one.Matrix != nil:
			g.matrix = terminal(one.Matrix.Generators, g.place+".matrix")
		case one.Merge != nil:
			g.merge, g.keys = terminal(one.Merge.Generators, g.place+".merge"), one.Merge.MergeKeys
		}
		generators = append(generators, g)
	}
	return generators
}

// terminal converts generators in a nested one.
func terminal(given []v1alpha1.TerminalGenerator, place string) []*generator {
	var generators []*generator
	for i := range given {
		one := &given[i]
		generators = append(generators, &generator{
			place: fmt.Sprintf("%s.generators[%d]", place, i), list: one.List, clusters: one.Clusters, git: one.Git, selector: one.Selector,
		})
	}
	return generators
}

// walk visits the generators with input: list, clusters and git.
func (g *generator) walk(visit func(*generator)) {
	for _, inner := range append(g.matrix, g.merge...) {
		inner.walk(visit)
	}
	if len(g.matrix)+len(g.merge) == 0 {
		visit(g)
	}
}

// run returns the sets of parameters of a generator. Its texts can use the
// parameters of the generator before it in a matrix. The selector filters after
// the count: sets that it drops have cost the same work.
func (r *runner) run(g *generator, outer map[string]any) ([]map[string]any, error) {
	var sets []map[string]any
	var err error
	switch {
	case g.list != nil:
		sets, err = r.listSets(g.list, outer)
	case g.clusters != nil:
		sets, err = r.clusterSets(g.clusters, outer)
	case g.git != nil:
		sets, err = r.gitSets(g.git, outer)
	case g.matrix != nil:
		sets, err = r.matrixSets(g.matrix, outer)
	case g.merge != nil:
		sets, err = r.mergeSets(g, outer)
	default:
		err = errNothing
	}
	if err == nil {
		err = r.count(len(sets))
	}
	if err != nil {
		return nil, located(g.place, err)
	}
	sets, err = r.selected(g.selector, sets)
	return sets, located(g.place, err)
}

// refuseTemplate refuses a template where Argo CD ignores it. Silence would let
// a user wait for an effect that never comes.
func refuseTemplate(g *generator) error {
	if g.list != nil && g.list.Template != nil || g.clusters != nil && g.clusters.Template != nil || g.git != nil && g.git.Template != nil {
		return located(g.place, errNestedTemplate)
	}
	return nil
}
