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

// Decoder fills structs from decoded JSON or YAML and records what does not
// fit. It continues after a problem, so that a user sees all of them at once. Its
// zero value is for our own declarations.
type Decoder struct {
	// Foreign is set for declarations of others, as in SchemaWriter: required
	// texts and elements of lists may be empty, maps may have any number of
	// entries, and an empty list or map is kept, because it differs from a missing
	// one. An AppProject with an empty whitelist allows nothing.
	Foreign bool
	// WarnUnknown makes an unknown field a warning and not a refusal.
	WarnUnknown bool
	// Lenient leaves out what does not fit and records nothing. It is for a
	// status, which programs write.
	Lenient bool
	// Types decode types that cannot be a Scalar.
	Types map[reflect.Type]ForeignType

	// Refused is what does not fit, and Warnings are the parts without effect.
	Refused, Warnings []refusal.Refusal
}

// maxRecorded bounds the memory for one value. Further problems are dropped.
const maxRecorded = 1000

// Refuse records a refusal.
func (d *Decoder) Refuse(place string, reason refusal.Reason, format string, args ...any) {
	if !d.Lenient && len(d.Refused) < maxRecorded {
		d.Refused = append(d.Refused, *refusal.New(place, reason, format, args...))
	}
}

// Invalid refuses a value that does not fit. It returns false, which its callers
// return.
func (d *Decoder) Invalid(place, format string, args ...any) bool {
	d.Refuse(place, refusal.Invalid, format, args...)
	return false
}

// Warn records a part that has no effect.
func (d *Decoder) Warn(place, format string, args ...any) {
	if !d.Lenient && len(d.Warnings) < maxRecorded {
		d.Warnings = append(d.Warnings, *refusal.New(place, refusal.Ignored, format, args...))
	}
}

// Decode decodes a value, which is not null, into what into points to. place is
// where the value is.
func (d *Decoder) Decode(value, into any, place string) {
	target := reflect.ValueOf(into).Elem()
	d.value(value, target, &Field{Type: target.Type()}, place)
}

// value decodes one value, and reports whether it has the type of the target and
// keeps its bounds. If not, a scalar target is unchanged. It checks for Scalar
// first: a Scalar may have any underlying kind, and its text form takes
// precedence over that.
func (d *Decoder) value(value any, target reflect.Value, field *Field, place string) bool {
	if foreign, ok := d.Types[target.Type()]; ok {
		return d.foreign(value, target, foreign, place)
	}
	if scalar, ok := target.Addr().Interface().(Scalar); ok {
		return d.scalar(value, scalar, place)
	}
	switch target.Kind() {
	case reflect.Pointer:
		// The tags of a pointer field bound the value that it points to.
		inner := *field
		inner.Type = target.Type().Elem()
		fresh := reflect.New(inner.Type)
		fits := d.value(value, fresh.Elem(), &inner, place)
		if fits {
			target.Set(fresh)
		}
		return fits
	case reflect.Struct:
		return d.structure(value, target, field.Choice, place)
	case reflect.Slice:
		return d.list(value, target, field, place)
	case reflect.Map:
		return d.entries(value, target, field, place)
	case reflect.String:
		return d.text(value, target, field, place)
	case reflect.Bool:
		yes, ok := value.(bool)
		if !ok {
			return d.Invalid(place, "it is %s: write true or false", nameOf(value))
		}
		target.SetBool(yes)
		return true
	case reflect.Int32, reflect.Int64:
		return d.number(value, target, field, place)
	}
	panic(fmt.Sprintf("a declaration has no fields of type %s", target.Type())) // a programming error
}

// foreign decodes a value of a type of another module.
func (d *Decoder) foreign(value any, target reflect.Value, of ForeignType, place string) bool {
	decoded, err := of.Decode(value)
	if err != nil {
		return d.Invalid(place, "it is %s: %v", nameOf(value), err)
	}
	target.Set(reflect.ValueOf(decoded))
	return true
}

// scalar decodes a value with a text form of its own. Numbers are accepted only
// where the form permits them, because YAML turns an unquoted 10 into a number.
func (d *Decoder) scalar(value any, target Scalar, place string) bool {
	text, ok := value.(string)
	if number, whole := WholeNumber(value); whole && target.Form().Number {
		text, ok = strconv.FormatInt(number, 10), true
	}
	// No scalar needs more than 256 bytes, and the message below quotes the text.
	switch {
	case !ok:
		return d.Invalid(place, "it is %s: write it as text, in quotes", nameOf(value))
	case len(text) > 256:
		return d.Invalid(place, "the text is too long")
	}
	if err := target.UnmarshalText([]byte(text)); err != nil {
		return d.Invalid(place, "%q: %v", text, err)
	}
	return true
}

