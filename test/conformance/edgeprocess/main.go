package edgeprocess

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"slipway.dev/slipway/test/binary"
)

// Main runs a package's tests against a freshly built binary, and exits. It is
// all that a TestMain needs. After all tests have passed, goroutines that still
// run fail the run.
func Main(m *testing.M) { os.Exit(run(m)) }

// run builds the binary, runs the tests and returns the exit code. It is
// separate from Main because os.Exit skips the deferred removal of the folder.
func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "edge-under-test-")
	if err != nil {
		return fail(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built, err := binary.In(dir)
	if err != nil {
		return fail(err)
	}
	// Start and nested uses of package binary then find this build.
	if err := os.Setenv(binary.Variable, built); err != nil {
		return fail(err)
	}
	if code := m.Run(); code != 0 {
		return code
	}
	if err := goleak.Find(); err != nil {
		return fail(fmt.Errorf("goroutines are left after all tests: %w", err))
	}
	return 0
}

// fail prints an error and returns the exit code 1.
func fail(err error) int {
	fmt.Fprintf(os.Stderr, "edgeprocess: %v\n", err)
	return 1
}
