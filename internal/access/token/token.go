// Package token verifies the tokens with which the platform asks something of
// this runtime, and carries what they say to whoever answers.
//
// A token is a JSON Web Token of [wire.RuntimeClaims], signed with Ed25519 by a
// key that the platform told when the runtime joined. It promises that the
// claims it gives were signed for this runtime, and are good now.
//
// It refuses every other algorithm, keys that it does not know, tokens of other
// runtimes, and tokens that live longer than the platform makes them. What a
// token says is never in its errors.
package token

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/permission"
)

const (
	// maxBytes bounds a token, before it is looked at.
	maxBytes = 8 << 10
	// maxKeySetBytes bounds the platform's keys.
	maxKeySetBytes = 64 << 10
	// maxKeys bounds how many keys a signature is tried with.
	maxKeys = 16
	// leeway is how far the clocks of the platform and of this cluster may differ.
	leeway = 30 * time.Second
)

// Reason is why a token is refused. There are few, so that they can be counted.
type Reason string

// Why tokens are refused.
const (
	ReasonMissing   Reason = "missing"
	ReasonMalformed Reason = "malformed"
	ReasonNotJoined Reason = "not_joined"
	ReasonSignature Reason = "signature"
	ReasonAudience  Reason = "audience"
	ReasonExpired   Reason = "expired"
	ReasonEarly     Reason = "early"
	ReasonLifetime  Reason = "lifetime"
	ReasonClaims    Reason = "claims"
	ReasonPrefix    Reason = "prefix"
)

// RefusedError says why a token is refused. It has nothing of the token.
type RefusedError struct {
	Reason Reason
	text   string
}

// Error says what is wrong and what to do.
func (e *RefusedError) Error() string { return e.text }

// Refuse is a refusal that the sender may read.
func Refuse(reason Reason, text string) *RefusedError {
	return &RefusedError{Reason: reason, text: text}
}

// Verifier verifies tokens of one runtime. It is safe for concurrent use.
type Verifier struct {
	runtimeID func() string
	keys      func() string
	now       func() time.Time

	mu     sync.Mutex
	text   string
	parsed *jose.JSONWebKeySet
}

// NewVerifier makes a verifier. runtimeID and keys are asked with each token,
// because both can change: a runtime joins late, and the platform renews its
// keys. keys is a JSON Web Key Set. Without now, it is the time of the machine.
func NewVerifier(runtimeID func() string, keys func() string, now func() time.Time) *Verifier {
	if now == nil {
		now = time.Now
	}
	return &Verifier{runtimeID: runtimeID, keys: keys, now: now}
}

// Verify gives what a token says, or a *[RefusedError]. bearer is the token, or
// the header Authorization with it.
func (v *Verifier) Verify(_ context.Context, bearer string) (wire.RuntimeClaims, error) {
	bearer = withoutScheme(bearer)
	switch {
	case bearer == "":
		return wire.RuntimeClaims{}, Refuse(ReasonMissing, "a token of the platform is needed: ask through the platform")
	case len(bearer) > maxBytes:
		return wire.RuntimeClaims{}, Refuse(ReasonMalformed, "the token is too long")
	}
	runtimeID, set := v.runtimeID(), v.keySet()
	if runtimeID == "" || len(set) == 0 {
		return wire.RuntimeClaims{}, Refuse(ReasonNotJoined, "this runtime has not joined a platform yet, so nobody may ask")
	}
	payload, err := verifySignature(bearer, set)
	if err != nil {
		return wire.RuntimeClaims{}, err
	}
	var claims wire.RuntimeClaims
	if json.Unmarshal(payload, &claims) != nil {
		return wire.RuntimeClaims{}, Refuse(ReasonClaims, "the token says nothing that a runtime understands")
	}
	if err := v.check(claims, runtimeID); err != nil {
		return wire.RuntimeClaims{}, err
	}
	return claims, nil
}

// withoutScheme takes Bearer away.
func withoutScheme(text string) string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	if strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(rest)
	}
	return strings.TrimSpace(text)
}

// keySet are the keys that the platform signs with. Those that are no public
// Ed25519 keys are left out when a signature is tried.
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

// verifySignature gives what was signed. Only one algorithm is known, so a token
// cannot choose a weaker one, or none.
func verifySignature(bearer string, keys []jose.JSONWebKey) ([]byte, error) {
	signed, err := jose.ParseSignedCompact(bearer, []jose.SignatureAlgorithm{jose.EdDSA})
	if err != nil || len(signed.Signatures) != 1 {
		return nil, Refuse(ReasonMalformed, "the token is none of the platform: it has to be signed with Ed25519")
	}
	wanted := signed.Signatures[0].Protected.KeyID
	for _, key := range keys {
		if !key.IsPublic() || !key.Valid() || wanted != "" && key.KeyID != wanted {
			continue
		}
		if payload, err := signed.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, Refuse(ReasonSignature, "the token is not signed by the platform of this runtime")
}

// check compares what the token says with who and when we are.
func (v *Verifier) check(claims wire.RuntimeClaims, runtimeID string) error {
	now := v.now()
	issued, expires := time.Unix(claims.IssuedAt, 0), time.Unix(claims.ExpiresAt, 0)
	switch {
	case claims.RuntimeID != runtimeID:
		return Refuse(ReasonAudience, "the token is for another runtime")
	case claims.IssuedAt <= 0 || claims.ExpiresAt <= 0 || expires.Before(issued) || expires.Sub(issued) > wire.RequestTokenLifetime:
		return Refuse(ReasonLifetime, "the token is good for a longer time than the platform makes them")
	case now.After(expires.Add(leeway)):
		return Refuse(ReasonExpired, "the token has expired: if it is new, the clocks of the platform and of the cluster differ")
	case issued.After(now.Add(leeway)):
		return Refuse(ReasonEarly, "the token is from the future: the clocks of the platform and of the cluster differ")
	case claims.Role != permission.RoleAdmin && claims.Role != permission.RoleUser:
		return Refuse(ReasonClaims, "the token has no role that a runtime knows")
	case !knownPrefix(claims.Prefix):
		return Refuse(ReasonPrefix, "the token is for no part of a runtime")
	}
	return nil
}

func knownPrefix(prefix string) bool {
	return prefix == wire.AppProxyPath || prefix == wire.WorkflowsPath
}

type claimsKey struct{}

// WithClaims adds what a token says to the context of a request.
func WithClaims(ctx context.Context, claims wire.RuntimeClaims) context.Context {
	return context.WithValue(ctx, claimsKey{}, claims)
}

// ClaimsFrom is what the token of a request says.
func ClaimsFrom(ctx context.Context) (wire.RuntimeClaims, bool) {
	claims, ok := ctx.Value(claimsKey{}).(wire.RuntimeClaims)
	return claims, ok
}
