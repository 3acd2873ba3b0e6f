package declare

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

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
	var d Decoder
	d.Decode(value, into, "")
	return d.Refused[:min(len(d.Refused), maxProblems)]
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
