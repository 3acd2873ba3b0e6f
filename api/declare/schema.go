package declare

import (
	"fmt"
	"maps"
	"reflect"
	"strconv"
)

// keepUnknown makes the API server store fields that the schema does not have.
const keepUnknown = "x-kubernetes-preserve-unknown-fields"

// Schema returns the structural OpenAPI v3 schema of one of our structs for a
// CustomResourceDefinition. It accepts what Decode accepts, as far as a schema
// can express it; Decode refuses the rest when the object is read.
func Schema(of reflect.Type) map[string]any {
	return SchemaWriter{}.Schema(&Field{Type: of})
}

// SchemaWriter writes schemas. Its zero value is that of our own kinds.
type SchemaWriter struct {
	// Foreign is set for declarations of others, whose bounds are not ours: a
	// required text may be empty, and maps may have any number of entries.
	Foreign bool
	// KeepUnknown makes the API server store unknown fields, so that they can be
	// refused: dropping them would silently change what the object means.
	KeepUnknown bool
	// Types describe types that cannot be a Scalar.
	Types map[reflect.Type]ForeignType
}

// Schema returns the schema of one field with its description. A field that is
// not supported accepts any value: the refusal of a decoder explains it better
// than the API server.
func (w SchemaWriter) Schema(field *Field) map[string]any {
	node := w.content(field)
	if field.Description != "" {
		node["description"] = field.Description
	}
	return node
}

// content returns the schema of a field without its description. A Scalar comes
// before kinds, as in Decoder.value.
func (w SchemaWriter) content(field *Field) map[string]any {
	of := field.Type
	known, isKnown := w.Types[of]
	scalar, isScalar := scalarOf(of)
	node := map[string]any{}
	switch {
	case field.Refused != "":
		node[keepUnknown] = true
	case field.Free && of.Kind() != reflect.Slice, of.Kind() == reflect.Map && of.Elem().Kind() == reflect.Interface:
		node["type"], node[keepUnknown] = "object", true
	case isKnown:
		return maps.Clone(known.Schema)
	case isScalar:
		scalarSchema(node, scalar.Form())
		if field.Default != "" {
			node["default"] = field.Default
		}
	case of.Kind() == reflect.Pointer:
		inner := *field
		inner.Type = of.Elem()
		return w.content(&inner)
	case of.Kind() == reflect.Struct:
		w.structure(node, field)
	case of.Kind() == reflect.Slice:
		node["type"] = "array"
		node["items"] = w.content(field.element())
		setBound(node, "minItems", field.MinItems)
		setBound(node, "maxItems", field.MaxItems)
	case of.Kind() == reflect.Map:
		node["type"] = "object"
		node["additionalProperties"] = w.content(field.element())
		if !w.Foreign {
			node["maxProperties"] = maxEntries
		}
	case of.Kind() == reflect.String:
		w.text(node, field)
	case of.Kind() == reflect.Bool:
		node["type"] = "boolean"
	case of.Kind() == reflect.Int, of.Kind() == reflect.Int32, of.Kind() == reflect.Int64:
		numberSchema(node, field)
	default:
		panic(fmt.Sprintf("a declaration has no fields of type %s", of)) // a programming error
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

// structure describes the fields of a struct. It does not set
// additionalProperties: the API server prunes or, with strict field validation,
// rejects unknown fields.
func (w SchemaWriter) structure(node map[string]any, field *Field) {
	node["type"] = "object"
	if w.KeepUnknown {
		node[keepUnknown] = true
	}
	properties := map[string]any{}
	var required []any
	fields := Fields(field.Type)
	for i := range fields {
		properties[fields[i].Name] = w.Schema(&fields[i])
		if fields[i].Required {
			required = append(required, fields[i].Name)
		}
	}
	if len(properties) > 0 {
		node["properties"] = properties
	}
	if len(required) > 0 {
		node["required"] = required
	}
	if field.Choice {
		node["minProperties"] = 1
		node["maxProperties"] = 1
	}
}

// text describes a string. A required one of ours must not be empty, which is
// what Decode enforces.
func (w SchemaWriter) text(node map[string]any, field *Field) {
	node["type"] = "string"
	if field.Required && !w.Foreign {
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
// the width of a Go type that has one.
func numberSchema(node map[string]any, field *Field) {
	node["type"] = "integer"
	if field.Type.Kind() != reflect.Int {
		node["format"] = field.Type.Kind().String()
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
