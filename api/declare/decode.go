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

	"slipway.dev/slipway/api/refusal"
)

const (
	// maxProblems bounds the problems reported for one value. Further ones are
	// dropped: they end up in the message of an event, which is bounded as
	// well.
	maxProblems = 20
	// maxEntries bounds a map. Decode refuses a larger one, and Schema declares
	// the same bound as maxProperties.
	maxEntries = 64
)

// Decode fills the struct that into points to from decoded JSON or YAML: maps,
// lists, text, numbers and booleans. An absent field gets its default. If
// Decode returns refusals, the struct is partly filled and must be discarded.
// Their Field is the place in the value, such as key.by or allow[2].
func Decode(value, into any) []refusal.Refusal {
	d := decoder{}
	d.value(value, reflect.ValueOf(into).Elem(), &Field{}, "")
	return d.problems
}

// DecodeShort is Decode for a short form: either the one that a [Shortened]
// defines, or the value of the single named field. Commas separate the elements
// of a list, except in a list of expressions. A field that the struct does not
// declare is a programming error and panics.
func DecodeShort(text, field string, into any) []refusal.Refusal {
	if len(text) > MaxBytes {
		return []refusal.Refusal{*refusal.New("", refusal.TooLarge, "it has %d bytes: at most %d are read", len(text), MaxBytes)}
	}
	text = strings.TrimSpace(text)
	if shortened, ok := into.(Shortened); ok {
		// Decoding an empty map sets the defaults. Its problems are ignored:
		// the short form leaves other required fields out by design.
		Decode(map[string]any{}, into)
		if err := shortened.UnmarshalShort(text); err != nil {
			return []refusal.Refusal{{Reason: refusal.Invalid, Message: err.Error()}}
		}
		return nil
	}
	target := reflect.TypeOf(into).Elem()
	for _, declared := range Fields(target) {
		if declared.Name == field {
			return Decode(map[string]any{field: shortValue(text, declared.Type)}, into)
		}
	}
	panic(fmt.Sprintf("%s has no field %s", target.Name(), field)) // a programming error
}

// shortValue converts text to the value that decoded JSON would have in its
// place. Text that does not parse stays text, so that the caller reports the
// mismatch with the type of the field.
func shortValue(text string, of reflect.Type) any {
	if _, scalar := scalarOf(of); scalar {
		return text
	}
	switch of.Kind() {
	case reflect.Slice:
		// A named string type marks an expression, which may contain commas and
		// so is never split.
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

// SplitList splits a list at its commas. It trims blanks and drops empty
// elements, so that a trailing comma does no harm.
func SplitList(text string) []string {
	var list []string
	for element := range strings.SplitSeq(text, ",") {
		if element = strings.TrimSpace(element); element != "" {
			list = append(list, element)
		}
	}
	return list
}

// decoder collects the problems of one Decode. It continues after a problem, so
// that a user sees all of them at once.
type decoder struct{ problems []refusal.Refusal }

// add records that a value does not fit.
func (d *decoder) add(place, format string, args ...any) {
	d.refuse(place, refusal.Invalid, format, args...)
}

// refuse records a problem. Problems beyond maxProblems are dropped.
func (d *decoder) refuse(place string, reason refusal.Reason, format string, args ...any) {
	if len(d.problems) < maxProblems {
		d.problems = append(d.problems, *refusal.New(place, reason, format, args...))
	}
}

// value decodes a value that is not null. It checks for Scalar first: a Scalar
// may have any underlying kind, and its text form takes precedence over that.
func (d *decoder) value(value any, target reflect.Value, field *Field, place string) {
	if scalar, ok := target.Addr().Interface().(Scalar); ok {
		d.scalar(value, scalar, place)
		return
	}
	switch target.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(target.Type().Elem())
		// The tags of a pointer field bound the value that it points to.
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
		panic(fmt.Sprintf("a declaration has no fields of type %s", target.Type())) // a programming error
	}
}

// scalar decodes a value with a text form of its own. Numbers are accepted only
// where the form permits them, because YAML turns an unquoted 10 into a number.
func (d *decoder) scalar(value any, target Scalar, place string) {
	text, ok := value.(string)
	if number, whole := wholeNumber(value); whole && target.Form().Number {
		text, ok = strconv.FormatInt(number, 10), true
	}
	if !ok {
		d.add(place, "it is %s: write it as text, in quotes", nameOf(value))
		return
	}
	// No scalar needs more, and the message below quotes the text.
	if len(text) > 256 {
		d.add(place, "the text is too long")
		return
	}
	if err := target.UnmarshalText([]byte(text)); err != nil {
		d.add(place, "%q: %v", text, err)
	}
}

// structure decodes the fields of a struct. A null field counts as absent. A
// choice needs exactly one field that is present; defaults do not count.
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
		at := Join(place, field.Name)
		switch content := given[field.Name]; {
		case content != nil:
			count++
			d.value(content, target.Field(field.Position), field, at)
		case field.Required:
			d.refuse(at, refusal.Required, "it is missing: %s", describe(field))
		case field.Default != "":
			// A default passes the same checks as a written value.
			d.value(shortValue(field.Default, field.Type), target.Field(field.Position), field, at)
		}
	}
	if choice && count != 1 {
		d.add(place, "it has %d fields, and must have exactly one: make an element of each, in the order in which they apply", count)
	}
}

