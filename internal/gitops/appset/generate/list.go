package generate

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// listSets returns the sets that are written out. elements come before those of
// elementsYaml. A list generator has no requests, so that it only fails on its
// own content.
func (r *runner) listSets(list *v1alpha1.ListGenerator, outer map[string]any) ([]map[string]any, error) {
	var sets []map[string]any
	for i, element := range list.Elements {
		params := any(element)
		if outer != nil {
			var err error
			if params, err = r.expander.Value(r.ctx, params, outer); err != nil {
				return nil, at("elements", i, err)
			}
		}
		sets = append(sets, params.(map[string]any))
	}
	if list.ElementsYaml != "" {
		text, err := r.inOuter(list.ElementsYaml, outer)
		if err != nil {
			return nil, fmt.Errorf("elementsYaml: %w", err)
		}
		var more []map[string]any
		if err := yaml.Unmarshal([]byte(text), &more); err != nil {
			return nil, fmt.Errorf("elementsYaml is not a list of parameters: %w", err)
		}
		sets = append(sets, more...)
	}
	for i, params := range sets {
		if !r.goForm {
			flat := map[string]any{}
			flatten(flat, "", params)
			params = flat
		}
		sets[i] = decimals(params).(map[string]any)
	}
	return sets, nil
}

// inOuter expands a text with the parameters of the generator before. At the
// first level there are no parameters yet, and {{ is left for the template.
func (r *runner) inOuter(text string, outer map[string]any) (string, error) {
	if outer == nil {
		return text, nil
	}
	return r.expander.Text(r.ctx, text, outer)
}

// decimals converts numbers to the type they have in Argo CD, which decodes
// them from JSON: templates compare and format them.
func decimals(value any) any {
	switch v := value.(type) {
	case map[string]any:
		decoded := make(map[string]any, len(v))
		for name, content := range v {
			decoded[name] = decimals(content)
		}
		return decoded
	case []any:
		decoded := make([]any, len(v))
		for i, content := range v {
			decoded[i] = decimals(content)
		}
		return decoded
	case int64:
		return float64(v)
	}
	return value
}
