package gitwrite

import (
	"maps"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
)

// FuzzDecodeTree: what can be read is written the same, unless Git would not have
// written it.
func FuzzDecodeTree(f *testing.F) {
	id := plumbing.NewHash("4b825dc642cb6eb9a060e54bf8d69288fbee4904")
	f.Add(encodeTree(map[string]*entry{
		"a": {mode: filemode.Regular, id: id}, "a.b": {mode: filemode.Executable, id: id}, "a-b": {mode: filemode.Dir, id: id}, "l": {mode: filemode.Symlink, id: id},
	}))
	f.Add([]byte("100644 a\x00short"))
	f.Add([]byte("40000 a/b\x0012345678901234567890"))
	f.Fuzz(func(t *testing.T, content []byte) {
		entries, err := decodeTree(content)
		if err != nil {
			return
		}
		again, err := decodeTree(encodeTree(entries))
		if err != nil {
			t.Fatalf("%q cannot be read again: %v", content, err)
		}
		maps.DeleteFunc(entries, func(_ string, one *entry) bool { return one.id == plumbing.ZeroHash })
		if !maps.EqualFunc(entries, again, func(x, y *entry) bool { return x.mode == y.mode && x.id == y.id }) {
			t.Errorf("%q is read differently again", content)
		}
	})
}
