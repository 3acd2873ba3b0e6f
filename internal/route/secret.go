package route

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// redacted is what is shown in place of a secret.
const redacted = "[redacted]"

// Secret is a value that no log, error or dump shows. Reveal gives it, and
// Encode writes it.
//
// It holds a pointer because fmt does not call methods on the unexported
// fields of a struct: printing such a struct with %+v shows an address, where
// a string would show itself.
type Secret struct {
	value *string
	// written is set only in the copy that Encode writes out.
	written bool
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

// LogValue is String, for slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText is String, except while Encode writes a table.
func (s Secret) MarshalText() ([]byte, error) {
	if s.written {
		return []byte(s.Reveal()), nil
	}
	return []byte(s.String()), nil
}

// UnmarshalText reads a value. It refuses the word that stands for a hidden
// one: a table that was dumped without its secrets is not a table to serve.
func (s *Secret) UnmarshalText(text []byte) error {
	if string(text) == redacted {
		return errors.New("the secret was hidden when this was written; put the real value here")
	}
	*s = NewSecret(string(text))
	return nil
}

// forWriting gives a copy whose value MarshalText shows.
func (s Secret) forWriting() Secret {
	s.written = s.value != nil
	return s
}
