package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// enrolLife is how long adding a factor may take.
const enrolLife = 15 * time.Minute

// factorService implements SecondFactorService.
type factorService struct{ *Identity }

// pendingTOTP is an authenticator app that a user has begun to add.
type pendingTOTP struct {
	UserID string `json:"u"`
	Secret string `json:"s"`
}

// ListFactors returns the factors of the caller.
func (s factorService) ListFactors(ctx context.Context, _ *connect.Request[platformv1.ListFactorsRequest]) (*connect.Response[platformv1.ListFactorsResponse], error) {
	caller, _ := CallerFrom(ctx)
	factors, err := s.store.Factors(ctx, caller.User.ID)
	if err != nil {
		return nil, s.apiError(err)
	}
	codes, err := s.store.CountRecoveryCodes(ctx, caller.User.ID)
	if err != nil {
		return nil, s.apiError(err)
	}
	response := &platformv1.ListFactorsResponse{RecoveryCodes: int32(codes), Required: s.options.SignIn.SecondFactorRequired, NoPasskeys: s.noPasskeys}
	for _, factor := range factors {
		response.Factors = append(response.Factors, factorMessage(factor))
	}
	return connect.NewResponse(response), nil
}

// BeginTOTP returns a secret for an authenticator app. It is stored when the
// user has shown that the app has it.
func (s factorService) BeginTOTP(ctx context.Context, request *connect.Request[platformv1.BeginTOTPRequest]) (*connect.Response[platformv1.BeginTOTPResponse], error) {
	user, err := s.confirmed(ctx, request.Msg.GetPassword())
	if err != nil {
		return nil, err
	}
	value := newTOTPSecret()
	ticket, err := s.tickets.seal(ticketTOTP, enrolLife, pendingTOTP{UserID: user.ID, Secret: value.Reveal()})
	if err != nil {
		return nil, s.apiError(err)
	}
	uri := totpURI("Slipway "+s.options.PublicURL.Hostname(), user.Email, value)
	path, size, err := qrPath(uri)
	if err != nil {
		return nil, s.apiError(err)
	}
	return connect.NewResponse(&platformv1.BeginTOTPResponse{
		Ticket: ticket, Secret: value.Reveal(), Uri: uri, QrPath: path, QrSize: int32(size),
	}), nil
}

// FinishTOTP adds the authenticator app if it shows the right code. Guesses are
// pointless, because the caller knows the secret.
func (s factorService) FinishTOTP(ctx context.Context, request *connect.Request[platformv1.FinishTOTPRequest]) (*connect.Response[platformv1.FinishFactorResponse], error) {
	caller, _ := CallerFrom(ctx)
	Describe(ctx, "user/"+caller.User.Email, "")
	var pending pendingTOTP
	if err := s.tickets.open(ticketTOTP, request.Msg.GetTicket(), &pending); err != nil || pending.UserID != caller.User.ID {
		return nil, precondition("adding the authenticator app took too long; start again")
	}
	value := secret.New(pending.Secret)
	step, ok := totpStep(value, request.Msg.GetCode(), s.now())
	if !ok {
		return nil, invalid("the code is wrong: enter the one that the app shows now, and check the clocks of both devices")
	}
	return s.addFactor(ctx, caller, request.Header(), store.Factor{ID: rand.Text(), Kind: store.FactorTOTP, Name: "Authenticator app", LastProof: step}, value)
}

// RemoveFactor removes a factor of the caller.
func (s factorService) RemoveFactor(ctx context.Context, request *connect.Request[platformv1.RemoveFactorRequest]) (*connect.Response[platformv1.RemoveFactorResponse], error) {
	user, err := s.confirmed(ctx, request.Msg.GetPassword())
	if err != nil {
		return nil, err
	}
	factors, err := s.store.Factors(ctx, user.ID)
	if err != nil {
		return nil, s.apiError(err)
	}
	// A user can have several passkeys: the audit log has the name.
	for _, factor := range factors {
		if factor.ID == request.Msg.GetId() {
			Describe(ctx, "", factor.Name)
		}
	}
	err = s.store.DeleteFactor(ctx, user.ID, request.Msg.GetId(), s.options.SignIn.SecondFactorRequired)
	if errors.Is(err, store.ErrLastFactor) {
		return nil, precondition("this platform requires a second factor: add another one before you remove the last")
	}
	if err != nil {
		return nil, s.apiError(err)
	}
	return connect.NewResponse(&platformv1.RemoveFactorResponse{}), nil
}

