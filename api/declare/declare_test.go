package declare

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/must"
)

// level is a Scalar that is also a number.
type level int

func (level) Form() Form { return Form{Name: "level", Pattern: "^(low|high|[0-9])$", Number: true} }

func (l *level) UnmarshalText(text []byte) error {
	switch string(text) {
	case "low", "1":
		*l = 1
	case "high", "9":
		*l = 9
	default:
		return errors.New("it is neither low nor high")
	}
	return nil
}

type pattern string

type inner struct {
	Name string `json:"name" required:"true" description:"The name."`
}

type sample struct {
	Text    string            `json:"text,omitempty" pattern:"^/" maxLength:"5" description:"A path."`
	Word    string            `json:"word,omitempty" enum:"a,b" description:"A word."`
	Count   int32             `json:"count,omitempty" minimum:"1" maximum:"9" default:"3" description:"A count."`
	Status  int64             `json:"status,omitempty" enum:"301,302" description:"A status."`
	Flag    bool              `json:"flag,omitempty" description:"A flag."`
	Level   level             `json:"level,omitempty" default:"low" description:"A level."`
	List    []string          `json:"list,omitempty" minItems:"1" maxItems:"2" description:"A list."`
	Words   []string          `json:"words,omitempty" enum:"x,y" description:"Words."`
	Exprs   []pattern         `json:"exprs,omitempty" description:"Expressions."`
	Entries map[string]string `json:"entries,omitempty" description:"Entries."`
	Inner   *inner            `json:"inner,omitempty" description:"A part."`
	One     []choice          `json:"one,omitempty" choice:"true" description:"Choices."`
}

type choice struct {
	A *inner `json:"a,omitempty" description:"One."`
	B *inner `json:"b,omitempty" description:"Two."`
}

