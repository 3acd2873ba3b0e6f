package store_test

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

// A backup of either database is restored into either, and nothing differs.
func TestBackup(t *testing.T) {
	t.Parallel()
	for _, from := range databases() {
		for _, to := range databases() {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				t.Parallel()
				source := newWorld(t, from.url(t))
				furnish(t, source)
				first := backup(t, source)
				target := &world{t: t, url: to.url(t), clock: source.clock}
				check(t, store.Restore(t.Context(), target.options(), bytes.NewReader(first)))
				target.Store = target.open()
				if got, want := unpacked(t, backup(t, target)), unpacked(t, first); !sameRows(got, want) {
					t.Errorf("got\n%s\nwant\n%s", got, want)
				}
				account := must(target.Accounts(t.Context()))(t)[0]
				runtime := must(target.RuntimeByName(t.Context(), account.ID, "prod"))(t)
				if want := must(source.RuntimeByID(t.Context(), runtime.ID))(t); !reflect.DeepEqual(runtime, want) {
					t.Errorf("got %+v, want %+v", runtime, want)
				}
				if names := applicationNames(t, target, account, store.ApplicationFilter{Labels: map[string]string{"app": "web"}}); len(names) != 1 {
					t.Errorf("applications by label: %v", names)
				}
				if _, err := target.Session(t.Context(), []byte("session")); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("a session was restored: %v", err)
				}
			})
		}
	}
}

// furnish stores something in every table.
func furnish(t testing.TB, w *world) {
	t.Helper()
	ctx := t.Context()
	account := w.account("Harbour ☃ \"quoted\" \\ ")
	user := w.user(account, "ada@example.org", store.RoleAdmin)
	must(w.AddFactor(ctx, store.Factor{ID: "app", UserID: user.ID, Kind: store.FactorTOTP, Secret: []byte{0, 255}}, [][]byte{{1, 2}}))(t)
	check(t, w.session(store.Session{Hash: []byte("session"), UserID: user.ID, AccountID: account.ID}))
	must(w.CreateKey(ctx, store.Key{AccountID: account.ID, UserID: user.ID, Hash: []byte{0, 255}, Scopes: []string{"all"}}))(t)
	check(t, w.AppendAudit(ctx, store.AuditEntry{AccountID: account.ID, Actor: "ada", Detail: "line\nline"}))
	check(t, w.AddAttempt(ctx, "ada"))
	w.putGitSettings(store.GitSettings{AccountID: account.ID, Provider: "github", Validated: true})
	runtime := must(w.CreateRuntime(ctx, store.Runtime{AccountID: account.ID, Name: "prod", State: []byte{0, 1, 254, 255}, AccessMode: 1, ConfigurationRuntime: true}))(t)
	check(t, w.PutCredential(ctx, store.RuntimeCredential{RuntimeID: runtime.ID, Generation: 1 << 60, RefreshHash: []byte("0")}))
	for _, hash := range []string{"1", "2", "3"} {
		before := []byte{hash[0] - 1}
		must(w.RotateCredential(ctx, store.Rotation{RuntimeID: runtime.ID, Presented: before, NewHash: []byte(hash), Now: w.clock.advance(time.Second)}))(t)
	}
	report(t, w, runtime, store.Application{Name: "web", Labels: map[string]string{"app": "web"}, State: []byte{1}}, store.Application{Name: "api"})
	check(t, w.AddSigningKey(ctx, store.SigningKey{ID: "k", Private: []byte("encrypted")}))
	check(t, w.PutReplica(ctx, store.Replica{ID: "a"}))
	check(t, w.PutConnection(ctx, store.Connection{RuntimeID: runtime.ID, ReplicaID: "a", Count: 1}))
}

func backup(t testing.TB, w *world) []byte {
	t.Helper()
	var out bytes.Buffer
	check(t, w.Backup(t.Context(), &out))
	return out.Bytes()
}

func unpacked(t testing.TB, packed []byte) string {
	t.Helper()
	reader := must(gzip.NewReader(bytes.NewReader(packed)))(t)
	return string(must(io.ReadAll(reader))(t))
}

// sameRows compares backups but for the order of rows and their sums.
func sameRows(a, b string) bool {
	count := func(text string) map[string]int {
		counts := map[string]int{}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		for _, line := range lines[:len(lines)-1] {
			counts[line]++
		}
		return counts
	}
	return reflect.DeepEqual(count(a), count(b))
}

