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

// What a pointer stands for is read of it. Without a digest it is not an object
// that can be fetched: a program converts the content, or the pointer is damaged.
func TestPointerContent(t *testing.T) {
	const oid = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"
	for name, tt := range map[string]struct {
		content string
		want    Pointer
	}{
		"pointer":         {pointer, Pointer{Path: "a", OID: oid, Size: 12345}},
		"windows":         {strings.ReplaceAll(pointer, "\n", "\r\n"), Pointer{Path: "a", OID: oid, Size: 12345}},
		"with extensions": {strings.Replace(pointer, "\noid", "\next-0-a sha256:1\noid", 1), Pointer{Path: "a"}},
		"other digest":    {strings.Replace(pointer, "sha256", "sha512", 1), Pointer{Path: "a", Size: 12345}},
		"short digest":    {strings.Replace(pointer, oid, oid[1:], 1), Pointer{Path: "a", Size: 12345}},
		"path as digest":  {strings.Replace(pointer, oid, "/"+oid[1:], 1), Pointer{Path: "a", Size: 12345}},
		"negative size":   {strings.Replace(pointer, "12345", "-1", 1), Pointer{Path: "a"}},
		"no size":         {strings.Replace(pointer, "12345", "large", 1), Pointer{Path: "a"}},
	} {
		_, err := NewView(NewMemory(map[string]string{"a": tt.content}), DefaultLimits()).Read("a")
		if got, ok := errors.AsType[*Pointer](err); !ok || *got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, err, tt.want)
		}
	}
}

// Whatever the text, a digest that is read of it is one.
func FuzzPointer(f *testing.F) {
	f.Add([]byte(pointer))
	f.Add([]byte("version https://git-lfs.github.com/spec/v1\noid sha256:../..\nsize -5\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		found := parsePointer("a", content)
		if found == nil {
			return
		}
		if found.Size < 0 || found.OID != "" && (len(found.OID) != 64 || strings.Trim(found.OID, "0123456789abcdef") != "") {
			t.Errorf("read %+v", found)
		}
	})
}
