package up

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/test/conformance/edgeprocess"
)

// buildTimeout is for a machine that has compiled nothing yet.
const buildTimeout = 10 * time.Minute

// useBinary builds the program as make does, beside the cluster's binary, unless
// the variable names one that is built.
func useBinary(t *testing.T) {
	t.Helper()
	if os.Getenv(edgeprocess.BinaryVariable) != "" {
		return
	}
	touchSources(t)
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), buildTimeout)
	defer cancel()
	binary := filepath.Join(dir, "slipway")
	command := exec.CommandContext(ctx, "go", "build", "-o", binary, "slipway.dev/slipway/cmd/slipway")
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -trimpath -buildvcs=false")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("slipway does not build: %v\n%s", err, out)
	}
	if err := os.Symlink(kubetest.Binary(t), filepath.Join(dir, "slipway-devcluster")); err != nil {
		t.Fatal(err)
	}
	t.Setenv(edgeprocess.BinaryVariable, binary)
}

// touchSources looks at every source file of the program. The go command
// remembers what a test looked at: without this it would repeat an old result
// after a change of what the tests do not import.
func touchSources(t *testing.T) {
	t.Helper()
	for _, folder := range []string{"../../cmd", "../../internal", "../../api"} {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
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
