// Package binary builds slipway for tests that run it as a process. All tests
// of a checkout share one build in bin/under-test, so it is linked once.
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

	"slipway.dev/slipway/internal/must"
)

// Variable is the environment variable with the path of a binary to test
// instead of a fresh build, for example one with a deliberate defect to see
// tests fail.
const Variable = "SLIPWAY_UNDER_TEST"

// builtVariable is set by scripts/test.sh, which has built the shared program: for
// the go command to find that nothing has changed takes seconds in each of thirty
// test processes. It has no prefix of ours, because the program would take it for
// an option.
const builtVariable = "UNDER_TEST_BUILT"

// buildTimeout allows for an empty build cache.
const buildTimeout = 10 * time.Minute

// Path returns the path of the program in a temporary folder of the test.
func Path(t testing.TB) string {
	t.Helper()
	return must.Get(In(t.TempDir()))(t)
}

// In puts the program into a folder and returns its path. The caller owns the
// folder. With Variable set, it returns that path and copies nothing.
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
	// Another test process may rebuild the shared file after a change. The hard
	// link keeps the old inode, so a running test does not change its binary.
	path := filepath.Join(dir, "slipway")
	if os.Link(shared, path) == nil {
		return path, nil
	}
	// A hard link cannot cross file systems.
	content, err := os.ReadFile(shared)
	if err != nil {
		return "", err
	}
	return path, os.WriteFile(path, content, 0o755)
}

// build builds the program in the checkout and returns its path. It runs once
// per test process; the go command skips the work if the program is up to date.
var build = sync.OnceValues(func() (string, error) {
	root, err := checkout()
	if err == nil {
		// The result of a test may be cached. It has to depend on these files.
		err = Touch(root, "cmd", "internal", "api", "deploy")
	}
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "bin", "under-test")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "slipway")
	if os.Getenv(builtVariable) != "" {
		return path, nil
	}
	// Packages are tested in parallel processes, and only one may link.
	unlock, err := lock(dir)
	if err != nil {
		return "", err
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "build", "-o", path, "slipway.dev/slipway/cmd/slipway")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -buildvcs=false")
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("slipway does not build: %w\n%s", err, out)
	}
	return path, nil
})

// lock takes an exclusive lock on a folder across processes, and blocks until
// it is free. The kernel releases it when the process exits, so no stale lock
// remains.
func lock(dir string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil // closing releases the lock
}

// checkout returns the root of the module: the first folder with a go.mod, from
// the working directory upwards.
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

// Touch stats every file in some folders of the checkout. The go command
// records the files that a test opens or stats, and invalidates the cached
// result when one changes. A test that runs the binary imports little of it, so
// without this the go command would report a cached result after a change of
// the program or of the files deployed with it.
func Touch(root string, folders ...string) error {
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(folder)), func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				_, err = os.Stat(path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // an editor is replacing the file
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
