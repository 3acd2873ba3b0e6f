package route

import (
	"errors"

	"slipway.dev/slipway/internal/secret"
)

// Secret is a value that nothing shows. Reveal gives it, and Encode writes it.
type Secret struct {
	secret.Text
	// written is set only in the copy that Encode writes out.
	written bool
}

// NewSecret wraps a value. The empty string is the zero Secret.
func NewSecret(value string) Secret { return Secret{Text: secret.New(value)} }

// MarshalText is String, except while Encode writes a table.
func (s Secret) MarshalText() ([]byte, error) {
	if s.written {
		return []byte(s.Reveal()), nil
	}
	return s.Text.MarshalText()
}

// UnmarshalText reads a value. It refuses the word that stands for a hidden
// one: a table that was dumped without its secrets is not a table to serve.
func (s *Secret) UnmarshalText(text []byte) error {
	if string(text) == secret.Redacted {
		return errors.New("the secret was hidden when this was written; put the real value here")
	}
	*s = NewSecret(string(text))
	return nil
}

// forWriting gives a copy whose value MarshalText shows.
func (s Secret) forWriting() Secret {
	s.written = !s.IsZero()
	return s
}
