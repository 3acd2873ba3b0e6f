package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
)

const (
	// factorPurpose separates the secrets of factors from other uses of the key
	// file, ticketPurpose the tickets.
	factorPurpose = "slipway platform second factors v1"
	ticketPurpose = "slipway platform tickets v1"
	// signInLife is how long a user has to prove the second factor.
	signInLife = 5 * time.Minute
)

// pendingSignIn is a sign-in with the right password that lacks the second
// factor.
type pendingSignIn struct {
	UserID    string `json:"u"`
	AccountID string `json:"a"`
	// Password is the fingerprint of the password that was checked.
	Password []byte `json:"p"`
	// Challenge is for a passkey; it is empty if the user has none. Issued is
	// its time.
	Challenge string `json:"c,omitempty"`
	Issued    int64  `json:"i,omitempty"`
}

// fingerprint identifies a password hash in a ticket: a new password ends the
// tickets of the old one.
func fingerprint(hash string) []byte {
	sum := sha256.Sum256([]byte("slipway sign-in\n" + passwordHash(hash)))
	return sum[:]
}

// challenge requests the second factor of a user with the right password.
// renewed is the password hash to store from now on.
func (s authService) challenge(ctx context.Context, user store.User, renewed string) (*connect.Response[platformv1.SignInResponse], error) {
	if renewed != user.PasswordHash {
		_, err := s.store.ChangeUser(ctx, user.AccountID, user.ID, func(now *store.User) (store.Ending, error) {
			err := requirePassword(now, user.PasswordHash)
			now.PasswordHash = renewed
			return store.EndNothing, err
		})
		if err != nil {
			return nil, s.apiError(err)
		}
	}
	factors, err := s.store.Factors(ctx, user.ID)
	if err != nil {
		return nil, s.apiError(err)
	}
	options, challenge, err := s.requestPasskey(user, factors)
	if err != nil {
		return nil, s.apiError(err)
	}
	pending := pendingSignIn{
		UserID: user.ID, AccountID: user.AccountID, Password: fingerprint(renewed), Challenge: challenge, Issued: s.now().UnixMicro(),
	}
	ticket, err := s.tickets.seal(ticketSignIn, signInLife, pending)
	if err != nil {
		return nil, s.apiError(err)
	}
	Describe(ctx, "", "the password is right, the second factor is missing")
	response := &platformv1.SecondFactorChallenge{
		Ticket: ticket, ExpiresAt: timestamppb.New(s.now().Add(signInLife)), Passkey: options,
		Totp: slices.ContainsFunc(factors, func(factor store.Factor) bool { return factor.Kind == store.FactorTOTP }),
	}
	return connect.NewResponse(&platformv1.SignInResponse{SecondFactor: response}), nil
}

// CompleteSignIn verifies the second factor and opens the session.
func (s authService) CompleteSignIn(ctx context.Context, request *connect.Request[platformv1.CompleteSignInRequest]) (*connect.Response[platformv1.SignInResponse], error) {
	again := precondition("the sign-in took too long, or the password was changed; start again")
	var pending pendingSignIn
	if err := s.tickets.open(ticketSignIn, request.Msg.GetTicket(), &pending); err != nil {
		return nil, again
	}
	user, err := s.store.User(ctx, pending.AccountID, pending.UserID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, again
	}
	if err != nil {
		return nil, s.apiError(err)
	}
	account, err := s.store.Account(ctx, user.AccountID)
	if err != nil {
		return nil, s.apiError(err)
	}
	caller := Caller{Account: account, User: user, Address: clientAddress(request.Peer().Addr, request.Header(), s.options.TrustedProxies)}
	actAs(ctx, caller)
	Describe(ctx, "auth/"+user.Email, "")
	if !bytes.Equal(fingerprint(user.PasswordHash), pending.Password) {
		return nil, again
	}
	detail, err := s.checkFactor(ctx, user, pending, request)
	if err != nil {
		return nil, s.apiError(withAuditUser(user, err))
	}
	Describe(ctx, "", detail)
	opened, err := s.completeSignIn(ctx, caller, request.Header(), func(now *store.User) error {
		return requirePassword(now, user.PasswordHash)
	})
	if err != nil {
		return nil, s.apiError(err)
	}
	return s.signedIn(caller, opened), nil
}

