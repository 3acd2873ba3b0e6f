package declare

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Field is what a struct declares about one of its fields.
type Field struct {
	// Name is that in the object.
	Name        string
	Type        reflect.Type
	Description string
	Required    bool
	// Default is the text of what the field is when it is not there; empty when
	// it is nothing then.
	Default string
	Enum    []string
	Minimum *int64
	Maximum *int64
	Pattern string
	// MaxLength, MinItems and MaxItems are 0 for no bound.
	MaxLength int
	MinItems  int
	MaxItems  int
	// Choice is set when of the fields of the value, or of each of its elements,
	// exactly one is there.
	Choice bool
	// Tag has all tags, for those that this package does not know.
	Tag reflect.StructTag
	// Position is that in the struct.
	Position int
}

// Fields lists what a struct declares, in its order. A struct that declares
// nothing readable is a mistake of the program and panics.
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

// element is the declaration of the elements of a list: what bounds a single
// value.
func (f *Field) element() *Field {
	return &Field{
		Name: f.Name, Type: f.Type.Elem(), Enum: f.Enum, Minimum: f.Minimum, Maximum: f.Maximum,
		Pattern: f.Pattern, MaxLength: f.MaxLength, Choice: f.Choice,
	}
}

// scalarOf gives the zero value of a type that is a Scalar.
func scalarOf(of reflect.Type) (Scalar, bool) {
	if of.Kind() == reflect.Pointer {
		return nil, false
	}
	found, ok := reflect.New(of).Interface().(Scalar)
	return found, ok
}
