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

// under merges two sets of parameters. The first one wins, also with a null or an
// empty text, as in Argo CD. It copies, so that sets of one generator that are
// combined several times do not share maps.
func under(first, second map[string]any) map[string]any {
	merged := make(map[string]any, len(first)+len(second))
	maps.Copy(merged, second)
	for name, value := range first {
		merged[name] = overlay(value, merged[name])
	}
	return merged
}

// overlay returns one value over another one of the same name: maps are merged,
// and others are replaced. Labels, annotations and values are maps of texts.
func overlay(above, below any) any {
	switch over := above.(type) {
	case map[string]any:
		switch base := below.(type) {
		case map[string]any:
			return under(over, base)
		case map[string]string:
			return under(over, ofAny(base))
		}
	case map[string]string:
		switch base := below.(type) {
		case map[string]any:
			return under(ofAny(over), base)
		case map[string]string:
			merged := maps.Clone(base)
			maps.Copy(merged, over)
			return merged
		}
	}
	return above
}

// ofAny converts a map of texts.
func ofAny(given map[string]string) map[string]any {
	made := make(map[string]any, len(given))
	for name, value := range given {
		made[name] = value
	}
	return made
}

// combined merges two sets of a matrix. Without goTemplate all parameters become
// texts, and one with two values is an error, as in Argo CD.
func (r *runner) combined(first, second map[string]any) (map[string]any, error) {
	if r.goForm {
		return under(first, second), nil
	}
	merged := make(map[string]any, len(first)+len(second))
	for name, value := range first {
		merged[name] = fmt.Sprint(value)
	}
	for name, value := range second {
		text := fmt.Sprint(value)
		if other, both := merged[name]; both && other != text {
			return nil, fmt.Errorf("both generators have the parameter %.80s, and differ: use pathParamPrefix, or goTemplate", name)
		}
		merged[name] = text
	}
	return merged, nil
}

// withValues adds the field values, whose texts can use the other parameters.
// All values are expanded before the first is added: one cannot use another,
// and the order of the map does not matter.
func (r *runner) withValues(params map[string]any, values map[string]string, outer map[string]any) error {
	if len(values) == 0 {
		return nil
	}
	expanded := make(map[string]string, len(values))
	for name, text := range values {
		value, err := r.value(text, params, outer)
		if err != nil {
			return fmt.Errorf("values.%s: %w", name, err)
		}
		expanded[name] = value
	}
	r.addValues(params, expanded)
	return nil
}

// value expands one text of the field values. As in Argo CD, a text that needs
// only parameters of the generator before gets those, also where the own
// parameters have the same names. Others prefer the own ones.
func (r *runner) value(text string, params, outer map[string]any) (string, error) {
	if len(outer) == 0 {
		return r.expander.Text(r.ctx, text, params)
	}
	if !r.goForm {
		return r.expander.Text(r.ctx, text, under(outer, params))
	}
	if value, err := r.strict.Text(r.ctx, text, outer); err == nil {
		return value, nil
	}
	return r.expander.Text(r.ctx, text, under(params, outer))
}

// valuesBefore expands the field values of a generator whose own parameters
// cannot be used in it, as in Argo CD: those of the generator before can.
func (r *runner) valuesBefore(values map[string]string, outer map[string]any) (map[string]string, error) {
	if len(outer) == 0 {
		return values, nil
	}
	expanded := make(map[string]string, len(values))
	for name, text := range values {
		expander := r.expander
		if r.goForm {
			expander = r.strict
		}
		value, err := expander.Text(r.ctx, text, outer)
		switch {
		case err == nil:
			expanded[name] = value
		case r.goForm: // A text that needs other parameters stays as it is written.
			expanded[name] = text
		default:
			return nil, fmt.Errorf("values.%s: %w", name, err)
		}
	}
	return expanded, nil
}

// addValues adds the field values as they are.
func (r *runner) addValues(params map[string]any, values map[string]string) {
	if len(values) == 0 {
		return
	}
	if r.goForm {
		params["values"] = maps.Clone(values)
		return
	}
	for name, value := range values {
		params["values."+name] = value
	}
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