// structure decodes the fields of a struct. A null field counts as absent, as it
// does for the API server. A choice needs exactly one field that is present;
// defaults do not count.
func (d *Decoder) structure(value any, target reflect.Value, choice bool, place string) bool {
	given, ok := value.(map[string]any)
	if !ok {
		return d.Invalid(place, "it is %s: write fields and their values", nameOf(value))
	}
	fields := Fields(target.Type())
	names := make([]string, 0, len(fields))
	count := 0
	for i := range fields {
		names = append(names, fields[i].Name)
		if content := given[fields[i].Name]; content != nil {
			count++
			d.field(content, target.FieldByIndex(fields[i].Index), &fields[i], Join(place, fields[i].Name))
		} else {
			d.absent(target.FieldByIndex(fields[i].Index), &fields[i], place)
		}
	}
	d.Unknown(given, names, place)
	if choice && count != 1 {
		return d.Invalid(place, "it has %d fields, and must have exactly one: make an element of each, in the order in which they apply", count)
	}
	return true
}

// field decodes a field that is present, unless its tags refuse or ignore it.
func (d *Decoder) field(content any, target reflect.Value, field *Field, place string) {
	switch {
	case field.Refused != "":
		// Values that mean nothing, such as false, are accepted: templates write
		// them.
		if !isNothing(content) {
			d.Refuse(place, refusal.Unsupported, "it is not supported: %s", field.Refused)
		}
	case field.Ignored != "":
		// A field without effect cannot be wrong.
		(&Decoder{Foreign: d.Foreign, Lenient: true, Types: d.Types}).value(content, target, field, place)
		// Templates write false and empty texts, which ask for nothing.
		if content != false && content != "" {
			d.Warn(place, "it has no effect: %s", field.Ignored)
		}
	default:
		d.value(content, target, field, place)
	}
}

// absent sets the default of a field, which passes the same checks as a written
// value, or refuses that it is missing.
func (d *Decoder) absent(target reflect.Value, field *Field, place string) {
	switch {
	case field.Required && d.Foreign:
		d.Invalid(Join(place, field.Name), "it is missing: %s", describe(field))
	case field.Required:
		d.Refuse(Join(place, field.Name), refusal.Required, "it is missing: %s", describe(field))
	case field.Default != "":
		d.value(shortValue(field.Default, field.Type), target, field, Join(place, field.Name))
	}
}

// isNothing reports whether a value means the same as none.
func isNothing(value any) bool {
	switch v := value.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return value == nil || value == false || value == "" || value == int64(0) || value == float64(0)
}

// Unknown reports the fields that are not declared, each with the declared name
// that is closest. Names are sorted: problems must not change with the iteration
// order of a map.
func (d *Decoder) Unknown(given map[string]any, names []string, place string) {
	if d.Lenient {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(names, name) {
			continue
		}
		at := Join(place, Shorten(name))
		meant := "the fields are " + strings.Join(names, ", ")
		if near := Nearest(name, names); near != "" {
			meant = "did you mean " + near + "?"
		}
		if d.WarnUnknown {
			d.Warn(at, "it has no effect, because there is no such field: %s", meant)
		} else {
			d.Refuse(at, refusal.Unknown, "there is no such field: %s", meant)
		}
	}
}

// list decodes a list within its bounds. It checks the length before it
// allocates, so that the bound also limits memory.
func (d *Decoder) list(value any, target reflect.Value, field *Field, place string) bool {
	given, ok := value.([]any)
	switch {
	case !ok && value != nil:
		return d.Invalid(place, "it is %s: write a list", nameOf(value))
	case len(given) < field.MinItems:
		return d.Invalid(place, "the list has %d elements: give %d or more", len(given), field.MinItems)
	case field.MaxItems > 0 && len(given) > field.MaxItems:
		return d.Invalid(place, "the list has %d elements: at most %d are possible", len(given), field.MaxItems)
	}
	element := field.element()
	list := reflect.MakeSlice(target.Type(), 0, len(given))
	for i, content := range given {
		at := fmt.Sprintf("%s[%d]", place, i)
		into := reflect.New(target.Type().Elem()).Elem()
		fits := false
		if content == nil || content == "" && !d.Foreign {
			d.Invalid(at, "it is empty: remove it")
		} else {
			fits = d.value(content, into, element, at)
		}
		// Refused elements keep their position, as other messages refer to it.
		if fits || !d.Lenient {
			list = reflect.Append(list, into)
		}
	}
	// An empty list of ours stays nil, so that it equals an absent one.
	if len(given) > 0 || d.Foreign {
		target.Set(list)
	}
	return true
}

