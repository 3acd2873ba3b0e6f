package v1alpha1

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
)

// Ignored is the reason of a part that is accepted and has no effect. Argo CD
// takes such an object and ignores the part, so refusing all of it would stop an
// Application that runs today; ignoring the part silently would hide that a
// setting is not carried out. It belongs in a condition of the object, and the
// rest of the object is acted upon.
const Ignored refusal.Reason = "Ignored"

// decoder copies decoded JSON into the structs of this package and records what
// does not fit. It never stops at the first problem, so that a user sees all of
// them.
type decoder struct {
	refused []refusal.Refusal
	// warnings are the parts without effect.
	warnings []refusal.Refusal
	// lenient leaves out what does not fit, for a status.
	lenient bool
	// ignoreUnknown makes an unknown field a warning and not a refusal.
	ignoreUnknown bool
}

const (
	// maxNoted bounds the memory for one object. Further problems are dropped.
	maxNoted = 1000
	// maxListed bounds the refusals and the warnings of one object that are
	// returned, and with them the size of its status.
	maxListed = 20
)

// refuse records a refusal. A lenient decoder drops it.
func (d *decoder) refuse(place string, reason refusal.Reason, format string, args ...any) {
	if !d.lenient && len(d.refused) < maxNoted {
		d.refused = append(d.refused, *refusal.New(place, reason, format, args...))
	}
}

// warn records a part that has no effect.
func (d *decoder) warn(place, format string, args ...any) {
	if len(d.warnings) < maxNoted {
		d.warnings = append(d.warnings, *refusal.New(place, Ignored, format, args...))
	}
}

// invalid refuses a value that does not fit. It returns false, which its
// callers return.
func (d *decoder) invalid(place, format string, args ...any) bool {
	d.refuse(place, refusal.Invalid, format, args...)
	return false
}

// part decodes one part of an object, if it is present.
func (d *decoder) part(object map[string]any, name string, into any) {
	if value := object[name]; value != nil {
		d.value(value, reflect.ValueOf(into).Elem(), &declare.Field{}, name)
	}
}

// required is part for one that must be present.
func (d *decoder) required(object map[string]any, name string, into any) {
	if object[name] == nil {
		d.invalid(name, "it is missing")
		return
	}
	d.part(object, name, into)
}

// unknownParts refuses parts of an object that the kind does not have.
func (d *decoder) unknownParts(object map[string]any, known ...string) {
	known = append(known, "apiVersion", "kind", "metadata")
	d.unknown(object, known, "")
}

// value decodes one value, and reports whether it has the type of the target.
// If not, the target is unchanged.
func (d *decoder) value(value any, target reflect.Value, declared *declare.Field, place string) bool {
	switch target.Addr().Interface().(type) {
	case *metav1.Time:
		return d.time(value, target, place)
	case *intstr.IntOrString:
		return d.intOrString(value, target, place)
	}
	switch target.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(target.Type().Elem())
		fits := d.value(value, fresh.Elem(), declared, place)
		if fits {
			target.Set(fresh)
		}
		return fits
	case reflect.Struct:
		return d.structure(value, target, place)
	case reflect.Slice:
		return d.list(value, target, place)
	case reflect.Map:
		return d.entries(value, target, place)
	case reflect.String:
		return d.text(value, target, declared, place)
	case reflect.Bool:
		yes, ok := value.(bool)
		if !ok {
			return d.invalid(place, "it is %s: write true or false", nameOf(value))
		}
		target.SetBool(yes)
		return true
	case reflect.Int64:
		return d.number(value, target, declared, place)
	}
	panic(fmt.Sprintf("no kind has a field of type %s", target.Type())) // an error in the declarations, which their test finds
}

// structure decodes the fields of a struct as its tags declare them.
func (d *decoder) structure(value any, target reflect.Value, place string) bool {
	given, ok := value.(map[string]any)
	if !ok {
		return d.invalid(place, "it is %s: write fields and their values", nameOf(value))
	}
	fields := declare.Fields(target.Type())
	names := make([]string, 0, len(fields))
	for i := range fields {
		declared := &fields[i]
		// All names are collected for the search of unknown fields.
		names = append(names, declared.Name)
		content, at := given[declared.Name], declare.Join(place, declared.Name)
		switch {
		// null counts as missing, as it does for the API server.
		case content == nil && declared.Required:
			d.invalid(at, "it is missing: %s", lowered(declared.Description))
		case content == nil:
		// Values that mean nothing, such as false, are accepted: templates
		// write them.
		case declared.Refused != "":
			if !isNothing(content) {
				d.refuse(at, refusal.Unsupported, "it is not supported: %s", declared.Refused)
			}
		case declared.Ignored != "":
			// A field without effect cannot be wrong.
			(&decoder{lenient: true}).value(content, target.Field(declared.Position), declared, at)
			d.warn(at, "it has no effect: %s", declared.Ignored)
		default:
			d.value(content, target.Field(declared.Position), declared, at)
		}
	}
	d.unknown(given, names, place)
	return true
}

// isNothing reports whether a value means the same as none. An unsupported
// field may have such a value.
func isNothing(value any) bool {
	switch v := value.(type) {
	case bool:
		return !v
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	case int64:
		return v == 0
	case float64:
		return v == 0
	}
	return value == nil
}

