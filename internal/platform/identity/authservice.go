package identity

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// authService implements AuthService.
type authService struct{ *Identity }

// errSignIn is the same for an unknown name and a wrong password.
func errSignIn() *DeniedError { return unauthenticated("the email or the password is wrong") }

// errDisabled is returned only after a credential was verified, so it reveals
// nothing to others.
func errDisabled() *DeniedError {
	return unauthenticated("the user is disabled; an admin of the account can enable it")
}

// errNoPasswords is the same for every user and password: neither is checked.
func (i *Identity) errNoPasswords() error {
	return precondition("passwords are disabled on this platform: sign in through %s", i.oidc.options.Name)
}

// SignIn verifies a password and opens a session, or requests the second
// factor.
func (s authService) SignIn(ctx context.Context, request *connect.Request[platformv1.SignInRequest]) (*connect.Response[platformv1.SignInResponse], error) {
	if s.options.SignIn.PasswordsDisabled {
		return nil, s.errNoPasswords()
	}
	address := clientAddress(request.Peer().Addr, request.Header(), s.options.TrustedProxies)
	email, password := strings.TrimSpace(request.Msg.GetEmail()), secret.New(request.Msg.GetPassword())
	// Oversized input is rejected before it is hashed.
	if len(email) > emailMax || len(request.Msg.GetPassword()) > passwordMax {
		return nil, s.apiError(errSignIn())
	}
	device := s.cookies.find(request.Header(), s.cookies.device)
	user, renewed, err := s.checkPassword(ctx, email, password, address, device)
	if err != nil {
		return nil, s.apiError(err)
	}
	account, err := s.store.Account(ctx, user.AccountID)
	if err != nil {
		return nil, s.apiError(err)
	}
	caller := Caller{Account: account, User: user, Address: address}
	// From here on the audit entry has the user as its actor.
	actAs(ctx, caller)
	if user.SecondFactor {
		return s.challenge(ctx, user, renewed)
	}
	opened, err := s.completeSignIn(ctx, caller, request.Header(), func(now *store.User) error {
		if now.SecondFactor {
			return &DeniedError{Code: connect.CodeAborted, Reason: "a second factor was added concurrently; start again"}
		}
		err := requirePassword(now, user.PasswordHash)
		now.PasswordHash = renewed
		return err
	})
	if err != nil {
		return nil, s.apiError(err)
	}
	return s.signedIn(caller, opened), nil
}

// signedIn returns the response to a complete sign-in.
func (i *Identity) signedIn(caller Caller, opened openedSession) *connect.Response[platformv1.SignInResponse] {
	response := connect.NewResponse(&platformv1.SignInResponse{
		User: userMessage(opened.user), Account: accountMessage(caller.Account),
		CsrfToken: opened.csrf.Reveal(), ExpiresAt: timestamppb.New(opened.ExpiresAt),
	})
	i.setSignInCookies(response.Header(), opened)
	return response
}

// checkPassword returns the user with the email and password, and the hash to
// store from now on. Unknown users take the same time as wrong passwords.
func (s authService) checkPassword(ctx context.Context, email string, password secret.Text, address, device string) (user store.User, renewed string, err error) {
	user, err = s.store.UserByEmail(ctx, email)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.User{}, "", err
	}
	// The attempt is counted before the password is checked: concurrent
	// guesses count too.
	attempt := s.limits.stranger(email, address)
	if id := deviceID(device, user, s.now()); id != "" {
		attempt = s.limits.known("device:" + id)
	}
	done, err := attempt.begin(ctx)
	if err != nil {
		return store.User{}, "", withAuditUser(user, err)
	}
	defer done()
	ok, err := s.passwords.check(ctx, passwordHash(user.PasswordHash), password)
	switch {
	case err != nil:
		return store.User{}, "", err
	case !ok:
		return store.User{}, "", errors.Join(withAuditUser(user, errSignIn()), attempt.failed(ctx))
	case user.Disabled:
		return store.User{}, "", withAuditUser(user, errDisabled())
	}
	if err := attempt.succeeded(ctx); err != nil {
		return store.User{}, "", err
	}
	renewed, err = s.renewedHash(ctx, user, password)
	return user, renewed, err
}

// withAuditUser assigns a denial to the audit log of a user, if there is one.
func withAuditUser(user store.User, err error) error {
	if denied, ok := errors.AsType[*DeniedError](err); ok {
		return denied.of(user, user.Email, KindUser)
	}
	return err
}

// renewedHash upgrades a weak hash: the plain password is only available now.
func (s authService) renewedHash(ctx context.Context, user store.User, password secret.Text) (string, error) {
	parsed, err := parseHash(passwordHash(user.PasswordHash))
	if err == nil && parsed.weak() {
		return s.passwords.hash(ctx, password)
	}
	return user.PasswordHash, err
}

