package identity

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
)

// newRelyingParty returns the platform as WebAuthn sees it, or the reason why
// there are no passkeys: browsers refuse them at IP addresses. The password is
// the other factor, so the authenticator need not verify the user, and an
// attestation would only identify the device.
func newRelyingParty(public *url.URL, origin string) (party *webauthn.WebAuthn, missing string) {
	party, err := webauthn.New(&webauthn.Config{
		RPID: public.Hostname(), RPDisplayName: "Slipway", RPOrigins: []string{origin},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementDiscouraged, UserVerification: protocol.VerificationDiscouraged,
		},
		// Some password managers return outputs of extensions that were not
		// requested. The platform reads none.
		ExtensionsUnsolicitedOutputPolicy: protocol.UnsolicitedOutputPolicyIgnore,
	})
	if err != nil {
		return nil, fmt.Sprintf("passkeys need a host name: browsers refuse them at %s. The operator of the platform sets server.publicURL", public.Hostname())
	}
	return party, ""
}

// passkeyOwner is a user with the passkeys, for the library.
type passkeyOwner struct {
	store.User
	passkeys []webauthn.Credential
}

// WebAuthnID returns the user handle.
func (o passkeyOwner) WebAuthnID() []byte { return []byte(o.ID) }

// WebAuthnName returns the name by which browsers list the passkey.
func (o passkeyOwner) WebAuthnName() string { return o.Email }

// WebAuthnDisplayName returns the name of the person.
func (o passkeyOwner) WebAuthnDisplayName() string { return orElse(o.Name, o.Email) }

// WebAuthnCredentials returns the passkeys.
func (o passkeyOwner) WebAuthnCredentials() []webauthn.Credential { return o.passkeys }

// passkeyOwner decrypts the passkeys among the factors of a user.
func (i *Identity) passkeyOwner(user store.User, factors []store.Factor) (passkeyOwner, error) {
	owner := passkeyOwner{User: user}
	for _, factor := range factors {
		if factor.Kind != store.FactorPasskey {
			continue
		}
		value, err := i.openFactor(factor)
		if err != nil {
			return passkeyOwner{}, err
		}
		var passkey webauthn.Credential
		if err := json.Unmarshal([]byte(value.Reveal()), &passkey); err != nil {
			return passkeyOwner{}, fmt.Errorf("decode the passkey %s: %w", factor.ID, err)
		}
		owner.passkeys = append(owner.passkeys, passkey)
	}
	return owner, nil
}

// passkeyFactorID derives the ID of the factor from the one that the
// authenticator chose. So the store refuses a passkey that a user of the
// platform has already.
func passkeyFactorID(credential []byte) string {
	sum := sha256.Sum256(append([]byte("slipway passkey\n"), credential...))
	return base32Text.EncodeToString(sum[:16])
}

// requestPasskey returns the options for the browser to use a passkey of the
// user, with their challenge. Both are empty if there is no passkey to use.
func (i *Identity) requestPasskey(user store.User, factors []store.Factor) (options, challenge string, err error) {
	if i.relyingParty == nil {
		return "", "", nil
	}
	owner, err := i.passkeyOwner(user, factors)
	if err != nil || len(owner.passkeys) == 0 {
		return "", "", err
	}
	assertion, session, err := i.relyingParty.BeginLogin(owner)
	if err != nil {
		return "", "", err
	}
	text, err := json.Marshal(assertion.Response)
	return string(text), session.Challenge, err
}

// checkPasskey verifies the response of an authenticator to the challenge of a
// sign-in. A passkey accepts each challenge once, and none from before the last
// one that it has accepted.
func (i *Identity) checkPasskey(ctx context.Context, user store.User, pending pendingSignIn, response string) (detail string, ok bool, err error) {
	if pending.Challenge == "" || i.relyingParty == nil {
		return "", false, nil
	}
	factors, err := i.store.Factors(ctx, user.ID)
	if err != nil {
		return "", false, err
	}
	owner, err := i.passkeyOwner(user, factors)
	if err != nil {
		return "", false, err
	}
	used, err := i.verifyPasskey(owner, pending.Challenge, response)
	if err != nil {
		i.log.Debug("passkey refused", "user", user.Email, "err", err)
		return "", false, nil
	}
	at := slices.IndexFunc(factors, func(factor store.Factor) bool { return factor.ID == passkeyFactorID(used.ID) })
	// A response that is sent twice has the same counter, and is no copy. The
	// store has the last word, for concurrent requests.
	if at < 0 || pending.Issued <= factors[at].LastProof {
		return "", false, nil
	}
	factor := factors[at]
	// One of the two authenticators with this counter is a copy, and the
	// platform cannot distinguish them.
	if used.Authenticator.CloneWarning {
		i.log.Warn("passkey refused: its signature counter went back, it may have been copied", "user", user.Email, "passkey", factor.Name)
		return "", false, unauthenticated("the signature counter of the passkey %s went back, so it may have been copied: sign in with another factor or a recovery code, and remove it", factor.Name)
	}
	value, err := json.Marshal(used)
	if err != nil {
		return "", false, err
	}
	// The counter is part of the secret.
	sealed := i.sealFactor(factor.UserID, factor.ID, secret.New(string(value)))
	if err := i.store.UseFactor(ctx, factor.ID, pending.Issued, sealed); err != nil {
		return "", false, ignoreNotFound(err)
	}
	return "with the passkey " + factor.Name, true, nil
}

// verifyPasskey returns the passkey of the owner that signed the challenge, with
// its new counter.
func (i *Identity) verifyPasskey(owner passkeyOwner, challenge, response string) (*webauthn.Credential, error) {
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(response))
	if err != nil {
		return nil, err
	}
	return i.relyingParty.ValidateLogin(owner, webauthn.SessionData{Challenge: challenge, UserID: owner.WebAuthnID()}, parsed)
}