// A backup is of one moment, though others write while it is made: what is stored
// when it is half written is not in it, in no table.
func TestBackupWhileWriting(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		account := w.account("Harbour")
		for range 100 { // so much that the backup reaches the writer before its end
			check(t, w.AppendAudit(t.Context(), store.AuditEntry{AccountID: account.ID, Detail: strings.Repeat(rand.Text(), 100)}))
		}
		report(t, w, w.runtime(account, "before"), store.Application{Name: "before"})
		var out bytes.Buffer
		writes := 0
		check(t, w.Backup(t.Context(), writerFunc(func(p []byte) (int, error) {
			if writes++; writes == 1 {
				report(t, w, w.runtime(account, "meanwhile"), store.Application{Name: "meanwhile"})
			}
			return out.Write(p)
		})))
		if writes < 3 {
			t.Errorf("the backup was written in %d parts: all may have been after it was read", writes)
		}
		target := &world{t: t, url: sqliteURL(t), clock: w.clock}
		check(t, store.Restore(t.Context(), target.options(), &out))
		target.Store = target.open()
		runtimes, _, err := target.Runtimes(t.Context(), account.ID, store.Page{})
		check(t, err)
		if names := applicationNames(t, target, account, store.ApplicationFilter{}); len(runtimes) != 1 || len(names) != 1 || names[0] != "before" {
			t.Errorf("restored %d runtimes and the applications %v", len(runtimes), names)
		}
	})
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(p []byte) (int, error) { return w(p) }

// A backup that is damaged in any way is refused before anything is written.
func TestDamagedBackup(t *testing.T) {
	t.Parallel()
	source := newWorld(t, sqliteURL(t))
	furnish(t, source)
	whole := backup(t, source)
	lines := strings.SplitAfter(unpacked(t, whole), "\n")
	lines = lines[:len(lines)-1]
	packed := func(text string) []byte {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		must(io.WriteString(w, text))(t)
		check(t, w.Close())
		return out.Bytes()
	}
	without := func(n int) string { return strings.Join(append(append([]string{}, lines[:n]...), lines[n+1:]...), "") }
	flipped := bytes.Clone(whole)
	flipped[len(flipped)/2] ^= 1
	damaged := map[string][]byte{
		"empty":                {},
		"text":                 []byte("hello"),
		"cut in half":          whole[:len(whole)/2],
		"cut by a byte":        whole[:len(whole)-1],
		"a bit is flipped":     flipped,
		"something after it":   append(bytes.Clone(whole), "x"...),
		"twice":                append(bytes.Clone(whole), whole...),
		"without an end":       packed(without(len(lines) - 1)),
		"without a row":        packed(without(2)),
		"without a header":     packed(without(0)),
		"a changed value":      packed(strings.Replace(strings.Join(lines, ""), "ada@example.org", "eve@example.org", 1)),
		"of another program":   packed(`{"format":"other"}` + "\n"),
		"of a newer format":    packed(strings.Replace(strings.Join(lines, ""), `"version":1`, `"version":2`, 1)),
		"a table by injection": packed(lines[0] + `{"table":"users; DROP TABLE users","columns":["id"],"kinds":["text"]}` + "\n"),
		"a very long line":     packed(lines[0] + "[" + strings.Repeat(" ", 9<<20)),
	}
	for name, backup := range damaged {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "new.db")
			err := store.Restore(t.Context(), store.Options{URL: "sqlite://" + path}, bytes.NewReader(backup))
			if err == nil || !strings.Contains(err.Error(), "nothing was written") {
				t.Errorf("got %v", err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the database was made: %v", err)
			}
		})
	}
}

// Nothing is written over.
func TestRestoreIntoFull(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		furnish(t, w)
		copied := backup(t, w)
		check(t, w.Close())
		err := store.Restore(t.Context(), w.options(), bytes.NewReader(copied))
		if err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("got %v", err)
		}
	})
}

// A database that was opened and not used is empty.
func TestRestoreIntoOpened(t *testing.T) {
	t.Parallel()
	source := newWorld(t, sqliteURL(t))
	furnish(t, source)
	copied := backup(t, source)
	each(t, func(t *testing.T, w *world) {
		check(t, w.Close())
		check(t, store.Restore(t.Context(), w.options(), bytes.NewReader(copied)))
		if accounts := must(w.open().Accounts(t.Context()))(t); len(accounts) != 1 {
			t.Errorf("got %+v", accounts)
		}
	})
}
