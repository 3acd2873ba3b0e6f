package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Generator is a generator of any level. The API allows a matrix or merge
// generator in another one, and none in that, and so has a type for each level;
// what checks or runs generators needs only one.
type Generator struct {
	InputGenerators
	// Place is its path in the ApplicationSet, for messages.
	Place string
	// Matrix and Merge are the generators that it combines, and MergeKeys the
	// parameters that Merge compares. Nil is another kind of generator.
	Matrix, Merge []*Generator
	MergeKeys     []string
	Selector      *metav1.LabelSelector
	// Template is that of a generator of the first level. A nested one has none.
	Template *ApplicationSetTemplate
}

// At returns the generator of the first level at a place.
func (g *ApplicationSetGenerator) At(place string) *Generator {
	made := &Generator{InputGenerators: g.InputGenerators, Place: place, Selector: g.Selector}
	_, made.Template = g.template()
	if g.Matrix != nil {
		made.Template = g.Matrix.Template
		made.Matrix = each(g.Matrix.Generators, place+".matrix", (*NestedGenerator).at)
	}
	if g.Merge != nil {
		made.Template = g.Merge.Template
		made.Merge, made.MergeKeys = each(g.Merge.Generators, place+".merge", (*NestedGenerator).at), g.Merge.MergeKeys
	}
	return made
}

// template returns the template of a generator with input, and the field that it
// is in; nil for none.
func (g *InputGenerators) template() (field string, given *ApplicationSetTemplate) {
	switch {
	case g.List != nil:
		return "list.template", g.List.Template
	case g.Clusters != nil:
		return "clusters.template", g.Clusters.Template
	case g.Git != nil:
		return "git.template", g.Git.Template
	case g.SCMProvider != nil:
		return "scmProvider.template", g.SCMProvider.Template
	case g.PullRequest != nil:
		return "pullRequest.template", g.PullRequest.Template
	case g.Plugin != nil:
		return "plugin.template", g.Plugin.Template
	case g.ClusterDecisionResource != nil:
		return "clusterDecisionResource.template", g.ClusterDecisionResource.Template
	}
	return "", nil
}

// at is At for a generator in another one.
func (g *NestedGenerator) at(place string) *Generator {
	made := &Generator{InputGenerators: g.InputGenerators, Place: place, Selector: g.Selector}
	if g.Matrix != nil {
		made.Matrix = each(g.Matrix.Generators, place+".matrix", (*TerminalGenerator).at)
	}
	if g.Merge != nil {
		made.Merge, made.MergeKeys = each(g.Merge.Generators, place+".merge", (*TerminalGenerator).at), g.Merge.MergeKeys
	}
	return made
}

// at is At for a generator of the last level.
func (g *TerminalGenerator) at(place string) *Generator {
	return &Generator{InputGenerators: g.InputGenerators, Place: place, Selector: g.Selector}
}

// each converts the generators in another one. The result is not nil.
func each[T any](given []T, place string, at func(*T, string) *Generator) []*Generator {
	made := make([]*Generator, len(given))
	for i := range given {
		made[i] = at(&given[i], fmt.Sprintf("%s.generators[%d]", place, i))
	}
	return made
}

// Walk visits the generators with input: all but matrix and merge.
func (g *Generator) Walk(visit func(*Generator)) {
	for _, inner := range append(g.Matrix, g.Merge...) {
		inner.Walk(visit)
	}
	if len(g.Matrix)+len(g.Merge) == 0 {
		visit(g)
	}
}
