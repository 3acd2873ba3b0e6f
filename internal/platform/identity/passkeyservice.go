package identity

import (
	"context"
	"encoding/json"

	"connectrpc.com/connect"
	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// pendingPasskey is a passkey that a user has begun to add.
type pendingPasskey struct {
	UserID  string               `json:"u"`
	Session webauthn.SessionData `json:"s"`
	// Issued is the time of the challenge.
	Issued int64 `json:"i"`
}

// BeginPasskey returns the options for the browser to create a passkey.
func (s factorService) BeginPasskey(ctx context.Context, request *connect.Request[platformv1.BeginPasskeyRequest]) (*connect.Response[platformv1.BeginPasskeyResponse], error) {
	user, err := s.confirmed(ctx, request.Msg.GetPassword())
	if err != nil {
		return nil, err
	}
	if s.relyingParty == nil {
		return nil, precondition("%s", s.noPasskeys)
	}
	factors, err := s.store.Factors(ctx, user.ID)
	if err != nil {
		return nil, s.apiError(err)
	}
	// Checked before the authenticator keeps a passkey that the store refuses.
	if len(factors) >= store.MaxFactors {
		return nil, precondition("a user has at most %d second factors: remove one first", store.MaxFactors)
	}
	owner, err := s.passkeyOwner(user, factors)
	if err != nil {
		return nil, s.apiError(err)
	}
	// An authenticator that has a passkey of the user makes no second one.
	exclude := webauthn.WithExclusions(webauthn.Credentials(owner.passkeys).CredentialDescriptors())
	creation, session, err := s.relyingParty.BeginRegistration(owner, exclude)
	if err != nil {
		return nil, s.apiError(err)
	}
	options, err := json.Marshal(creation.Response)
	if err != nil {
		return nil, s.apiError(err)
	}
	pending := pendingPasskey{UserID: user.ID, Session: *session, Issued: s.now().UnixMicro()}
	ticket, err := s.tickets.seal(ticketPasskey, enrolLife, pending)
	if err != nil {
		return nil, s.apiError(err)
	}
	return connect.NewResponse(&platformv1.BeginPasskeyResponse{Ticket: ticket, Options: string(options)}), nil
}

// FinishPasskey adds the passkey that the browser has created.
func (s factorService) FinishPasskey(ctx context.Context, request *connect.Request[platformv1.FinishPasskeyRequest]) (*connect.Response[platformv1.FinishFactorResponse], error) {
	caller, _ := CallerFrom(ctx)
	Describe(ctx, "user/"+caller.User.Email, "")
	var pending pendingPasskey
	if err := s.tickets.open(ticketPasskey, request.Msg.GetTicket(), &pending); err != nil || pending.UserID != caller.User.ID {
		return nil, precondition("adding the passkey took too long; start again")
	}
	if s.relyingParty == nil {
		return nil, precondition("%s", s.noPasskeys)
	}
	name, err := checkName("the passkey", request.Msg.GetName())
	if err != nil {
		return nil, err
	}
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(request.Msg.GetResponse()))
	if err != nil {
		return nil, invalid("the response of the browser contains no passkey; start again")
	}
	passkey, err := s.relyingParty.CreateCredential(passkeyOwner{User: caller.User}, pending.Session, parsed)
	if err != nil {
		s.log.Debug("passkey refused", "user", caller.User.Email, "err", err)
		return nil, invalid("the passkey was not created for this platform and this request; start again")
	}
	// The attestation is not used and would identify the device.
	passkey.Attestation = webauthn.CredentialAttestation{}
	value, err := json.Marshal(passkey)
	if err != nil {
		return nil, s.apiError(err)
	}
	factor := store.Factor{ID: passkeyFactorID(passkey.ID), Kind: store.FactorPasskey, Name: name, LastProof: pending.Issued}
	return s.addFactor(ctx, caller, request.Header(), factor, secret.New(string(value)))
}
