package declare

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

type common struct {
	Name string `json:"name" required:"true" description:"The name. It may be empty."`
}

// other is a declaration of others.
type other struct {
	List   []string `json:"list" description:"A list."`
	common `json:",inline"`
	Map    map[string]bool `json:"map" description:"A map."`
	Free   map[string]any  `json:"free" description:"Anything."`
	Gone   string          `json:"gone" refused:"it was removed" description:"Not supported."`
	Old    int64           `json:"old" ignored:"it is old" description:"Has no effect."`
	Point  complex64       `json:"point" description:"A point."`
	Parts  []common        `json:"parts" description:"Parts."`
}

// points decodes a type that cannot be a Scalar.
func points(value any) (any, error) {
	if value != "here" {
		return nil, errors.New("write here")
	}
	return complex64(1i), nil
}

func foreignDecoder() Decoder {
	return Decoder{Foreign: true, Types: map[reflect.Type]ForeignType{reflect.TypeFor[complex64](): {Decode: points}}}
}

// TestForeign: empty texts, lists and maps of others are kept, and large maps
// are read.
func TestForeign(t *testing.T) {
	large := map[string]any{}
	for i := range maxEntries + 1 {
		large[fmt.Sprint(i)] = true
	}
	d := foreignDecoder()
	var got other
	d.Decode(map[string]any{"name": "", "list": []any{}, "map": large, "free": map[string]any{"n": 1}, "gone": "", "point": "here"}, &got, "spec")
	if d.Refused != nil || d.Warnings != nil {
		t.Fatal(d.Refused, d.Warnings)
	}
	if got.List == nil || len(got.Map) != len(large) || got.Point != 1i || !reflect.DeepEqual(got.Free, map[string]any{"n": int64(1)}) {
		t.Errorf("%+v", got)
	}
}

// TestForeignProblems: what is refused, what is ignored, and in which order.
func TestForeignProblems(t *testing.T) {
	value := map[string]any{
		"list": []any{"", nil}, "lisst": 1, "map": map[string]any{"a": "b"}, "free": map[string]any{"c": make(chan int)},
		"gone": "x", "old": "text", "point": "there", "parts": []any{1, map[string]any{"name": 2}},
	}
	for _, test := range []struct {
		warn              bool
		refused, warnings []string
	}{
		{false, []string{
			"spec.list[1]: it is empty: remove it",
			"spec.name: it is missing: the name",
			"spec.map.a: it is the text \"b\": write true or false",
			"spec.free: a value is something else, which JSON does not have",
			"spec.gone: it is not supported: it was removed",
			"spec.point: it is the text \"there\": write here",
			"spec.parts[0]: it is the number 1: write fields and their values",
			"spec.parts[1].name: it is the number 2: write it as text, in quotes",
			"spec.lisst: there is no such field: did you mean list?",
		}, []string{"spec.old: it has no effect: it is old"}},
		{true, nil, []string{
			"spec.old: it has no effect: it is old",
			"spec.lisst: it has no effect, because there is no such field: did you mean list?",
		}},
	} {
		d := foreignDecoder()
		d.WarnUnknown = test.warn
		var got other
		d.Decode(value, &got, "spec")
		var refused, warnings []string
		for _, r := range d.Refused {
			refused = append(refused, r.Text())
		}
		for _, w := range d.Warnings {
			warnings = append(warnings, w.Text())
		}
		if test.refused != nil && !slices.Equal(refused, test.refused) || !slices.Equal(warnings, test.warnings) {
			t.Errorf("%q\n%q", refused, warnings)
		}
		if len(got.List) != 2 || len(got.Parts) != 2 {
			t.Errorf("refused elements lost their position: %+v", got)
		}
	}
	lenient := foreignDecoder()
	lenient.Lenient = true
	var got other
	lenient.Decode(value, &got, "status")
	if lenient.Refused != nil || lenient.Warnings != nil || len(got.List) != 1 || len(got.Parts) != 1 || len(got.Map) != 0 {
		t.Errorf("%+v, %+v", lenient, got)
	}
}

// TestForeignBound: one value cannot fill the memory with problems.
func TestForeignBound(t *testing.T) {
	many := map[string]any{"name": "x"}
	for i := range maxRecorded + 10 {
		many[fmt.Sprintf("x%d", i)] = 1
	}
	d := foreignDecoder()
	d.Decode(many, &other{}, "")
	if len(d.Refused) != maxRecorded {
		t.Errorf("%d problems", len(d.Refused))
	}
}
