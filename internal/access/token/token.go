// Package token verifies the tokens of requests that the platform sends to this
// runtime, and carries their claims in the request context.
//
// A token is a JSON Web Token (RFC 7519) of [wire.RuntimeClaims], signed with Ed25519
// (RFC 8037) by a key that the platform announced when the runtime joined. The
// package guarantees that returned claims were signed for this runtime, are
// currently valid and were not used before.
//
// It rejects every other algorithm, other types of tokens, unknown keys, tokens of
// other runtimes, tokens with a longer lifetime than the platform issues, and the
// second use of a token. Uses are known to one process: with several replicas of the
// agent, each accepts a token once. Errors contain nothing of the token.
package token

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
)

const (
	// maxBytes bounds a token before it is parsed.
	maxBytes = 8 << 10
	// maxKeySetBytes bounds the platform's key set.
	maxKeySetBytes = 64 << 10
	// maxKeys bounds the keys that a signature is verified with, and so the CPU time
	// of a forged token.
	maxKeys = 16
	// maxID bounds the ID of a token, which is remembered.
	maxID = 64
	// leeway is the accepted clock skew between the platform and this cluster.
	leeway = 30 * time.Second
)

// Reasons for rejecting a token. The set is small and fixed: it is a label of
// metrics and logs.
const (
	ReasonMissing   refusal.Reason = "missing"
	ReasonMalformed refusal.Reason = "malformed"
	ReasonNotJoined refusal.Reason = "not_joined"
	ReasonSignature refusal.Reason = "signature"
	ReasonAudience  refusal.Reason = "audience"
	ReasonExpired   refusal.Reason = "expired"
	ReasonEarly     refusal.Reason = "early"
	ReasonLifetime  refusal.Reason = "lifetime"
	ReasonClaims    refusal.Reason = "claims"
	ReasonPrefix    refusal.Reason = "prefix"
	ReasonType      refusal.Reason = "type"
	ReasonReplay    refusal.Reason = "replay"
)

// Verifier verifies the tokens of one runtime. It is safe for concurrent use. It
// caches the parsed key set, keyed by its text.
type Verifier struct {
	runtimeID func() string
	keys      func() string
	now       func() time.Time

	mu     sync.Mutex
	text   string
	parsed *jose.JSONWebKeySet

	used usedTokens
}

// NewVerifier returns a verifier. runtimeID and keys are called for each token,
// because both change: a runtime joins late, and the platform rotates its keys. keys
// returns a JSON Web Key Set. A nil now means the system clock.
func NewVerifier(runtimeID func() string, keys func() string, now func() time.Time) *Verifier {
	if now == nil {
		now = time.Now
	}
	return &Verifier{runtimeID: runtimeID, keys: keys, now: now}
}

// Verify returns the claims of a token, or a *[refusal.Refusal] that contains nothing
// of the token. bearer is the token, with or without the Bearer scheme.
func (v *Verifier) Verify(_ context.Context, bearer string) (wire.RuntimeClaims, error) {
	bearer = withoutScheme(bearer)
	switch {
	case bearer == "":
		return wire.RuntimeClaims{}, refusal.New("", ReasonMissing, "a token of the platform is required: send the request through the platform")
	case len(bearer) > maxBytes:
		return wire.RuntimeClaims{}, refusal.New("", ReasonMalformed, "the token is too long")
	}
	runtimeID, set := v.runtimeID(), v.keySet()
	if runtimeID == "" || len(set) == 0 {
		return wire.RuntimeClaims{}, refusal.New("", ReasonNotJoined, "this runtime has not joined a platform yet and accepts no requests")
	}
	payload, err := verifySignature(bearer, set)
	if err != nil {
		return wire.RuntimeClaims{}, err
	}
	var claims wire.RuntimeClaims
	if json.Unmarshal(payload, &claims) != nil {
		return wire.RuntimeClaims{}, refusal.New("", ReasonClaims, "the token has no valid claims")
	}
	// Platforms of earlier versions sign the operator's former name.
	if claims.Role, err = permission.ParseRole(claims.Role); err != nil {
		return wire.RuntimeClaims{}, refusal.New("", ReasonClaims, "the token has an unknown role")
	}
	if err := v.check(claims, runtimeID); err != nil {
		return wire.RuntimeClaims{}, err
	}
	// Only valid tokens are remembered, so that only the platform fills the
	// memory.
	if !v.used.add(claims.ID, v.now()) {
		return wire.RuntimeClaims{}, refusal.New("", ReasonReplay, "the token was used before: each request needs a token of its own")
	}
	return claims, nil
}

