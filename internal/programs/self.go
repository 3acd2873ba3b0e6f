package programs

import (
	"bytes"
	"os"
	"os/exec"
	"testing"

	"slipway.dev/slipway/internal/must"
)

// RunSelf runs the test binary as another program, which a variable of the
// environment makes of it, and returns how that ended. The folder is where it
// runs; empty is that of the test.
func RunSelf(t testing.TB, variable, dir string, args ...string) (code int, out, complaint string) {
	t.Helper()
	self, err := os.Executable()
	must.Do(t, err)
	command := exec.CommandContext(t.Context(), self, args...)
	command.Dir, command.Env = dir, append(os.Environ(), variable+"=1")
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	// The program stops what it has started; killed, it could not.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	err = command.Run()
	if command.ProcessState == nil {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), stdout.String(), stderr.String()
}
