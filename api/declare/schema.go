package declare

import (
	"fmt"
	"reflect"
	"strconv"
)

// Schema returns the structural OpenAPI v3 schema of a struct for a
// CustomResourceDefinition. It accepts what Decode accepts, as far as a schema
// can express it; Decode refuses the rest when the object is read.
func Schema(of reflect.Type) map[string]any {
	return schemaOf(&Field{Type: of})
}

// schemaOf returns the schema of one field. A Scalar comes first, as in
// decoder.value.
func schemaOf(field *Field) map[string]any {
	node := map[string]any{}
	if field.Description != "" {
		node["description"] = field.Description
	}
	if scalar, ok := scalarOf(field.Type); ok {
		scalarSchema(node, scalar.Form())
		if field.Default != "" {
			node["default"] = field.Default
		}
		return node
	}
	switch field.Type.Kind() {
	case reflect.Pointer:
		inner := *field
		inner.Type = field.Type.Elem()
		return schemaOf(&inner)
	case reflect.Struct:
		structSchema(node, field)
	case reflect.Slice:
		node["type"] = "array"
		node["items"] = schemaOf(field.element())
		setBound(node, "minItems", field.MinItems)
		setBound(node, "maxItems", field.MaxItems)
	case reflect.Map:
		node["type"] = "object"
		node["additionalProperties"] = map[string]any{"type": "string"}
		node["maxProperties"] = maxEntries
	case reflect.String:
		textSchema(node, field)
	case reflect.Bool:
		node["type"] = "boolean"
	case reflect.Int32, reflect.Int64:
		numberSchema(node, field)
	default:
		panic(fmt.Sprintf("a declaration has no fields of type %s", field.Type)) // a programming error
	}
	return node
}

// scalarSchema describes a Scalar. Where a whole number may replace the text,
// it uses x-kubernetes-int-or-string in the only form that a structural schema
// permits: without a type beside it.
func scalarSchema(node map[string]any, form Form) {
	node["pattern"] = form.Pattern
	if !form.Number {
		node["type"] = "string"
		return
	}
	node["x-kubernetes-int-or-string"] = true
	node["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
	node["minimum"] = 0
}

// structSchema describes the fields of a struct. It does not set
// additionalProperties: the API server prunes or, with strict field validation,
// rejects unknown fields.
func structSchema(node map[string]any, field *Field) {
	node["type"] = "object"
	properties := map[string]any{}
	var required []any
	fields := Fields(field.Type)
	for i := range fields {
		properties[fields[i].Name] = schemaOf(&fields[i])
		if fields[i].Required {
			required = append(required, fields[i].Name)
		}
	}
	node["properties"] = properties
	if len(required) > 0 {
		node["required"] = required
	}
	if field.Choice {
		node["minProperties"] = 1
		node["maxProperties"] = 1
	}
}

// textSchema describes a string. A required one must not be empty, which is
// what Decode enforces.
func textSchema(node map[string]any, field *Field) {
	node["type"] = "string"
	if field.Required {
		node["minLength"] = 1
	}
	setBound(node, "maxLength", field.MaxLength)
	if field.Pattern != "" {
		node["pattern"] = field.Pattern
	}
	if field.Default != "" {
		node["default"] = field.Default
	}
	if len(field.Enum) > 0 {
		node["enum"] = values(field)
	}
}

// numberSchema describes a whole number. The format has the API server check
// the width of the Go type.
func numberSchema(node map[string]any, field *Field) {
	node["type"] = "integer"
	node["format"] = "int64"
	if field.Type.Kind() == reflect.Int32 {
		node["format"] = "int32"
	}
	if field.Minimum != nil {
		node["minimum"] = *field.Minimum
	}
	if field.Maximum != nil {
		node["maximum"] = *field.Maximum
	}
	if len(field.Enum) > 0 {
		node["enum"] = values(field)
	}
	if field.Default != "" {
		node["default"] = shortValue(field.Default, field.Type)
	}
}

// values returns the enum values in the type of the field: an enum of strings
// would match no integer.
func values(field *Field) []any {
	list := make([]any, 0, len(field.Enum))
	for _, text := range field.Enum {
		if number, err := strconv.ParseInt(text, 10, 64); err == nil && field.Type.Kind() != reflect.String {
			list = append(list, number)
		} else {
			list = append(list, text)
		}
	}
	return list
}

// setBound sets a bound unless it is 0, which stands for none.
func setBound(node map[string]any, name string, bound int) {
	if bound > 0 {
		node[name] = bound
	}
}