// completeSignIn opens a session for an authenticated user and applies the
// changes of the sign-in to the user. A user who was disabled meanwhile is
// denied.
func (i *Identity) completeSignIn(ctx context.Context, caller Caller, header http.Header, change func(*store.User) error) (openedSession, error) {
	return i.openSession(ctx, caller.User, header, caller.Address, func(now *store.User) (store.Ending, error) {
		if now.Disabled {
			return store.EndNothing, errDisabled()
		}
		now.LastSignInAt = i.now().UTC()
		return store.EndNothing, change(now)
	})
}

// SignOut ends the session.
func (s authService) SignOut(ctx context.Context, _ *connect.Request[platformv1.SignOutRequest]) (*connect.Response[platformv1.SignOutResponse], error) {
	caller, _ := CallerFrom(ctx)
	if err := s.store.DeleteSession(ctx, caller.Session.Hash); err != nil {
		return nil, s.apiError(err)
	}
	response := connect.NewResponse(&platformv1.SignOutResponse{})
	response.Header().Add("Set-Cookie", s.cookies.cookie(s.cookies.session, "", 0).String())
	return response, nil
}

// Me returns the caller, with the CSRF token of a session.
func (s authService) Me(ctx context.Context, _ *connect.Request[platformv1.MeRequest]) (*connect.Response[platformv1.MeResponse], error) {
	caller, _ := CallerFrom(ctx)
	response := &platformv1.MeResponse{
		User: userMessage(caller.User), Account: accountMessage(caller.Account), PlatformVersion: s.options.Version,
		MustAddSecondFactor: s.mustAddFactor(caller),
	}
	if caller.Session != nil {
		response.CsrfToken = csrfToken(caller.proof).Reveal()
	}
	if caller.Key != nil {
		response.Key = keyMessage(*caller.Key)
	}
	return connect.NewResponse(response), nil
}

// ChangePassword sets the password of the caller. All their sessions end, and
// the keys that they created; the current session is replaced by a new one.
func (s authService) ChangePassword(ctx context.Context, request *connect.Request[platformv1.ChangePasswordRequest]) (*connect.Response[platformv1.ChangePasswordResponse], error) {
	caller, _ := CallerFrom(ctx)
	Describe(ctx, "user/"+caller.User.Email, "")
	user := caller.User
	if user.PasswordHash == "" {
		return nil, precondition("the user signs in through the identity provider and has no password here")
	}
	old, chosen := secret.New(request.Msg.GetOldPassword()), secret.New(request.Msg.GetNewPassword())
	if err := checkNewPassword(chosen, user.Email); err != nil {
		return nil, err
	}
	if old.Reveal() == chosen.Reveal() {
		return nil, invalid("the new password is the old one")
	}
	if err := s.checkOwnPassword(ctx, caller, old); err != nil {
		return nil, s.apiError(err)
	}
	// Hashing happens outside of the transaction, because it is slow.
	hash, err := s.passwords.hash(ctx, chosen)
	if err != nil {
		return nil, s.apiError(err)
	}
	opened, err := s.openSession(ctx, user, request.Header(), caller.Address, func(now *store.User) (store.Ending, error) {
		err := requirePassword(now, user.PasswordHash)
		now.PasswordHash, now.MustChangePassword = hash, false
		return store.EndOwnKeys, err
	})
	if err != nil {
		return nil, s.apiError(err)
	}
	response := connect.NewResponse(&platformv1.ChangePasswordResponse{})
	s.setSignInCookies(response.Header(), opened)
	return response, nil
}

// checkOwnPassword verifies the current password, so that an unattended
// session is not enough. Failures have a counter of their own: strangers must
// not keep a user from changing the password.
func (s authService) checkOwnPassword(ctx context.Context, caller Caller, password secret.Text) error {
	wrong := forbidden("the current password is wrong")
	if len(password.Reveal()) > passwordMax {
		return wrong
	}
	attempt := s.limits.known("change:" + caller.User.ID)
	done, err := attempt.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	ok, err := s.passwords.check(ctx, passwordHash(caller.User.PasswordHash), password)
	if err != nil {
		return err
	}
	if !ok {
		return errors.Join(wrong, attempt.failed(ctx))
	}
	return attempt.succeeded(ctx)
}

// Methods returns the available ways to sign in.
func (s authService) Methods(context.Context, *connect.Request[platformv1.MethodsRequest]) (*connect.Response[platformv1.MethodsResponse], error) {
	response := &platformv1.MethodsResponse{Password: !s.options.SignIn.PasswordsDisabled}
	if s.oidc != nil {
		response.OidcUrl = s.options.PublicURL.JoinPath(oidcLoginPath).String()
		response.OidcName = s.oidc.options.Name
	}
	return connect.NewResponse(response), nil
}
