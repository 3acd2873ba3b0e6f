package up

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	// tailLines and tailBytes bound the quotation of a log.
	tailLines = 15
	tailBytes = 16 << 10
)

// errDied is the cause when a part ends without being stopped.
var errDied = errors.New("ended by itself")

// death explains why a part ended: its exit status, the end of its standard
// error and that of its log.
func death(name string, c *child) error {
	var output strings.Builder
	if text := lastLines(c.errors.String()); text != "" {
		output.WriteString("\nits output:\n" + text)
	}
	if text := logTail(c.log, c.logBefore); text != "" {
		output.WriteString("\nthe end of " + c.log + ":\n" + text)
	}
	if output.Len() == 0 {
		output.WriteString(" without output")
	}
	return fmt.Errorf("%s %w (%s)%s", name, errDied, c.status(), output.String())
}

// logTail returns the last lines that this run wrote to a log.
func logTail(path string, before os.FileInfo) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return ""
	}
	// Only the end is read: a log may be large.
	from := max(0, info.Size()-tailBytes)
	// A log that was rotated or truncated is all of this run.
	if before != nil && os.SameFile(before, info) && before.Size() <= info.Size() {
		from = max(from, before.Size())
	}
	content, err := io.ReadAll(io.NewSectionReader(file, from, tailBytes))
	if err != nil {
		return ""
	}
	return lastLines(string(content))
}

// lastLines indents the last lines of a text, so that they read as a quotation.
// At most tailLines are kept.
func lastLines(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return "    " + strings.Join(lines, "\n    ")
}
