package identity_test

import (
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// Users are made with valid names, once, and admins change them.
func TestUsers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	bob, user := w.user(admin)
	for _, tt := range []struct {
		name    string
		request *platformv1.CreateUserRequest
		code    connect.Code
	}{
		{"no email", &platformv1.CreateUserRequest{Role: platformv1.Role_ROLE_OPERATOR}, connect.CodeInvalidArgument},
		{"a name in the email", &platformv1.CreateUserRequest{Email: "Eve <eve@example.com>", Role: platformv1.Role_ROLE_OPERATOR}, connect.CodeInvalidArgument},
		{"a line in the name", &platformv1.CreateUserRequest{Email: "eve@example.com", Name: "a\nb", Role: platformv1.Role_ROLE_OPERATOR}, connect.CodeInvalidArgument},
		{"no role", &platformv1.CreateUserRequest{Email: "eve@example.com"}, connect.CodeInvalidArgument},
		{"there is one", &platformv1.CreateUserRequest{Email: strings.ToUpper(userEmail), Role: platformv1.Role_ROLE_OPERATOR}, connect.CodeAlreadyExists},
		{"external, without a provider", &platformv1.CreateUserRequest{Email: "eve@example.com", Role: platformv1.Role_ROLE_OPERATOR, External: true}, connect.CodeFailedPrecondition},
	} {
		_, err := admin.accounts().CreateUser(t.Context(), connect.NewRequest(tt.request))
		want(t, tt.name, err, tt.code)
	}
	for _, who := range []*person{admin, bob} {
		account, err := who.accounts().GetAccount(t.Context(), connect.NewRequest(&platformv1.GetAccountRequest{}))
		must(t, err)
		if sees := account.Msg.GetDatabase().GetKind() != ""; sees != (who == admin) {
			t.Errorf("an admin: %t; sees the database: %t", who == admin, sees)
		}
	}
	role, name := platformv1.Role_ROLE_ADMIN, "Robert"
	updated, err := admin.accounts().UpdateUser(t.Context(), connect.NewRequest(&platformv1.UpdateUserRequest{Id: user.GetId(), Role: &role, Name: &name}))
	must(t, err)
	if updated.Msg.GetUser().GetRole() != role || updated.Msg.GetUser().GetName() != name {
		t.Errorf("the user is %v", updated.Msg.GetUser())
	}
	want(t, "the session from before the new role", bob.may(), connect.CodeUnauthenticated)
	list, err := admin.accounts().ListUsers(t.Context(), connect.NewRequest(&platformv1.ListUsersRequest{PageSize: 1}))
	must(t, err)
	if len(list.Msg.GetUsers()) != 1 || list.Msg.GetNextPageToken() == "" {
		t.Errorf("a page of one has %d and the token %q", len(list.Msg.GetUsers()), list.Msg.GetNextPageToken())
	}
	_, err = admin.accounts().ListUsers(t.Context(), connect.NewRequest(&platformv1.ListUsersRequest{PageToken: "nonsense"}))
	want(t, "a token that nobody gave", err, connect.CodeInvalidArgument)
	_, err = admin.accounts().UpdateAccount(t.Context(), connect.NewRequest(&platformv1.UpdateAccountRequest{Name: "Other"}))
	must(t, err)
	account, err := admin.accounts().GetAccount(t.Context(), connect.NewRequest(&platformv1.GetAccountRequest{}))
	must(t, err)
	if account.Msg.GetAccount().GetName() != "Other" {
		t.Errorf("the account is %v", account.Msg.GetAccount())
	}
}

// No user removes their own rights, and an account keeps an admin.
func TestLastAdmin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	me, err := admin.auth().Me(t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
	must(t, err)
	id, disabled, role := me.Msg.GetUser().GetId(), true, platformv1.Role_ROLE_OPERATOR
	for name, request := range map[string]*platformv1.UpdateUserRequest{"disable": {Id: id, Disabled: &disabled}, "demote": {Id: id, Role: &role}} {
		_, err := admin.accounts().UpdateUser(t.Context(), connect.NewRequest(request))
		want(t, name, err, connect.CodeFailedPrecondition)
	}
	_, err = admin.accounts().DeleteUser(t.Context(), connect.NewRequest(&platformv1.DeleteUserRequest{Id: id}))
	want(t, "delete", err, connect.CodeFailedPrecondition)
	_, err = admin.accounts().ResetPassword(t.Context(), connect.NewRequest(&platformv1.ResetPasswordRequest{Id: id}))
	want(t, "reset", err, connect.CodeFailedPrecondition)
	must(t, admin.may())
}

// Users of another account do not exist.
func TestOtherAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	account, err := w.store.CreateAccount(t.Context(), store.Account{Name: "Elsewhere"})
	must(t, err)
	other, err := w.store.CreateUser(t.Context(), store.User{AccountID: account.ID, Email: "zoe@example.net", Name: "Zoe", Role: store.RoleAdmin})
	must(t, err)
	key, err := w.store.CreateKey(t.Context(), store.Key{AccountID: account.ID, UserID: other.ID, Name: "theirs", Prefix: "slw_x", Hash: []byte(strings.Repeat("x", 32)), Scopes: []string{"all"}})
	must(t, err)
	name := "mine"
	for what, err := range map[string]error{
		"update": second(admin.accounts().UpdateUser(t.Context(), connect.NewRequest(&platformv1.UpdateUserRequest{Id: other.ID, Name: &name}))),
		"reset":  second(admin.accounts().ResetPassword(t.Context(), connect.NewRequest(&platformv1.ResetPasswordRequest{Id: other.ID}))),
		"delete": second(admin.accounts().DeleteUser(t.Context(), connect.NewRequest(&platformv1.DeleteUserRequest{Id: other.ID}))),
		"revoke": second(admin.keys().RevokeKey(t.Context(), connect.NewRequest(&platformv1.RevokeKeyRequest{Id: key.ID}))),
	} {
		want(t, what, err, connect.CodeNotFound)
	}
	list, err := admin.accounts().ListUsers(t.Context(), connect.NewRequest(&platformv1.ListUsersRequest{}))
	must(t, err)
	for _, user := range list.Msg.GetUsers() {
		if user.GetId() == other.ID {
			t.Error("the list has a user of another account")
		}
	}
}

func second[T any](_ T, err error) error { return err }
