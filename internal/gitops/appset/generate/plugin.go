package generate

import (
	"fmt"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// pluginSets returns the sets that a plugin responds with. They get the input
// of the plugin as parameters too, under generator.input.parameters.
func (r *runner) pluginSets(given *v1alpha1.PluginGenerator, outer map[string]any) ([]map[string]any, error) {
	generator, err := inOuterFields(r, given, outer)
	if err != nil {
		return nil, err
	}
	found, err := r.facts.Plugin(r.ctx, r.set.Name, generator)
	if err != nil {
		return nil, err
	}
	sets := make([]map[string]any, 0, len(found))
	for _, one := range found {
		input := map[string]any{"input": map[string]any{"parameters": generator.Input.Parameters}}
		params := map[string]any{}
		if r.goForm {
			for name, value := range one {
				params[name] = value
			}
			params["generator"] = input
		} else {
			flatten(params, "", one)
			flatten(params, "generator", input)
		}
		if err := r.withValues(params, given.Values, outer); err != nil {
			return nil, err
		}
		sets = append(sets, params)
	}
	return sets, nil
}

// decisionSets returns one set for each cluster that an object lists in its
// status, if there is such a cluster.
func (r *runner) decisionSets(given *v1alpha1.DuckTypeGenerator, outer map[string]any) ([]map[string]any, error) {
	generator, err := inOuterFields(r, given, outer)
	if err != nil {
		return nil, err
	}
	found, err := r.facts.Decisions(r.ctx, generator)
	if err != nil {
		return nil, err
	}
	values, err := r.valuesBefore(given.Values, outer)
	if err != nil {
		return nil, err
	}
	sets := make([]map[string]any, 0, len(found))
	for _, decision := range found {
		params := map[string]any{"name": decision.Name, "server": decision.Server}
		for name, value := range decision.Fields {
			params[name] = fmt.Sprint(value)
		}
		r.addValues(params, values)
		sets = append(sets, params)
	}
	return sets, nil
}

// Decision is a cluster that an object has chosen.
type Decision struct {
	// Name and Server are those of the cluster.
	Name, Server string
	// Project is the only one that may deploy to it; empty for all.
	Project string
	// Fields are those of the element of the object's list.
	Fields map[string]any
}
