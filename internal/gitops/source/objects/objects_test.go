package objects_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitops/source/objects"
)

const memory = 16 << 20

// pack lets git write a pack of everything that the arguments name.
func pack(t testing.TB, repository *gittest.Repository, revisions string, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("git", append([]string{"--git-dir", repository.Dir(), "pack-objects", "--revs", "--stdout", "--quiet"}, args...)...)
	cmd.Stdin = strings.NewReader(revisions)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// similar is a repository whose files git stores as differences.
func similar(t testing.TB, commits int) *gittest.Repository {
	t.Helper()
	repository := gittest.Serve(t).Repository(t, "demo", map[string]string{"README": "hello"})
	for i := range commits {
		files := map[string]string{}
		for n := range 20 {
			files[fmt.Sprintf("apps/%d/values.yaml", n)] = strings.Repeat("a line that all files have\n", 40) + fmt.Sprint(n, i)
		}
		repository.Commit(t, files, "more")
	}
	return repository
}

func create(t testing.TB) (*objects.Set, string) {
	t.Helper()
	folder := t.TempDir()
	set, err := objects.Create(folder, memory)
	if err != nil {
		t.Fatal(err)
	}
	return set, folder
}

// compare reads every object and compares it with the output of git.
func compare(t *testing.T, repository *gittest.Repository, set *objects.Set, revision string) {
	t.Helper()
	list := repository.Git(t, "rev-list", "--objects", "--no-object-names", revision)
	check := exec.Command("git", "--git-dir", repository.Dir(), "cat-file", "--batch-check")
	check.Stdin = strings.NewReader(list + "\n")
	out, err := check.Output()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		raw, err := hex.DecodeString(words[0])
		if err != nil {
			t.Fatal(err)
		}
		id := objects.ID(raw)
		kind, size, err := set.Stat(id)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if words[1] != kind.String() || words[2] != fmt.Sprint(size) {
			t.Errorf("%s is a %s of %d bytes, want %s", id, kind, size, line)
		}
		// The content is checked by its hash.
		if _, content, err := set.Read(id, 1<<20); err != nil || int64(len(content)) != size {
			t.Errorf("%s: %d bytes, %v", id, len(content), err)
		}
		compared++
	}
	if compared < 10 {
		t.Errorf("only %d objects were compared", compared)
	}
}

func TestReceive(t *testing.T) {
	repository := similar(t, 5)
	for _, args := range [][]string{{"--delta-base-offset"}, {"--no-delta-base-offset"}, {"--window=0"}} {
		t.Run(args[0], func(t *testing.T) {
			set, folder := create(t)
			set, err := set.Receive(t.Context(), bytes.NewReader(pack(t, repository, "main\n", args...)), objects.DefaultLimits())
			if err != nil {
				t.Fatal(err)
			}
			compare(t, repository, set, "main")
			// Git itself finds nothing wrong with the pack and its index.
			for _, index := range glob(t, folder, "objects/pack/*.idx") {
				if out, err := exec.Command("git", "verify-pack", index).CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			}
			again, err := objects.Open(folder, memory)
			if err != nil {
				t.Fatal(err)
			}
			compare(t, repository, again, "main")
		})
	}
}

func glob(t *testing.T, folder, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	return found
}

