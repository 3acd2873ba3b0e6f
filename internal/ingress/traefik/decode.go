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

	"slipway.dev/slipway/internal/ingress/snapshot"
)

// findings collects what is wrong with an object.
type findings struct{ faults []snapshot.Fault }

// maxFaults bounds the faults of one object: a person reads the first ones.
const maxFaults = 16

// maxMessage bounds what one of them says: it can be about a chain of objects.
const maxMessage = 600

func (f *findings) add(field string, reason snapshot.Reason, format string, args ...any) {
	if len(f.faults) < maxFaults {
		f.faults = append(f.faults, snapshot.Fault{Field: field, Reason: reason, Message: shown(fmt.Sprintf(format, args...), maxMessage)})
	}
}

// record is a JSON object in a spec. Its fields are taken one by one, each by
// the form that it has; rest finds those that nobody took. A field that is null
// is not there.
type record struct {
	path   string
	fields map[string]any
	taken  map[string]bool
	found  *findings
}

func newRecord(path string, fields map[string]any, found *findings) *record {
	return &record{path: path, fields: fields, taken: map[string]bool{}, found: found}
}

// at is the place of a field. The name of one that nobody knows may be
// anything.
func (r *record) at(name string) string { return r.path + "." + brief(name) }

// fault is about a field.
func (r *record) fault(name string, reason snapshot.Reason, format string, args ...any) {
	r.found.add(r.at(name), reason, format, args...)
}

// take gives a field and notes that it is known.
func (r *record) take(name string) (any, bool) {
	r.taken[name] = true
	value, there := r.fields[name]
	return value, there && value != nil
}

// ignore takes fields that have no effect here, whatever they say.
func (r *record) ignore(names ...string) {
	for _, name := range names {
		r.taken[name] = true
	}
}

// refuse takes a field that we do not support. It asks for nothing when it is
// empty.
func (r *record) refuse(name, instead string) {
	if value, there := r.take(name); there && !asksNothing(value) {
		r.fault(name, snapshot.Unsupported, "is not supported: %s", instead)
	}
}

// rest refuses the fields that nobody took, in their order.
func (r *record) rest() {
	for _, name := range slices.Sorted(maps.Keys(r.fields)) {
		if !r.taken[name] && !asksNothing(r.fields[name]) {
			r.fault(name, snapshot.Unsupported, "the field is unknown: correct its name, or remove it")
		}
	}
}

// wrong is the fault of a value that is not of its form.
func (r *record) wrong(name, form string) { r.fault(name, snapshot.Invalid, "is not %s", form) }

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

// whole is a whole number, 0 when it is not there.
func (r *record) whole(name string) int64 {
	number, _ := r.wholeIfSet(name)
	return number
}

func (r *record) wholeIfSet(name string) (number int64, there bool) {
	value, there := r.take(name)
	if !there {
		return 0, false
	}
	number, ok := wholeNumber(value)
	if !ok {
		r.wrong(name, "a whole number")
	}
	return number, ok
}

// count is a whole number that is not negative.
func (r *record) count(name string) int64 {
	number := r.whole(name)
	if number < 0 {
		r.fault(name, snapshot.Invalid, "%d is negative: give a number from 0", number)
		return 0
	}
	return number
}

// span is a time: a number of seconds, or a text such as 100ms. A text that is
// a number is of seconds too.
func (r *record) span(name string) time.Duration {
	value, there := r.take(name)
	if !there {
		return 0
	}
	seconds, number := wholeNumber(value)
	if text, is := value.(string); is {
		if span, err := time.ParseDuration(text); err == nil {
			return r.notNegative(name, span)
		}
		parsed, err := strconv.ParseInt(text, 10, 64)
		seconds, number = parsed, err == nil
	}
	if !number || seconds > math.MaxInt64/int64(time.Second) || seconds < math.MinInt64/int64(time.Second) {
		r.wrong(name, "a time: give a number of seconds, or a text such as 100ms")
		return 0
	}
	return r.notNegative(name, time.Duration(seconds)*time.Second)
}

func (r *record) notNegative(name string, span time.Duration) time.Duration {
	if span < 0 {
		r.fault(name, snapshot.Invalid, "%s is negative: give a time from 0", span)
		return 0
	}
	return span
}

// textOrNumber is a value that may be written either way, such as a port.
func (r *record) textOrNumber(name string) string {
	value, _ := r.take(name)
	if number, ok := wholeNumber(value); ok {
		return strconv.FormatInt(number, 10)
	}
	return r.text(name)
}

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

// inner is an object in this one, empty when it is not there.
func (r *record) inner(name string) *record {
	value, there := r.take(name)
	if !there {
		return newRecord(r.at(name), nil, r.found)
	}
	return r.asRecord(name, value)
}

// inners are the objects of a list.
func (r *record) inners(name string) []*record {
	var inners []*record
	for i, value := range r.list(name) {
		inners = append(inners, r.asRecord(fmt.Sprintf("%s[%d]", name, i), value))
	}
	return inners
}

func (r *record) asRecord(name string, value any) *record {
	fields, ok := value.(map[string]any)
	if !ok {
		r.wrong(name, "an object")
	}
	return newRecord(r.at(name), fields, r.found)
}

// pair is an entry of a map of texts.
type pair struct{ name, value string }

// pairs are the entries of a map of texts, in the order of their names.
func (r *record) pairs(name string) []pair {
	inner := r.inner(name)
	var pairs []pair
	for _, key := range slices.Sorted(maps.Keys(inner.fields)) {
		pairs = append(pairs, pair{key, inner.text(key)})
	}
	return pairs
}

// wholeNumber reads a number of JSON.
func wholeNumber(value any) (int64, bool) {
	switch number := value.(type) {
	case int64:
		return number, true
	case int:
		return int64(number), true
	case float64:
		// Beyond 2^53 a float no longer says which number was meant.
		if number != math.Trunc(number) || math.Abs(number) > 1<<53 {
			return 0, false
		}
		return int64(number), true
	}
	return 0, false
}

// asksNothing reports whether a value is what a field has that nobody set: in a
// manifest that lists every option, most are.
func asksNothing(value any) bool {
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
	case map[string]any:
		for _, inner := range v {
			if !asksNothing(inner) {
				return false
			}
		}
		return true
	}
	return false
}

// brief is a value as people are shown it.
func brief(text string) string { return shown(text, 80) }

// shown leaves out what does not print, and shortens what is long.
func shown(text string, most int) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f {
			return '?'
		}
		return c
	}, strings.ToValidUTF8(text, "?"))
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