// unknown reports the fields that are not declared, each with the declared name
// that is closest. Names are sorted: problems must not change with the
// iteration order of a map.
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
			d.refuse(Join(place, Shorten(name)), refusal.Unknown, "there is no such field: did you mean %s?", near)
		} else {
			d.refuse(Join(place, Shorten(name)), refusal.Unknown, "there is no such field: the fields are %s", strings.Join(names, ", "))
		}
	}
}

// list decodes a list within its bounds. It checks the length before it
// allocates, so that the bound also limits memory.
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
	// An empty list stays nil, so that it equals an absent one.
	if len(given) > 0 {
		target.Set(list)
	}
}

// entries decodes a map of text. Names are sorted, so that problems come in the
// same order every time.
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
			d.add(Join(place, Shorten(name)), "it is %s: write it as text, in quotes", nameOf(given[name]))
			continue
		}
		result.SetMapIndex(reflect.ValueOf(name), reflect.ValueOf(text))
	}
	// An empty map stays nil, so that it equals an absent one.
	if len(given) > 0 {
		target.Set(result)
	}
}

// text decodes a string and checks it against its tags. The enum comes before
// the pattern, because its message lists the values to choose from.
func (d *decoder) text(value any, target reflect.Value, field *Field, place string) {
	text, ok := value.(string)
	switch {
	case !ok:
		d.add(place, "it is %s: write it as text, in quotes", nameOf(value))
	case text == "" && field.Required:
		d.add(place, "it is empty: %s", describe(field))
	case len(field.Enum) > 0 && !slices.Contains(field.Enum, text):
		d.add(place, "%s is not possible: use one of %s", Quoted(text), strings.Join(field.Enum, ", "))
	case field.MaxLength > 0 && utf8.RuneCountInString(text) > field.MaxLength:
		d.add(place, "it has more than %d characters", field.MaxLength)
	case field.Pattern != "" && !fits(field.Pattern, text):
		d.add(place, "%s does not have the form %s: %s", Quoted(text), field.Pattern, describe(field))
	default:
		target.SetString(text)
	}
}

// fits reports whether text matches a pattern. A pattern that does not compile
// matches nothing; a test finds it.
func fits(pattern, text string) bool {
	ok, err := regexp.MatchString(pattern, text)
	return err == nil && ok
}

// number decodes a whole number. It checks for an overflow first, because
// SetInt truncates silently.
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

// wholeNumber converts the types that JSON and YAML decoders produce for a
// number, if it has no fraction.
func wholeNumber(value any) (int64, bool) {
	switch n := value.(type) {
	case int:
		return int64(n), true
	case int64:
		return n, true
	case float64:
		// A float64 represents integers exactly up to 2^53; beyond, a different
		// number may have been written.
		if n == math.Trunc(n) && math.Abs(n) <= 1<<53 {
			return int64(n), true
		}
	}
	return 0, false
}

// nameOf describes a value for a message by its type in YAML.
func nameOf(value any) string {
	switch v := value.(type) {
	case nil:
		return "empty"
	case string:
		return "the text " + Quoted(v)
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

// describe returns the description of a field as the end of a message.
func describe(field *Field) string {
	text := strings.TrimSuffix(field.Description, ".")
	if text == "" {
		return "give a value"
	}
	return strings.ToLower(text[:1]) + text[1:]
}

// Join appends a field name to a path.
func Join(place, name string) string {
	if place == "" {
		return name
	}
	return place + "." + name
}

// Shorten truncates user input for a message and keeps it valid UTF-8.
func Shorten(name string) string {
	const most = 64
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "..."
	}
	return name
}

// Quoted returns text in quotes, truncated and with control characters escaped.
func Quoted(text string) string { return strconv.Quote(Shorten(text)) }
