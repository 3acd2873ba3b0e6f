package values

import (
	"encoding/json"
	"slices"
)

// Schema returns values.schema.json, which Helm checks before it renders.
func (c Catalogue) Schema() ([]byte, error) {
	// Aliases are part of the schema, because Helm refuses keys that it lacks.
	root := c.group(c.tree(true))
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Values of the chart " + c.Chart
	root["$comment"] = "Written by make generate from internal/install/values."
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// group returns the schema of an object with known keys. A chart that is a
// dependency also gets the group global, which all charts share.
func (c Catalogue) group(of *node) map[string]any {
	properties := map[string]any{}
	for _, each := range of.below {
		if each.value == nil {
			properties[each.name] = c.group(each)
			continue
		}
		properties[each.name] = each.value.schema(each.alias)
	}
	made := map[string]any{"type": "object", "properties": properties}
	// Unknown keys are errors, so that a typo does not pass silently.
	if !slices.Contains(c.Open, of.path) {
		made["additionalProperties"] = false
	}
	return made
}

// schema returns the schema of a value with its description.
func (v Value) schema(alias bool) map[string]any {
	made := v.form()
	made["description"] = v.About
	if alias {
		made["description"] = "Another spelling of " + v.Key + "."
	} else if given, there := v.initial(); there {
		made["default"] = given
	}
	return made
}

// form returns the schema without its texts.
func (v Value) form() map[string]any {
	text := map[string]any{"type": "string"}
	// An empty text is a value that is not given. It passes unless the rule
	// needs one.
	if v.Rule.Pattern != "" {
		text["pattern"] = v.Rule.Pattern
		if !v.Rule.Needed {
			text["pattern"] = "^$|" + v.Rule.Pattern
		}
	}
	if len(v.Rule.OneOf) > 0 {
		text["enum"] = v.Rule.OneOf
	}
	switch v.Kind {
	case Flag:
		// The chart distinguishes a flag that is unset from one that is false.
		if v.Default == nil {
			return map[string]any{"type": []string{"boolean", "null"}}
		}
		return map[string]any{"type": "boolean"}
	case Count:
		return map[string]any{"type": "integer", "minimum": v.Rule.Least, "maximum": v.Rule.Most}
	case TextList:
		return map[string]any{"type": "array", "items": text}
	case TextMap:
		return map[string]any{"type": "object", "additionalProperties": text}
	case Object:
		return map[string]any{"type": "object"}
	case ObjectList:
		return map[string]any{"type": "array", "items": map[string]any{"type": "object"}}
	case Text:
	}
	return text
}
