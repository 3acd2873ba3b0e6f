package declare

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxProblems bounds what is said about one value.
	maxProblems = 20
	// maxEntries bounds a map.
	maxEntries = 64
)

// Problem is something in a value that does not fit its declaration.
type Problem struct {
	// Field is the place in the value, such as key.by or allow[2]; empty for the
	// value as a whole.
	Field string
	// Message says what is wrong and what to do.
	Message string
}

// Decode puts a value into what a pointer to a struct points to. The value is
// decoded JSON: maps, lists, text, numbers, booleans. What is not there gets its
// default. When there are problems, what was decoded is of no use.
func Decode(value, into any) []Problem {
	d := decoder{}
	d.value(value, reflect.ValueOf(into).Elem(), &Field{}, "")
	return d.problems
}

// DecodeShort is Decode for a short form. It is that of a [Shortened], or else
// the value of one field of the struct. Elements of a list are parted by commas,
// except expressions.
func DecodeShort(text, field string, into any) []Problem {
	if len(text) > MaxBytes {
		return []Problem{{Message: fmt.Sprintf("it has %d bytes: at most %d are read", len(text), MaxBytes)}}
	}
	text = strings.TrimSpace(text)
	if shortened, ok := into.(Shortened); ok {
		// This gives the defaults. That other fields are missing is no problem.
		Decode(map[string]any{}, into)
		if err := shortened.UnmarshalShort(text); err != nil {
			return []Problem{{Message: err.Error()}}
		}
		return nil
	}
	target := reflect.TypeOf(into).Elem()
	for _, declared := range Fields(target) {
		if declared.Name == field {
			return Decode(map[string]any{field: shortValue(text, declared.Type)}, into)
		}
	}
	panic(fmt.Sprintf("%s has no field %s", target.Name(), field)) // a mistake of the program
}

// shortValue is a text as the value that JSON would have in its place.
func shortValue(text string, of reflect.Type) any {
	if _, scalar := scalarOf(of); scalar {
		return text
	}
	switch of.Kind() {
	case reflect.Slice:
		// An expression is a type of its own, and can have commas.
		if of.Elem().Kind() == reflect.String && of.Elem() != reflect.TypeFor[string]() {
			return []any{text}
		}
		var list []any
		for _, element := range SplitList(text) {
			list = append(list, element)
		}
		return list
	case reflect.Int32, reflect.Int64:
		if number, err := strconv.ParseInt(text, 10, 64); err == nil {
			return number
		}
	case reflect.Bool:
		if yes, err := strconv.ParseBool(text); err == nil {
			return yes
		}
	}
	return text
}

// SplitList gives the elements of a list that is parted by commas, without
// blanks around them and without empty ones.
func SplitList(text string) []string {
	var list []string
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			list = append(list, element)
		}
	}
	return list
}

type decoder struct{ problems []Problem }

func (d *decoder) add(place, format string, args ...any) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, Problem{Field: place, Message: fmt.Sprintf(format, args...)})
	}
}

// value decodes one value that is there.
func (d *decoder) value(value any, target reflect.Value, field *Field, place string) {
	if scalar, ok := target.Addr().Interface().(Scalar); ok {
		d.scalar(value, scalar, place)
		return
	}
	switch target.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(target.Type().Elem())
		inner := *field
		inner.Type = target.Type().Elem()
		d.value(value, fresh.Elem(), &inner, place)
		target.Set(fresh)
	case reflect.Struct:
		d.structure(value, target, field.Choice, place)
	case reflect.Slice:
		d.list(value, target, field, place)
	case reflect.Map:
		d.entries(value, target, place)
	case reflect.String:
		d.text(value, target, field, place)
	case reflect.Bool:
		yes, ok := value.(bool)
		if !ok {
			d.add(place, "it is %s: write true or false", nameOf(value))
			return
		}
		target.SetBool(yes)
	case reflect.Int32, reflect.Int64:
		d.number(value, target, field, place)
	default:
		panic(fmt.Sprintf("a declaration has no fields of type %s", target.Type())) // a mistake of the program
	}
}

func (d *decoder) scalar(value any, target Scalar, place string) {
	text, ok := value.(string)
	if number, whole := wholeNumber(value); whole && target.Form().Number {
		text, ok = strconv.FormatInt(number, 10), true
	}
	if !ok {
		d.add(place, "it is %s: write it as text, in quotes", nameOf(value))
		return
	}
	if len(text) > 256 {
		d.add(place, "the text is too long")
		return
	}
	if err := target.UnmarshalText([]byte(text)); err != nil {
		d.add(place, "%q: %v", text, err)
	}
}

func (d *decoder) structure(value any, target reflect.Value, choice bool, place string) {
	given, ok := value.(map[string]any)
	if !ok {
		d.add(place, "it is %s: write fields and their values", nameOf(value))
		return
	}
	fields := Fields(target.Type())
	d.unknown(given, fields, place)
	count := 0
	for i := range fields {
		field := &fields[i]
		at := join(place, field.Name)
		switch content := given[field.Name]; {
		case content != nil:
			count++
			d.value(content, target.Field(field.Position), field, at)
		case field.Required:
			d.add(at, "it is missing: %s", describe(field))
		case field.Default != "":
			d.value(shortValue(field.Default, field.Type), target.Field(field.Position), field, at)
		}
	}
	if choice && count != 1 {
		d.add(place, "it has %d fields, and must have exactly one: make an element of each, in the order in which they apply", count)
	}
}

