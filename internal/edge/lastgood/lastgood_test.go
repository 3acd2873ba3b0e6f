package lastgood_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"slipway.dev/slipway/internal/edge/filetable"
	"slipway.dev/slipway/internal/edge/lastgood"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/route"
)

// saverDir makes the test binary a process that saves tables there until it is
// killed.
const saverDir = "LASTGOOD_SAVER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(saverDir); dir != "" {
		saveForEver(dir)
	}
	goleak.VerifyTestMain(m)
}

func saveForEver(dir string) {
	for i := 0; ; i++ {
		fmt.Println(i)
		if err := lastgood.Save(dir, numbered(i)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

// numbered is a table that has its number in every part, with secrets and
// with text that a careless writer would break.
func numbered(n int) *route.Table {
	table := &route.Table{Certificates: []*route.Certificate{{
		ID: route.CertificateID{Name: "c"}, Hosts: []string{"a.example.com"}, Chain: "-----BEGIN\nchain " + strconv.Itoa(n), Key: route.NewSecret("key " + strconv.Itoa(n)),
	}}}
	for i := range 40 {
		id := route.BackendID{Namespace: "ns", Name: "b" + strconv.Itoa(i), Port: 80}
		table.Backends = append(table.Backends, &route.Backend{
			ID: id, Endpoints: []route.Endpoint{{Address: netip.MustParseAddrPort("10.0.0.1:80")}},
		})
		table.Rules = append(table.Rules, &route.Rule{
			ID: route.ID{Kind: "Ingress", Namespace: "ns", Name: "r" + strconv.Itoa(i), Rule: n}, Host: "a.example.com",
			Match: route.Match{Path: route.PathMatch{Type: route.PathPrefix, Value: "/" + strconv.Itoa(i)}, Headers: []route.ValueMatch{{
				Name: "X-Odd", Value: "a],[{\"b\\\" # \u2028 : - '" + strconv.Itoa(n),
			}}},
			Policies: []route.Policy{{BasicAuth: &route.BasicAuth{Users: route.NewSecret("user:$2y$" + strconv.Itoa(n))}}},
			Backends: []route.BackendRef{{Backend: id}},
			Created:  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		})
	}
	return table
}

// equal compares tables as they are written, secrets included.
func equal(t *testing.T, a, b *route.Table) bool {
	t.Helper()
	var texts [2]bytes.Buffer
	for i, table := range []*route.Table{a, b} {
		must.Do(t, route.Encode(&texts[i], table))
	}
	return texts[0].String() == texts[1].String()
}

func TestSaveAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "edge")
	if _, err := lastgood.Load(dir); !errors.Is(err, lastgood.ErrNone) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	table := numbered(1)
	table.EntryPoints = []string{"web"}
	must.Do(t, lastgood.Save(dir, table))
	loaded := must.Get(lastgood.Load(dir))(t)
	if len(loaded.EntryPoints) != 0 {
		t.Errorf("the entry points were saved: %v", loaded.EntryPoints)
	}
	if !equal(t, loaded, numbered(1)) {
		t.Error("what was loaded is not what was saved")
	}
	if got := loaded.Certificates[0].Key.Reveal(); got != "key 1" {
		t.Errorf("the key is %q", got)
	}
	file := filepath.Join(dir, lastgood.FileName)
	for path, want := range map[string]fs.FileMode{dir: 0o700, file: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	// A person can read it, and the file provider can serve it.
	_, served, err := filetable.Open(file)
	must.Do(t, err)
	if !equal(t, served, numbered(1)) {
		t.Error("the file provider reads something else")
	}
	text := must.Get(os.ReadFile(file))(t)
	for i, line := range strings.Split(string(text), "\n") {
		if strings.Count(line, `"host":`) > 1 {
			t.Fatalf("line %d has more than one rule: %.200s", i+1, line)
		}
	}
}

func TestEmptyTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "edge")
	must.Do(t, lastgood.Save(dir, &route.Table{}))
	if table, err := lastgood.Load(dir); err != nil || !reflect.DeepEqual(table, &route.Table{}) {
		t.Errorf("%+v, %v", table, err)
	}
}

// TestDamage: every cut and every changed byte is noticed.
func TestDamage(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "edge")
	table := numbered(1)
	table.Rules, table.Backends = table.Rules[:1], table.Backends[:1]
	must.Do(t, lastgood.Save(dir, table))
	file := filepath.Join(dir, lastgood.FileName)
	whole := must.Get(os.ReadFile(file))(t)
	check := func(what string, text []byte) {
		t.Helper()
		must.Do(t, os.WriteFile(file, text, 0o600))
		if _, err := lastgood.Load(dir); !errors.Is(err, lastgood.ErrDamaged) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for n := range whole {
		check(fmt.Sprintf("cut to %d bytes", n), whole[:n])
		changed := bytes.Clone(whole)
		changed[n] ^= 1
		check(fmt.Sprintf("byte %d changed", n), changed)
	}
	check("a line more", append(bytes.Clone(whole), "# and more\n"...))
	must.Do(t, os.WriteFile(file, whole, 0o600))
	if _, err := lastgood.Load(dir); err != nil {
		t.Errorf("the whole file: %v", err)
	}
}

