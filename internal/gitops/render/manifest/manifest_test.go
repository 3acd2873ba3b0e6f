package manifest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/must"
)

const limit = 1 << 20

// Objects of YAML are JSON with sorted keys and JSON's types.
func TestAddYAML(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"empty", "", ""},
		{"comments", "# a\n---\n# b\n", ""},
		{"null", "---\nnull\n---\n~\n", ""},
		{"numbers", "{kind: A, apiVersion: v1, i: 5, f: 1.5, e: 1e3, s: '5', o: 0o17, big: 9223372036854775807, huge: 18446744073709551615}",
			`{"apiVersion":"v1","big":9223372036854775807,"e":1000,"f":1.5,"huge":18446744073709552000,"i":5,"kind":"A","o":15,"s":"5"}`},
		{"words", "{kind: A, apiVersion: v1, yes: on, m: null}", `{"apiVersion":"v1","kind":"A","m":null,"true":true}`},
		{"behind the mark", "--- {kind: A, apiVersion: v1}\n--- # comment\n{kind: B, apiVersion: v1}", `{"apiVersion":"v1","kind":"A"} {"apiVersion":"v1","kind":"B"}`},
		{"directive", "%YAML 1.1\n---\nkind: A\napiVersion: v1\n...\n", `{"apiVersion":"v1","kind":"A"}`},
		{"mark in a text", "kind: A\napiVersion: v1\nt: |\n  a\n  ---\n  b\n", `{"apiVersion":"v1","kind":"A","t":"a\n---\nb\n"}`},
		{"carriage returns", "kind: A\r\napiVersion: v1\r\n---\r\nkind: B\r\napiVersion: v1\r\n", `{"apiVersion":"v1","kind":"A"} {"apiVersion":"v1","kind":"B"}`},
		{"byte order mark", "\xef\xbb\xbfkind: A\napiVersion: v1\n", `{"apiVersion":"v1","kind":"A"}`},
		{"anchors", "kind: A\napiVersion: v1\na: &a {b: 1}\nc: *a\nd: {<<: *a, e: 2}\n", `{"a":{"b":1},"apiVersion":"v1","c":{"b":1},"d":{"b":1,"e":2},"kind":"A"}`},
		{"JSON", `{"kind": "A", "apiVersion": "v1"}`, `{"apiVersion":"v1","kind":"A"}`},
		{"behind the mark and a tab", "---\t\nkind: A\napiVersion: v1\n", `{"apiVersion":"v1","kind":"A"}`},
		{"comment at the mark", "kind: A\napiVersion: v1\n---# comment\nkind: B\napiVersion: v1\n", `{"apiVersion":"v1","kind":"A"} {"apiVersion":"v1","kind":"B"}`},
		{"end of a document", "kind: A\napiVersion: v1\n...\nkind: B\napiVersion: v1\n", `{"apiVersion":"v1","kind":"A"} {"apiVersion":"v1","kind":"B"}`},
		{"dots of a key", "kind: A\napiVersion: v1\n...x: 1\n", `{"...x":1,"apiVersion":"v1","kind":"A"}`},
		{"last newline", "kind: A\napiVersion: v1\nt: |\n  a", `{"apiVersion":"v1","kind":"A","t":"a\n"}`},
		{"kept newline", "kind: A\napiVersion: v1\nt: |+\n  a\n\n", `{"apiVersion":"v1","kind":"A","t":"a\n\n"}`},
		{"items of its own", "{kind: Playlist, apiVersion: v1, items: null, spec: {}}", `{"apiVersion":"v1","items":null,"kind":"Playlist","spec":{}}`},
	} {
		set := manifest.NewSet(limit)
		_, err := set.AddYAML("file.yaml", []byte(tt.text))
		var got []string
		for _, object := range set.Objects() {
			got = append(got, string(object))
		}
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %s, %v\nwant %s", tt.name, got, err, tt.want)
		}
	}
}

