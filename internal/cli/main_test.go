package cli_test

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/observe"
)

// processVariable makes the test binary run as the program, with a data plane
// of the test. It does not start with SLIPWAY_, which is for options.
const processVariable = "CLI_TEST_EDGE"

func TestMain(m *testing.M) {
	if os.Getenv(processVariable) != "" {
		os.Exit(cli.MainEdge(edgeThatDrains))
	}
	clitest.Main(m)
}

// edgeThatDrains is ready at once, and when it is stopped, it has work left
// until its standard input ends.
func edgeThatDrains(ctx context.Context, _ *config.Edge, health *observe.Health) error {
	health.Condition("routes", "no table is live yet").Met()
	<-ctx.Done()
	_, err := io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, ctx.Err())
}
