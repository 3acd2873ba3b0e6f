package config

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted is what is shown in place of a secret.
const redacted = "[redacted]"

// Secret is a value that no log, error or dump shows; only Reveal gives it.
//
// It holds a pointer because fmt does not call methods on the unexported
// fields of a struct: printing such a struct with %+v shows an address, where
// a string would show itself.
type Secret struct {
	value *string
}

// NewSecret wraps a value. The empty string is the zero Secret.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{value: &value}
}

// Reveal gives the value, for the one call that needs it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether there is no value.
func (s Secret) IsZero() bool { return s.value == nil }

// String gives "[redacted]", or nothing when there is no value.
func (s Secret) String() string {
	if s.value == nil {
		return ""
	}
	return redacted
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// Format is String for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText is String, for JSON, TOML and flags.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON is String as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// MarshalYAML is String as a YAML string.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// LogValue is String, for slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
