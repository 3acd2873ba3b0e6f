package values

import (
	"encoding/json"
	"reflect"
	"slices"

	"slipway.dev/slipway/api/declare"
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
	made := declare.SchemaWriter{Foreign: true}.Schema(v.field())
	// The chart distinguishes a flag that is unset from one that is false.
	if v.Kind == Flag && v.Default == nil {
		made["type"] = []string{"boolean", "null"}
	}
	if alias {
		made["description"] = "Another spelling of " + v.Key + "."
	} else if given, there := v.initial(); there {
		made["default"] = given
	}
	return made
}

// types are the Go types of the kinds. The fields of objects are not declared.
var types = map[Kind]reflect.Type{
	Text: reflect.TypeFor[string](), Flag: reflect.TypeFor[bool](), Count: reflect.TypeFor[int](),
	TextList: reflect.TypeFor[[]string](), TextMap: reflect.TypeFor[map[string]string](),
	Object: reflect.TypeFor[struct{}](), ObjectList: reflect.TypeFor[[]struct{}](),
}

// field returns the declaration of the value. An empty text is a value that is
// not given: it passes unless the rule needs one.
func (v Value) field() *declare.Field {
	field := &declare.Field{Type: types[v.Kind], Description: v.About, Enum: v.Rule.OneOf, Pattern: v.Rule.Pattern}
	if v.Rule.Pattern != "" && !v.Rule.Needed {
		field.Pattern = "^$|" + v.Rule.Pattern
	}
	if v.Kind == Count {
		least, most := int64(v.Rule.Least), int64(v.Rule.Most)
		field.Minimum, field.Maximum = &least, &most
	}
	return field
}
