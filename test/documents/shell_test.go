package documents

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
)

// blockPatience bounds one block of a page.
const blockPatience = 4 * time.Minute

// shellCall is a text for the shell of a person.
type shellCall struct {
	text, dir string
	// answers are the lines that the person types.
	answers string
	// quiet leaves the time of the text out of the log.
	quiet bool
}

// shell runs a text and gives its exit code and what is shown.
func (w *world) shell(t *testing.T, call shellCall) (code int, shown string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), blockPatience) // also after the test
	defer cancel()
	words := w.named("bash", "-e", "-o", "pipefail", "-c", call.text)
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Env = append(w.trusting(), "HOME="+w.home, "KUBECONFIG="+w.cluster.Kubeconfig, "PATH="+w.programs+":/usr/sbin:/usr/bin:/sbin:/bin", "TERM=dumb")
	command.Env = append(command.Env, w.variables...)
	command.Dir = cmp.Or(call.dir, w.home)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	keyboard, terminal := programs.OpenTerminal(t)
	defer func() { _, _ = keyboard.Close(), terminal.Close() }()
	command.Stdin = terminal
	must.Get(keyboard.WriteString(call.answers))(t)
	began := time.Now()
	err := command.Run()
	first, _, _ := strings.Cut(call.text, "\n")
	if !call.quiet {
		t.Logf("%.1f s: %s", time.Since(began).Seconds(), first)
	}
	if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
		t.Fatalf("%v\n%s", err, programs.Tail(output.String()))
	}
	return command.ProcessState.ExitCode(), output.String()
}

// must runs a text of the test that has to succeed.
func (w *world) must(t *testing.T, text string) string {
	t.Helper()
	code, shown := w.shell(t, shellCall{text: text})
	if code != 0 {
		t.Fatalf("%s\nended with %d:\n%s", text, code, programs.Tail(shown))
	}
	return shown
}
