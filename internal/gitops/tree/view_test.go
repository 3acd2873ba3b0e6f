package tree

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/must"
)

// What a View follows and what it refuses, on memory and on real links.
func TestViewFollowsLinks(t *testing.T) {
	files := map[string]string{"a/file": "text", "b/c/deep": "deep", "top": "top"}
	links := map[string]string{
		"a/near": "file", "a/up": "../b/c", "a/top": "../top", "a/self": ".", "b/loop": "loop2", "b/loop2": "loop",
		"a/out": "../../x", "a/absolute": "/etc/passwd", "a/dangling": "nothing", "a/chain": "up/../../top",
	}
	memory := newMemory(files, links)
	folder := onDisk(t, files, links)
	for _, tt := range []struct{ path, want, refusal string }{
		{path: "a/file", want: "text"},
		{path: "a/near", want: "text"},
		{path: "a/up/deep", want: "deep"},
		{path: "a/self/self/file", want: "text"},
		{path: "a/top", want: "top"},
		{path: "./a//file", want: "text"},
		{path: "a/up/../c/deep", want: "deep"},
		{path: "a/up/../../top", want: "top"},
		{path: "a/chain", want: "top"},
		{path: "a/dangling"},
		{path: "a/file/below"},
		{path: "missing/below"},
		{path: "a", refusal: "is a folder"},
		{path: "b/loop", refusal: "more than 4 links"},
		{path: "a/self/self/self/self/self/file", refusal: "more than 4 links"},
		{path: "a/out", refusal: "leaves the repository"},
		{path: "../x", refusal: "leaves the repository"},
		{path: "a/../../x", refusal: "leaves the repository"},
		{path: "/etc/passwd", refusal: "absolute path"},
		{path: "a/absolute", refusal: "absolute path /etc/passwd"},
		{path: "a\x00b", refusal: "no path has"},
		{path: strings.Repeat("a/", 3000), refusal: "more than 4096 characters"},
	} {
		for name, store := range map[string]Store{"memory": memory, "folder": folder} {
			view := NewView(store, Limits{FileBytes: 10, TotalBytes: 1000, Files: 10, Links: 4})
			got, err := view.Read(tt.path)
			var refused *refusal.Refusal
			switch {
			case tt.refusal != "":
				if !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.refusal) {
					t.Errorf("%s: %.40q: %v, want a refusal with %q", name, tt.path, err, tt.refusal)
				}
			case tt.want == "":
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %.40q: %q, %v, want nothing", name, tt.path, got, err)
				}
			case err != nil || string(got) != tt.want:
				t.Errorf("%s: %.40q: %q, %v, want %q", name, tt.path, got, err, tt.want)
			}
			if !view.Reads().Same(store) {
				t.Errorf("%s: %.40q: the same store does not give the same answer", name, tt.path)
			}
		}
	}
}

func onDisk(t *testing.T, files, links map[string]string) Store {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		place := filepath.Join(root, name)
		must.Do(t, os.MkdirAll(filepath.Dir(place), 0o755))
		must.Do(t, os.WriteFile(place, []byte(text), 0o644))
	}
	for name, target := range links {
		must.Do(t, os.Symlink(target, filepath.Join(root, name)))
	}
	return must.Get(NewFolder(root))(t)
}

// Every limit of a View is a refusal that names it.
func TestViewLimits(t *testing.T) {
	store := NewMemory(map[string]string{"large": strings.Repeat("x", 11), "a": "12345", "b": "67890", "c": "x"})
	refused := func(err error, words string) {
		t.Helper()
		var refused *refusal.Refusal
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), words) {
			t.Errorf("%v, want a refusal with %q", err, words)
		}
	}
	view := NewView(store, Limits{FileBytes: 10, TotalBytes: 10, Files: 4, Links: 1})
	_, err := view.Read("large")
	refused(err, "larger than 10 bytes")
	for _, name := range []string{"a", "b"} {
		if _, err := view.Read(name); err != nil {
			t.Error(err)
		}
	}
	_, err = view.Read("c")
	refused(err, "more than 10 bytes")
	_, err = view.Stat("a")
	refused(err, "more than 4 files")
}

