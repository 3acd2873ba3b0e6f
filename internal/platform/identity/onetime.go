package identity

import (
	"crypto/rand"
	"strings"

	"slipway.dev/slipway/internal/secret"
)

// oneTimePassword returns 26 random characters (130 bits) in readable groups. It
// is for choosing a password and nothing else, and valid until that is done: a
// sign-in that is interrupted must not lock the first admin out.
func oneTimePassword() secret.Text {
	text := strings.ToLower(rand.Text())
	var groups []string
	for len(text) > 0 {
		n := min(len(text), 5)
		groups, text = append(groups, text[:n]), text[n:]
	}
	return secret.New(strings.Join(groups, "-"))
}

// passwordHash returns the hash in the PasswordHash of a user. Earlier versions
// marked that of a used one-time password, which was void after ten minutes:
// spent@1700000000$argon2id$…. It is valid until the user has another.
func passwordHash(stored string) string {
	if rest, marked := strings.CutPrefix(stored, "spent@"); marked {
		return strings.TrimLeft(rest, "0123456789")
	}
	return stored
}
