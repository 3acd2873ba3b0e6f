package edgeprocess

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// BinaryVariable is the environment variable that names the binary under test.
const BinaryVariable = "EDGE_UNDER_TEST"

// buildTimeout is for a machine that has compiled nothing yet.
const buildTimeout = 5 * time.Minute

// Main runs a package's tests against a freshly built binary, and exits. It is
// all that a TestMain needs. When all tests pass, goroutines that are still
// running fail the run.
func Main(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv(BinaryVariable) == "" {
		if err := touchSources(); err != nil {
			return fail(err)
		}
		dir, err := os.MkdirTemp("", "edge-under-test-")
		if err != nil {
			return fail(err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		binary := filepath.Join(dir, "slipway")
		if err := build(binary); err != nil {
			return fail(err)
		}
		if err := os.Setenv(BinaryVariable, binary); err != nil {
			return fail(err)
		}
	}
	if code := m.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		return fail(fmt.Errorf("goroutines are left after all tests: %w", err))
	}
	return 0
}

func fail(err error) int {
	fmt.Fprintf(os.Stderr, "edgeprocess: %v\n", err)
	return 1
}

// touchSources looks at every source file of the program. The go command
// remembers what a test looked at: without this it would repeat an old result
// after a change of the edge, of which the tests import nothing.
func touchSources() error {
	root, err := os.Getwd()
	for err == nil {
		if _, missing := os.Stat(filepath.Join(root, "go.mod")); missing == nil {
			break
		}
		if root == filepath.Dir(root) {
			return errors.New("this is not run in the checkout: there is no go.mod above")
		}
		root = filepath.Dir(root)
	}
	if err != nil {
		return err
	}
	for _, folder := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && filepath.Ext(path) == ".go" {
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

// build compiles the program as make does.
func build(binary string) error {
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "slipway.dev/slipway/cmd/slipway")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("the edge does not build: %w\n%s", err, out)
	}
	return nil
}
