package helmindex

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/api/refusal"
)

// find is the versions of a chart in an index, by way of the compact form.
func find(index []byte, chart string) ([]Entry, error) {
	compact, err := Compact(bytes.NewReader(index), 1<<30)
	if err != nil {
		return nil, err
	}
	return Find(bytes.NewReader(compact), chart)
}

// What is read by lines is what the decoder of all finds.
func FuzzEntries(f *testing.F) {
	f.Add("web", "1.0.0", "text\n- version: 9.9.9\nother:\n", "x: y")
	f.Add("a.b-c", "v1", "entries:\n  web:\n", "'")
	f.Add("'", "\"", "\t", "#")
	f.Add("- x", "1", "- y", "? :")
	f.Add("-A", "0", "0", "0")
	f.Fuzz(func(t *testing.T, chart, version, description, other string) {
		for _, text := range []string{chart, version, description, other} {
			if !utf8.ValidString(text) || strings.ContainsAny(text, "\x00\ufffd\ufeff\u0085\u2028\u2029\x7f") {
				t.Skip()
			}
		}
		type entry struct {
			Description string   `json:"description"`
			URLs        []string `json:"urls"`
			Version     string   `json:"version"`
		}
		index := map[string]any{
			"apiVersion": "v1", "generated": description,
			"entries": map[string]any{
				other: []entry{{Description: description, Version: other}},
				chart: []entry{{Description: description, URLs: []string{other}, Version: version}, {Description: other, Version: chart}},
			},
		}
		text, err := yaml.Marshal(index)
		if err != nil {
			t.Skip()
		}
		var decoded struct {
			Entries map[string][]Entry `json:"entries"`
		}
		if err := yaml.Unmarshal(text, &decoded); err != nil {
			t.Skip()
		}
		got, err := find(text, chart)
		want := decoded.Entries[chart]
		if err != nil || !slices.EqualFunc(got, want, func(a, b Entry) bool {
			return a.Version == b.Version && a.Digest == b.Digest && slices.Equal(a.URLs, b.URLs[:min(1, len(b.URLs))])
		}) {
			t.Errorf("got %+v, %v, want %+v of\n%s", got, err, want, text)
		}
	})
}

// Anything may be called an index.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "entries:", "entries: {web: [{version: 1.0.0}]}", `{"entries":{"web":[{"version":"1.0.0"}]}}`, "entries:\n  web:\n  - version: 1", "entries:\nweb:\n", "{", "a: &a [*a]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = find(text, "web")
	})
}

