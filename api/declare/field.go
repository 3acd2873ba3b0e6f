package declare

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
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
	// Tag has all tags, including those that other packages define, such as
	// short and example.
	Tag reflect.StructTag
	// Position is the index of the field in the struct.
	Position int
}

// Fields lists the declared fields of a struct in their order. It panics if a
// field has no name or an invalid bound: declarations are part of the program,
// so a test finds that before users do.
func Fields(of reflect.Type) []Field {
	fields := make([]Field, 0, of.NumField())
	for i := range of.NumField() {
		declared, err := fieldOf(of.Field(i))
		if err != nil {
			panic(fmt.Sprintf("%s.%s: %v", of.Name(), of.Field(i).Name, err))
		}
		declared.Position = i
		fields = append(fields, declared)
	}
	return fields
}

// fieldOf reads the tags of one field.
func fieldOf(source reflect.StructField) (Field, error) {
	tag := source.Tag
	f := Field{
		Type: source.Type, Tag: tag, Description: tag.Get("description"),
		Required: tag.Get("required") == "true", Choice: tag.Get("choice") == "true",
		Default: tag.Get("default"), Pattern: tag.Get("pattern"),
	}
	f.Name, _, _ = strings.Cut(tag.Get("json"), ",")
	if f.Name == "" || f.Name == "-" {
		return f, fmt.Errorf("it has no name: give it the tag json")
	}
	if values := tag.Get("enum"); values != "" {
		f.Enum = strings.Split(values, ",")
	}
	var err error
	if f.Minimum, err = bound(tag, "minimum"); err != nil {
		return f, err
	}
	if f.Maximum, err = bound(tag, "maximum"); err != nil {
		return f, err
	}
	for name, into := range map[string]*int{"maxLength": &f.MaxLength, "minItems": &f.MinItems, "maxItems": &f.MaxItems} {
		number, err := bound(tag, name)
		if err != nil {
			return f, err
		}
		if number != nil {
			*into = int(*number)
		}
	}
	return f, nil
}

// bound parses the tag of a bound. It returns nil if the tag is absent, which
// is not the same as a bound of 0.
func bound(tag reflect.StructTag, name string) (*int64, error) {
	text, given := tag.Lookup(name)
	if !given {
		return nil, nil
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the tag %s is not a number", name)
	}
	return &number, nil
}

// element returns the declaration of the elements of a list. Tags for a single
// value, such as enum and pattern, apply to each element; MinItems and MaxItems
// apply to the list and are left out.
func (f *Field) element() *Field {
	return &Field{
		Name: f.Name, Type: f.Type.Elem(), Enum: f.Enum, Minimum: f.Minimum, Maximum: f.Maximum,
		Pattern: f.Pattern, MaxLength: f.MaxLength, Choice: f.Choice,
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
