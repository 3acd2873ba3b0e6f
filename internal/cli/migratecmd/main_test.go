package migratecmd_test

import (
	"testing"

	"slipway.dev/slipway/internal/cli/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }
