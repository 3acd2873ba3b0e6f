package tlsstore

import (
	"fmt"
	"io"
	"log/slog"
)

// hidden is what is shown in place of private bytes.
const hidden = "[redacted]"

// PrivateText is a private key or a ticket key. No log, error or dump shows
// it; only Reveal gives it.
//
// It holds a pointer because fmt does not call methods on the unexported
// fields of a struct: printing such a struct with %+v shows an address, where
// a string would show itself.
type PrivateText struct {
	value *string
}

// NewPrivateText wraps a value. The empty string is the zero PrivateText.
func NewPrivateText(value string) PrivateText {
	if value == "" {
		return PrivateText{}
	}
	return PrivateText{value: &value}
}

// Reveal gives the value, for the one call that needs it.
func (p PrivateText) Reveal() string {
	if p.value == nil {
		return ""
	}
	return *p.value
}

// String gives "[redacted]", or nothing when there is no value.
func (p PrivateText) String() string {
	if p.value == nil {
		return ""
	}
	return hidden
}

// GoString is String, for %#v.
func (p PrivateText) GoString() string { return p.String() }

// Format is String for every verb and flag.
func (p PrivateText) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, p.String()) }

// MarshalText is String, for JSON and YAML.
func (p PrivateText) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// LogValue is String, for slog.
func (p PrivateText) LogValue() slog.Value { return slog.StringValue(p.String()) }