// entries decodes a map. Names are sorted, so that problems come in the same
// order every time.
func (d *Decoder) entries(value any, target reflect.Value, field *Field, place string) bool {
	given, ok := value.(map[string]any)
	switch {
	case !ok:
		return d.Invalid(place, "it is %s: write names and their values", nameOf(value))
	case len(given) > maxEntries && !d.Foreign:
		return d.Invalid(place, "it has %d entries: at most %d are possible", len(given), maxEntries)
	case target.Type().Elem().Kind() == reflect.Interface:
		copied, err := FreeForm(given)
		if err != nil {
			return d.Invalid(place, "%v", err)
		}
		target.Set(reflect.ValueOf(copied))
		return true
	}
	element := field.element()
	result := reflect.MakeMapWithSize(target.Type(), len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		into := reflect.New(target.Type().Elem()).Elem()
		if d.value(given[name], into, element, Join(place, Shorten(name))) {
			result.SetMapIndex(reflect.ValueOf(name), into)
		}
	}
	// An empty map of ours stays nil, so that it equals an absent one.
	if len(given) > 0 || d.Foreign {
		target.Set(result)
	}
	return true
}

// text decodes a string and checks it against its tags. Numbers are refused and
// not converted: YAML reads 1.10 as 1.1. The enum comes before the pattern,
// because its message lists the values to choose from; an empty one is not
// listed.
func (d *Decoder) text(value any, target reflect.Value, field *Field, place string) bool {
	text, ok := value.(string)
	switch {
	case !ok:
		return d.Invalid(place, "it is %s: write it as text, in quotes", nameOf(value))
	case text == "" && field.Required && !d.Foreign:
		return d.Invalid(place, "it is empty: %s", describe(field))
	case len(field.Enum) > 0 && !slices.Contains(field.Enum, text):
		return d.Invalid(place, "%s is not possible: use one of %s", Quoted(text), strings.TrimPrefix(strings.Join(field.Enum, ", "), ", "))
	case field.MaxLength > 0 && utf8.RuneCountInString(text) > field.MaxLength:
		return d.Invalid(place, "it has more than %d characters", field.MaxLength)
	case field.Pattern != "" && !fits(field.Pattern, text):
		return d.Invalid(place, "%s does not have the form %s: %s", Quoted(text), field.Pattern, describe(field))
	}
	target.SetString(text)
	return true
}

// fits reports whether text matches a pattern. A pattern that does not compile
// matches nothing; a test finds it.
func fits(pattern, text string) bool {
	ok, err := regexp.MatchString(pattern, text)
	return err == nil && ok
}

// number decodes a whole number. It checks for an overflow first, because
// SetInt truncates silently.
func (d *Decoder) number(value any, target reflect.Value, field *Field, place string) bool {
	number, ok := WholeNumber(value)
	switch {
	case !ok:
		return d.Invalid(place, "it is %s: write a whole number", nameOf(value))
	case target.OverflowInt(number):
		return d.Invalid(place, "%d is too large", number)
	case len(field.Enum) > 0 && !slices.Contains(field.Enum, strconv.FormatInt(number, 10)):
		return d.Invalid(place, "%d is not possible: use one of %s", number, strings.Join(field.Enum, ", "))
	case field.Minimum != nil && number < *field.Minimum:
		return d.Invalid(place, "%d is less than %d", number, *field.Minimum)
	case field.Maximum != nil && number > *field.Maximum:
		return d.Invalid(place, "%d is more than %d", number, *field.Maximum)
	}
	target.SetInt(number)
	return true
}

// WholeNumber converts the types that JSON and YAML decoders produce for a
// number, if it has no fraction.
func WholeNumber(value any) (int64, bool) {
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
