package fleet

import (
	"context"
	"errors"

	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
)

// Verifier checks access tokens of agents completely: signature, expiry, and
// that the credential has not been revoked or replaced since.
type Verifier struct {
	store  *store.Store
	signer *signing.Signer
}

// NewVerifier returns a Verifier.
func NewVerifier(store *store.Store, signer *signing.Signer) *Verifier {
	return &Verifier{store: store, signer: signer}
}

// VerifyRuntimeAccess returns the runtime of a token. An invalid token is
// signing.ErrToken; any other error means that it could not be checked. The
// credential is read for every call, so a revocation takes effect at once.
func (v *Verifier) VerifyRuntimeAccess(ctx context.Context, token string) (signing.RuntimeIdentity, error) {
	identity, err := v.signer.VerifyRuntimeAccess(ctx, token)
	if err != nil {
		return signing.RuntimeIdentity{}, err
	}
	credential, err := v.store.Credential(ctx, identity.RuntimeID)
	if errors.Is(err, store.ErrNotFound) {
		return signing.RuntimeIdentity{}, signing.ErrToken
	}
	if err != nil {
		return signing.RuntimeIdentity{}, err
	}
	// A token of an earlier generation is signed correctly, but was revoked
	// or replaced.
	if credential.Revoked || credential.Generation != identity.Generation {
		return signing.RuntimeIdentity{}, signing.ErrToken
	}
	return identity, nil
}
