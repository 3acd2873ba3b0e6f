package identity

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/secret"
)

// onceGrace is how long a one-time password is good after its first use: an answer
// can be lost, a window closed. Then an admin makes a new one.
const onceGrace = 10 * time.Minute

// spentPrefix marks the hash of a one-time password that was used, with the time:
// spent@1700000000$argon2id$…
const spentPrefix = "spent@"

// oneTimePassword makes one of 26 characters, in groups that can be read aloud.
func oneTimePassword() secret.Text {
	text := strings.ToLower(rand.Text())
	var groups []string
	for len(text) > 0 {
		n := min(len(text), 5)
		groups, text = append(groups, text[:n]), text[n:]
	}
	return secret.New(strings.Join(groups, "-"))
}

// storedPassword is what a user's PasswordHash says.
type storedPassword struct {
	hash string
	// spent is when a one-time password was first used; zero: it was not.
	spent time.Time
}

func parseStored(text string) storedPassword {
	rest, ok := strings.CutPrefix(text, spentPrefix)
	if !ok {
		return storedPassword{hash: text}
	}
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

// over reports whether a one-time password is not good any more.
func (p storedPassword) over(now time.Time) bool {
	return !p.spent.IsZero() && now.Sub(p.spent) > onceGrace
}
