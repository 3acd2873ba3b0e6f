package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/platform/store"
)

func fileWorld(t testing.TB) (*world, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data", "platform.db")
	return newWorld(t, "sqlite://"+path), path
}

// The files are private, regardless of their previous mode.
func TestSQLiteFileModes(t *testing.T) {
	t.Parallel()
	w, path := fileWorld(t)
	check(t, w.Close())
	check(t, os.Chmod(path, 0o644))
	reopened := w.open()
	must(reopened.CreateAccount(t.Context(), store.Account{Name: "Harbour"}))(t)
	files := 0
	check(t, filepath.WalkDir(filepath.Dir(path), func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %s", name, info.Mode())
		}
		files++
		return nil
	}))
	if files < 4 { // the folder, the database, its log and the lock
		t.Errorf("only %d files are there", files)
	}
}

// Two platforms do not share a file.
func TestSQLiteLock(t *testing.T) {
	t.Parallel()
	w, _ := fileWorld(t)
	_, err := store.Open(t.Context(), w.options())
	if err == nil || !strings.Contains(err.Error(), "open in another process") {
		t.Errorf("got %v", err)
	}
	check(t, w.Close())
	check(t, w.open().Ready(t.Context()))
}

// A damaged file is refused when it is opened, with what to do.
func TestSQLiteDamaged(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(data []byte) []byte{
		"a page": func(data []byte) []byte {
			for i := range 4096 {
				data[len(data)/2&^4095+i] = 0xAA
			}
			return data
		},
		"truncated":      func(data []byte) []byte { return data[:len(data)/2] },
		"not a database": func([]byte) []byte { return []byte(strings.Repeat("not a database ", 1000)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, path := fileWorld(t)
			furnish(t, w)
			check(t, w.Close())
			check(t, os.WriteFile(path, damage(must(os.ReadFile(path))(t)), 0o600))
			_, err := store.Open(t.Context(), w.options())
			if err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "restore the last backup") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestSQLiteURLs(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"sqlite://file.db", "sqlite:file.db", "sqlite:///file.db?mode=memory", "file.db", ""} {
		_, err := store.Open(t.Context(), store.Options{URL: url})
		wantInvalid(t, err)
	}
}
