package v1alpha1

import (
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// field is the declaration of a struct's field.
type field struct {
	name        string
	position    int
	kind        reflect.Type
	description string
	required    bool
	enum        []string
	minimum     *int64
	// refusal is why the field is not supported; empty if it is.
	refusal string
	// ignored is why the field has no effect, although it is accepted; empty when
	// it has one.
	ignored string
	free    bool
}

// declarations caches the fields of structs: tags do not change, and reading
// them was a tenth of an agent's CPU time.
var declarations sync.Map // reflect.Type -> []field

// fieldsOf returns the fields of a struct in their order. The result is shared
// and must not be changed.
func fieldsOf(of reflect.Type) []field {
	if known, ok := declarations.Load(of); ok {
		return known.([]field)
	}
	known, _ := declarations.LoadOrStore(of, readFields(of))
	return known.([]field)
}

// readFields parses the tags of a struct.
func readFields(of reflect.Type) []field {
	fields := make([]field, 0, of.NumField())
	for i := range of.NumField() {
		source := of.Field(i)
		name, _, _ := strings.Cut(source.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		declared := field{
			name: name, position: i, kind: source.Type,
			description: source.Tag.Get("description"), refusal: source.Tag.Get("refused"), ignored: source.Tag.Get("ignored"),
			required: source.Tag.Get("required") == "true", free: source.Tag.Get("free") == "true",
		}
		if values := source.Tag.Get("enum"); values != "" {
			declared.enum = strings.Split(values, ",")
		}
		if number, err := strconv.ParseInt(source.Tag.Get("minimum"), 10, 64); err == nil {
			declared.minimum = &number
		}
		fields = append(fields, declared)
	}
	return fields
}
