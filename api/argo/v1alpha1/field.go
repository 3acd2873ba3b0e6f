package v1alpha1

import (
	"reflect"
	"strconv"
	"strings"
)

// field is what a struct declares about one of its fields.
type field struct {
	name        string
	position    int
	kind        reflect.Type
	description string
	required    bool
	enum        []string
	minimum     *int64
	// refusal is why the field is not supported; empty when it is.
	refusal string
	free    bool
}

// fieldsOf lists what a struct declares, in its order.
func fieldsOf(of reflect.Type) []field {
	fields := make([]field, 0, of.NumField())
	for i := range of.NumField() {
		source := of.Field(i)
		name, _, _ := strings.Cut(source.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		declared := field{
			name: name, position: i, kind: source.Type,
			description: source.Tag.Get("description"), refusal: source.Tag.Get("refused"),
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
