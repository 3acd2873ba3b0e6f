package source

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	"slipway.dev/slipway/internal/gitops/source/objects"
	"slipway.dev/slipway/internal/gitops/source/remote"
)

// Names that a checkout would be harmed by are refused, and what is read of a
// folder is sorted and has each name once.
func FuzzParseTree(f *testing.F) {
	id := strings.Repeat("i", 20)
	for _, seed := range []string{
		"", "100644 a\x00" + id, "40000 b\x00" + id + "100755 b.yaml\x00" + id, "120000 l\x00" + id + "160000 m\x00" + id,
		"100644 ..\x00" + id, "100644 a/b\x00" + id, "100644 a\x00" + id + "100644 a\x00" + id, "100644 a\x00short", "999 x\x00" + id,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		entries, err := parseTree(content)
		if err != nil {
			return
		}
		for i, entry := range entries {
			if entry.Name == "" || entry.Name == "." || entry.Name == ".." || strings.ContainsAny(entry.Name, "/\x00") {
				t.Errorf("the name %q is taken", entry.Name)
			}
			if i > 0 && entries[i-1].Name >= entry.Name {
				t.Errorf("%q is before %q", entries[i-1].Name, entry.Name)
			}
			if _, ok := parseID(entry.Hash); !ok {
				t.Errorf("the hash %q is none", entry.Hash)
			}
		}
	})
}

func FuzzParseCommit(f *testing.F) {
	tree := "tree " + strings.Repeat("ab", 20) + "\n"
	f.Add(tree + "parent x\nauthor Ada <ada@example.com> 1760000000 +0200\ncommitter x\n\nmessage\n")
	f.Add(tree + "author <> -5 x\n\n\xff\xfe")
	f.Add("author x\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		commit, err := parseCommit(objects.ID{}, text)
		if err != nil {
			return
		}
		if !utf8.ValidString(commit.Message) || !utf8.ValidString(commit.Author) || len(commit.Message) > 3*maxMessageBytes {
			t.Errorf("commit is %+v", commit)
		}
	})
}

// Whatever a revision is, what is found is a ref, an id, or the beginning of
// one; nothing that begins with a dash is taken.
func FuzzFindRevision(f *testing.F) {
	for _, seed := range []string{"", "HEAD", "main", "1.x", ">=1.2 <2", "app/v1.*", "--x", "abcdef1", "refs/heads/main", "main~1", strings.Repeat("a", 40)} {
		f.Add(seed)
	}
	refs := map[string]remote.ID{"HEAD": {1}, "refs/heads/main": {1}, "refs/tags/v1.2.3": {2}, "refs/tags/app/v1.0.0": {3}}
	f.Fuzz(func(t *testing.T, revision string) {
		found, err := findRevision(revision, refs)
		if err != nil {
			if err.Message == "" || err.Kind == "" {
				t.Errorf("the error is %+v", err)
			}
			return
		}
		if strings.HasPrefix(revision, "-") || strings.ContainsAny(revision, "\x00\n;$`") {
			t.Errorf("%q is taken", revision)
		}
		if _, isID := remote.ParseID(strings.ToLower(revision)); isID {
			return
		}
		if (found.prefix == "") == (found.id == remote.ID{}) {
			t.Errorf("%q is %+v", revision, found)
		}
	})
}

// The part of a chart that is found by lines is what the decoder of all finds.
func FuzzHelmEntries(f *testing.F) {
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
			Entries map[string][]helmEntry `json:"entries"`
		}
		if err := yaml.Unmarshal(text, &decoded); err != nil {
			t.Skip()
		}
		got, err := helmEntries(bytes.NewReader(text), chart)
		want := decoded.Entries[chart]
		if err != nil || !slices.EqualFunc(got, want, func(a, b helmEntry) bool { return a.Version == b.Version && slices.Equal(a.URLs, b.URLs) }) {
			t.Errorf("got %+v, %v, want %+v of\n%s", got, err, want, text)
		}
	})
}

// Anything may be called an index.
func FuzzHelmIndexText(f *testing.F) {
	for _, seed := range []string{"", "entries:", "entries: {web: [{version: 1.0.0}]}", `{"entries":{"web":[{"version":"1.0.0"}]}}`, "entries:\n  web:\n  - version: 1", "entries:\nweb:\n", "{", "a: &a [*a]"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		_, _ = helmEntries(bytes.NewReader(text), "web")
	})
}

func TestHelmIndexForms(t *testing.T) {
	for name, text := range map[string]string{
		"helm's own":    "apiVersion: v1\nentries:\n  a:\n  - version: 0.1.0\n  web:\n  - urls:\n    - web.tgz\n    version: 1.0.0\ngenerated: x\n",
		"deep indent":   "entries:\n    web:\n        - version: 1.0.0\n          urls: [web.tgz]\n    z:\n        - version: 3.0.0\n",
		"quoted key":    "entries:\n  \"web\":\n  - version: 1.0.0\n    urls: [web.tgz]\n",
		"comments":      "# x\nentries:\n\n  # y\n  web:\n\n  # z\n  - version: 1.0.0\n    urls: [web.tgz]\n",
		"flow":          "entries: {web: [{version: 1.0.0, urls: [web.tgz]}]}\n",
		"JSON":          `{"apiVersion":"v1","entries":{"a":[{"version":"2.0.0"}],"web":[{"version":"1.0.0","urls":["web.tgz"]}]},"generated":"x"}`,
		"other anchors": "x: &urls [web.tgz]\nentries:\n  web:\n  - version: 1.0.0\n    urls: *urls\n",
	} {
		got, err := helmEntries(strings.NewReader(text), "web")
		if err != nil || len(got) != 1 || got[0].Version != "1.0.0" || !slices.Equal(got[0].URLs, []string{"web.tgz"}) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if none, err := helmEntries(strings.NewReader(text), "nothing"); err != nil || len(none) != 0 {
			t.Errorf("%s: %+v, %v", name, none, err)
		}
	}
	for _, text := range []string{"", "<html></html>", "{}", "a: b", "[1]", "entries: x"} {
		if got, err := helmEntries(strings.NewReader(text), "web"); err == nil {
			t.Errorf("%q is %+v", text, got)
		}
	}
}