// unknown reports the fields that are not declared, each with the one that is
// meant.
func (d *decoder) unknown(given map[string]any, fields []Field, place string) {
	names := make([]string, 0, len(fields))
	for i := range fields {
		names = append(names, fields[i].Name)
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(names, name) {
			continue
		}
		if near := Nearest(name, names); near != "" {
			d.add(join(place, bounded(name)), "there is no such field: did you mean %s?", near)
		} else {
			d.add(join(place, bounded(name)), "there is no such field: the fields are %s", strings.Join(names, ", "))
		}
	}
}

func (d *decoder) list(value any, target reflect.Value, field *Field, place string) {
	given, ok := value.([]any)
	switch {
	case !ok && value != nil:
		d.add(place, "it is %s: write a list", nameOf(value))
		return
	case len(given) < field.MinItems:
		d.add(place, "the list has %d elements: give %d or more", len(given), field.MinItems)
		return
	case field.MaxItems > 0 && len(given) > field.MaxItems:
		d.add(place, "the list has %d elements: at most %d are possible", len(given), field.MaxItems)
		return
	}
	element := field.element()
	list := reflect.MakeSlice(target.Type(), len(given), len(given))
	for i, content := range given {
		at := fmt.Sprintf("%s[%d]", place, i)
		if content == nil {
			d.add(at, "it is empty: remove it")
			continue
		}
		if text, ok := content.(string); ok && text == "" {
			d.add(at, "it is empty: remove it")
			continue
		}
		d.value(content, list.Index(i), element, at)
	}
	if len(given) > 0 {
		target.Set(list)
	}
}

// entries decodes a map of text.
func (d *decoder) entries(value any, target reflect.Value, place string) {
	given, ok := value.(map[string]any)
	if !ok {
		d.add(place, "it is %s: write names and their values", nameOf(value))
		return
	}
	if len(given) > maxEntries {
		d.add(place, "it has %d entries: at most %d are possible", len(given), maxEntries)
		return
	}
	result := reflect.MakeMapWithSize(target.Type(), len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		text, ok := given[name].(string)
		if !ok {
			d.add(join(place, bounded(name)), "it is %s: write it as text, in quotes", nameOf(given[name]))
			continue
		}
		result.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(text))
	}
	if len(given) > 0 {
		target.Set(result)
	}
}

func (d *decoder) text(value any, target reflect.Value, field *Field, place string) {
	text, ok := value.(string)
	switch {
	case !ok:
		d.add(place, "it is %s: write it as text, in quotes", nameOf(value))
	case text == "" && field.Required:
		d.add(place, "it is empty: %s", describe(field))
	case len(field.Enum) > 0 && !slices.Contains(field.Enum, text):
		d.add(place, "%s is not possible: use one of %s", quoted(text), strings.Join(field.Enum, ", "))
	case field.MaxLength > 0 && utf8.RuneCountInString(text) > field.MaxLength:
		d.add(place, "it has more than %d characters", field.MaxLength)
	case field.Pattern != "" && !fits(field.Pattern, text):
		d.add(place, "%s does not have the form %s: %s", quoted(text), field.Pattern, describe(field))
	default:
		target.SetString(text)
	}
}

// fits reports whether a text has a form. An expression of a tag that does not
// compile fits nothing; a test finds it.
func fits(pattern, text string) bool {
	ok, err := regexp.MatchString(pattern, text)
	return err == nil && ok
}

func (d *decoder) number(value any, target reflect.Value, field *Field, place string) {
	number, ok := wholeNumber(value)
	switch {
	case !ok:
		d.add(place, "it is %s: write a whole number", nameOf(value))
	case target.OverflowInt(number):
		d.add(place, "%d is too large", number)
	case len(field.Enum) > 0 && !slices.Contains(field.Enum, strconv.FormatInt(number, 10)):
		d.add(place, "%d is not possible: use one of %s", number, strings.Join(field.Enum, ", "))
	case field.Minimum != nil && number < *field.Minimum:
		d.add(place, "%d is less than %d", number, *field.Minimum)
	case field.Maximum != nil && number > *field.Maximum:
		d.add(place, "%d is more than %d", number, *field.Maximum)
	default:
		target.SetInt(number)
	}
}

// wholeNumber accepts what decoders of JSON and YAML make of a number.
func wholeNumber(value any) (int64, bool) {
	switch n := value.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64:
		// Beyond 2^53 neighbours are the same number.
		if n == math.Trunc(n) && math.Abs(n) <= 1<<53 {
			return int64(n), true
		}
	}
	return 0, false
}

func nameOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "empty"
	case string:
		return "the text " + quoted(v)
	case bool:
		return fmt.Sprintf("the value %t", v)
	case int, int64, uint64, float64:
		return fmt.Sprintf("the number %v", v)
	case []any:
		return "a list"
	default:
		return "a group of fields"
	}
}

// describe is what a field is for, to end a message with.
func describe(field *Field) string {
	text := strings.TrimSuffix(field.Description, ".")
	if text == "" {
		return "give a value"
	}
	return strings.ToLower(text[:1]) + text[1:]
}

func join(place, name string) string {
	if place == "" {
		return name
	}
	return place + "." + name
}

// bounded keeps a name short: it is whatever somebody wrote.
func bounded(name string) string {
	const most = 64
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "..."
	}
	return name
}

func quoted(text string) string { return strconv.Quote(bounded(text)) }
