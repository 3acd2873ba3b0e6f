package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"slipway.dev/slipway/internal/cli"
	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
)

// onTerminal runs a command line with its output on a terminal of the given
// width, and gives what the terminal shows.
func onTerminal(t *testing.T, width int, run func(terminal *os.File)) string {
	t.Helper()
	screen := must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t)
	defer func() { _ = screen.Close() }()
	fd := int(screen.Fd())
	must.Do(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number := must.Get(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	must.Do(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(width), Row: 24}))
	terminal := must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	shown := make(chan string)
	go func() {
		var out bytes.Buffer
		_, _ = out.ReadFrom(screen) // it ends with an error when the terminal is closed
		shown <- out.String()
	}()
	run(terminal)
	if err := terminal.Close(); err != nil {
		t.Error(err)
	}
	return strings.ReplaceAll(<-shown, "\r\n", "\n")
}

func TestHelpOnTerminal(t *testing.T) {
	clitest.Clean(t, "TERM=xterm", "COLUMNS=100")
	help := onTerminal(t, 60, func(terminal *os.File) {
		if code := cli.Execute(t.Context(), []string{"edge", "--help"}, terminal, os.Stderr); code != 0 {
			t.Errorf("exit code %d", code)
		}
	})
	checkHelp(t, help, 60)
}

// TestLogOnTerminal: people get text where programs get JSON.
func TestLogOnTerminal(t *testing.T) {
	clitest.Clean(t, "TERM=xterm")
	args := strings.Fields("edge --admin.address=127.0.0.1:0 --health.address=127.0.0.1:0 --providers.kubernetesingress")
	logged := onTerminal(t, 80, func(terminal *os.File) {
		cli.Execute(t.Context(), args, os.Stdout, terminal)
	})
	if !strings.HasPrefix(logged, "time=") || !strings.Contains(logged, `msg="edge starts"`) {
		t.Errorf("got %s", logged)
	}
	var piped bytes.Buffer
	cli.Execute(t.Context(), args, os.Stdout, &piped)
	if !strings.HasPrefix(piped.String(), `{"time":`) {
		t.Errorf("got %s", piped.String())
	}
}
