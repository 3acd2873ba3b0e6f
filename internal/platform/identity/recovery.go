package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"

	"slipway.dev/slipway/internal/secret"
)

const (
	// recoveryCodes is the number of recovery codes of a user.
	recoveryCodes = 10
	// recoveryChars is the length of a recovery code: 80 random bits, so that
	// a fast hash protects it.
	recoveryChars = 16
)

// newRecoveryCodes returns recovery codes in readable groups, and their stored
// form.
func newRecoveryCodes(userID string) (codes []string, hashes [][]byte) {
	for range recoveryCodes {
		text := strings.ToLower(rand.Text()[:recoveryChars])
		codes = append(codes, text[:4]+"-"+text[4:8]+"-"+text[8:12]+"-"+text[12:])
		hashes = append(hashes, recoveryHash(userID, secret.New(text)))
	}
	return codes, hashes
}

// parseRecoveryCode returns a recovery code without blanks and dashes. ok is
// false if it cannot be one.
func parseRecoveryCode(text string) (code secret.Text, ok bool) {
	text = strings.ToLower(strings.NewReplacer("-", "", " ", "").Replace(text))
	return secret.New(text), len(text) == recoveryChars
}

// recoveryHash returns the stored form of a recovery code. The user is part of
// it, so that rows of two users cannot be swapped.
func recoveryHash(userID string, code secret.Text) []byte {
	sum := sha256.Sum256([]byte("slipway recovery code\n" + userID + "\n" + code.Reveal()))
	return sum[:]
}