// unknown refuses the fields that are not declared, or warns of them, each with
// the one that is most likely meant.
func (d *decoder) unknown(given map[string]any, names []string, place string) {
	if d.lenient {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(names, name) {
			continue
		}
		at := declare.Join(place, declare.Shorten(name))
		meant := "the fields are " + strings.Join(names, ", ")
		if near := declare.Nearest(name, names); near != "" {
			meant = "did you mean " + near + "?"
		}
		if d.ignoreUnknown {
			d.warn(at, "it has no effect, because there is no such field: %s", meant)
		} else {
			d.refuse(at, refusal.Unknown, "there is no such field: %s", meant)
		}
	}
}

// list decodes a list.
func (d *decoder) list(value any, target reflect.Value, place string) bool {
	given, ok := value.([]any)
	if !ok {
		return d.invalid(place, "it is %s: write a list", nameOf(value))
	}
	// An empty list differs from a missing one: an AppProject with an empty
	// whitelist allows nothing.
	list := reflect.MakeSlice(target.Type(), 0, len(given))
	for i, content := range given {
		at := fmt.Sprintf("%s[%d]", place, i)
		element := reflect.New(target.Type().Elem()).Elem()
		fits := false
		if content == nil {
			d.invalid(at, "it is empty: remove it")
		} else {
			fits = d.value(content, element, &declare.Field{}, at)
		}
		// Refused elements keep their position, as other messages refer to it.
		if fits || !d.lenient {
			list = reflect.Append(list, element)
		}
	}
	target.Set(list)
	return true
}

// entries decodes a map of texts, of booleans, or of anything.
func (d *decoder) entries(value any, target reflect.Value, place string) bool {
	given, ok := value.(map[string]any)
	if !ok {
		return d.invalid(place, "it is %s: write names and their values", nameOf(value))
	}
	if target.Type().Elem().Kind() == reflect.Interface {
		copied, err := freeForm(given, 0)
		if err != nil {
			return d.invalid(place, "%v", err)
		}
		target.Set(reflect.ValueOf(copied))
		return true
	}
	result := reflect.MakeMapWithSize(target.Type(), len(given))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		element := reflect.New(target.Type().Elem()).Elem()
		if d.value(given[name], element, &declare.Field{}, declare.Join(place, declare.Shorten(name))) {
			result.SetMapIndex(reflect.ValueOf(name), element)
		}
	}
	target.Set(result)
	return true
}

// text decodes a string. Numbers are refused and not converted: YAML reads 1.10
// as 1.1.
func (d *decoder) text(value any, target reflect.Value, declared *declare.Field, place string) bool {
	text, ok := value.(string)
	switch {
	case !ok:
		return d.invalid(place, "it is %s: write it as text, in quotes", nameOf(value))
	case len(declared.Enum) > 0 && !slices.Contains(declared.Enum, text):
		return d.invalid(place, "%s is not possible: use one of %s", declare.Quoted(text), strings.TrimPrefix(strings.Join(declared.Enum, ", "), ", "))
	}
	target.SetString(text)
	return true
}

// number decodes an integer.
func (d *decoder) number(value any, target reflect.Value, declared *declare.Field, place string) bool {
	number, ok := wholeNumber(value)
	switch {
	case !ok:
		return d.invalid(place, "it is %s: write a whole number", nameOf(value))
	case declared.Minimum != nil && number < *declared.Minimum:
		return d.invalid(place, "%d is less than %d", number, *declared.Minimum)
	}
	target.SetInt(number)
	return true
}

// time decodes a timestamp, with the precision that is written, so that a
// decoded and encoded object is unchanged.
func (d *decoder) time(value any, target reflect.Value, place string) bool {
	text, _ := value.(string)
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil || parsed.IsZero() {
		return d.invalid(place, "it is %s: write a time such as 2006-01-02T15:04:05Z", nameOf(value))
	}
	// This is what is written, so that what was read and is written again is the
	// same.
	target.Set(reflect.ValueOf(metav1.NewTime(parsed.UTC().Truncate(time.Second))))
	return true
}

// intOrString decodes a number or a text.
func (d *decoder) intOrString(value any, target reflect.Value, place string) bool {
	if text, ok := value.(string); ok {
		target.Set(reflect.ValueOf(intstr.FromString(text)))
		return true
	}
	number, ok := wholeNumber(value)
	if !ok || number != int64(int32(number)) {
		return d.invalid(place, "it is %s: write a whole number", nameOf(value))
	}
	target.Set(reflect.ValueOf(intstr.FromInt32(int32(number))))
	return true
}

// wholeNumber accepts the types of numbers that decoders of JSON and YAML
// return.
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

// maxDepth bounds the nesting of free-form content.
const maxDepth = 64

// freeForm copies a value of any structure. Its numbers are int64 and float64,
// as in every unstructured object.
func freeForm(value any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("lists and groups are nested more than %d deep", maxDepth)
	}
	switch v := value.(type) {
	case nil, string, bool, int64:
		return v, nil
	case int:
		return int64(v), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, errors.New("a number is not finite")
		}
		return v, nil
	case []any:
		list := make([]any, len(v))
		for i := range v {
			copied, err := freeForm(v[i], depth+1)
			if err != nil {
				return nil, err
			}
			list[i] = copied
		}
		return list, nil
	case map[string]any:
		group := make(map[string]any, len(v))
		for name := range v {
			copied, err := freeForm(v[name], depth+1)
			if err != nil {
				return nil, err
			}
			group[name] = copied
		}
		return group, nil
	}
	return nil, fmt.Errorf("a value is %s, which JSON does not have", nameOf(value))
}

// lowered returns the first sentence of a description, as the end of a message.
func lowered(description string) string {
	text, _, _ := strings.Cut(strings.TrimSuffix(description, "."), ". ")
	if text == "" {
		return "give a value"
	}
	return strings.ToLower(text[:1]) + text[1:]
}
