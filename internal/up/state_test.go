package up

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// open opens a state directory with one owned directory, "devcluster".
func open(t *testing.T, dir string) (*state, error) {
	t.Helper()
	s, err := openState(t.Context(), dir, []string{devclusterName}, func(string) {})
	if err == nil {
		t.Cleanup(s.close)
	}
	return s, err
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
}

// tree lists the files below a directory.
func tree(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
		return err
	})
	must.Do(t, err)
	return names
}

func TestStateRecognises(t *testing.T) {
	good := fmt.Sprintf(`{"kind":%q,"version":%d}`, markerKind, markerVersion)
	for _, test := range []struct {
		name    string
		files   map[string]string
		refused string
	}{
		{name: "empty"},
		{name: "ours", files: map[string]string{markerName: good, "devcluster/etcd": "x"}},
		{name: "ours with a stranger's file", files: map[string]string{markerName: good, "notes.txt": "x"}},
		{name: "interrupted claim", files: map[string]string{lockName: "12\n"}},
		{name: "foreign", files: map[string]string{"thesis.tex": "x"}, refused: "was not made by `slipway up`"},
		{name: "foreign with a lock", files: map[string]string{lockName: "12\n", "thesis.tex": "x"}, refused: "thesis.tex"},
		{name: "foreign folder", files: map[string]string{"devcluster/etcd": "x"}, refused: "was not made by `slipway up`"},
		{name: "damaged marker", files: map[string]string{markerName: "{"}, refused: "damaged"},
		{name: "empty marker", files: map[string]string{markerName: ""}, refused: "damaged"},
		{name: "marker of another kind", files: map[string]string{markerName: `{"kind":"other","version":1}`}, refused: "damaged"},
		{name: "newer", files: map[string]string{markerName: `{"kind":"slipway-up","version":99}`}, refused: "newer slipway"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, content := range test.files {
				put(t, dir, name, content)
			}
			before := tree(t, dir)
			_, err := open(t, dir)
			if test.refused == "" {
				must.Do(t, err)
				return
			}
			requireText(t, err, test.refused, dir, "--dir")
			if after := tree(t, dir); !slices.Equal(before, after) {
				t.Errorf("a refused directory was changed: %q, before %q", after, before)
			}
		})
	}
}

func TestStateIsPrivate(t *testing.T) {
	for _, test := range []struct {
		name string
		make bool
	}{{"made", false}, {"adopted", true}} {
		t.Run(test.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a", "state")
			if test.make {
				must.Do(t, os.MkdirAll(dir, 0o755))
			}
			must.Get(open(t, dir))(t)
			for name, want := range map[string]os.FileMode{".": 0o700, markerName: 0o600, lockName: 0o600} {
				info := must.Get(os.Stat(filepath.Join(dir, name)))(t)
				if got := info.Mode().Perm(); got != want {
					t.Errorf("mode of %s is %o, want %o", name, got, want)
				}
			}
		})
	}
}

func TestStateRemembersTheDemo(t *testing.T) {
	dir := t.TempDir()
	first := must.Get(open(t, dir))(t)
	if first.marker.ApplicationMade {
		t.Error("a new directory has had the demo")
	}
	must.Do(t, first.applicationIsMade())
	first.close()
	second := must.Get(open(t, dir))(t)
	if !second.marker.ApplicationMade {
		t.Error("the demo was forgotten")
	}
}

func TestResetDeletesOnlyItsOwn(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside, "precious", "x")
	s := must.Get(open(t, dir))(t)
	put(t, dir, "devcluster/etcd/wal", "x")
	put(t, dir, "notes.txt", "x")
	put(t, dir, "devcluster2/kept", "x")
	// A link out of the directory is removed, what it points to is not.
	must.Do(t, os.Symlink(outside, filepath.Join(dir, "devcluster", "link")))
	must.Do(t, s.applicationIsMade())
	must.Do(t, s.reset())
	if s.marker.ApplicationMade {
		t.Error("the reset kept the memory of the demo")
	}
	want := []string{"devcluster2/kept", "notes.txt", markerName, lockName}
	if got := tree(t, dir); !slices.Equal(got, want) {
		t.Errorf("after the reset: %q, want %q", got, want)
	}
	if got := tree(t, outside); !slices.Equal(got, []string{"precious"}) {
		t.Errorf("outside: %q", got)
	}
}

