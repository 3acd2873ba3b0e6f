// Package secret holds the one type for values that must not be seen:
// passwords, tokens, private keys. It promises that no log, error or dump shows
// them, whatever verb or encoder is used. Whoever needs the value asks for it
// by name, with Reveal, which is easy to find in a review.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what is shown in place of a secret.
const Redacted = "[redacted]"

// Text is a value that shows as [Redacted].
//
// It holds a pointer because fmt does not call methods on the unexported
// fields of a struct: printing such a struct with %+v shows an address, where
// a string would show itself.
type Text struct {
	value *string
}

// New wraps a value. The empty string is the zero Text.
func New(value string) Text {
	if value == "" {
		return Text{}
	}
	return Text{value: &value}
}

// Reveal gives the value, for the one call that needs it.
func (t Text) Reveal() string {
	if t.value == nil {
		return ""
	}
	return *t.value
}

// IsZero reports whether there is no value.
func (t Text) IsZero() bool { return t.value == nil }

// String gives [Redacted], or nothing when there is no value.
func (t Text) String() string {
	if t.value == nil {
		return ""
	}
	return Redacted
}

// GoString is String, for %#v.
func (t Text) GoString() string { return t.String() }

// Format is String for every verb and flag.
func (t Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// MarshalText is String, for JSON, YAML, TOML and flags.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// LogValue is String, for slog.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }
