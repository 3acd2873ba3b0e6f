package agentprocess

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BinaryVariable is the environment variable that names the binary under test.
const BinaryVariable = "AGENT_UNDER_TEST"

// buildTimeout is for a machine that has compiled nothing yet.
const buildTimeout = 10 * time.Minute

// Build compiles the program as make does, and returns where it is. It is gone
// at the end of the test.
func Build(t *testing.T) string {
	t.Helper()
	if built := os.Getenv(BinaryVariable); built != "" {
		return built
	}
	touchSources(t)
	built := filepath.Join(t.TempDir(), "slipway")
	ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, "go", "build", "-o", built, "slipway.dev/slipway/cmd/slipway")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -buildvcs=false")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("the agent does not build: %v\n%s", err, out)
	}
	return built
}

// touchSources looks at every source file of the program. The go command
// remembers what a test looked at: without this it would repeat an old result
// after a change of the agent, of which the tests import little.
func touchSources(t *testing.T) {
	t.Helper()
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, missing := os.Stat(filepath.Join(root, "go.mod")); missing == nil {
			break
		}
		if root == filepath.Dir(root) {
			t.Fatal("this is not run in the checkout: there is no go.mod above")
		}
		root = filepath.Dir(root)
	}
	for _, folder := range []string{"cmd", "internal", "api"} {
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
			t.Fatal(err)
		}
	}
}
