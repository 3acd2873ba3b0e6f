package printer

import (
	"io"
	"os"

	"golang.org/x/term"
)

// TerminalWidth returns a function that measures the width of the terminal
// behind w, or nil if w is not a terminal that can be redrawn. It measures on
// each call, because windows are resized.
func TerminalWidth(w io.Writer) func() int {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return func() int {
		// A pseudo-terminal whose size was never set reports 0.
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 0 {
			return width
		}
		return 80
	}
}