func TestForms(t *testing.T) {
	for name, text := range map[string]string{
		"helm's own":    "apiVersion: v1\nentries:\n  a:\n  - version: 0.1.0\n  web:\n  - urls:\n    - web.tgz\n    version: 1.0.0\ngenerated: x\n",
		"deep indent":   "entries:\n    web:\n        - version: 1.0.0\n          urls: [web.tgz]\n    z:\n        - version: 3.0.0\n",
		"quoted key":    "entries:\n  \"web\":\n  - version: 1.0.0\n    urls: [web.tgz]\n",
		"comments":      "# x\nentries:\n\n  # y\n  web:\n\n  # z\n  - version: 1.0.0\n    urls: [web.tgz]\n",
		"flow":          "entries: {web: [{version: 1.0.0, urls: [web.tgz]}]}\n",
		"JSON":          `{"apiVersion":"v1","entries":{"a":[{"version":"2.0.0"}],"web":[{"version":"1.0.0","urls":["web.tgz"]}]},"generated":"x"}`,
		"other anchors": "x: &urls [web.tgz]\nentries:\n  web:\n  - version: 1.0.0\n    urls: *urls\n",
	} {
		got, err := find([]byte(text), "web")
		if err != nil || len(got) != 1 || got[0].Version != "1.0.0" || !slices.Equal(got[0].URLs, []string{"web.tgz"}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if none, err := find([]byte(text), "nothing"); err != nil || len(none) != 0 {
			t.Errorf("%s: %+v, %v", name, none, err)
		}
	}
	for _, text := range []string{"", "<html></html>", "{}", "a: b", "[1]", "entries: x"} {
		if got, err := find([]byte(text), "web"); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// Values of a version are read whatever surrounds them.
func TestEntries(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"wanted keys only":   {"- annotations:\n    version: 9.9.9\n  description: |\n    version: 8.8.8\n  digest: abc\n  urls:\n  - a\n  - b\n  version: 1.0.0\n", "1.0.0 [a] abc"},
		"folded":             {"- description: a\n    version: 2\n  version: >-\n    1.0.0\n  urls: [a]\n", "1.0.0 [a] "},
		"dash alone":         {"-\n  version: 1.0.0\n  urls:\n  - a\n", "1.0.0 [a] "},
		"flow":               {"- {version: 1.0.0, urls: [a], digest: d}\n", "1.0.0 [a] d"},
		"quoted keys":        {"- \"version\": 1.0.0\n  'urls': [a]\n", "1.0.0 [a] "},
		"number":             {"- version: 1.0\n  urls: [a]\n", "1 [a] "},
		"anchor in the same": {"- x: &u [a]\n  version: 1.0.0\n  urls: *u\n", "1.0.0 [a] "},
		"merged":             {"- &first {version: 1.0.0, urls: [a]}\n- <<: *first\n  version: 2.0.0\n", "1.0.0 [a] , 2.0.0 [a] "},
		"two":                {"- version: 1.0.0\n- version: 2.0.0\n  urls: [b]\n", "1.0.0 [] , 2.0.0 [b] "},
	} {
		var index strings.Builder
		index.WriteString("entries:\n  web:\n")
		for line := range strings.Lines(tt.text) {
			index.WriteString("  " + line)
		}
		index.WriteString("  zzz:\n  - version: 3.0.0\n")
		got, err := find([]byte(index.String()), "web")
		var all []string
		for _, entry := range got {
			all = append(all, fmt.Sprint(entry.Version, " ", entry.URLs, " ", entry.Digest))
		}
		if err != nil || strings.Join(all, ", ") != tt.want {
			t.Errorf("%s: %q, %v, want %q", name, strings.Join(all, ", "), err, tt.want)
		}
	}
}

// Everything that grows is bounded.
func TestLimits(t *testing.T) {
	versions := func(n int) string { return strings.Repeat("  - version: 1.0.0\n    urls: [web.tgz]\n", n) }
	for name, tt := range map[string]struct{ index, chart, want string }{
		"line":         {"entries:\n  web:\n  - version: " + strings.Repeat("1", maxLine+1) + "\n", "web", "a line of more"},
		"entry":        {"entries:\n  web:\n  - version: 1\n" + strings.Repeat("    a: b\n", maxEntry/8), "web", "a version of a chart has more"},
		"address":      {"entries:\n  web:\n  - version: 1\n    urls: [" + strings.Repeat("a", entryBytes) + "]\n", "web", "bytes of addresses"},
		"unusual form": {"entries: {web: [" + strings.Repeat("{version: 1.0.0},\n", maxWhole/18) + "]}", "web", "unusual form and more than"},
		"versions":     {`{"entries":{"web":[` + strings.TrimSuffix(strings.Repeat(`{"version":"1.0.0"},`, MaxChart/20+1), ",") + `]}}`, "web", "remove old versions"},
		"all":          {"entries:\n  web:\n" + versions(2000), "web", "sources.indexLimit"},
	} {
		limit := int64(1 << 30)
		if name == "all" {
			limit = lineBytes
		}
		compact, err := Compact(strings.NewReader(tt.index), limit)
		if err == nil {
			_, err = Find(bytes.NewReader(compact), tt.chart)
		}
		var refused *refusal.Refusal
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Many versions are many lines.
	compact, err := Compact(strings.NewReader("entries:\n  web:\n"+versions(5000)+"  web2:\n"+versions(1)), 1<<20)
	if err != nil || bytes.Count(compact, []byte("\n")) < 3 {
		t.Fatalf("%d bytes, %v", len(compact), err)
	}
	for chart, want := range map[string]int{"web": 5000, "web2": 1, "we": 0} {
		if got, err := Find(bytes.NewReader(compact), chart); err != nil || len(got) != want {
			t.Errorf("%s: %d versions, %v, want %d", chart, len(got), err, want)
		}
	}
}
