package route

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

func encoded(t testing.TB, table *Table) string {
	t.Helper()
	var text bytes.Buffer
	must.Do(t, Encode(&text, table))
	return text.String()
}

// TestRoundTrip writes and reads tables with hostile text in every field. What
// comes back is what went in: no value changes another one.
func TestRoundTrip(t *testing.T) {
	printable := slices.DeleteFunc(slices.Clone(hostile), func(s string) bool {
		return !utf8.ValidString(s) || s == secret.Redacted
	})
	fill := &filler{random: rand.New(rand.NewPCG(3, 4)), strings: printable}
	policies := 0
	for range 800 {
		table := fill.table()
		text := encoded(t, table)
		read, err := Decode(strings.NewReader(text))
		if err != nil {
			// The text form of an address range that is none cannot be read.
			if strings.Contains(err.Error(), "netip.ParsePrefix") {
				continue
			}
			t.Fatalf("%v\n%s", err, text)
		}
		slices.Sort(table.EntryPoints)
		sorted := table.forWriting()
		for i, rule := range read.Rules {
			policies += len(rule.Policies)
			if !sameRule(rule, unwritten(t, sorted.Rules[i])) {
				t.Fatalf("rule changed:\n%+v\n%+v", rule, sorted.Rules[i])
			}
		}
		if again := encoded(t, read); again != text {
			t.Fatalf("written differently:\n%s\n%s", text, again)
		}
	}
	if policies < 100 {
		t.Errorf("only %d policies were tried", policies)
	}
}

// unwritten undoes what Encode does to secrets.
func unwritten(t *testing.T, rule *Rule) *Rule {
	t.Helper()
	plain := *rule
	plain.Policies = slices.Clone(rule.Policies)
	var hide func([]Policy)
	hide = func(policies []Policy) {
		for i := range policies {
			if auth := policies[i].BasicAuth; auth != nil {
				auth.Users.written = false
			}
			if chain := policies[i].Chain; chain != nil {
				hide(chain.Policies)
			}
		}
	}
	hide(plain.Policies)
	return &plain
}

// TestEncodeIgnoresOrder: replicas that list things differently write the same
// file.
func TestEncodeIgnoresOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	fill := &filler{random: random, strings: []string{"a", "b", "c", "d", "e"}}
	for range 100 {
		table := fill.table()
		if len(table.checkDuplicates()) > 0 {
			continue
		}
		text := encoded(t, table)
		random.Shuffle(len(table.Rules), func(i, j int) { table.Rules[i], table.Rules[j] = table.Rules[j], table.Rules[i] })
		slices.Reverse(table.Listeners)
		slices.Reverse(table.Backends)
		slices.Reverse(table.TCPRoutes)
		slices.Reverse(table.Certificates)
		slices.Reverse(table.Authorities)
		slices.Reverse(table.TLSOptions)
		slices.Reverse(table.EntryPoints)
		if again := encoded(t, table); again != text {
			t.Fatalf("written differently:\n%s\n%s", text, again)
		}
	}
}

// TestFieldNames: every field of the table has a name in camelCase, and none
// is left out of the JSON.
func TestFieldNames(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var visit func(reflect.Type)
	visit = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] || typ.PkgPath() != reflect.TypeFor[Table]().PkgPath() || typ == reflect.TypeFor[Secret]() {
			return
		}
		seen[typ] = true
		for i := range typ.NumField() {
			field := typ.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "-" || strings.ToLower(name[:1]) != name[:1] || strings.ContainsAny(name, "_-") {
				t.Errorf("%s.%s has the JSON name %q", typ, field.Name, name)
			}
			visit(field.Type)
		}
	}
	visit(reflect.TypeFor[Table]())
	if len(seen) < 40 {
		t.Errorf("only %d types were seen", len(seen))
	}
}

// FuzzDecode: what is read is written and read again as the same, and no table
// makes a check fail.
func FuzzDecode(f *testing.F) {
	fill := &filler{random: rand.New(rand.NewPCG(7, 8)), strings: []string{"a", "/a", "example.com", "exact"}}
	for range 20 {
		f.Add([]byte(encoded(f, fill.table())))
	}
	f.Add([]byte(`{"rules":[{"id":{"name":"a"},"response":{"status":200}}]}`))
	f.Add([]byte(`{"rules":[{"id":{"name":"a","name":"b"}}],"x":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := Decode(bytes.NewReader(data))
		if err != nil {
			return
		}
		strict := json.NewDecoder(bytes.NewReader(data))
		strict.DisallowUnknownFields()
		if err := strict.Decode(new(Table)); err != nil {
			t.Fatalf("the standard decoder refuses it: %v", err)
		}
		text := encoded(t, table)
		again, err := Decode(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if other := encoded(t, again); other != text {
			t.Fatalf("written differently:\n%s\n%s", text, other)
		}
		contained, _ := table.Contain()
		if problems := contained.Validate(); len(problems) > 0 {
			t.Fatalf("not contained: %s", problems[0])
		}
	})
}