// The error names the file and the document.
func TestAddYAMLErrors(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"a: [", "file.yaml is not YAML"},
		{"kind: A\napiVersion: v1\n---\na: 1\n", "document 2 of file.yaml has no kind"},
		{"kind: A", "file.yaml, a A, has no apiVersion"},
		{"kind: A\napiVersion: v1\n---kind: B\napiVersion: v1\n", `file.yaml: line 3: text follows "---" directly`},
		{"kind: A\napiVersion: v1\n----\n", `file.yaml: line 3: text follows "---" directly`},
		{"kind: A\napiVersion: v1\n---\n\nkind: B\nb: [\n", "document 2 of file.yaml is not YAML: line 6:"},
		{"kind: A\napiVersion: v1\nkind: B\n", `file.yaml: line 3: the key "kind" is set twice`},
		{"kind: A\napiVersion: v1\n--- # x\na: 1\nkind: B\napiVersion: v1\na: 2\n", `document 2 of file.yaml: line 7: the key "a" is set twice`},
		{"--- {kind: A, apiVersion: v1,\n b: 1, b: 2}\n", `file.yaml: line 2: the key "b" is set twice`},
		{"kind: A\na: 1\na: 2\n", `the key "a" is set twice`},
		{"a: 1\na: 2\n", "has no kind"},
		{"kind: 5\napiVersion: v1", "has no kind"},
		{"- 1", "file.yaml is not an object"},
		{"text", "file.yaml is not an object"},
		{"kind: A\napiVersion: v1\nmetadata: 5", "metadata that is not an object"},
		{"kind: List\napiVersion: v1\nitems: [5]", "item 1 of the list in file.yaml is not an object"},
		{"kind: List\napiVersion: v1\nitems: [{kind: A}]", "has no apiVersion"},
		{strings.Repeat("{kind: List, apiVersion: v1, items: [", 6) + strings.Repeat("]}", 6), "more than 4 deep"},
	} {
		set := manifest.NewSet(limit)
		if _, err := set.AddYAML("file.yaml", []byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// A text that cannot be read was meant as a manifest if it has the keys of one,
// in YAML or JSON, or an object with a kind and a name.
func TestMeantAsManifest(t *testing.T) {
	for text, want := range map[string]bool{
		"apiVersion: v1\nkind: A\nmetadata: {": true, `{"apiVersion": "v1", "kind": "A", "metadata" : {`: true, `{'apiVersion':'v1','kind':'A','metadata':`: true,
		"kind: A\nmetadata: {": false, "apiVersion: v1\nmetadata: {": false, "apiVersion: v1\nkind: A\n[": false, "apiVersions x kind: metadata:": false,
	} {
		if manifest.LooksLikeManifest([]byte(text)) != want {
			t.Errorf("%q: %t", text, !want)
		}
	}
	for text, want := range map[string]bool{
		"kind: A\nmetadata: {name: a}": true, "kind: A\nmetadata: {labels: {}}": false, "kind: A\nreplicas: 1": false, "metadata: {name: a}": false,
	} {
		_, err := manifest.NewSet(limit).AddYAML("file.yaml", []byte(text))
		if _, found := errors.AsType[*manifest.NoVersionError](err); found != want || err == nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Only documents with something in them count for the number in an error.
func TestDocumentNumbers(t *testing.T) {
	for text, want := range map[string]string{
		"---\nkind: A": "file.yaml, a A,", "# a\n---\nkind: A": "file.yaml, a A,", "kind: A": "file.yaml, a A,",
		"---\nkind: A\napiVersion: v1\n---\nkind: A": "document 2 of file.yaml, a A,",
	} {
		if _, err := manifest.NewSet(limit).AddYAML("file.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A key below the top that is there twice is a warning, with its line in the
// file; the last one counts, as in Argo CD.
func TestDuplicateKeys(t *testing.T) {
	set := manifest.NewSet(limit)
	must.Get(set.AddYAML("a.yaml", []byte("kind: A\napiVersion: v1\nx: {z: 1,\n  z: 2}\n---\nkind: B\napiVersion: v1\nx:\n- z: 1\n  z: 3\n")))(t)
	for i, want := range []string{`{"apiVersion":"v1","kind":"A","x":{"z":2}}`, `{"apiVersion":"v1","kind":"B","x":[{"z":3}]}`} {
		if got := string(set.Objects()[i]); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for i, want := range []string{`document 1 of a.yaml: line 4: key "z" already set in map; the last one counts`, `document 2 of a.yaml: line 10: key "z" already set`} {
		if len(set.Warnings()) != 2 || !strings.Contains(set.Warnings()[i], want) {
			t.Errorf("%q, want %q", set.Warnings(), want)
		}
	}
}

// The same for JSON, whose parser does not notice.
func TestDuplicateKeysOfJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"kind": "A", "a": {"b": 1, "b": 2}}`:          "",
		"{\"kind\": \"A\",\n\"b\": [{}],\n\"kind\": 5}": `a.json: line 3: the key "kind" is set twice: remove one`,
		`[1, 1]`: "", `5`: "", `{"a": 1, "a"`: `line 1: the key "a"`, `{"a": 1, "b": }`: "", "": "",
	} {
		err := manifest.CheckJSONKeys("a.json", []byte(text))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// The limits on bytes, values, aliases and warnings.
func TestBounds(t *testing.T) {
	object := func(field string) string { return `{"kind": "A", "apiVersion": "v1", "d": ` + field + `}` }
	set := manifest.NewSet(100)
	if err := set.AddJSON("a", []byte(object(`"`+strings.Repeat("x", 50)+`"`))); err != nil {
		t.Error(err)
	}
	if err := set.AddJSON("b", []byte(object(`"`+strings.Repeat("x", 50)+`"`))); !errors.Is(err, manifest.ErrTooLarge) {
		t.Errorf("more bytes than allowed: %v", err)
	}
	set = manifest.NewSet(100 << 20)
	if err := set.AddJSON("c", []byte(object("["+strings.Repeat("1,", manifest.MaxValues)+"1]"))); !errors.Is(err, manifest.ErrTooLarge) {
		t.Errorf("more values than allowed: %v", err)
	}
	set = manifest.NewSet(100 << 20)
	quoted := must.Get(json.Marshal(strings.Repeat(`,"[{\`, manifest.MaxValues/2)))(t)
	if err := set.AddJSON("d", []byte(object(string(quoted)))); err != nil {
		t.Errorf("text is not values: %v", err)
	}
	for i := range 60 {
		set.Warn("warning %d", i)
		set.Warn("warning %d", i)
	}
	if got := set.Warnings(); len(got) != 51 || got[50] != "20 more warnings are left out" {
		t.Errorf("%d warnings, the last is %q", len(got), got[len(got)-1])
	}
}

// Aliases are fine as long as they stay small.
func TestAliases(t *testing.T) {
	nested := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for name := 'b'; name < 'j'; name++ {
		nested += fmt.Sprintf("%c: &%c [%s]\n", name, name, strings.Repeat(fmt.Sprintf("*%c, ", name-1), 10))
	}
	for _, tt := range []struct {
		name, text string
		refused    bool
	}{
		{"none", "a: 5 * 3 & 4", false},
		{"few", "a: &a {b: c}\nd: *a\n", false},
		{"nested", nested, true},
		{"long text", "a: &a " + strings.Repeat("x", limit/10) + "\nb: [" + strings.Repeat("*a, ", 20) + "]", true},
		{"itself", "a: &a [*a]", true},
		{"second document", "a: 1\n---\n" + nested, true},
		{"not YAML", "{{ *a & }}", false},
	} {
		var refused *refusal.Refusal
		if err := manifest.CheckAliases("file", []byte(tt.text), limit); errors.As(err, &refused) != tt.refused {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Whatever is read, objects have a kind, are bounded, and are read the same
// again.
func FuzzAddYAML(f *testing.F) {
	for _, seed := range []string{
		"kind: A\napiVersion: v1\n---\nkind: B\napiVersion: v1\n", "--- {kind: A}\n", "a: &a [*a]\nb: *a\n", "%YAML 1.1\n---\n...\n",
		"kind: List\napiVersion: v1\nitems: [{kind: A, apiVersion: v1}]", "x: 1\nx: 2\n", "? a\n: b", "!!binary x", "kind: \"\\x00\"",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		set := manifest.NewSet(1 << 16)
		_, _ = set.AddYAML("fuzz", input)
		again := manifest.NewSet(1 << 16)
		for _, object := range set.Objects() {
			var head struct{ Kind, APIVersion string }
			if err := json.Unmarshal(object, &head); err != nil || head.Kind == "" || head.APIVersion == "" {
				t.Fatalf("%s, %v", object, err)
			}
			if err := again.AddJSON("again", object); err != nil {
				t.Fatalf("%s: %v", object, err)
			}
		}
		for i, object := range again.Objects() {
			if string(object) != string(set.Objects()[i]) {
				t.Errorf("%s became %s", set.Objects()[i], object)
			}
		}
	})
}
