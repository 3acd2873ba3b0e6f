// Package secret has the type for values that must not be visible: passwords,
// tokens, private keys. It promises that no log, error or dump contains them, with
// any verb or encoder. The only way to the value is Reveal, which is easy to find
// in a review.
//
// See decision 0007 in docs/decisions: one type for secrets.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Redacted is printed in place of a secret.
const Redacted = "[redacted]"

// Text is a value that prints as [Redacted].
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

// Reveal returns the value. Call it only where the value is used.
func (t Text) Reveal() string {
	if t.value == nil {
		return ""
	}
	return *t.value
}

// IsZero reports whether there is no value.
func (t Text) IsZero() bool { return t.value == nil }

// String returns [Redacted], or an empty string without a value.
func (t Text) String() string {
	if t.value == nil {
		return ""
	}
	return Redacted
}

// GoString implements fmt.GoStringer, for %#v.
func (t Text) GoString() string { return t.String() }

// Format implements fmt.Formatter: every verb and flag prints String.
func (t Text) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, t.String()) }

// MarshalText implements encoding.TextMarshaler, for JSON, YAML, TOML and flags.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// LogValue implements slog.LogValuer.
func (t Text) LogValue() slog.Value { return slog.StringValue(t.String()) }
