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

// Scopes of keys, as the store has them.
const (
	ScopeAll             = "all"
	ScopeRead            = "read"
	ScopeRuntimeRegister = "runtime-register"
)

// A key is slw_<id>_<secret>: 24 hexadecimal digits, and 52 letters and digits with
// 260 bits. Scanners of repositories can find it by its beginning.
const (
	keyPrefix      = "slw_"
	keyIDChars     = 24
	keySecretChars = 52
)

// newKeyText makes the parts of a key.
func newKeyText() (id string, value secret.Text) {
	random := make([]byte, keyIDChars/2)
	_, _ = rand.Read(random) // never fails, as its documentation says
	return hex.EncodeToString(random), secret.New(strings.ToLower(rand.Text() + rand.Text()))
}

func keyText(id string, value secret.Text) secret.Text {
	return secret.New(keyPrefix + id + "_" + value.Reveal())
}

// shownPrefix is how a key is recognised in lists.
func shownPrefix(id string) string { return keyPrefix + id[:8] }

// parseKey takes a key apart.
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

// byKey knows the caller by an API key.
func (i *Identity) byKey(ctx context.Context, in inbound, text string) (Caller, error) {
	unknown := unauthenticated("the API key is not known here; check that all of it was copied, or make a new one")
	id, value, ok := parseKey(text)
	if !ok {
		return Caller{}, unknown
	}
	key, err := i.store.KeyByID(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return Caller{}, unknown
	}
	if err != nil {
		return Caller{}, err
	}
	user := store.User{AccountID: key.AccountID}
	if subtle.ConstantTimeCompare(hashOf(value), key.Hash) != 1 {
		return Caller{}, unknown.of(user, "key "+key.Name, KindKey)
	}
	if err := i.keyEnded(key); err != nil {
		return Caller{}, err.of(user, "key "+key.Name, KindKey)
	}
	caller := Caller{Key: &key, Address: in.address}
	if err := i.loadUser(ctx, &caller, key.UserID, key.AccountID); err != nil {
		return Caller{}, err
	}
	i.touchKey(ctx, key)
	return caller, nil
}

// keyEnded says why a key is not good any more, or nil.
func (i *Identity) keyEnded(key store.Key) *DeniedError {
	switch {
	case !key.RevokedAt.IsZero():
		return unauthenticated("the API key %s was revoked; make a new one", key.Prefix)
	case !key.ExpiresAt.IsZero() && !i.now().Before(key.ExpiresAt):
		return unauthenticated("the API key %s expired at %s; make a new one", key.Prefix, key.ExpiresAt.UTC().Format(time.RFC3339))
	}
	return nil
}

// touchKey notes the use of a key. A key whose use cannot be noted works on.
func (i *Identity) touchKey(ctx context.Context, key store.Key) {
	now := i.now().UTC()
	if now.Sub(key.LastUsedAt) < touchEvery {
		return
	}
	if err := i.store.TouchKey(ctx, key.ID, now); err != nil && !errors.Is(err, store.ErrNotFound) {
		i.log.Warn("The use of an API key could not be noted", "key", key.Prefix, "err", err)
	}
}

func hasScope(key *store.Key, scope string) bool { return slices.Contains(key.Scopes, scope) }
