package source

import (
	"strings"
	"testing"
	"unicode/utf8"

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
	for _, seed := range []string{"", "HEAD", "1.0.0", "1.x", "main", "1.x", ">=1.2 <2", "app/v1.*", "--x", "abcdef1", "refs/heads/main", "main~1", strings.Repeat("a", 40)} {
		f.Add(seed)
	}
	refs := map[string]remote.ID{"HEAD": {1}, "refs/heads/main": {1}, "refs/tags/v1.2.3": {2}, "refs/tags/app/v1.0.0": {3}}
	f.Fuzz(func(t *testing.T, revision string) {
		found, err := findRevision(revision, "", refs)
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