func TestResetOfALink(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	put(t, outside, "precious", "x")
	s := must.Get(open(t, dir))(t)
	must.Do(t, os.Symlink(outside, filepath.Join(dir, devclusterName)))
	must.Do(t, s.reset())
	if got := tree(t, outside); !slices.Equal(got, []string{"precious"}) {
		t.Errorf("outside: %q", got)
	}
}

// A user may run slipway-devcluster by hand in our directory.
func TestResetRefusesARunningPart(t *testing.T) {
	dir := t.TempDir()
	s := must.Get(open(t, dir))(t)
	put(t, dir, "devcluster/lock", "")
	lock := must.Get(os.Open(filepath.Join(dir, "devcluster", "lock")))(t)
	defer lock.Close()
	must.Do(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	requireText(t, s.reset(), filepath.Join(dir, "devcluster"), fmt.Sprintf("(pid %d)", os.Getpid()))
	if got := tree(t, dir); !slices.Contains(got, "devcluster/lock") {
		t.Errorf("it was deleted: %q", got)
	}
	lock.Close()
	if err := s.reset(); err != nil {
		t.Error(err)
	}
}

func TestInterruptedResetIsFinished(t *testing.T) {
	dir := t.TempDir()
	s := must.Get(open(t, dir))(t)
	s.close()
	put(t, dir, "devcluster"+doomedSuffix+"/etcd/wal", "x")
	must.Get(open(t, dir))(t)
	if got := tree(t, dir); slices.ContainsFunc(got, func(name string) bool { return strings.Contains(name, "wal") }) {
		t.Errorf("left over: %q", got)
	}
}

// startRunner runs another process that holds the directory as `slipway up`
// does, with a child, and returns when both are there.
func startRunner(t *testing.T, mode, dir, journal string) *exec.Cmd {
	t.Helper()
	command := exec.Command(os.Args[0], "child", mode, dir, journal)
	output := must.Get(command.StdoutPipe())(t)
	must.Do(t, command.Start())
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "up\n" {
		t.Fatalf("runner said %q (%v)", line, err)
	}
	return command
}

func TestStateInUse(t *testing.T) {
	dir := t.TempDir()
	other := startRunner(t, "runner", dir, filepath.Join(t.TempDir(), "journal"))
	_, err := open(t, dir)
	requireText(t, err, dir, "pid "+strconv.Itoa(other.Process.Pid), "--dir", "--port-offset")
}

// After kill -9 of `slipway up` its children are ending, and hold the
// directory until they have. One that does not watch its input ends too.
func TestStateWaitsForLeftovers(t *testing.T) {
	for mode, end := range map[string]string{"runner": "input ended", "runner of a deaf one": "terminated"} {
		t.Run(mode, func(t *testing.T) {
			dir, journal := t.TempDir(), filepath.Join(t.TempDir(), "journal")
			other := startRunner(t, mode, dir, journal)
			must.Do(t, other.Process.Kill())
			other.Wait()
			must.Get(open(t, dir))(t)
			content, err := os.ReadFile(journal)
			if err != nil || string(content) != "orphan: "+end+"\n" {
				t.Errorf("the directory was free before the orphan had ended: %q, %v", content, err)
			}
		})
	}
}

// A process id that is used again must not look like the owner.
func TestStateIgnoresStalePID(t *testing.T) {
	dir := t.TempDir()
	s, err := open(t, dir)
	must.Do(t, err)
	put(t, dir, lockName, "1\n")
	ctx, cancel := context.WithCancel(t.Context())
	_, err = openState(ctx, dir, nil, func(string) { cancel() })
	requireText(t, err, "still in use by", fmt.Sprintf("(pid %d)", os.Getpid()))
	s.close()
}

func TestDefaultDir(t *testing.T) {
	for _, test := range []struct{ name, data, home, want string }{
		{"data home", "/d", "/h", "/d/slipway"},
		{"home", "", "/h", "/h/.local/share/slipway"},
		{"relative data home is ignored", "d", "/h", "/h/.local/share/slipway"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("XDG_DATA_HOME", test.data)
			t.Setenv("HOME", test.home)
			if got, err := DefaultDir(); got != test.want || err != nil {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		t.Setenv("XDG_DATA_HOME", "")
		t.Setenv("HOME", "")
		_, err := DefaultDir()
		requireText(t, err, "--dir")
	})
}
