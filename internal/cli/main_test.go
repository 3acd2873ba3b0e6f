package cli_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/observe"
)

// processVariable makes the test binary run as the program, with a data plane
// of the test. It does not start with SLIPWAY_, which is for options.
const processVariable = "CLI_TEST_EDGE"

// programVariable makes the test binary run as the program itself.
const programVariable = "CLI_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(processVariable) != "" {
		os.Exit(cli.MainEdge(edgeThatDrains))
	}
	if os.Getenv(programVariable) != "" || len(os.Args) == 2 && os.Args[1] == "render-worker" {
		os.Exit(cli.Main()) // this binary is its own worker
	}
	kubetest.Main(m)
}

// edgeThatDrains is ready at once, and when told to stop, it has work left
// until its standard input ends.
func edgeThatDrains(ctx context.Context, _ *config.Edge, health *observe.Health) error {
	health.Condition("routes", "no table is live yet").Met()
	<-ctx.Done()
	_, err := io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, ctx.Err())
}

// result is what a command line gives.
type result struct {
	code           int
	stdout, stderr string
}

// clean gives the test an environment without options and without files.
func clean(t *testing.T, environ ...string) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(strings.ToUpper(name), "SLIPWAY_") {
			t.Setenv(name, "") // so that it is restored
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
}

// execute runs a command line, split at blanks.
func execute(t *testing.T, line string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Execute(t.Context(), strings.Fields(line), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}
