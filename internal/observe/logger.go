package observe

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// Keys of log attributes. A concept has one key everywhere, so that one query
// finds all of its lines.
const (
	// KeyError is an error's message.
	KeyError = "error"
	// KeyAddress is a network address of our own.
	KeyAddress = "address"
	// KeyServer is the name of one of our servers.
	KeyServer = "server"
	// KeyFile is the path of a file.
	KeyFile = "file"
	// KeyOption is the name of an option.
	KeyOption = "option"
	// KeyValue is the value of an option.
	KeyValue = "value"
	// KeyVersion is the version of this program.
	KeyVersion = "version"
	// KeyCommit is the commit that this program was built from.
	KeyCommit = "commit"
	// KeyReason is a reason in words.
	KeyReason = "reason"
)

// logLevels are the levels by name, the most verbose first.
var logLevels = [...]struct {
	name  string
	level slog.Level
}{
	{"debug", slog.LevelDebug},
	{"info", slog.LevelInfo},
	{"warn", slog.LevelWarn},
	{"error", slog.LevelError},
}

// logFormats are the formats by name.
var logFormats = []string{"auto", "text", "json"}

// NewLogger returns a logger that writes records of at least a level to w: debug,
// info, warn or error. The format is text, json, or auto, which is text if w is a
// terminal and JSON otherwise.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	least, err := parseLevel(level)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(logFormats, format) {
		return nil, fmt.Errorf("the log format %q is not known: choose one of %s", format, strings.Join(logFormats, ", "))
	}
	options := &slog.HandlerOptions{Level: least}
	if format == "text" || (format == "auto" && isTerminal(w)) {
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return slog.New(slog.NewJSONHandler(w, options)), nil
}

func parseLevel(name string) (slog.Level, error) {
	var names []string
	for _, known := range logLevels {
		if known.name == name {
			return known.level, nil
		}
		names = append(names, known.name)
	}
	return 0, fmt.Errorf("the log level %q is not known: choose one of %s", name, strings.Join(names, ", "))
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
