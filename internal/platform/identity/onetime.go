package identity

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/secret"
)

// onceGrace is how long a one-time password stays valid after its first use:
// the response may be lost or the window closed. After that an admin must
// reset it.
const onceGrace = 10 * time.Minute

// spentPrefix marks the hash of a used one-time password, with the time of
// use: spent@1700000000$argon2id$…
const spentPrefix = "spent@"

// oneTimePassword returns 26 random characters (130 bits) in readable groups.
func oneTimePassword() secret.Text {
	text := strings.ToLower(rand.Text())
	var groups []string
	for len(text) > 0 {
		n := min(len(text), 5)
		groups, text = append(groups, text[:n]), text[n:]
	}
	return secret.New(strings.Join(groups, "-"))
}

// storedPassword is the decoded PasswordHash of a user.
type storedPassword struct {
	hash string
	// spent is the first use of a one-time password; zero if unused.
	spent time.Time
}

// parseStored decodes a PasswordHash. An invalid one decodes to an empty
// hash, which no password matches.
func parseStored(text string) storedPassword {
	rest, ok := strings.CutPrefix(text, spentPrefix)
	if !ok {
		return storedPassword{hash: text}
	}
	// The hash itself starts with a dollar sign, which Cut removed.
	at, hash, ok := strings.Cut(rest, "$")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return storedPassword{}
	}
	return storedPassword{hash: "$" + hash, spent: time.Unix(seconds, 0)}
}

// String encodes the password for the store.
func (p storedPassword) String() string {
	if p.spent.IsZero() {
		return p.hash
	}
	return spentPrefix + strconv.FormatInt(p.spent.Unix(), 10) + p.hash
}

// expired reports whether a one-time password is no longer valid.
func (p storedPassword) expired(now time.Time) bool {
	return !p.spent.IsZero() && now.Sub(p.spent) > onceGrace
}
