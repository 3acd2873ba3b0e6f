package identity_test

import (
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/identity/oidctest"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// ssoOnly restarts a world without passwords.
func ssoOnly(w *world) *oidctest.Provider {
	w.t.Helper()
	p := oidctest.New(w.t)
	w.listen(func(o *identity.Options) {
		o.SignIn.PasswordsDisabled = true
		o.OIDC = &identity.OIDCOptions{Name: "Example SSO", Issuer: p.URL, ClientID: oidctest.ClientID, ClientSecret: secret.New(oidctest.ClientSecret)}
		p.Public = o.PublicURL.String()
	})
	return p
}

// Without passwords no password opens a session, those that one opened end, and
// API keys go on.
func TestPasswordsDisabled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	bob, user := w.user(admin)
	key := admin.key("ci", 0)
	ssoOnly(w)
	methods, err := w.nobody().auth().Methods(t.Context(), connect.NewRequest(&platformv1.MethodsRequest{}))
	must(t, err)
	if methods.Msg.GetPassword() || methods.Msg.GetOidcName() != "Example SSO" {
		t.Errorf("methods: %v", methods.Msg)
	}
	reason := func(what string, err error, code connect.Code) {
		t.Helper()
		want(t, what, err, code)
		if err == nil || !strings.Contains(err.Error(), "passwords are disabled on this platform") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, password := range []string{adminPassword, "wrong"} {
		_, err := w.nobody().signIn(adminEmail, password)
		reason("sign in with "+password, err, connect.CodeFailedPrecondition)
	}
	reason("the session of a password", bob.may(), connect.CodeUnauthenticated)
	with := w.bearer(key.GetSecret())
	want(t, "the key of a password user", with.may(), 0)
	_, err = with.accounts().ResetPassword(t.Context(), connect.NewRequest(&platformv1.ResetPasswordRequest{Id: user.GetId()}))
	reason("reset a password", err, connect.CodeFailedPrecondition)
	_, err = with.accounts().CreateUser(t.Context(), connect.NewRequest(&platformv1.CreateUserRequest{Email: "new@example.com", Role: platformv1.Role_ROLE_OPERATOR}))
	reason("create a user with a password", err, connect.CodeFailedPrecondition)
	w.listen()
	want(t, "the session when passwords are enabled again", bob.may(), 0)
}

// Without passwords the identity provider takes over the user with the same
// verified email, whose password is gone for good.
func TestPasswordUserBecomesExternal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before, err := w.admin().me()
	must(t, err)
	provider := ssoOnly(w)
	provider.Next(map[string]any{"email": adminEmail, "sub": "ann"}, nil)
	ann := w.nobody()
	ann.sso()
	after, err := ann.me()
	must(t, err)
	if after.GetId() != before.GetId() || !after.GetExternal() || after.GetRole() != platformv1.Role_ROLE_ADMIN {
		t.Errorf("signed in as %v", after)
	}
	provider.Next(map[string]any{"email": adminEmail, "sub": "another"}, nil)
	if status, _, _ := w.nobody().sso(); status != http.StatusForbidden {
		t.Errorf("another subject with the email: %d", status)
	}
	w.listen()
	_, err = w.nobody().signIn(adminEmail, adminPassword)
	want(t, "the old password", err, connect.CodeUnauthenticated)
}

// The first admin of a platform without passwords has none, and signs in
// through the identity provider.
func TestBootstrapWithoutPasswords(t *testing.T) {
	t.Parallel()
	database, err := store.Open(t.Context(), store.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "platform.db")})
	must(t, err)
	defer func() { _ = database.Close() }()
	password, created, err := identity.Bootstrap(t.Context(), database, "Example", adminEmail, identity.SignInPolicy{PasswordsDisabled: true})
	must(t, err)
	user, err := database.UserByEmail(t.Context(), adminEmail)
	must(t, err)
	if !created || !password.IsZero() || user.PasswordHash != "" || user.MustChangePassword || user.Role != store.RoleAdmin {
		t.Errorf("created %v, a password %v: %+v", created, !password.IsZero(), user)
	}
}

// Without passwords and without an identity provider there is no way in.
func TestNoWayToSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	public, err := url.Parse(w.url)
	must(t, err)
	if _, err := identity.New(t.Context(), identity.Options{Store: w.store, Key: testKey, PublicURL: public, SignIn: identity.SignInPolicy{PasswordsDisabled: true}}); err == nil {
		t.Error("it started")
	}
}
