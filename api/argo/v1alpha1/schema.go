package v1alpha1

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// keepUnknown makes the API server store fields that the schema does not have.
const keepUnknown = "x-kubernetes-preserve-unknown-fields"

// schema describes a struct as a structural schema of OpenAPI v3. With keep,
// the API server stores unknown fields, so that Decode can refuse them:
// dropping them would silently change what the object means.
func schema(of reflect.Type, keep bool) map[string]any {
	node := map[string]any{"type": "object"}
	if keep {
		node[keepUnknown] = true
	}
	properties := map[string]any{}
	var required []any
	fields := fieldsOf(of)
	for i := range fields {
		declared := &fields[i]
		property := fieldSchema(declared, keep)
		if declared.description != "" {
			property["description"] = declared.description
		}
		properties[declared.name] = property
		if declared.required {
			required = append(required, declared.name)
		}
	}
	if len(properties) > 0 {
		node["properties"] = properties
	}
	if len(required) > 0 {
		node["required"] = required
	}
	return node
}

// fieldSchema describes one field. Unsupported fields accept any value, as
// Decode explains the refusal better than the API server.
func fieldSchema(declared *field, keep bool) map[string]any {
	switch {
	case declared.refusal != "":
		return map[string]any{keepUnknown: true}
	case declared.free && declared.kind.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": freeSchema()}
	case declared.free:
		return freeSchema()
	}
	node := typeSchema(declared.kind, keep)
	if len(declared.enum) > 0 {
		values := []any{""}
		for _, value := range declared.enum {
			values = append(values, value)
		}
		node["enum"] = values
	}
	if declared.minimum != nil {
		node["minimum"] = *declared.minimum
	}
	return node
}

// freeSchema accepts any object.
func freeSchema() map[string]any { return map[string]any{"type": "object", keepUnknown: true} }

// typeSchema describes a Go type.
func typeSchema(of reflect.Type, keep bool) map[string]any {
	switch of {
	case reflect.TypeFor[metav1.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case reflect.TypeFor[intstr.IntOrString]():
		return map[string]any{
			"x-kubernetes-int-or-string": true,
			"anyOf":                      []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}},
		}
	}
	switch of.Kind() {
	case reflect.Pointer:
		return typeSchema(of.Elem(), keep)
	case reflect.Struct:
		return schema(of, keep)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": typeSchema(of.Elem(), keep)}
	case reflect.Map:
		if of.Elem().Kind() == reflect.Interface {
			return freeSchema()
		}
		return map[string]any{"type": "object", "additionalProperties": typeSchema(of.Elem(), keep)}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int64:
		return map[string]any{"type": "integer", "format": "int64"}
	}
	panic(fmt.Sprintf("no kind has a field of type %s", of)) // an error in the declarations, which their test finds
}
