// Package roleflags has what the commands of roles share (edge, agent,
// platform): help and shell completion for options that also come from a file
// and the environment, and the log lines of a start.
package roleflags

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"slipway.dev/slipway/internal/cli/printer"
	"slipway.dev/slipway/internal/config"
)

const (
	// defaultWidth is the width of help that goes to no terminal.
	defaultWidth = 80
	// MaxWidth bounds the width on large screens: long lines are hard to read.
	MaxWidth = 120
	// minWidth bounds it on small ones, where wrapping gains nothing.
	minWidth = 40
)

// LayersText explains how the sources of options combine. Help and reference
// share it.
const LayersText = "Options come from a file, from environment variables and from flags. A variable wins over the file, and a flag " +
	"over both, option by option. Names are the same everywhere, in any case: log.level is the key level under log in the " +
	"file, the variable SLIPWAY_LOG_LEVEL and the flag --log.level. An option that does not exist is an error, wherever it is set."

// PrintHelp prints the help of a role's command with all its options, wrapped
// to the terminal. Cobra's own help would list no options, because these
// commands disable its flag parsing.
func PrintHelp(command *cobra.Command, options []config.Option) {
	w := command.OutOrStdout()
	width := helpWidth(w)
	p := helpPrinter{w: w, width: width}
	// Long texts have line breaks of their own, which would mix with the
	// wrapping.
	p.paragraph(0, strings.ReplaceAll(command.Long, "\n", " "))
	p.line("\nUsage:\n  %s\n\nExamples:\n%s\n", command.UseLine(), command.Example)
	p.paragraph(0, LayersText)
	p.line("\nFlags:")
	p.line("  -h, --help")
	p.paragraph(8, "Show this.")
	p.line("  --print-config")
	p.paragraph(8, "Print the effective options as a file, secrets redacted, and exit. It also checks them.")
	// Options of a group are adjacent, so a heading appears once.
	group := ""
	for _, option := range options {
		if option.Group() != group {
			group = option.Group()
			p.line("\n%s:", group)
		}
		p.option(option)
	}
}

// helpWidth returns the width of the terminal, else that of COLUMNS, else the
// default, within the bounds above.
func helpWidth(w io.Writer) int {
	width := defaultWidth
	if columns, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && columns > 0 {
		width = columns
	}
	if measure := printer.TerminalWidth(w); measure != nil {
		width = measure()
	}
	return min(max(width, minWidth), MaxWidth)
}

// helpPrinter writes wrapped text. It drops write errors: there is no other
// place to report them.
type helpPrinter struct {
	w     io.Writer
	width int
}

// line writes one line.
func (p helpPrinter) line(format string, args ...any) {
	_, _ = fmt.Fprintf(p.w, format+"\n", args...)
}

// option writes an option with its description and default.
func (p helpPrinter) option(option config.Option) {
	p.line("  %s %s", option.Flag(), option.Type)
	description := option.Description
	if option.Default != "" {
		description += " Default: " + option.Default + "."
	}
	p.paragraph(8, description)
}

// paragraph writes wrapped text, each line indented.
func (p helpPrinter) paragraph(indent int, text string) {
	for _, line := range Wrap(text, p.width-indent) {
		p.line("%*s%s", indent, "", line)
	}
}

// Wrap breaks text at blanks into lines of at most width characters. A longer
// word gets a line of its own: URLs and flags are not broken.
func Wrap(text string, width int) []string {
	var lines []string
	line, length := "", 0
	for _, word := range strings.Fields(text) {
		letters := len([]rune(word))
		if line != "" && length+1+letters > width {
			lines = append(lines, line)
			line, length = "", 0
		}
		if line != "" {
			line += " "
			length++
		}
		line += word
		length += letters
	}
	return append(lines, line)
}
