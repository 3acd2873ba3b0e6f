package traefik

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
)

// findings collects the faults of an object. All records of one object share
// it, so that the bound applies to the object as a whole.
type findings struct {
	faults []refusal.Refusal
	// trace is called with each field that a converter knows; nil outside of fieldsOf.
	trace func(path string, support Support, advice string)
}

// maxFaults bounds the faults of one object: the first ones are enough to repair it.
const maxFaults = 16

// maxMessage bounds one message, which may be about a chain of objects.
const maxMessage = 600

// add appends a fault with a bounded, printable message, unless the bound of
// faults is reached. Callers check the number of faults, not their content, so
// a dropped fault still closes the routes.
func (f *findings) add(field string, reason refusal.Reason, format string, args ...any) {
	if len(f.faults) < maxFaults {
		f.faults = append(f.faults, refusal.Refusal{Field: field, Reason: reason, Message: shown(fmt.Sprintf(format, args...), maxMessage)})
	}
}

// record is a JSON object in a spec. The converters take its fields one by one,
// each with its type, and call rest at the end, which refuses the fields that
// were not taken. A null field counts as missing.
type record struct {
	// path is the field path of the object, such as spec.headers.
	path   string
	fields map[string]any
	// taken has the names that the converter handles, whether they are present or
	// not.
	taken map[string]bool
	found *findings
}

// newRecord returns a record with no field taken. fields may be nil.
func newRecord(path string, fields map[string]any, found *findings) *record {
	return &record{path: path, fields: fields, taken: map[string]bool{}, found: found}
}

// at returns the path of a field. An unknown name may be any text, so it is bounded.
func (r *record) at(name string) string { return r.path + "." + brief(name) }

// fault adds a fault of a field.
func (r *record) fault(name string, reason refusal.Reason, format string, args ...any) {
	r.found.add(r.at(name), reason, format, args...)
}

// take returns a field and marks it as known.
func (r *record) take(name string) (any, bool) {
	r.know(name, Read, "")
	value, there := r.fields[name]
	return value, there && value != nil
}

// ignore takes fields that have no effect here, with any value.
func (r *record) ignore(names ...string) {
	for _, name := range names {
		r.know(name, NoEffect, "")
	}
}

// know marks a field as known.
func (r *record) know(name string, support Support, advice string) {
	r.taken[name] = true
	if r.found.trace != nil {
		r.found.trace(r.path+"."+name, support, advice)
	}
}

// refuse takes an unsupported field and adds a fault with advice, unless its
// value is zero: a manifest rendered from a chart often writes out every
// default.
func (r *record) refuse(name, instead string) {
	r.know(name, Refused, instead)
	if value, there := r.take(name); there && !isEmpty(value) {
		r.fault(name, refusal.Unsupported, "is not supported: %s", instead)
	}
}

// rest refuses the fields that were not taken, in order. Only then are all
// known names taken, so it comes last. Sorting keeps the faults stable between
// updates.
func (r *record) rest() {
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		if !r.taken[name] && !isEmpty(r.fields[name]) {
			r.fault(name, refusal.Unsupported, "the field is unknown: correct its name, or remove it")
		}
	}
}

// wrong adds the fault of a value of a wrong type.
func (r *record) wrong(name, form string) { r.fault(name, refusal.Invalid, "is not %s", form) }

// text takes a string, empty if missing. Invalid UTF-8 is refused: the table is
// JSON and could not carry it unchanged.
func (r *record) text(name string) string {
	value, there := r.take(name)
	if !there {
		return ""
	}
	text, ok := value.(string)
	if !ok || !utf8.ValidString(text) {
		r.wrong(name, "a text")
		return ""
	}
	return text
}

// flag takes a boolean, false if missing. A text such as "true" is not
// accepted, as Traefik's CRD does not accept it.
func (r *record) flag(name string) bool {
	value, there := r.take(name)
	if !there {
		return false
	}
	flag, ok := value.(bool)
	if !ok {
		r.wrong(name, "true or false")
	}
	return flag
}

// whole takes a whole number, 0 if missing.
func (r *record) whole(name string) int64 {
	number, _ := r.wholeIfSet(name)
	return number
}

// wholeIfSet takes a whole number, and reports whether it is set: for some fields 0
// differs from missing.
func (r *record) wholeIfSet(name string) (number int64, there bool) {
	value, there := r.take(name)
	if !there {
		return 0, false
	}
	number, ok := declare.WholeNumber(value)
	if !ok {
		r.wrong(name, "a whole number")
	}
	return number, ok
}

