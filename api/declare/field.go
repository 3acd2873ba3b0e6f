package declare

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Field is what a struct declares about one of its fields.
type Field struct {
	// Name is the name of the field in the object, from its json tag.
	Name        string
	Type        reflect.Type
	Description string
	Required    bool
	// Default is the text form of the default; empty for none.
	Default string
	Enum    []string
	Minimum *int64
	Maximum *int64
	Pattern string
	// MaxLength, MinItems and MaxItems are 0 for no bound.
	MaxLength int
	MinItems  int
	MaxItems  int
	// Choice requires exactly one field in the value, or in each of its
	// elements.
	Choice bool
	// Refused is why the field is not supported, and Ignored why it has no
	// effect; empty if it is, and if it has one.
	Refused, Ignored string
	// Free leaves the content out of the schema.
	Free bool
	// Tag has all tags, including those that other packages define, such as
	// short and example.
	Tag reflect.StructTag
	// Index is the place of the field in the struct, for reflect's FieldByIndex.
	Index []int
}

// declarations caches the fields of structs: tags do not change, and reading
// them was a tenth of an agent's CPU time.
var declarations sync.Map // reflect.Type -> []Field

// Fields lists the declared fields of a struct in their order, with those of
// embedded structs. The result is shared and must not be changed. It panics if a
// field has no name or an invalid bound: declarations are part of the program, so
// a test finds that before users do.
func Fields(of reflect.Type) []Field {
	if known, ok := declarations.Load(of); ok {
		return known.([]Field)
	}
	fields := make([]Field, 0, of.NumField())
	for i := range of.NumField() {
		source := of.Field(i)
		if !source.Anonymous {
			fields = append(fields, fieldOf(source))
			continue
		}
		for _, inner := range Fields(source.Type) {
			inner.Index = append([]int{i}, inner.Index...)
			fields = append(fields, inner)
		}
	}
	known, _ := declarations.LoadOrStore(of, fields)
	return known.([]Field)
}

// fieldOf reads the tags of one field.
func fieldOf(source reflect.StructField) Field {
	tag := source.Tag
	name, _, _ := strings.Cut(tag.Get("json"), ",")
	if name == "" || name == "-" {
		panic(fmt.Sprintf("field %s of type %s has no name: give it the tag json", source.Name, source.Type))
	}
	f := Field{
		Name: name, Type: source.Type, Tag: tag, Index: source.Index, Description: tag.Get("description"),
		Required: tag.Get("required") == "true", Choice: tag.Get("choice") == "true",
		Default: tag.Get("default"), Pattern: tag.Get("pattern"),
		Minimum: bound(source, "minimum"), Maximum: bound(source, "maximum"),
		MaxLength: count(source, "maxLength"), MinItems: count(source, "minItems"), MaxItems: count(source, "maxItems"),
		Refused: tag.Get("refused"), Ignored: tag.Get("ignored"), Free: tag.Get("free") == "true",
	}
	if values := tag.Get("enum"); values != "" {
		f.Enum = strings.Split(values, ",")
	}
	return f
}

// bound parses the tag of a bound. It returns nil if the tag is absent, which
// is not the same as a bound of 0.
func bound(source reflect.StructField, name string) *int64 {
	text, given := source.Tag.Lookup(name)
	if !given {
		return nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("field %s of type %s: the tag %s is not a number", source.Name, source.Type, name))
	}
	return &number
}

// count is bound for a number of characters or elements, where 0 is none.
func count(source reflect.StructField, name string) int {
	if number := bound(source, name); number != nil {
		return int(*number)
	}
	return 0
}

// element returns the declaration of the elements of a list or map. Tags for a single
// value, such as enum and pattern, apply to each element; MinItems and MaxItems
// apply to the list and are left out.
func (f *Field) element() *Field {
	return &Field{
		Name: f.Name, Type: f.Type.Elem(), Enum: f.Enum, Minimum: f.Minimum, Maximum: f.Maximum,
		Pattern: f.Pattern, MaxLength: f.MaxLength, Choice: f.Choice, Free: f.Free,
	}
}

// scalarOf returns the zero value of a type that is a Scalar. A pointer type
// never is one itself: the caller dereferences it first.
func scalarOf(of reflect.Type) (Scalar, bool) {
	if of.Kind() == reflect.Pointer {
		return nil, false
	}
	found, ok := reflect.New(of).Interface().(Scalar)
	return found, ok
}
