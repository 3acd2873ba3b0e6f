package manifest_test

import (
	"errors"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitops/render/manifest"
	"slipway.dev/slipway/internal/must"
)

// objectsOf adds a text and gives the objects.
func objectsOf(t *testing.T, text string) string {
	t.Helper()
	set := manifest.NewSet(limit)
	must.Get(set.AddYAML("file.yaml", []byte(text)))(t)
	return joined(set)
}

func joined(set *manifest.Set) string {
	var all []string
	for _, object := range set.Objects() {
		all = append(all, string(object))
	}
	return strings.Join(all, " ")
}

// Elements of a typed list may leave out what they are, those of a List may not,
// and an object with items of its own is none.
func TestLists(t *testing.T) {
	for text, want := range map[string]string{
		"{kind: AList, apiVersion: v1, items: [{x: 1}, {kind: B, apiVersion: v2}]}": `{"apiVersion":"v1","kind":"A","x":1} {"apiVersion":"v2","kind":"B"}`,
		"{kind: List, apiVersion: v1, items: null}":                                 "",
		"{kind: AList, apiVersion: v1, items: []}":                                  "",
		"{kind: AList, apiVersion: v1}":                                             `{"apiVersion":"v1","kind":"AList"}`,
		"{kind: AList, apiVersion: v1, items: null, spec: {}}":                      `{"apiVersion":"v1","items":null,"kind":"AList","spec":{}}`,
		"{kind: AList, apiVersion: v1, items: null, status: {}}":                    `{"apiVersion":"v1","items":null,"kind":"AList","status":{}}`,
		"{kind: AList, apiVersion: v1, items: {x: 1}}":                              `{"apiVersion":"v1","items":{"x":1},"kind":"AList"}`,
		"{kind: Basket, apiVersion: v1, items: [{x: 1}]}":                           `{"apiVersion":"v1","items":[{"x":1}],"kind":"Basket"}`,
		nestedLists(4): `{"apiVersion":"v1","kind":"A"}`,
		"{kind: A, apiVersion: v1, metadata: null}": `{"apiVersion":"v1","kind":"A","metadata":null}`,
	} {
		if got := objectsOf(t, text); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{nestedLists(5), "{kind: List, apiVersion: v1, items: [{x: 1}]}", "{kind: List, apiVersion: v1, items: [{apiVersion: v1}]}"} {
		if _, err := manifest.NewSet(limit).AddYAML("file.yaml", []byte(text)); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// nestedLists is an object in lists in lists.
func nestedLists(depth int) string {
	return strings.Repeat("{kind: List, apiVersion: v1, items: [", depth) + "{kind: A, apiVersion: v1}" + strings.Repeat("]}", depth)
}

// The output of Helm is split at marks only. What follows the end of a document is
// not read, which is a warning unless there is nothing.
func TestAddHelm(t *testing.T) {
	const one, two = "kind: A\napiVersion: v1\n", "kind: B\napiVersion: v1\n"
	for _, tt := range []struct {
		text, want string
		warned     bool
	}{
		{one + "---\n" + two, `{"apiVersion":"v1","kind":"A"} {"apiVersion":"v1","kind":"B"}`, false},
		{one + "...\n" + two, `{"apiVersion":"v1","kind":"A"}`, true},
		{one + "\n...\n" + two, `{"apiVersion":"v1","kind":"A"}`, true},
		{one + "...\n", `{"apiVersion":"v1","kind":"A"}`, false},
		{one + "...\n# end\n", `{"apiVersion":"v1","kind":"A"}`, false},
		{one + "...x: 1\n", `{"...x":1,"apiVersion":"v1","kind":"A"}`, false},
		{one + "...", `{"apiVersion":"v1","kind":"A"}`, false},
		{one + "---\n" + two + "...\nx", `{"apiVersion":"v1","kind":"A"} {"apiVersion":"v1","kind":"B"}`, true},
	} {
		set := manifest.NewSet(limit)
		must.Do(t, set.AddHelm("a.yaml", tt.text, func() int { return 1 }))
		if got := joined(set); got != tt.want || (len(set.Warnings()) > 0) != tt.warned {
			t.Errorf("%q is %s, %q, want %s", tt.text, got, set.Warnings(), tt.want)
		}
	}
	for _, text := range []string{one + "---x\n", one + "---\nkind: [\n"} {
		if err := manifest.NewSet(limit).AddHelm("a.yaml", text, func() int { return 1 }); err == nil || !strings.Contains(err.Error(), "a.yaml") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A filter leaves out what it selects, and nothing else.
func TestSkip(t *testing.T) {
	set := manifest.NewSet(limit)
	set.Skip(func(object map[string]any) bool { return object["kind"] == "A" })
	must.Get(set.AddYAML("file.yaml", []byte("{kind: A, apiVersion: v1}\n---\n{kind: B, apiVersion: v1}\n")))(t)
	set.Skip(nil)
	must.Get(set.AddYAML("file.yaml", []byte("{kind: A, apiVersion: v2}\n")))(t)
	if got := joined(set); got != `{"apiVersion":"v1","kind":"B"} {"apiVersion":"v2","kind":"A"}` {
		t.Errorf("left are %s", got)
	}
}

// Each limit is the most that is allowed.
func TestExactBounds(t *testing.T) {
	const object = `{"apiVersion":"v1","kind":"A"}`
	if err := manifest.NewSet(int64(len(object))).AddJSON("a", []byte(object)); err != nil {
		t.Errorf("as many bytes as allowed: %v", err)
	}
	if err := manifest.NewSet(int64(len(object))-1).AddJSON("a", []byte(object)); !errors.Is(err, manifest.ErrTooLarge) {
		t.Errorf("a byte more than allowed: %v", err)
	}
	for _, form := range []struct{ begin, each, end string }{{"[", "1,", "1]"}, {"", "[", ""}, {"", "{", ""}} {
		within := func(count int) bool {
			return manifest.WithinValues([]byte(form.begin + strings.Repeat(form.each, count) + form.end))
		}
		// The text itself is a value, and so is what begins a list.
		most := manifest.MaxValues - 1 - len(form.begin)
		if !within(most) || within(most+1) {
			t.Errorf("%d times %s: %t, one more: %t", most, form.each, within(most), within(most+1))
		}
	}
	values := `{"apiVersion":"v1","kind":"A","x":[` + strings.Repeat("1,", manifest.MaxValues-5) + `1]}`
	if err := manifest.NewSet(100<<20).AddJSON("a", []byte(values)); err != nil {
		t.Errorf("as many values as allowed: %v", err)
	}
}

// Marks and anchors may be the first bytes.
func TestFirstBytes(t *testing.T) {
	if got := objectsOf(t, "\n---\n{kind: A, apiVersion: v1}"); got != `{"apiVersion":"v1","kind":"A"}` {
		t.Errorf("got %s", got)
	}
	if got := objectsOf(t, "{kind: A, apiVersion: v1}\n\n---\n\n{kind: B, apiVersion: v1}"); got != `{"apiVersion":"v1","kind":"A"} {"apiVersion":"v1","kind":"B"}` {
		t.Errorf("between empty lines are %s", got)
	}
	for text, refused := range map[string]bool{"&a [*a]": true, "*x": false} {
		if err := manifest.CheckAliases("file", []byte(text), limit); (err != nil) != refused {
			t.Errorf("%s: %v", text, err)
		}
	}
}
