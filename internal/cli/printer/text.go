package printer

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Expiry formats the end of a key or token; nil means unlimited.
func Expiry(at *timestamppb.Timestamp) string {
	if at == nil {
		return "never"
	}
	return Timestamp(at)
}

// PrintableLines is Printable for text of several lines: it keeps the line
// breaks.
func PrintableLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// WithMessage appends a message to a state, if there is one.
func WithMessage(word, message string) string {
	if message == "" {
		return word
	}
	return word + ": " + message
}

// Lines writes whole lines of several streams to one writer, such as the logs
// of several containers.
type Lines struct {
	mu sync.Mutex
	W  io.Writer
}

// Write writes one line. It is safe for concurrent use.
func (s *Lines) Write(prefix, text string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := fmt.Fprintf(s.W, "%s%s\n", prefix, text)
	return err
}

// ShortRevision abbreviates a commit to seven digits; versions stay as they
// are.
func ShortRevision(revision string) string {
	const commitLength, shown = 40, 7
	if len(revision) == commitLength && strings.Trim(revision, "0123456789abcdef") == "" {
		return revision[:shown]
	}
	return revision
}

// OrDash returns a dash for an empty text.
func OrDash(text string) string {
	return cmp.Or(text, "-")
}

// Time formats a time of a Kubernetes object in UTC.
func Time(at *metav1.Time) string {
	if at == nil || at.IsZero() {
		return "-"
	}
	return at.UTC().Format(time.RFC3339)
}

// ShortList joins names, and counts those beyond the first eight.
func ShortList(names []string) string {
	const shown = 8
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// Timestamp formats a time of an API message in UTC.
func Timestamp(at *timestamppb.Timestamp) string {
	if at == nil || at.AsTime().Unix() == 0 {
		return "-"
	}
	return at.AsTime().UTC().Format(time.RFC3339)
}

// Note writes a line to standard error. String arguments are made printable;
// other types are formatted as they are, so callers pass foreign text as a
// string. A write error is dropped.
func Note(command *cobra.Command, format string, args ...any) {
	for i := range args {
		if text, ok := args[i].(string); ok {
			args[i] = Printable(text)
		}
	}
	_, _ = fmt.Fprintf(command.ErrOrStderr(), format+"\n", args...)
}

// Done writes a note about what a command did, unless it failed, and returns the
// error.
func Done(command *cobra.Command, err error, format string, args ...any) error {
	if err == nil {
		Note(command, format, args...)
	}
	return err
}

// Printable replaces everything that is not printable, so that text from a
// cluster or a platform cannot control the terminal.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '\ufffd'
	}, text)
}

// YesNo formats a bool.
func YesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// EnumWord formats the name of an enum value: OUT_OF_SYNC becomes Out of sync.
// An unspecified value is a dash.
func EnumWord(value, prefix string) string {
	word := strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(value, prefix), "_", " "))
	if word == "" || word == "unspecified" {
		return "-"
	}
	return strings.ToUpper(word[:1]) + word[1:]
}
