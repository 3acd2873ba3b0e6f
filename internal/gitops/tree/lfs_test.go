package tree

import (
	"errors"
	"strings"
	"testing"

	"slipway.dev/slipway/api/refusal"
)

// pointer is what Git LFS stores in the place of a file.
const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"

// A pointer of Git LFS is refused with its path and what to do; text that only
// looks like one is not.
func TestPointers(t *testing.T) {
	for name, tt := range map[string]struct {
		content string
		refused bool
	}{
		"pointer":         {pointer, true},
		"windows":         {strings.ReplaceAll(pointer, "\n", "\r\n"), true},
		"with extensions": {strings.Replace(pointer, "\noid", "\next-0-a sha256:1\noid", 1), true},
		"largest":         {pointer + strings.Repeat("x", maxPointer-1-len(pointer)), true},
		"too large":       {pointer + strings.Repeat("x", maxPointer-len(pointer)), false},
		"no size":         {pointer[:strings.Index(pointer, "size")], false},
		"no id":           {"version https://git-lfs.github.com/spec/v1\nsize 5\n", false},
		"other version":   {strings.Replace(pointer, "/v1", "/v10", 1), false},
		"not at the top":  {"\n" + pointer, false},
		"a manifest":      {"kind: A\ntext: " + pointer, false},
		"empty":           {"", false},
	} {
		view := NewView(NewMemory(map[string]string{"a/b.yaml": tt.content}), DefaultLimits())
		content, err := view.Read("a/b.yaml")
		var refused *refusal.Refusal
		switch {
		case !tt.refused && (err != nil || string(content) != tt.content):
			t.Errorf("%s: %v", name, err)
		case tt.refused && (!errors.As(err, &refused) || refused.Reason != GitLFSPointer || !strings.HasPrefix(err.Error(), "a/b.yaml: it is a pointer of Git LFS, and its content is not fetched: store the file in Git itself")):
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The refusal holds until the file changes.
func TestPointerIsNoted(t *testing.T) {
	view := NewView(NewMemory(map[string]string{"a": pointer}), DefaultLimits())
	if _, err := view.Read("a"); err == nil || view.Failure() != nil {
		t.Fatalf("%v, failure %v", err, view.Failure())
	}
	if !view.Reads().Same(NewMemory(map[string]string{"a": pointer})) || view.Reads().Same(NewMemory(map[string]string{"a": "fetched"})) {
		t.Error("the reads are not those of the file")
	}
}