// count takes a whole number and refuses a negative one.
func (r *record) count(name string) int64 {
	number := r.whole(name)
	if number < 0 {
		r.fault(name, refusal.Invalid, "%d is negative: give a number from 0", number)
		return 0
	}
	return number
}

// span takes a duration: a number of seconds, or a text such as 100ms. A numeric
// text is in seconds too, as in Traefik.
func (r *record) span(name string) time.Duration {
	value, there := r.take(name)
	if !there {
		return 0
	}
	seconds, number := declare.WholeNumber(value)
	// A number without a unit is no duration in Go, so it is parsed as seconds
	// when ParseDuration fails.
	if text, is := value.(string); is {
		if span, err := time.ParseDuration(text); err == nil {
			return r.notNegative(name, span)
		}
		parsed, err := strconv.ParseInt(text, 10, 64)
		seconds, number = parsed, err == nil
	}
	// The multiplication below must not overflow.
	if !number || seconds > math.MaxInt64/int64(time.Second) || seconds < math.MinInt64/int64(time.Second) {
		r.wrong(name, "a time: give a number of seconds, or a text such as 100ms")
		return 0
	}
	return r.notNegative(name, time.Duration(seconds)*time.Second)
}

// notNegative returns a duration, and refuses a negative one as zero with a
// fault.
func (r *record) notNegative(name string, span time.Duration) time.Duration {
	if span < 0 {
		r.fault(name, refusal.Invalid, "%s is negative: give a time from 0", span)
		return 0
	}
	return span
}

// textOrNumber takes a value of either type, such as a port.
func (r *record) textOrNumber(name string) string {
	value, _ := r.take(name)
	if number, ok := declare.WholeNumber(value); ok {
		return strconv.FormatInt(number, 10)
	}
	return r.text(name)
}

// texts takes a list of strings. One invalid element discards the list: a part
// of an allow list is not what was written.
func (r *record) texts(name string) []string {
	var texts []string
	for i, value := range r.list(name) {
		text, ok := value.(string)
		if !ok || !utf8.ValidString(text) {
			r.wrong(fmt.Sprintf("%s[%d]", name, i), "a text")
			return nil
		}
		texts = append(texts, text)
	}
	return texts
}

// list takes a list of any type, nil if missing.
func (r *record) list(name string) []any {
	value, there := r.take(name)
	if !there {
		return nil
	}
	list, ok := value.([]any)
	if !ok {
		r.wrong(name, "a list")
	}
	return list
}

// inner takes a nested object, empty if missing. Converters can so read the
// fields of a missing object without a check; all of them are missing as well.
func (r *record) inner(name string) *record {
	value, there := r.take(name)
	if !there {
		return newRecord(r.at(name), nil, r.found)
	}
	return r.asRecord(name, value)
}

// inners takes a list of objects.
func (r *record) inners(name string) []*record {
	var inners []*record
	for i, value := range r.list(name) {
		inners = append(inners, r.asRecord(fmt.Sprintf("%s[%d]", name, i), value))
	}
	return inners
}

// asRecord converts a value to a record. A value of another type is a fault and
// gives an empty record, so that the converter can continue.
func (r *record) asRecord(name string, value any) *record {
	fields, ok := value.(map[string]any)
	if !ok {
		r.wrong(name, "an object")
	}
	return newRecord(r.at(name), fields, r.found)
}

// pair is an entry of a map of strings.
type pair struct{ name, value string }

// pairs takes a map of strings, sorted by name. The order of a JSON object is
// not significant, and equal objects must give equal tables.
func (r *record) pairs(name string) []pair {
	inner := r.inner(name)
	var pairs []pair
	for _, key := range slices.Sorted(maps.Keys(inner.fields)) {
		pairs = append(pairs, pair{key, inner.text(key)})
	}
	return pairs
}

// isEmpty reports whether a value is the zero value of its type: a manifest that
// lists every option has many of them.
func isEmpty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case bool:
		return !v
	case string:
		return v == ""
	case int64:
		return v == 0
	case int:
		return v == 0
	case float64:
		return v == 0
	case []any:
		return len(v) == 0
	// An object counts as zero if all of its fields do, at any depth.
	case map[string]any:
		for _, inner := range v {
			if !isEmpty(inner) {
				return false
			}
		}
		return true
	}
	return false
}

// brief returns a value for a message.
func brief(text string) string { return shown(text, 80) }

// shown removes unprintable characters and truncates a text.
func shown(text string, most int) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, refusal.Shorten(text, most))
}