// checkFactor verifies the proof of a second factor and returns which one it
// was. Proofs are counted like passwords: per device that has signed in before,
// and for all other clients together.
func (s authService) checkFactor(ctx context.Context, user store.User, pending pendingSignIn, request *connect.Request[platformv1.CompleteSignInRequest]) (detail string, err error) {
	key := "factor:" + user.ID
	if id := deviceID(s.cookies.find(request.Header(), s.cookies.device), user, s.now()); id != "" {
		key = "factor-device:" + id
	}
	attempt := s.limits.factor(key)
	done, err := attempt.begin(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	var ok bool
	refused := unauthenticated("the code is wrong, or was used before")
	if response := request.Msg.GetPasskey(); response != "" {
		refused = unauthenticated("the passkey was not accepted; try again, or enter a recovery code")
		detail, ok, err = s.checkPasskey(ctx, user, pending, response)
	} else {
		detail, ok, err = s.checkCode(ctx, user, request.Msg.GetCode())
	}
	if err != nil {
		return "", err
	}
	if !ok {
		return "", refused
	}
	return detail, attempt.succeeded(ctx)
}

// checkCode verifies a code of the authenticator app, or a recovery code. Each
// is accepted once.
func (i *Identity) checkCode(ctx context.Context, user store.User, text string) (detail string, ok bool, err error) {
	if code, isRecovery := parseRecoveryCode(text); isRecovery {
		err := i.store.UseRecoveryCode(ctx, user.ID, recoveryHash(user.ID, code))
		if err != nil {
			return "", false, ignoreNotFound(err)
		}
		left, err := i.store.CountRecoveryCodes(ctx, user.ID)
		return fmt.Sprintf("with a recovery code, %d are left", left), true, err
	}
	factors, err := i.store.Factors(ctx, user.ID)
	if err != nil {
		return "", false, err
	}
	for _, factor := range factors {
		if factor.Kind != store.FactorTOTP {
			continue
		}
		value, err := i.openFactor(factor)
		if err != nil {
			return "", false, err
		}
		step, ok := totpStep(value, text, i.now())
		if !ok {
			continue
		}
		if err := i.store.UseFactor(ctx, factor.ID, step, factor.Secret); err != nil {
			return "", false, ignoreNotFound(err)
		}
		return "with an authenticator app", true, nil
	}
	return "", false, nil
}

// ignoreNotFound returns nil for a proof that the store does not accept.
func ignoreNotFound(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}

// sealFactor encrypts the secret of a factor. User and ID are authenticated, so
// that rows cannot be swapped.
func (i *Identity) sealFactor(userID, id string, value secret.Text) []byte {
	return i.factors.Seal([]byte(value.Reveal()), userID+"/"+id)
}

// openFactor decrypts the secret of a factor.
func (i *Identity) openFactor(factor store.Factor) (secret.Text, error) {
	value, err := i.factors.Open(factor.Secret, factor.UserID+"/"+factor.ID)
	if err != nil {
		return secret.Text{}, fmt.Errorf("the second factor %s was encrypted with another key: set --database.secretKeyFile to the key file that belongs to this database", factor.ID)
	}
	return secret.New(string(value)), nil
}

// mustAddFactor reports whether the platform requires a second factor that the
// user of a session does not have. API keys and users of the identity provider
// need none.
func (i *Identity) mustAddFactor(caller Caller) bool {
	return i.options.SignIn.SecondFactorRequired && caller.Session != nil && caller.User.PasswordHash != "" && !caller.User.SecondFactor
}

// ResetSecondFactor removes the second factors of a user and ends the sessions.
// It is for an operator on the platform's machine when an admin has lost the
// second factor.
func (s System) ResetSecondFactor(ctx context.Context, email string) error {
	user, err := s.Store.UserByEmail(ctx, email)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("there is no user with the email %s", clean(email))
	}
	if err != nil {
		return err
	}
	if !user.SecondFactor {
		return fmt.Errorf("%s has no second factor", user.Email)
	}
	return s.Run(ctx, Event{Action: "account.reset-second-factor", Target: "user/" + user.Email}, func() error {
		return s.Store.ResetFactors(ctx, user.AccountID, user.ID)
	}, user.AccountID)
}
