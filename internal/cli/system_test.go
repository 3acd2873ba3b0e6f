package cli_test

import (
	"io"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
)

// TestOtherSystems: where the program is a client only, a server ends at once with
// the reason, and everything else works.
func TestOtherSystems(t *testing.T) {
	run := func(system string, arguments ...string) error {
		root := cli.TreeOn(system)
		root.SetArgs(arguments)
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		return root.ExecuteContext(t.Context())
	}
	for _, role := range []string{"edge", "agent", "platform", "up"} {
		if err := run("darwin", role); err == nil || !strings.Contains(err.Error(), "slipway "+role+" runs on Linux only") {
			t.Errorf("slipway %s: %v", role, err)
		}
		if err := run("darwin", role, "--help"); err != nil {
			t.Errorf("slipway %s --help: %v", role, err)
		}
	}
	if err := run("darwin", "version"); err != nil {
		t.Error(err)
	}
	// An option that does not exist ends it before it serves.
	if err := run("linux", "edge", "--nonsense=1"); err == nil || strings.Contains(err.Error(), "Linux only") {
		t.Errorf("slipway edge on Linux: %v", err)
	}
}

// TestServiceOptions: the configuration files of the packages are valid options.
func TestServiceOptions(t *testing.T) {
	clitest.Clean(t)
	for _, role := range []string{"edge", "agent", "platform"} {
		if got := clitest.Run(t, role+" --configFile=../../deploy/systemd/"+role+".yaml --print-config"); got.Code != 0 || !strings.Contains(got.Stdout, "/var/lib/slipway/"+role) {
			t.Errorf("slipway %s: %+v", role, got)
		}
	}
}