func TestRefusedPlaces(t *testing.T) {
	parent := t.TempDir()
	open := filepath.Join(parent, "open")
	must.Do(t, os.Mkdir(open, 0o755))
	const reach = "other users can access the private keys"
	if err := lastgood.Save(open, numbered(1)); err == nil || !strings.Contains(err.Error(), reach) {
		t.Errorf("an open directory: %v", err)
	}
	if entries, _ := os.ReadDir(open); len(entries) > 0 {
		t.Errorf("it was written to: %v", entries)
	}
	if _, err := lastgood.NewKeeper(open, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), reach) {
		t.Errorf("a keeper of an open directory: %v", err)
	}
	dir := filepath.Join(parent, "edge")
	must.Do(t, lastgood.Save(dir, numbered(1)))
	file := filepath.Join(dir, lastgood.FileName)
	must.Do(t, os.Chmod(file, 0o640))
	if _, err := lastgood.Load(dir); err == nil || !strings.Contains(err.Error(), reach) {
		t.Errorf("an open file: %v", err)
	}
	if os.Geteuid() == 0 {
		must.Do(t, os.Chown(dir, 12345, -1))
		if err := lastgood.Save(dir, numbered(1)); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Errorf("another user's directory: %v", err)
		}
		must.Do(t, os.Chown(dir, 0, -1))
	}
	elsewhere := filepath.Join(parent, "elsewhere.yaml")
	must.Do(t, os.Rename(file, elsewhere))
	must.Do(t, os.Symlink(elsewhere, file))
	if _, err := lastgood.Load(dir); err == nil {
		t.Error("a link out of the directory was followed")
	}
}

// TestKilled kills a process in the middle of saving, again and again. What is
// on disk is always one whole table, and never an older one than was saved.
func TestKilled(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	dir := filepath.Join(t.TempDir(), "edge")
	must.Do(t, lastgood.Save(dir, numbered(0)))
	for round := range rounds {
		begun := killedSaver(t, dir, rand.IntN(6))
		table, err := lastgood.Load(dir)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		got := table.Rules[0].ID.Rule
		// The last number that was read had begun, so the one before it was done.
		if begun > 0 && got < begun-1 {
			t.Errorf("round %d: table %d is on disk after %d was begun", round, got, begun)
		}
		if !equal(t, table, numbered(got)) {
			t.Fatalf("round %d: the table is not the one that was saved", round)
		}
	}
}

// killedSaver runs a saver until it reports that it begins to save the table with
// the number, and kills it.
func killedSaver(t *testing.T, dir string, number int) (begun int) {
	t.Helper()
	saver := exec.Command(os.Args[0])
	saver.Env = append(os.Environ(), saverDir+"="+dir)
	out, err := saver.StdoutPipe()
	must.Do(t, err)
	must.Do(t, saver.Start())
	lines := bufio.NewScanner(out)
	begun = -1
	for begun < number && lines.Scan() {
		if begun, err = strconv.Atoi(lines.Text()); err != nil {
			t.Errorf("the saver says %q", lines.Text())
			break
		}
	}
	if err := saver.Process.Kill(); err != nil {
		t.Error(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = saver.Wait() // it was killed
	return begun
}

// TestDrafts: what a killed process left behind goes away with time.
func TestDrafts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "edge")
	must.Do(t, lastgood.Save(dir, numbered(0)))
	old, fresh := filepath.Join(dir, ".draft-old"), filepath.Join(dir, ".draft-fresh")
	for path, age := range map[string]time.Duration{old: time.Hour, fresh: time.Minute} {
		must.Do(t, os.WriteFile(path, []byte("x"), 0o600))
		then := time.Now().Add(-age)
		must.Do(t, os.Chtimes(path, then, then))
	}
	must.Do(t, lastgood.Save(dir, numbered(1)))
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old draft: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("the draft of another process: %v", err)
	}
}

// TestKeeper runs in a bubble, where five seconds pass at once.
func TestKeeper(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "edge")
	onDisk := func() int {
		table, err := lastgood.Load(dir)
		if errors.Is(err, lastgood.ErrNone) {
			return -1
		}
		must.Do(t, err)
		return table.Rules[0].ID.Rule
	}
	expect := func(when string, want int) {
		t.Helper()
		synctest.Wait()
		if got := onDisk(); got != want {
			t.Errorf("%s: table %d is on disk, want %d", when, got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		keeper := must.Get(lastgood.NewKeeper(dir, slog.New(slog.DiscardHandler)))(t)
		expect("nothing kept", -1)
		keeper.Keep(func() *route.Table { return numbered(1) })
		expect("the first", 1)
		keeper.Keep(func() *route.Table { return numbered(2) })
		keeper.Keep(func() *route.Table { return numbered(3) })
		expect("too soon", 1)
		<-time.After(4 * time.Second)
		expect("still too soon", 1)
		<-time.After(time.Minute)
		expect("the newest", 3)
		<-time.After(time.Minute)
		keeper.Keep(func() *route.Table { return numbered(5) })
		expect("after a pause, at once", 5)
		keeper.Keep(func() *route.Table { return numbered(6) })
		if err := keeper.Close(t.Context()); err != nil {
			t.Error(err)
		}
		expect("closed", 6)
		keeper.Keep(func() *route.Table { return numbered(7) })
		if err := keeper.Close(t.Context()); err != nil {
			t.Error(err)
		}
		expect("closed twice", 6)
	})
}

// TestKeeperRetries: a table that could not be saved is saved when that is
// possible again, without another one coming.
func TestKeeperRetries(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "edge")
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		keeper := must.Get(lastgood.NewKeeper(dir, slog.New(slog.NewTextHandler(&log, nil))))(t)
		must.Do(t, os.Chmod(dir, 0o755))
		keeper.Keep(func() *route.Table { return numbered(1) })
		synctest.Wait()
		if !strings.Contains(log.String(), "other users can access the private keys") {
			t.Errorf("log: %s", log.String())
		}
		must.Do(t, os.Chmod(dir, 0o700))
		<-time.After(time.Minute)
		synctest.Wait()
		if _, err := lastgood.Load(dir); err != nil {
			t.Error(err)
		}
		if err := keeper.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
