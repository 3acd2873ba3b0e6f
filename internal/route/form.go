package route

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/refusal"
)

// maxFormErrors bounds how many errors in the form are reported.
const maxFormErrors = 50

// checkForm compares JSON with the fields of Table. The standard decoder cannot be
// used for this: it accepts repeated fields and names in other capitals, stops at
// the first error, and does not report the path of an unknown field.
func checkForm(data []byte) error {
	reader := formReader{data: data, fields: make(map[reflect.Type]map[string]reflect.Type)}
	reader.value(reflect.TypeFor[Table]())
	if len(reader.errors) > maxFormErrors {
		reader.errors = append(reader.errors[:maxFormErrors], errors.New("and more"))
	}
	return errors.Join(reader.errors...)
}

// formReader walks through JSON, which is valid already, in parallel to the type
// that it is going to be decoded into.
type formReader struct {
	data   []byte
	at     int
	trail  []trailStep
	errors []error
	// fields are the fields of the struct types seen, by their JSON names.
	fields map[reflect.Type]map[string]reflect.Type
}

// fail records an error at the current path, up to maxFormErrors.
func (f *formReader) fail(reason refusal.Reason, format string, args ...any) {
	if len(f.errors) <= maxFormErrors {
		message := bounded(fmt.Sprintf(format, args...))
		f.errors = append(f.errors, refusal.New(trailText(f.trail), reason, "%s", message))
	}
}

// value reads one value that is to become a t.
func (f *formReader) value(t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	f.space()
	start := f.data[f.at]
	if start == 'n' {
		f.fail(refusal.Invalid, "null is not a value here; leave the field out")
		f.skip()
		return
	}
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		f.text(t, start)
	case t.Kind() == reflect.Struct:
		f.object(t, start)
	case t.Kind() == reflect.Slice:
		f.array(t, start)
	default:
		f.scalar(t, start)
	}
}

// object reads an object into a struct. Unknown and repeated fields are errors: the
// one may be a misspelt policy, the other hides a value from a reviewer.
func (f *formReader) object(t reflect.Type, start byte) {
	if start != '{' {
		f.fail(refusal.Invalid, "expected an object, found %s", jsonKind(start))
		f.skip()
		return
	}
	fields := f.fieldsOf(t)
	var seen []string
	f.at++
	for f.next('}') {
		name := f.string()
		f.space()
		f.at++ // the colon
		field, known := fields[name]
		f.trail = append(f.trail, trailStep{name, -1})
		switch {
		case !known:
			f.fail(refusal.Unknown, "unknown field; known here: %s", strings.Join(slices.Sorted(maps.Keys(fields)), ", "))
			f.skip()
		case slices.Contains(seen, name):
			f.fail(refusal.Duplicate, "the field is given twice; give it once")
			f.skip()
		default:
			seen = append(seen, name)
			f.value(field)
		}
		f.trail = f.trail[:len(f.trail)-1]
	}
}

// array reads a list.
func (f *formReader) array(t reflect.Type, start byte) {
	if start != '[' {
		f.fail(refusal.Invalid, "expected a list, found %s", jsonKind(start))
		f.skip()
		return
	}
	f.at++
	for i := 0; f.next(']'); i++ {
		f.trail = append(f.trail, trailStep{"", i})
		f.value(t.Elem())
		f.trail = f.trail[:len(f.trail)-1]
	}
}

// text reads a type that has its own text form, such as an address.
func (f *formReader) text(t reflect.Type, start byte) {
	if start != '"' {
		f.fail(refusal.Invalid, "expected text, found %s", jsonKind(start))
		f.skip()
		return
	}
	target := reflect.New(t).Interface().(encoding.TextUnmarshaler)
	if err := target.UnmarshalText([]byte(f.string())); err != nil {
		f.fail(refusal.Invalid, "%s", err)
	}
}

// scalar reads a string, a number or a boolean.
func (f *formReader) scalar(t reflect.Type, start byte) {
	begin := f.at
	f.skip()
	raw := string(f.data[begin:f.at])
	switch t.Kind() {
	case reflect.String:
		if start != '"' {
			f.fail(refusal.Invalid, "expected text, found %s", jsonKind(start))
		}
	case reflect.Bool:
		if start != 't' && start != 'f' {
			f.fail(refusal.Invalid, "expected true or false, found %s", jsonKind(start))
		}
	default:
		f.number(t, start, raw)
	}
}

// number accepts whole numbers that fit; the table has no others.
func (f *formReader) number(t reflect.Type, start byte, raw string) {
	if start != '-' && (start < '0' || start > '9') {
		f.fail(refusal.Invalid, "expected a number, found %s", jsonKind(start))
		return
	}
	var err error
	if t.Kind() >= reflect.Uint && t.Kind() <= reflect.Uint64 {
		_, err = strconv.ParseUint(raw, 10, t.Bits())
	} else {
		_, err = strconv.ParseInt(raw, 10, t.Bits())
	}
	if err != nil {
		f.fail(refusal.Invalid, "%s is not a whole number that fits here", shorten(raw))
	}
}

// next goes to the next element of a list or object, or past its end.
func (f *formReader) next(end byte) bool {
	f.space()
	if f.data[f.at] == ',' {
		f.at++
		f.space()
	}
	if f.data[f.at] == end {
		f.at++
		return false
	}
	return true
}

// skip goes past one value.
func (f *formReader) skip() {
	f.space()
	depth := 0
	for {
		switch c := f.data[f.at]; c {
		case '"':
			f.skipString()
		case '{', '[':
			depth++
			f.at++
		case '}', ']':
			depth--
			f.at++
		case ',', ':', ' ', '\t', '\n', '\r':
			f.at++
		default:
			for f.at < len(f.data) && !strings.ContainsRune(",:]} \t\r\n", rune(f.data[f.at])) {
				f.at++
			}
		}
		if depth == 0 {
			return
		}
	}
}

// skipString goes past a string, with its escapes.
func (f *formReader) skipString() {
	for f.at++; f.data[f.at] != '"'; f.at++ {
		if f.data[f.at] == '\\' {
			f.at++
		}
	}
	f.at++
}

// string reads a string. It is valid, so that decoding it cannot fail.
func (f *formReader) string() string {
	f.space()
	begin := f.at
	f.skipString()
	raw := f.data[begin:f.at]
	if inner := raw[1 : len(raw)-1]; !slices.Contains(inner, '\\') {
		return strings.ToValidUTF8(string(inner), "\uFFFD")
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		f.fail(refusal.Invalid, "%s", err)
	}
	return text
}

func (f *formReader) space() {
	for f.at < len(f.data) {
		switch f.data[f.at] {
		case ' ', '\t', '\n', '\r':
			f.at++
		default:
			return
		}
	}
}

// fieldsOf returns the fields of a struct type by their JSON names. Results are
// cached, because a table repeats few types very often.
func (f *formReader) fieldsOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := f.fields[t]; ok {
		return known
	}
	fields := make(map[string]reflect.Type, t.NumField())
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.IsExported() && name != "" {
			fields[name] = field.Type
		}
	}
	f.fields[t] = fields
	return fields
}

// jsonKind returns the word for a JSON value by its first byte, for messages.
func jsonKind(start byte) string {
	switch start {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "text"
	case 't', 'f':
		return "true or false"
	default:
		return "a number"
	}
}
