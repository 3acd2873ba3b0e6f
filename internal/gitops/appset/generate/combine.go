package generate

import (
	"encoding/json"
	"fmt"
	"maps"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// matrixSets returns every set of the first generator with every set of the
// second, which can use parameters of the first. The number of sets is the
// product of both; run counts it against maxSets.
func (r *runner) matrixSets(generators []*v1alpha1.Generator, outer map[string]any) ([]map[string]any, error) {
	if len(generators) != 2 {
		return nil, fmt.Errorf("a matrix has two generators, and not %d", len(generators))
	}
	// The sets of the first generator do not depend on the second, so that it
	// runs once.
	first, err := r.run(generators[0], outer)
	if err != nil {
		return nil, err
	}
	var sets []map[string]any
	for _, params := range first {
		// The second generator runs once for each set of the first, with its
		// parameters.
		second, err := r.run(generators[1], under(params, outer))
		if err != nil {
			return nil, err
		}
		for _, more := range second {
			combined, err := r.combined(params, more)
			if err != nil {
				return nil, err
			}
			sets = append(sets, combined)
		}
	}
	return sets, nil
}

// mergeSets returns the sets of the first generator, merged with sets of the
// others that have the same keys. Later generators win. The result has as many
// sets as the first generator, in its order.
func (r *runner) mergeSets(g *v1alpha1.Generator, outer map[string]any) ([]map[string]any, error) {
	if len(g.Merge) < 2 || len(g.MergeKeys) == 0 {
		return nil, fmt.Errorf("merge has two generators or more, and mergeKeys")
	}
	sets, err := r.run(g.Merge[0], outer)
	if err != nil {
		return nil, err
	}
	places, err := byKeys(sets, g.MergeKeys, g.Merge[0].Place)
	if err != nil {
		return nil, err
	}
	for _, other := range g.Merge[1:] {
		more, err := r.run(other, outer)
		if err != nil {
			return nil, err
		}
		// Keys must be unique in each generator: otherwise the result would
		// depend on the order.
		if _, err := byKeys(more, g.MergeKeys, other.Place); err != nil {
			return nil, err
		}
		for _, params := range more {
			key, err := keyOf(params, g.MergeKeys)
			if err != nil {
				return nil, err
			}
			// Sets without a counterpart in the first generator are dropped, as
			// in Argo CD.
			if place, found := places[key]; found {
				sets[place] = r.merged(params, sets[place])
			}
		}
	}
	return sets, nil
}

// merged returns a set of the merge generator over another one. Without
// goTemplate nested parameters are not merged, as in Argo CD.
func (r *runner) merged(above, below map[string]any) map[string]any {
	if r.goForm {
		return under(above, below)
	}
	made := maps.Clone(below)
	maps.Copy(made, above)
	return made
}

// byKeys indexes sets by the values of keys, which must be unique.
func byKeys(sets []map[string]any, keys []string, place string) (map[string]int, error) {
	places := make(map[string]int, len(sets))
	for i, params := range sets {
		key, err := keyOf(params, keys)
		if err != nil {
			return nil, err
		}
		if _, twice := places[key]; twice {
			return nil, located(place, fmt.Errorf("several sets of parameters have the same mergeKeys %.200s: add a key in which they differ", key))
		}
		places[key] = i
	}
	return places, nil
}

// keyOf encodes the values of the keys. JSON keeps 1 and "1" apart.
func keyOf(params map[string]any, keys []string) (string, error) {
	values := map[string]any{}
	for _, name := range keys {
		values[name] = lookup(params, name)
	}
	encoded, err := json.Marshal(values)
	if err != nil {
		return "", fmt.Errorf("mergeKeys: %w", err)
	}
	return string(encoded), nil
}