// A Store that fails is no result: View reports it as a failure, and nothing is the same.
func TestStoreFailure(t *testing.T) {
	broken := errors.New("the disk is broken")
	store := &failing{Store: NewMemory(map[string]string{"a": "1"})}
	view := NewView(store, DefaultLimits())
	if _, err := view.Read("a"); err != nil || view.Failure() != nil {
		t.Fatal(err, view.Failure())
	}
	reads := view.Reads()
	store.err = broken
	if reads.Same(store) {
		t.Error("a store that fails gives the same answers")
	}
	view = NewView(store, DefaultLimits())
	if _, err := view.Read("a"); !errors.Is(err, broken) || !errors.Is(view.Failure(), broken) {
		t.Errorf("%v, failure %v", err, view.Failure())
	}
	if view.Reads().Len() != 0 {
		t.Error("a failure was noted as an answer")
	}
}

type failing struct {
	Store
	err error
}

func (f *failing) Entry(path string) (Entry, error) {
	if f.err != nil {
		return Entry{}, f.err
	}
	return f.Store.Entry(path)
}

// The short way asks one question for a folder that did not change.
func TestWithinAsksOnce(t *testing.T) {
	files := map[string]string{"apps/a/1": "1", "apps/a/2": "2", "apps/b/1": "1", "shared": "s"}
	view := NewView(NewMemory(files), DefaultLimits())
	view.Within("apps/a")
	for _, name := range []string{"apps/a/1", "apps/a/2", "shared"} {
		must.Get(view.Read(name))(t)
	}
	files["apps/b/1"] = "changed"
	other := &counting{Store: NewMemory(files)}
	if !view.Reads().Same(other) {
		t.Error("a change elsewhere is one")
	}
	if other.asked != 2 { // the folder, and the file beside it
		t.Errorf("%d questions, want 2", other.asked)
	}
}

type counting struct {
	Store
	asked int
}

func (c *counting) Entry(path string) (Entry, error) {
	c.asked++
	return c.Store.Entry(path)
}

// A local folder can have what Git cannot: pipes are never opened, and Git's own
// folder is not there.
func TestFolderSpecial(t *testing.T) {
	root := t.TempDir()
	must.Do(t, syscall.Mkfifo(filepath.Join(root, "pipe"), 0o644))
	must.Do(t, os.MkdirAll(filepath.Join(root, ".git"), 0o755))
	large := must.Get(os.Create(filepath.Join(root, "large")))(t)
	must.Do(t, errors.Join(large.Truncate(1<<30), large.Close()))
	store := must.Get(NewFolder(root))(t)
	view := NewView(store, DefaultLimits())
	entries, err := view.List("")
	if err != nil || len(entries) != 2 || entries[0].Name != "large" || entries[1].Kind != Special {
		t.Errorf("%v, %v", entries, err)
	}
	for path, words := range map[string]string{"pipe": "a device or a pipe", "large": "larger than"} {
		var refused *refusal.Refusal
		if _, err := view.Read(path); !errors.As(err, &refused) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v, want %q", path, err, words)
		}
	}
	if _, err := view.Stat(".git"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf(".git: %v", err)
	}
}

// A submodule is refused wherever it is met.
func TestSubmodule(t *testing.T) {
	store := newMemory(map[string]string{"module": ""}, nil)
	store.nodes["module"].entry.Kind = Submodule
	for _, path := range []string{"module", "module/file"} {
		var refused *refusal.Refusal
		if _, err := NewView(store, DefaultLimits()).Read(path); !errors.As(err, &refused) || !strings.Contains(err.Error(), "is a submodule") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := NewView(store, DefaultLimits()).List("module"); err == nil {
		t.Error("a submodule is listed")
	}
	// What is rendered depends on the commit of the submodule.
	store.nodes["module"].entry.Hash = "one"
	view := NewView(store, DefaultLimits())
	_, err := view.Stat("module/folder/file")
	if module, ok := errors.AsType[*InSubmodule](err); !ok || *module != (InSubmodule{Path: "module", Commit: "one", Rest: "folder/file"}) {
		t.Errorf("%+v", err)
	}
	if !view.Reads().Same(store) {
		t.Error("the same commit is another")
	}
	store.nodes["module"].entry.Hash = "two"
	if view.Reads().Same(store) {
		t.Error("another commit of a submodule is not noticed")
	}
}