func TestDecode(t *testing.T) {
	text := `{text: /a, word: b, count: 9, status: 302, flag: true, level: 9, list: [p, q], words: [x], exprs: ['a,b'],
		entries: {k: v}, inner: {name: n}, one: [{a: {name: m}}, {b: {name: o}}]}`
	value := must.Get(ParseYAML(text))(t)
	var got sample
	if problems := Decode(value, &got); problems != nil {
		t.Fatal(problems)
	}
	want := sample{
		Text: "/a", Word: "b", Count: 9, Status: 302, Flag: true, Level: 9, List: []string{"p", "q"}, Words: []string{"x"},
		Exprs: []pattern{"a,b"}, Entries: map[string]string{"k": "v"}, Inner: &inner{"n"},
		One: []choice{{A: &inner{"m"}}, {B: &inner{"o"}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

func TestDecodeDefaults(t *testing.T) {
	var got sample
	if problems := Decode(map[string]any{"inner": nil}, &got); problems != nil || got.Count != 3 || got.Level != 1 || got.Inner != nil {
		t.Errorf("%+v %v", got, problems)
	}
}

func TestDecodeProblems(t *testing.T) {
	for _, test := range []struct{ yaml, field, says string }{
		{`{text: x}`, "text", "does not have the form"},
		{`{text: /aaaaa}`, "text", "more than 5 characters"},
		{`{text: 1}`, "text", "in quotes"},
		{`{word: c}`, "word", "use one of a, b"},
		{`{count: 0}`, "count", "less than 1"},
		{`{count: 10}`, "count", "more than 9"},
		{`{count: 5000000000}`, "count", "too large"},
		{`{count: 1.5}`, "count", "whole number"},
		{`{count: "1"}`, "count", "whole number"},
		{`{status: 303}`, "status", "use one of 301, 302"},
		{`{flag: "true"}`, "flag", "true or false"},
		{`{level: middle}`, "level", "neither low nor high"},
		{`{level: 1.5}`, "level", "in quotes"},
		{`{list: []}`, "list", "give 1 or more"},
		{`{list: [a, b, c]}`, "list", "at most 2"},
		{`{list: [a, ""]}`, "list[1]", "empty"},
		{`{list: a}`, "list", "write a list"},
		{`{words: [x, z]}`, "words[1]", "use one of x, y"},
		{`{entries: {k: 1}}`, "entries.k", "in quotes"},
		{`{entries: [a]}`, "entries", "names and their values"},
		{`{inner: {}}`, "inner.name", "missing"},
		{`{inner: {name: ""}}`, "inner.name", "empty"},
		{`{inner: {nam: x}}`, "inner.nam", "did you mean name?"},
		{`{inner: x}`, "inner", "write fields"},
		{`{one: [{}]}`, "one[0]", "exactly one"},
		{`{one: [{a: {name: m}, b: {name: m}}]}`, "one[0]", "exactly one"},
		{`{nothing: 1}`, "nothing", "the fields are text, word"},
		{`x`, "", "write fields"},
	} {
		value, err := ParseYAML(test.yaml)
		if err != nil {
			t.Fatal(test.yaml, err)
		}
		problems := Decode(value, &sample{})
		if !slices.ContainsFunc(problems, func(p refusal.Refusal) bool { return p.Field == test.field && strings.Contains(p.Message, test.says) }) {
			t.Errorf("%s: no %q at %q in %v", test.yaml, test.says, test.field, problems)
		}
	}
}

// A reason is for programs: unknown and missing fields differ from bad values.
func TestDecodeReasons(t *testing.T) {
	value, _ := ParseYAML(`{count: 0, inner: {}, nothing: 1}`)
	got := map[string]refusal.Reason{}
	for _, problem := range Decode(value, &sample{}) {
		got[problem.Field] = problem.Reason
	}
	if want := (map[string]refusal.Reason{"count": refusal.Invalid, "inner.name": refusal.Required, "nothing": refusal.Unknown}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// Every problem is found, up to a bound.
func TestDecodeFindsAll(t *testing.T) {
	value, _ := ParseYAML(`{text: x, count: 0, inner: {}}`)
	if problems := Decode(value, &sample{}); len(problems) != 3 {
		t.Error(problems)
	}
	many := map[string]any{}
	for i := range 1000 {
		many[strings.Repeat("x", i+20)] = 1
	}
	if problems := Decode(many, &sample{}); len(problems) != maxProblems {
		t.Errorf("%d problems", len(problems))
	}
}

func TestDecodeShort(t *testing.T) {
	for _, test := range []struct {
		field, text string
		want        sample
	}{
		{"list", " a, b ", sample{List: []string{"a", "b"}}},
		{"exprs", "a,b", sample{Exprs: []pattern{"a,b"}}},
		{"count", "7", sample{Count: 7}},
		{"flag", "true", sample{Flag: true}},
		{"level", "9", sample{Level: 9}},
		{"word", "a", sample{Word: "a"}},
	} {
		var got sample
		problems := DecodeShort(test.text, test.field, &got)
		if test.want.Count == 0 {
			test.want.Count = 3
		}
		if test.want.Level == 0 {
			test.want.Level = 1
		}
		if problems != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v %v", test.field, got, problems)
		}
	}
	if problems := DecodeShort("x", "count", &sample{}); len(problems) != 1 || problems[0].Field != "count" {
		t.Error(problems)
	}
}

func TestParseYAMLRefuses(t *testing.T) {
	for _, test := range []struct{ text, says string }{
		{"a: &x 1\nb: *x", "anchors"},
		{"a: *x", ""},
		{"a: !!binary aGk=", "tags"},
		{"a: 1\na: 2", "twice"},
		{"---\na: 1\n---\nb: 2", "more than one"},
		{strings.Repeat("[", 40) + strings.Repeat("]", 40), "too deep"},
		{"a: " + strings.Repeat("x", MaxBytes), "bytes"},
		{"{a: ", "not YAML"},
		{"? [a]\n: b", "not a text"},
	} {
		if _, err := ParseYAML(test.text); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%.40q: %v, want %q", test.text, err, test.says)
		}
	}
	if value, err := ParseYAML("d: 2024-01-01\nn: null\ne: ''"); err != nil || !reflect.DeepEqual(value, map[string]any{"d": "2024-01-01", "n": nil, "e": ""}) {
		t.Error(value, err)
	}
}

func TestSchema(t *testing.T) {
	schema := Schema(reflect.TypeFor[sample]())
	properties := schema["properties"].(map[string]any)
	count := properties["count"].(map[string]any)
	if count["type"] != "integer" || count["default"] != int64(3) || count["minimum"] != int64(1) || count["description"] != "A count." {
		t.Error(count)
	}
	if level := properties["level"].(map[string]any); level["x-kubernetes-int-or-string"] != true || level["default"] != "low" || level["type"] != nil {
		t.Error(level)
	}
	if one := properties["one"].(map[string]any)["items"].(map[string]any); one["minProperties"] != 1 || one["maxProperties"] != 1 {
		t.Error(one)
	}
	if required := properties["inner"].(map[string]any)["required"]; !reflect.DeepEqual(required, []any{"name"}) {
		t.Error(required)
	}
	if enum := properties["status"].(map[string]any)["enum"]; !reflect.DeepEqual(enum, []any{int64(301), int64(302)}) {
		t.Error(enum)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"rate-limit", "retry", "basic-auth"}
	for given, want := range map[string]string{
		"ratelimit": "rate-limit", "Rate-Limit": "rate-limit", "basic-auht": "basic-auth", "nonsense": "", "": "", "x": "",
		strings.Repeat("r", 200): "",
	} {
		if got := Nearest(given, known); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

// Names with dots are compared by their segments.
func TestNearestSegments(t *testing.T) {
	known := []string{"log.level", "providers.kubernetesIngress.token", "providers.kubernetesIngress.nativeLBByDefault",
		"tracing.otlp.http.endpoint", "tracing.otlp.http.tls.insecureSkipVerify", "providers.kubernetesIngress.endpoint",
		"lastGood.id"}
	for given, want := range map[string]string{
		"log.lvel":                               "log.level",
		"LOG.LEVEL":                              "log.level",
		"providers.kubernetes.ingress.token":     "providers.kubernetesIngress.token",
		"provider.kubernetesIngress.token":       "providers.kubernetesIngress.token",
		"providers.kubernetesIngress.tokn":       "providers.kubernetesIngress.token",
		"kubernetesIngress.token":                "providers.kubernetesIngress.token",
		"insecureSkipVerify":                     "tracing.otlp.http.tls.insecureSkipVerify",
		"tracing.insecureSkipVerify":             "tracing.otlp.http.tls.insecureSkipVerify",
		"serversTransport.insecureSkipVerify":    "",
		"endpoint":                               "",
		"lastGood.x":                             "lastGood.id",
		"id":                                     "lastGood.id",
		"lastGood":                               "lastGood.id",
		"tracing.otlp.https.tls":                 "",
		"tracing.otlp.http.tls.insecure":         "tracing.otlp.http.tls.insecureSkipVerify",
		"providers.kubernetesIngress.somewhere":  "",
		"providers.kubernetesIngress.nativeLB":   "providers.kubernetesIngress.nativeLBByDefault",
		"providers.kubernetesIngress":            "",
		"providers.kubernetesGateway.labelledAs": "",
	} {
		if got := Nearest(given, known); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

// FuzzDecode: whatever is written, it is decoded or refused.
func FuzzDecode(f *testing.F) {
	f.Add(`{text: /a, list: [p, q], entries: {k: v}, inner: {name: n}}`)
	f.Add("a: &x [1]\nb: *x")
	f.Add("? [a]\n: b")
	f.Add("- !!set {a}\n- <<: {b: 1}")
	f.Fuzz(func(t *testing.T, text string) {
		value, err := ParseYAML(text)
		if err != nil {
			return
		}
		var first, second sample
		problems := Decode(value, &first)
		if again := Decode(value, &second); !reflect.DeepEqual(problems, again) || !reflect.DeepEqual(first, second) {
			t.Errorf("%v, and then %v", problems, again)
		}
		if problems == nil && (len(first.List) > 2 || first.Count < 1 || first.Count > 9) {
			t.Errorf("%+v does not keep its bounds", first)
		}
	})
}
