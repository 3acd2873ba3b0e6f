package programs

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"slipway.dev/slipway/internal/must"
)

// OpenTerminal opens a pseudo terminal and returns both ends: the screen that
// the test reads and types at, and the terminal for a program. They are closed
// at the end of the test.
func OpenTerminal(t testing.TB) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	must.Do(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd())
	must.Do(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number := must.Get(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must.Do(t, err)
	t.Cleanup(func() { _ = terminal.Close() })
	return screen, terminal
}