// CreateRecoveryCodes replaces the recovery codes of the caller.
func (s factorService) CreateRecoveryCodes(ctx context.Context, request *connect.Request[platformv1.CreateRecoveryCodesRequest]) (*connect.Response[platformv1.CreateRecoveryCodesResponse], error) {
	user, err := s.confirmed(ctx, request.Msg.GetPassword())
	if err != nil {
		return nil, err
	}
	if !user.SecondFactor {
		return nil, precondition("add a second factor first: recovery codes are for when it is lost")
	}
	codes, hashes := newRecoveryCodes(user.ID)
	if err := s.store.SetRecoveryCodes(ctx, user.ID, hashes); err != nil {
		return nil, s.apiError(err)
	}
	return connect.NewResponse(&platformv1.CreateRecoveryCodesResponse{RecoveryCodes: codes}), nil
}

// confirmed returns the caller's user after the password was checked once more:
// an unattended session must neither remove a factor nor add one.
func (s factorService) confirmed(ctx context.Context, password string) (store.User, error) {
	caller, _ := CallerFrom(ctx)
	Describe(ctx, "user/"+caller.User.Email, "")
	switch {
	case caller.User.PasswordHash == "":
		return store.User{}, precondition("the user signs in through the identity provider, which has second factors of its own")
	case caller.User.MustChangePassword:
		return store.User{}, precondition("change your password first: %s has a one-time password", caller.User.Email)
	case password == "":
		return store.User{}, invalid("the password is missing")
	}
	if err := (authService{s.Identity}).checkOwnPassword(ctx, caller, secret.New(password)); err != nil {
		return store.User{}, s.apiError(err)
	}
	return caller.User, nil
}

// addFactor stores a factor that the caller has proved. The first one ends all
// sessions and brings recovery codes; the caller gets a new session.
func (s factorService) addFactor(ctx context.Context, caller Caller, header http.Header, factor store.Factor, value secret.Text) (*connect.Response[platformv1.FinishFactorResponse], error) {
	Describe(ctx, "", factor.Name)
	factor.UserID = caller.User.ID
	factor.Secret = s.sealFactor(factor.UserID, factor.ID, value)
	codes, hashes := newRecoveryCodes(caller.User.ID)
	first, err := s.store.AddFactor(ctx, factor, hashes)
	if err != nil {
		return nil, s.apiError(err)
	}
	response := connect.NewResponse(&platformv1.FinishFactorResponse{})
	if !first {
		return response, nil
	}
	opened, err := s.openSession(ctx, caller.User, header, caller.Address, func(now *store.User) (store.Ending, error) {
		return store.EndNothing, requirePassword(now, caller.User.PasswordHash)
	})
	if err != nil {
		return nil, s.apiError(err)
	}
	response.Msg.RecoveryCodes = codes
	response.Header().Add("Set-Cookie", opened.cookie.String())
	return response, nil
}

// factorMessage converts a factor to its API message, without the secret.
func factorMessage(factor store.Factor) *platformv1.Factor {
	kind := platformv1.FactorKind_FACTOR_KIND_TOTP
	if factor.Kind == store.FactorPasskey {
		kind = platformv1.FactorKind_FACTOR_KIND_PASSKEY
	}
	return &platformv1.Factor{
		Id: factor.ID, Kind: kind, Name: factor.Name,
		CreatedAt: timestamppb.New(factor.CreatedAt), LastUsedAt: wire.Timestamp(factor.LastUsedAt),
	}
}
