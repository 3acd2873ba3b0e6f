// Package clitest runs command lines of the program in tests: in the process of
// the test, or as a process of its own, against a real platform and a real API
// server.
//
// It belongs in _test.go files only. A package whose tests use it calls Main
// from its TestMain.
package clitest

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
)

// RequireText compares printed text line by line, without regard to the width
// of blanks.
func RequireText(t *testing.T, got, want string) {
	t.Helper()
	if TrimLines(got) != TrimLines(want) {
		t.Errorf("got\n%s\nwanted\n%s", got, want)
	}
}

// TrimLines replaces each run of blanks by one: columns are as wide as names
// that a test cannot choose.
func TrimLines(text string) string {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

// ProgramVariable makes the test binary run as the program itself when it is
// set, so that tests need no built binary.
const ProgramVariable = "CLI_TEST_PROGRAM"

// Main is the TestMain of a package with tests of commands. The test binary is
// also the program: agents are started as processes of it, and it is its own
// render worker.
func Main(m *testing.M) {
	if RunsProgram() {
		os.Exit(cli.Main())
	}
	kubetest.Main(m)
}

// RunsProgram reports whether this process of the test binary runs as the
// program.
func RunsProgram() bool {
	return os.Getenv(ProgramVariable) != "" || len(os.Args) == 2 && os.Args[1] == "render-worker"
}

// Result is the exit code and output of a command line.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Clean gives the test an environment without the options and contexts of the
// developer: it unsets all SLIPWAY_ variables, points XDG_CONFIG_HOME to an
// empty directory, and sets environ. All is restored when the test ends. Tests
// that call it cannot be parallel.
func Clean(t *testing.T, environ ...string) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(strings.ToUpper(name), "SLIPWAY_") {
			t.Setenv(name, "") // so that it is restored
			must.Do(t, os.Unsetenv(name))
		}
	}
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
}

// Run runs a command line, split at blanks, in the process of the test.
func Run(t *testing.T, line string) Result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Execute(t.Context(), strings.Fields(line), &stdout, &stderr)
	return Result{code, stdout.String(), stderr.String()}
}

// WriteFile writes a file that only its owner can read.
func WriteFile(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
}
