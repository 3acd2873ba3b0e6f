package v1alpha1

import (
	"fmt"
	"strings"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
)

// setRules checks fields of an ApplicationSet that depend on each other.
func (d *decoder) setRules(spec *ApplicationSetSpec) {
	if !spec.GoTemplate {
		d.refuse("spec.goTemplate", refusal.Unsupported, "it is not supported: only Go templates are: write goTemplate: true, and {{.name}} in the place of {{name}}")
	}
	for i := range spec.Generators {
		generator := &spec.Generators[i]
		place := fmt.Sprintf("spec.generators[%d]", i)
		count := present(generator.List != nil, generator.Clusters != nil, generator.Git != nil, generator.Matrix != nil, generator.Merge != nil)
		d.generatorCount(count, place)
		d.gitRules(generator.Git, declare.Join(place, "git"))
		if generator.Matrix != nil {
			d.nestedRules(generator.Matrix.Generators, declare.Join(place, "matrix"), 2)
		}
		if generator.Merge != nil {
			d.nestedRules(generator.Merge.Generators, declare.Join(place, "merge"), 0)
			d.mergeRules(len(generator.Merge.Generators), generator.Merge.MergeKeys, declare.Join(place, "merge"))
		}
	}
}

// nestedRules checks generators in another one. number is how many there must
// be; 0 is any.
func (d *decoder) nestedRules(generators []NestedGenerator, place string, number int) {
	d.matrixCount(len(generators), place, number)
	for i := range generators {
		generator := &generators[i]
		at := fmt.Sprintf("%s.generators[%d]", place, i)
		count := present(generator.List != nil, generator.Clusters != nil, generator.Git != nil, generator.Matrix != nil, generator.Merge != nil)
		d.generatorCount(count, at)
		d.gitRules(generator.Git, declare.Join(at, "git"))
		if generator.Matrix != nil {
			d.terminalRules(generator.Matrix.Generators, declare.Join(at, "matrix"), 2)
		}
		if generator.Merge != nil {
			d.terminalRules(generator.Merge.Generators, declare.Join(at, "merge"), 0)
			d.mergeRules(len(generator.Merge.Generators), generator.Merge.MergeKeys, declare.Join(at, "merge"))
		}
	}
}

// terminalRules checks generators of the last level.
func (d *decoder) terminalRules(generators []TerminalGenerator, place string, number int) {
	d.matrixCount(len(generators), place, number)
	for i := range generators {
		generator := &generators[i]
		at := fmt.Sprintf("%s.generators[%d]", place, i)
		d.generatorCount(present(generator.List != nil, generator.Clusters != nil, generator.Git != nil), at)
		d.gitRules(generator.Git, declare.Join(at, "git"))
	}
}

// matrixCount checks the number of generators.
func (d *decoder) matrixCount(given int, place string, number int) {
	if number != 0 && given != number {
		d.invalid(declare.Join(place, "generators"), "it has %d generators, and must have %d: nest them for more", given, number)
	}
}

// mergeRules checks a merge generator.
func (d *decoder) mergeRules(generators int, keys []string, place string) {
	if generators < 2 {
		d.invalid(declare.Join(place, "generators"), "it has %d generators, and must have two or more", generators)
	}
	if len(keys) == 0 {
		d.invalid(declare.Join(place, "mergeKeys"), "it is empty: name the parameters that are the same")
	}
}

// gitRules requires either directories or files.
func (d *decoder) gitRules(generator *GitGenerator, place string) {
	if generator == nil {
		return
	}
	if count := present(len(generator.Directories) > 0, len(generator.Files) > 0); count != 1 {
		d.invalid(place, "it has %d of directories and files, and must have one", count)
	}
}

// generatorCount requires one kind of generator. An element whose kind was
// refused already is not refused twice.
func (d *decoder) generatorCount(count int, place string) {
	if count > 1 || count == 0 && !d.refusedBelow(place) {
		d.invalid(place, "it has %d generators, and must have exactly one: make an element of each", count)
	}
}

// refusedBelow reports whether a field below a place was refused.
func (d *decoder) refusedBelow(place string) bool {
	for _, r := range d.refused {
		if isBelow(r.Field, place) {
			return true
		}
	}
	return false
}

// isBelow reports whether a field is in another one. spec.sources is not in
// spec.source.
func isBelow(field, place string) bool { return strings.HasPrefix(field, place+".") }

// refusedAt reports whether a field was refused.
func (d *decoder) refusedAt(place string) bool {
	for _, r := range d.refused {
		if r.Field == place {
			return true
		}
	}
	return false
}

// present counts the set conditions.
func present(given ...bool) int {
	count := 0
	for _, there := range given {
		if there {
			count++
		}
	}
	return count
}
