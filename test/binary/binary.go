// Package binary builds the program for the tests that run it, as make does. They
// share what is built: it is linked once for all of them.
package binary

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Variable is the environment variable that names a binary to test in the place of a
// fresh one, for example one that was broken on purpose to see tests fail.
const Variable = "SLIPWAY_UNDER_TEST"

// buildTimeout is for a machine that has compiled nothing yet.
const buildTimeout = 10 * time.Minute

// Path is where the program is. It is gone at the end of the test.
func Path(t testing.TB) string {
	t.Helper()
	path, err := In(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// In gives a folder the program, and says where it is.
func In(dir string) (string, error) {
	if named := os.Getenv(Variable); named != "" {
		return named, nil
	}
	shared, err := build()
	if err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Dir(shared))
	if err != nil {
		return "", err
	}
	defer unlock()
	// Another test may build it anew after a change; what is linked here stays.
	path := filepath.Join(dir, "slipway")
	if os.Link(shared, path) == nil {
		return path, nil
	}
	content, err := os.ReadFile(shared) // another file system
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, content, 0o755)
}

// build builds the program in the checkout, unless it is there and new.
var build = sync.OnceValues(func() (string, error) {
	root, err := checkout()
	if err == nil {
		err = Touch(root, "cmd", "internal", "api", "deploy")
	}
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "under-test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	path := filepath.Join(dir, "slipway")
	command := exec.CommandContext(ctx, "go", "build", "-o", path, "slipway.dev/slipway/cmd/slipway")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -buildvcs=false")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("slipway does not build: %w\n%s", err, out)
	}
	return path, nil
})

// lock has one process at a time be in a folder.
func lock(dir string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil // which unlocks it
}

func checkout() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("this is not run in the checkout: there is no go.mod above")
		}
		dir = filepath.Dir(dir)
	}
	return "", err
}

// Touch looks at every file of some folders. The go command remembers what a test
// looked at: without this it would repeat an old result after a change of the program,
// or of what is deployed with it, of which the tests import little.
func Touch(root string, folders ...string) error {
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(folder)), func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // somebody is editing
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