// A thin pack has differences to objects of the packs before.
func TestThinPack(t *testing.T) {
	repository := similar(t, 1)
	before := repository.Head(t)
	set, folder := create(t)
	set, err := set.Receive(t.Context(), bytes.NewReader(pack(t, repository, before+"\n")), objects.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	repository.Commit(t, map[string]string{"apps/3/values.yaml": strings.Repeat("a line that all files have\n", 40) + "changed"}, "change")
	thin := pack(t, repository, "main\n^"+before+"\n", "--thin")
	more, err := set.Receive(t.Context(), bytes.NewReader(thin), objects.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	compare(t, repository, more, "main")
	if set.Packs() != 1 || more.Packs() != 2 {
		t.Errorf("%d and %d packs", set.Packs(), more.Packs())
	}
	empty, _ := create(t)
	if _, err := empty.Receive(t.Context(), bytes.NewReader(thin), objects.DefaultLimits()); !errors.Is(err, objects.ErrBase) {
		t.Errorf("without its base: %v", err)
	}
	// Files that are open stay readable.
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	compare(t, repository, more, "main")
}

func TestStartingWith(t *testing.T) {
	repository := similar(t, 3)
	set, _ := create(t)
	set, err := set.Receive(t.Context(), bytes.NewReader(pack(t, repository, "main\n")), objects.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	for commit := range strings.Lines(repository.Git(t, "rev-list", "main")) {
		commit = strings.TrimSpace(commit)
		for _, digits := range []int{7, 8, 39, 40} {
			if found, err := set.StartingWith(commit[:digits]); err != nil || len(found) != 1 || found[0].String() != commit {
				t.Errorf("%s: %v, %v", commit[:digits], found, err)
			}
		}
	}
	tree := repository.Git(t, "rev-parse", "main^{tree}")
	if found, err := set.StartingWith(tree[:10]); err != nil || len(found) != 0 {
		t.Errorf("a tree is taken for a commit: %v, %v", found, err)
	}
}

func TestLimits(t *testing.T) {
	repository := similar(t, 5)
	content := pack(t, repository, "main\n")
	for name, change := range map[string]func(*objects.Limits){
		"bytes":   func(l *objects.Limits) { l.Bytes = int64(len(content)) - 1 },
		"objects": func(l *objects.Limits) { l.Objects = 3 },
		"object":  func(l *objects.Limits) { l.ObjectBytes = 100 },
		"total":   func(l *objects.Limits) { l.TotalBytes = 1000 },
		"memory":  func(l *objects.Limits) { l.MemoryBytes = 200 },
	} {
		limits := objects.DefaultLimits()
		change(&limits)
		set, folder := create(t)
		_, err := set.Receive(t.Context(), bytes.NewReader(content), limits)
		var large *objects.TooLarge
		if !errors.As(err, &large) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := os.ReadDir(filepath.Join(folder, "objects/pack")); len(left) != 0 {
			t.Errorf("%s: %d files are left", name, len(left))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	set, _ := create(t)
	if _, err := set.Receive(ctx, bytes.NewReader(content), objects.DefaultLimits()); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Every byte of a pack matters: none can change without being noticed.
func TestChangedPackIsNoticed(t *testing.T) {
	content := pack(t, similar(t, 2), "main\n")
	set, _ := create(t)
	for i := 0; i < len(content); i += 7 {
		changed := bytes.Clone(content)
		changed[i] ^= 0x41
		if _, err := set.Receive(t.Context(), bytes.NewReader(changed), objects.DefaultLimits()); err == nil {
			t.Fatalf("byte %d changed, and nothing was noticed", i)
		}
	}
	for _, end := range []int{0, 3, 11, 12, len(content) / 2, len(content) - 1} {
		if _, err := set.Receive(t.Context(), bytes.NewReader(content[:end]), objects.DefaultLimits()); err == nil {
			t.Errorf("cut off at %d, and nothing was noticed", end)
		}
	}
	longer := append(bytes.Clone(content), 'x')
	for _, from := range []io.Reader{bytes.NewReader(longer), iotest.OneByteReader(bytes.NewReader(longer))} {
		if _, err := set.Receive(t.Context(), from, objects.DefaultLimits()); !errors.Is(err, objects.ErrCorrupt) {
			t.Errorf("something behind the end: %v", err)
		}
	}
}

// A folder that is damaged is corrupt when it is opened, or when it is read.
func TestDamage(t *testing.T) {
	repository := similar(t, 2)
	content := pack(t, repository, "main\n")
	head := repository.Head(t)
	for name, change := range map[string]func(pack, index string) error{
		"index cut off": func(_, index string) error { return os.Truncate(index, 1100) },
		"index empty":   func(_, index string) error { return os.Truncate(index, 0) },
		"pack empty":    func(pack, _ string) error { return os.Truncate(pack, 0) },
		"no pack":       func(pack, _ string) error { return os.Remove(pack) },
	} {
		set, folder := create(t)
		if _, err := set.Receive(t.Context(), bytes.NewReader(content), objects.DefaultLimits()); err != nil {
			t.Fatal(err)
		}
		if err := change(glob(t, folder, "objects/pack/*.pack")[0], glob(t, folder, "objects/pack/*.idx")[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := objects.Open(folder, memory); !errors.Is(err, objects.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	set, folder := create(t)
	set, err := set.Receive(t.Context(), bytes.NewReader(content), objects.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(content)
	for i := 12; i < len(changed)-20; i++ {
		changed[i] ^= 0x55
	}
	if err := os.WriteFile(glob(t, folder, "objects/pack/*.pack")[0], changed, 0o600); err != nil {
		t.Fatal(err)
	}
	found, _ := set.StartingWith(head)
	if len(found) != 0 {
		t.Errorf("a commit is found in a pack of other bytes: %v", found)
	}
}

// Any bytes may be sent as a pack, with the right sum at the end.
func FuzzReceive(f *testing.F) {
	repository := gittest.Serve(f).Repository(f, "demo", map[string]string{"a": "text of some length\n", "b": "text of some length\n2"})
	for _, arg := range []string{"--delta-base-offset", "--no-delta-base-offset", "--window=0"} {
		content := pack(f, repository, "main\n", arg)
		f.Add(content[:len(content)-sha1.Size])
	}
	f.Add([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"))
	limits := objects.Limits{Bytes: 1 << 20, ObjectBytes: 1 << 20, TotalBytes: 4 << 20, MemoryBytes: 1 << 20, Objects: 1000}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, body []byte) {
		set, err := objects.Create(folder, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha1.Sum(body)
		set, err = set.Receive(t.Context(), bytes.NewReader(append(bytes.Clone(body), sum[:]...)), limits)
		if err != nil {
			return
		}
		if set.Packs() != 1 {
			t.Errorf("%d packs", set.Packs())
		}
	})
}
