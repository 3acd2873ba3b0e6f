package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
)

// Scopes of keys, as they are stored.
const (
	ScopeAll             = "all"
	ScopeRead            = "read"
	ScopeRuntimeRegister = "runtime-register"
)

// A key is slw_<id>_<secret>: 24 hexadecimal digits, and 52 letters and
// digits with 260 bits. Scanners of repositories can find it by its
// beginning.
const (
	// A key is slw_<id>_<secret>: 24 hexadecimal digits, and 52 characters
	// with 260 bits. The prefix lets secret scanners recognize it.
	keyPrefix      = "slw_"
	keyIDChars     = 24
	keySecretChars = 52
)

// newKeyText returns a new ID and secret.
func newKeyText() (id string, value secret.Text) {
	random := make([]byte, keyIDChars/2)
	_, _ = rand.Read(random) // never fails
	return hex.EncodeToString(random), secret.New(strings.ToLower(rand.Text() + rand.Text()))
}

// keyText assembles the text of a key.
func keyText(id string, value secret.Text) secret.Text {
	return secret.New(keyPrefix + id + "_" + value.Reveal())
}

// shownPrefix returns the part of a key that lists show.
func shownPrefix(id string) string { return keyPrefix + id[:8] }

// parseKey splits a key. It checks the exact form, so that garbage causes no
// query.
func parseKey(text string) (id string, value secret.Text, ok bool) {
	rest, ok := strings.CutPrefix(text, keyPrefix)
	if !ok || len(rest) != keyIDChars+1+keySecretChars || rest[keyIDChars] != '_' {
		return "", secret.Text{}, false
	}
	id, tail := rest[:keyIDChars], rest[keyIDChars+1:]
	if strings.Trim(id, "0123456789abcdef") != "" || strings.Trim(tail, "abcdefghijklmnopqrstuvwxyz234567") != "" {
		return "", secret.Text{}, false
	}
	return id, secret.New(tail), true
}

// authenticateKey authenticates a caller by API key.
func (i *Identity) authenticateKey(ctx context.Context, in inbound, text string) (Caller, error) {
	unknown := unauthenticated("unknown API key; check that it was copied completely, or create a new one")
	id, value, ok := parseKey(text)
	if !ok {
		return Caller{}, unknown
	}
	// The ID is not secret; only the hash comparison authenticates.
	key, err := i.store.KeyByID(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Caller{}, unknown
	}
	if err != nil {
		return Caller{}, err
	}
	user := store.User{AccountID: key.AccountID, ID: key.UserID}
	unknown.person.KeyID = key.ID
	if subtle.ConstantTimeCompare(hashOf(value), key.Hash) != 1 {
		return Caller{}, unknown.of(user, "key "+key.Name, KindKey)
	}
	if err := i.keyInvalid(key); err != nil {
		err.person.KeyID = key.ID
		return Caller{}, err.of(user, "key "+key.Name, KindKey)
	}
	caller := Caller{Key: &key, Address: in.address}
	if err := i.loadUser(ctx, &caller, key.UserID, key.AccountID); err != nil {
		return Caller{}, err
	}
	i.touchKey(ctx, key)
	return caller, nil
}

// keyInvalid returns why a key is no longer valid, or nil.
func (i *Identity) keyInvalid(key store.Key) *DeniedError {
	switch {
	case !key.RevokedAt.IsZero():
		return unauthenticated("the API key %s was revoked; create a new one", key.Prefix)
	case !key.ExpiresAt.IsZero() && !i.now().Before(key.ExpiresAt):
		return unauthenticated("the API key %s expired at %s; create a new one", key.Prefix, key.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// touchKey updates the last use of a key, at most once per minute. A failure
// does not fail the request.
func (i *Identity) touchKey(ctx context.Context, key store.Key) {
	now := i.now().UTC()
	if now.Sub(key.LastUsedAt) < touchInterval {
		return
	}
	if err := i.store.TouchKey(ctx, key.ID, now); err != nil && !errors.Is(err, store.ErrNotFound) {
		i.log.Warn("updating the last use of an API key failed", "key", key.Prefix, "err", err)
	}
}

// hasScope reports whether a key has a scope.
func hasScope(key *store.Key, scope string) bool { return slices.Contains(key.Scopes, scope) }
