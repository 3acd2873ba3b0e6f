package generate

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/gitops/appset/expand"
)

// flatten converts nested parameters to names with dots and texts. Numbers and
// booleans become texts, because the simple syntax replaces texts only.
func flatten(into map[string]any, prefix string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, content := range v {
			flatten(into, joined(prefix, name), content)
		}
	case map[string]string:
		for name, content := range v {
			flatten(into, joined(prefix, name), content)
		}
	case []any:
		for i, content := range v {
			flatten(into, joined(prefix, strconv.Itoa(i)), content)
		}
	default:
		into[prefix] = fmt.Sprint(v)
	}
}

// joined returns the name of a nested parameter.
func joined(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}

// under merges two sets of parameters. The first one wins. It copies, so that
// sets of one generator that are combined several times do not share maps. A
// null of the first set does not hide a value of the second.
func under(first, second map[string]any) map[string]any {
	merged := make(map[string]any, len(first)+len(second))
	maps.Copy(merged, second)
	for name, value := range first {
		below, isMap := merged[name].(map[string]any)
		above, both := value.(map[string]any)
		switch {
		case isMap && both:
			merged[name] = under(above, below)
		case value != nil || merged[name] == nil:
			merged[name] = value
		}
	}
	return merged
}

// combined merges two sets of a matrix. Without goTemplate, a parameter with
// two values is an error, as in Argo CD.
func (r *runner) combined(first, second map[string]any) (map[string]any, error) {
	if !r.goForm {
		for name, value := range second {
			if other, both := first[name]; both && other != value {
				return nil, fmt.Errorf("both generators have the parameter %.80s, and differ: use pathParamPrefix, or goTemplate", name)
			}
		}
	}
	return under(first, second), nil
}

// withValues adds the field values, whose texts can use the other parameters.
// All values are expanded before the first is added: one cannot use another,
// and the order of the map does not matter.
func (r *runner) withValues(params map[string]any, values map[string]string, outer map[string]any) error {
	if len(values) == 0 {
		return nil
	}
	// The own parameters win over those of the generator before.
	known := under(params, outer)
	expanded := map[string]any{}
	for name, text := range values {
		value, err := r.expander.Text(r.ctx, text, known)
		if err != nil {
			return fmt.Errorf("values.%s: %w", name, err)
		}
		expanded[name] = value
	}
	if r.goForm {
		params["values"] = expanded
		return nil
	}
	for name, value := range expanded {
		params["values."+name] = value
	}
	return nil
}

// lookup finds a parameter by its name, which can have dots. The whole name
// goes first: flat parameters have names with dots.
func lookup(params map[string]any, name string) any {
	if value, ok := params[name]; ok {
		return value
	}
	first, rest, found := strings.Cut(name, ".")
	if !found {
		return nil
	}
	switch inner := params[first].(type) {
	case map[string]any:
		return lookup(inner, rest)
	case map[string]string:
		if value, ok := inner[rest]; ok {
			return value
		}
	}
	return nil
}

// normalized returns a valid object name. It is what Argo CD calls the
// normalized form in the names of parameters.
func normalized(text string) string { return expand.Normalize(text) }
