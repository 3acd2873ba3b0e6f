package identity

import (
	"context"
	"errors"
	"net/mail"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Limits of emails and names.
const (
	emailMax = 254
	nameMax  = 100
)

// accountService implements AccountService.
type accountService struct{ *Identity }

// GetAccount returns the caller's account, and for admins how the database is
// replicated.
func (s accountService) GetAccount(ctx context.Context, _ *connect.Request[platformv1.GetAccountRequest]) (*connect.Response[platformv1.GetAccountResponse], error) {
	caller, _ := CallerFrom(ctx)
	response := &platformv1.GetAccountResponse{Account: accountMessage(caller.Account)}
	if caller.User.Role == store.RoleAdmin {
		found, err := s.store.Replication(ctx)
		if err != nil {
			return nil, s.apiError(err)
		}
		response.Database = &platformv1.PlatformDatabase{
			Kind: found.Kind, Hosts: int32(found.Hosts), Standbys: int32(found.Standbys), Synchronous: found.Synchronous, //nolint:gosec // small numbers
		}
	}
	return connect.NewResponse(response), nil
}

// UpdateAccount changes the name of the account.
func (s accountService) UpdateAccount(ctx context.Context, request *connect.Request[platformv1.UpdateAccountRequest]) (*connect.Response[platformv1.UpdateAccountResponse], error) {
	caller, _ := CallerFrom(ctx)
	account := caller.Account
	name, err := checkName("the account", request.Msg.GetName())
	if err != nil {
		return nil, err
	}
	account.Name = name
	if err := s.store.UpdateAccount(ctx, account); err != nil {
		return nil, s.apiError(err)
	}
	return connect.NewResponse(&platformv1.UpdateAccountResponse{Account: accountMessage(account)}), nil
}

// ListUsers lists the users of the account.
func (s accountService) ListUsers(ctx context.Context, request *connect.Request[platformv1.ListUsersRequest]) (*connect.Response[platformv1.ListUsersResponse], error) {
	caller, _ := CallerFrom(ctx)
	users, next, err := s.store.Users(ctx, caller.Account.ID, page(request.Msg))
	if err != nil {
		return nil, s.apiError(err)
	}
	response := &platformv1.ListUsersResponse{NextPageToken: next}
	for _, user := range users {
		response.Users = append(response.Users, userMessage(user))
	}
	return connect.NewResponse(response), nil
}

// CreateUser creates a user, with a one-time password unless they sign in
// through the identity provider.
func (s accountService) CreateUser(ctx context.Context, request *connect.Request[platformv1.CreateUserRequest]) (*connect.Response[platformv1.CreateUserResponse], error) {
	caller, _ := CallerFrom(ctx)
	email, err := checkEmail(request.Msg.GetEmail())
	if err != nil {
		return nil, err
	}
	Describe(ctx, "user/"+email, "")
	role, err := roleOf(request.Msg.GetRole())
	if err != nil {
		return nil, err
	}
	user := store.User{AccountID: caller.Account.ID, Email: email, Role: role, CreatedAt: s.now().UTC()}
	if user.Name, err = checkName("the user", orElse(request.Msg.GetName(), email)); err != nil {
		return nil, err
	}
	var once secret.Text
	switch {
	// Such a user could never sign in.
	case request.Msg.GetExternal() && s.oidc == nil:
		return nil, precondition("there is no identity provider that the user could sign in through")
	case !request.Msg.GetExternal() && s.options.SignIn.PasswordsDisabled:
		return nil, precondition("passwords are disabled on this platform: create the user as external, who signs in through the identity provider")
	case !request.Msg.GetExternal():
		once = oneTimePassword()
		user.MustChangePassword = true
		if user.PasswordHash, err = s.passwords.hash(ctx, once); err != nil {
			return nil, s.apiError(err)
		}
	}
	if user, err = s.store.CreateUser(ctx, user); err != nil {
		return nil, s.apiError(err)
	}
	return connect.NewResponse(&platformv1.CreateUserResponse{User: userMessage(user), OneTimePassword: once.Reveal()}), nil
}

// UpdateUser changes a user. Their sessions end when they get another role, so
// that open pages do not keep the old permissions; disabling also revokes their
// keys, so that enabling does not bring back a stolen one.
func (s accountService) UpdateUser(ctx context.Context, request *connect.Request[platformv1.UpdateUserRequest]) (*connect.Response[platformv1.UpdateUserResponse], error) {
	caller, user, err := s.target(ctx, request.Msg.GetId())
	if err != nil {
		return nil, s.apiError(err)
	}
	changed, err := s.store.ChangeUser(ctx, user.AccountID, user.ID, func(now *store.User) (store.Ending, error) {
		role := now.Role
		err := applyUpdate(caller, now, request.Msg)
		switch {
		case now.Disabled:
			return store.EndAllKeys, err
		case now.Role != role:
			return store.EndSessions, err
		}
		return store.EndNothing, err
	})
	if err != nil {
		return nil, s.apiError(err)
	}
	return connect.NewResponse(&platformv1.UpdateUserResponse{User: userMessage(changed)}), nil
}

// applyUpdate applies the fields that the request sets.
func applyUpdate(caller Caller, user *store.User, request *platformv1.UpdateUserRequest) (err error) {
	role := user.Role
	if request.Name != nil {
		if user.Name, err = checkName("the user", request.GetName()); err != nil {
			return err
		}
	}
	if request.Role != nil {
		if user.Role, err = roleOf(request.GetRole()); err != nil {
			return err
		}
	}
	if request.Disabled != nil {
		user.Disabled = request.GetDisabled()
	}
	// An admin who demotes themselves could not undo it.
	if user.ID == caller.User.ID && (user.Role != role || user.Disabled) {
		return precondition("you cannot remove your own permissions: another admin must do it")
	}
	return nil
}

// ResetPassword sets a one-time password for a user and ends their sessions
// and keys.
func (s accountService) ResetPassword(ctx context.Context, request *connect.Request[platformv1.ResetPasswordRequest]) (*connect.Response[platformv1.ResetPasswordResponse], error) {
	caller, user, err := s.target(ctx, request.Msg.GetId())
	if err != nil {
		return nil, s.apiError(err)
	}
	switch {
	case s.options.SignIn.PasswordsDisabled:
		return nil, s.errNoPasswords()
	case user.ID == caller.User.ID:
		return nil, precondition("change your own password instead")
	case user.Subject != "":
		return nil, precondition("the user signs in through the identity provider and has no password here")
	}
	once, err := resetPassword(ctx, s.store, s.passwords, user)
	if err != nil {
		return nil, s.apiError(err)
	}
	return connect.NewResponse(&platformv1.ResetPasswordResponse{OneTimePassword: once.Reveal()}), nil
}

// ResetSecondFactor removes the second factors of a user who has lost them, and
// ends the sessions.
func (s accountService) ResetSecondFactor(ctx context.Context, request *connect.Request[platformv1.ResetSecondFactorRequest]) (*connect.Response[platformv1.ResetSecondFactorResponse], error) {
	caller, user, err := s.target(ctx, request.Msg.GetId())
	if err != nil {
		return nil, s.apiError(err)
	}
	// The own one is removed with the password, which this does not ask for.
	if user.ID == caller.User.ID {
		return nil, precondition("remove your own second factor in the settings of the console instead")
	}
	if err := s.store.ResetFactors(ctx, user.AccountID, user.ID); err != nil {
		return nil, s.apiError(err)
	}
	return connect.NewResponse(&platformv1.ResetSecondFactorResponse{}), nil
}

// DeleteUser deletes a user with their sessions and keys.
func (s accountService) DeleteUser(ctx context.Context, request *connect.Request[platformv1.DeleteUserRequest]) (*connect.Response[platformv1.DeleteUserResponse], error) {
	caller, user, err := s.target(ctx, request.Msg.GetId())
	if err != nil {
		return nil, s.apiError(err)
	}
	if user.ID == caller.User.ID {
		return nil, precondition("you cannot delete your own user: another admin must do it")
	}
	if err := s.store.DeleteUser(ctx, caller.Account.ID, user.ID); err != nil {
		return nil, s.apiError(err)
	}
	return connect.NewResponse(&platformv1.DeleteUserResponse{}), nil
}

// target returns the user of a call, from the caller's account only.
func (s accountService) target(ctx context.Context, id string) (Caller, store.User, error) {
	caller, _ := CallerFrom(ctx)
	user, err := s.store.User(ctx, caller.Account.ID, id)
	if errors.Is(err, store.ErrNotFound) {
		return caller, user, connect.NewError(connect.CodeNotFound, errors.New("the account has no such user"))
	}
	if err == nil {
		Describe(ctx, "user/"+user.Email, "")
	}
	return caller, user, err
}

// checkEmail accepts a plain address without a display name.
func checkEmail(text string) (string, error) {
	text = strings.TrimSpace(text)
	parsed, err := mail.ParseAddress(text)
	if err != nil || parsed.Address != text || len(text) > emailMax || clean(text) != text {
		return "", invalid("the email must be a plain address such as ann@example.com")
	}
	return text, nil
}

// checkName accepts 1 to nameMax printable characters.
func checkName(of, text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > nameMax || clean(text) != text {
		return "", invalid("the name of %s must have 1 to %d printable characters", of, nameMax)
	}
	return text, nil
}

// orElse returns the text, or a truncated fallback if it is empty.
func orElse(text, other string) string {
	if strings.TrimSpace(text) == "" {
		return other[:min(len(other), nameMax)]
	}
	return text
}

// roleMessages are the roles of the API by their stored names.
var roleMessages = map[store.Role]platformv1.Role{
	store.RoleRestricted: platformv1.Role_ROLE_RESTRICTED,
	store.RoleViewer:     platformv1.Role_ROLE_VIEWER, store.RoleOperator: platformv1.Role_ROLE_OPERATOR, store.RoleAdmin: platformv1.Role_ROLE_ADMIN,
}

// roleOf converts a role of the API.
func roleOf(role platformv1.Role) (store.Role, error) {
	for name, message := range roleMessages {
		if message == role {
			return name, nil
		}
	}
	return "", invalid("the role must be ROLE_RESTRICTED, ROLE_VIEWER, ROLE_OPERATOR or ROLE_ADMIN")
}

// paged is a request for a page of a list.
type paged interface {
	GetPageSize() int32
	GetPageToken() string
}

// page converts the page parameters of a request.
func page(request paged) store.Page {
	return store.Page{Size: int(max(request.GetPageSize(), 0)), Token: request.GetPageToken()}
}

// accountMessage converts an account to its API message.
func accountMessage(account store.Account) *platformv1.Account {
	return &platformv1.Account{Id: account.ID, Name: account.Name, CreatedAt: timestamppb.New(account.CreatedAt)}
}

// userMessage converts a user to its API message, without the password hash.
func userMessage(user store.User) *platformv1.User {
	return &platformv1.User{
		Id: user.ID, Email: user.Email, Name: user.Name, Role: roleMessages[user.Role],
		Disabled: user.Disabled, MustChangePassword: user.MustChangePassword, External: user.PasswordHash == "",
		CreatedAt: timestamppb.New(user.CreatedAt), LastSignInAt: wire.Timestamp(user.LastSignInAt), Groups: user.Groups,
		SecondFactor: user.SecondFactor && user.PasswordHash != "",
	}
}
