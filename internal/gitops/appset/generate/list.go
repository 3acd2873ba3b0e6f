package generate

import (
	"errors"
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
		one := params.(map[string]any)
		if !r.goForm {
			var err error
			if one, err = texts(one); err != nil {
				return nil, at("elements", i, err)
			}
		}
		sets = append(sets, decimals(one).(map[string]any))
	}
	if list.ElementsYaml == "" {
		return sets, nil
	}
	text, err := r.inOuter(list.ElementsYaml, outer)
	if err != nil {
		return nil, fmt.Errorf("elementsYaml: %w", err)
	}
	var more []map[string]any
	if err := yaml.Unmarshal([]byte(text), &more); err != nil {
		return nil, fmt.Errorf("elementsYaml is not a list of parameters: %w", err)
	}
	return append(sets, more...), nil
}

// texts returns an element of a list for the older form, where parameters are
// texts, and those below values have a name with a dot. As in Argo CD, anything
// else is an error: {{port}} would stay in the Application as it is written.
func texts(element map[string]any) (map[string]any, error) {
	params := make(map[string]any, len(element))
	for name, value := range element {
		if values, nested := value.(map[string]any); nested && name == "values" {
			for below, value := range values {
				if _, isText := value.(string); !isText {
					return nil, fmt.Errorf("values.%.80s: %w", below, errNoText)
				}
				params["values."+below] = value
			}
			continue
		}
		if _, isText := value.(string); !isText {
			return nil, fmt.Errorf("%.80s: %w", name, errNoText)
		}
		params[name] = value
	}
	return params, nil
}

// errNoText is the error of a parameter of the older form that is no text.
var errNoText = errors.New("it is no text: write it in quotes, or use goTemplate")

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