// withoutScheme removes the Bearer scheme.
func withoutScheme(text string) string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	if strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(rest)
	}
	return strings.TrimSpace(text)
}

// keySet returns the platform's signing keys, parsed once per change. verifySignature
// skips keys that are not public Ed25519 keys. An unreadable set counts as empty, so
// all tokens are rejected.
func (v *Verifier) keySet() []jose.JSONWebKey {
	text := v.keys()
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.parsed == nil || v.text != text {
		v.text, v.parsed = text, &jose.JSONWebKeySet{}
		if len(text) > maxKeySetBytes || json.Unmarshal([]byte(text), v.parsed) != nil {
			v.parsed = &jose.JSONWebKeySet{}
		}
	}
	return v.parsed.Keys[:min(len(v.parsed.Keys), maxKeys)]
}

// verifySignature returns the signed payload. It accepts exactly one algorithm, so a
// token cannot select a weaker one or none.
func verifySignature(bearer string, keys []jose.JSONWebKey) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(bearer, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(signed.Signatures) != 1 {
		return nil, refusal.New("", ReasonMalformed, "the token is malformed: it must be a JWT signed with Ed25519")
	}
	header := signed.Signatures[0].Protected
	if header.ExtraHeaders[jose.HeaderType] != wire.RequestTokenType {
		return nil, refusal.New("", ReasonType, "the token is not one for requests to a runtime")
	}
	wanted := header.KeyID
	for _, key := range keys {
		if !key.IsPublic() || !key.Valid() || wanted != "" && key.KeyID != wanted {
			continue
		}
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, refusal.New("", ReasonSignature, "the token is not signed by the platform of this runtime")
}

// check validates the claims: audience, lifetime, clock and prefix.
func (v *Verifier) check(claims wire.RuntimeClaims, runtimeID string) error {
	now := v.now()
	issued, expires := time.Unix(claims.IssuedAt, 0), time.Unix(claims.ExpiresAt, 0)
	switch {
	case claims.RuntimeID != runtimeID:
		return refusal.New("", ReasonAudience, "the token is for another runtime")
	case claims.IssuedAt <= 0 || claims.ExpiresAt <= 0 || expires.Before(issued) || expires.Sub(issued) > wire.RequestTokenLifetime:
		return refusal.New("", ReasonLifetime, "the lifetime of the token is longer than the platform issues")
	case now.After(expires.Add(leeway)):
		return refusal.New("", ReasonExpired, "the token has expired: if it is new, the clocks of the platform and of the cluster differ")
	case issued.After(now.Add(leeway)):
		return refusal.New("", ReasonEarly, "the token is from the future: the clocks of the platform and of the cluster differ")
	case claims.ID == "" || len(claims.ID) > maxID:
		return refusal.New("", ReasonClaims, "the token has no valid ID")
	case !knownPrefix(claims.Prefix):
		return refusal.New("", ReasonPrefix, "the token is for an unknown path")
	}
	return nil
}

// knownPrefix reports whether a prefix is one that the router authenticates.
func knownPrefix(prefix string) bool {
	return prefix == wire.AppProxyPath || prefix == wire.WorkflowsPath || prefix == wire.ArgoCDPath
}

type claimsKey struct{}

// WithClaims adds the claims of a token to the context of a request.
func WithClaims(ctx context.Context, claims wire.RuntimeClaims) context.Context {
	return context.WithValue(ctx, claimsKey{}, claims)
}

// ClaimsFrom returns the claims of the request's token.
func ClaimsFrom(ctx context.Context) (wire.RuntimeClaims, bool) {
	claims, ok := ctx.Value(claimsKey{}).(wire.RuntimeClaims)
	return claims, ok
}
