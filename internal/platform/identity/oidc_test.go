package identity_test

import (
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/go-jose/go-jose/v4"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/identity/oidctest"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// external is a world with an identity provider.
func external(t *testing.T, change ...func(*identity.OIDCOptions)) (*world, *oidctest.Provider) {
	t.Helper()
	p := oidctest.New(t)
	w := newWorld(t, func(o *identity.Options) {
		o.OIDC = &identity.OIDCOptions{Name: "Example SSO", Issuer: p.URL, ClientID: oidctest.ClientID, ClientSecret: secret.New(oidctest.ClientSecret), CreateUsers: true}
		for _, f := range change {
			f(o.OIDC)
		}
		p.Public = o.PublicURL.String()
	})
	return w, p
}

// visit opens a page, follows redirects, and returns the last response.
func (p *person) visit(address string) (status int, at *url.URL, body string) {
	p.w.t.Helper()
	request, err := http.NewRequestWithContext(p.w.t.Context(), http.MethodGet, address, nil)
	must(p.w.t, err)
	response, err := p.http.Do(request)
	must(p.w.t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	must(p.w.t, err)
	return response.StatusCode, response.Request.URL, string(text)
}

func (p *person) sso() (status int, at *url.URL, body string) {
	return p.visit(p.w.url + "/auth/oidc/login?return=" + url.QueryEscape("/apps?x=1"))
}

// me reads who is signed in, and the CSRF token with it.
func (p *person) me() (*platformv1.User, error) {
	answer, err := p.auth().Me(p.w.t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
	if err != nil {
		return nil, err
	}
	p.header.Set(wire.CSRFHeader, answer.Msg.GetCsrfToken())
	return answer.Msg.GetUser(), nil
}

// A new person signs in through the provider, is created as a user, and signs in again.
func TestOIDC(t *testing.T) {
	t.Parallel()
	w, _ := external(t)
	methods, err := w.nobody().auth().Methods(t.Context(), connect.NewRequest(&platformv1.MethodsRequest{}))
	must(t, err)
	if methods.Msg.GetOidcUrl() != w.url+"/auth/oidc/login" || methods.Msg.GetOidcName() != "Example SSO" {
		t.Errorf("methods: %v", methods.Msg)
	}
	p := w.nobody()
	_, at, _ := p.sso()
	if at.RequestURI() != "/apps?x=1" {
		t.Errorf("came back to %s", at)
	}
	user, err := p.me()
	must(t, err)
	if user.GetEmail() != "carol@example.com" || user.GetRole() != platformv1.Role_ROLE_OPERATOR || !user.GetExternal() || user.GetName() != "Carol" {
		t.Errorf("signed in as %v", user)
	}
	must(t, p.may())
	again := w.nobody()
	again.sso()
	if same, err := again.me(); err != nil || same.GetId() != user.GetId() {
		t.Errorf("the second time: %v %v", same, err)
	}
	_, err = w.nobody().signIn("carol@example.com", "")
	want(t, "an empty password for an external user", err, connect.CodeUnauthenticated)
	if text := strings.Join(w.entries(), "\n"); !strings.Contains(text, "user | carol@example.com | auth.sign-in | auth/carol@example.com | ok | ok | through Example SSO") {
		t.Errorf("the audit log is\n%s", text)
	}
	if strings.Contains(w.logs.String(), oidctest.ClientSecret) {
		t.Error("the client's secret is in the log")
	}
}

// ID tokens that are not exactly right are refused, and so is who may not.
func TestOIDCRefusals(t *testing.T) {
	t.Parallel()
	w, p := external(t, func(o *identity.OIDCOptions) { o.AllowedDomains = []string{"Example.com"} })
	signed := func(key jose.SigningKey) func(map[string]any) string {
		return func(claims map[string]any) string { return p.Sign(claims, key) }
	}
	for _, tt := range []struct {
		name   string
		claims map[string]any
		forge  func(map[string]any) string
		ok     bool
	}{
		{name: "good", ok: true},
		{name: "another nonce", claims: map[string]any{"nonce": "another-nonce-of-some-length"}},
		{name: "no nonce", claims: map[string]any{"nonce": nil}},
		{name: "another audience", claims: map[string]any{"aud": "another"}},
		{name: "several audiences without azp", claims: map[string]any{"aud": []string{oidctest.ClientID, "another"}}},
		{name: "several audiences with azp", claims: map[string]any{"aud": []string{oidctest.ClientID, "another"}, "azp": oidctest.ClientID}, ok: true},
		{name: "another issuer", claims: map[string]any{"iss": "https://evil.example"}},
		{name: "expired", claims: map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}},
		{name: "not yet good", claims: map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}},
		{name: "no subject", claims: map[string]any{"sub": ""}},
		{name: "no email", claims: map[string]any{"email": nil}},
		{name: "email not verified", claims: map[string]any{"email_verified": false}},
		{name: "email verified is not said", claims: map[string]any{"email_verified": nil}},
		{name: "email verified as text", claims: map[string]any{"email_verified": "true"}},
		{name: "another domain", claims: map[string]any{"email": "carol@example.com.evil.example"}},
		{name: "two at signs", claims: map[string]any{"email": "carol@evil.example@example.com"}},
		{name: "alg none", forge: oidctest.Unsigned},
		{name: "the client's secret as a key", forge: signed(jose.SigningKey{Algorithm: jose.HS256, Key: []byte(oidctest.ClientSecret + oidctest.ClientSecret)})},
		{name: "the public key as a secret", forge: signed(jose.SigningKey{Algorithm: jose.HS256, Key: x509.MarshalPKCS1PublicKey(&p.Key.PublicKey)})},
		{name: "another key", forge: signed(jose.SigningKey{Algorithm: jose.RS256, Key: p.Other})},
		{name: "no token", forge: func(map[string]any) string { return "" }},
	} {
		p.Next(tt.claims, tt.forge)
		who := w.nobody()
		status, _, _ := who.sso()
		_, err := who.me()
		if (err == nil) != tt.ok || (!tt.ok && status != http.StatusForbidden) {
			t.Errorf("%s: signed in: %v, status %d", tt.name, err == nil, status)
		}
	}
}

// A callback belongs to the browser that began, and works once.
func TestOIDCState(t *testing.T) {
	t.Parallel()
	w, _ := external(t)
	stop := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	begin := func() (*person, *url.URL) {
		p := w.nobody()
		p.http.CheckRedirect = stop
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/auth/oidc/login?return=//evil.example", nil)
		must(t, err)
		response, err := p.http.Do(request)
		must(t, err)
		_ = response.Body.Close()
		request, err = http.NewRequestWithContext(t.Context(), http.MethodGet, response.Header.Get("Location"), nil)
		must(t, err)
		response, err = p.http.Do(request)
		must(t, err)
		_ = response.Body.Close()
		back, err := url.Parse(response.Header.Get("Location"))
		must(t, err)
		return p, back
	}
	victim, _ := begin()
	_, attackers := begin()
	if status, _, _ := victim.visit(attackers.String()); status != http.StatusForbidden {
		t.Errorf("the callback of another browser: %d", status)
	}
	if status, _, _ := w.nobody().visit(attackers.String()); status != http.StatusForbidden {
		t.Errorf("without the cookie: %d", status)
	}
	p, back := begin()
	if status, _, _ := p.visit(strings.Replace(back.String(), "state=", "state=x", 1)); status != http.StatusForbidden {
		t.Errorf("another state: %d", status)
	}
	p, back = begin()
	w.clock.forward(11 * time.Minute)
	if status, _, _ := p.visit(back.String()); status != http.StatusForbidden {
		t.Errorf("after eleven minutes: %d", status)
	}
	p, back = begin()
	if status, _, _ := p.visit(w.url + "/auth/oidc/callback?error=access_denied&state=" + back.Query().Get("state")); status != http.StatusForbidden {
		t.Errorf("the provider said no: %d", status)
	}
}

// What comes back goes to a page of the platform only, and a callback works once.
func TestOIDCReturn(t *testing.T) {
	t.Parallel()
	w, _ := external(t)
	p := w.nobody()
	var callback string
	p.http.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.Path, "/auth/oidc/callback") {
			callback = r.URL.String()
		}
		return nil
	}
	_, at, _ := p.visit(w.url + "/auth/oidc/login?return=" + url.QueryEscape("//evil.example/x"))
	if at.String() != w.url+"/console/" {
		t.Errorf("came back to %s", at)
	}
	if status, _, _ := p.visit(callback); status != http.StatusForbidden {
		t.Errorf("the callback a second time: %d", status)
	}
}

// Users whom an admin expects are found by their email; those with a password are
// not taken over.
func TestOIDCKnownUsers(t *testing.T) {
	t.Parallel()
	w, p := external(t, func(o *identity.OIDCOptions) { o.CreateUsers = false })
	admin := w.admin()
	p.Next(map[string]any{"email": "dan@example.com", "sub": "dan"}, nil)
	if status, _, body := w.nobody().sso(); status != http.StatusForbidden || !strings.Contains(body, "an admin of the account must create it") {
		t.Errorf("somebody unknown: %d %s", status, body)
	}
	made, err := admin.accounts().CreateUser(t.Context(), connect.NewRequest(&platformv1.CreateUserRequest{Email: "Dan@example.com", Role: platformv1.Role_ROLE_ADMIN, External: true}))
	must(t, err)
	if made.Msg.GetOneTimePassword() != "" || !made.Msg.GetUser().GetExternal() {
		t.Error("an external user has a password")
	}
	dan := w.nobody()
	dan.sso()
	user, err := dan.me()
	must(t, err)
	if user.GetId() != made.Msg.GetUser().GetId() || user.GetRole() != platformv1.Role_ROLE_ADMIN {
		t.Errorf("signed in as %v", user)
	}
	p.Next(map[string]any{"email": "dan@example.com", "sub": "another"}, nil)
	if status, _, _ := w.nobody().sso(); status != http.StatusForbidden {
		t.Errorf("another subject with the email: %d", status)
	}
	p.Next(map[string]any{"email": adminEmail, "sub": "thief"}, nil)
	if status, _, _ := w.nobody().sso(); status != http.StatusForbidden {
		t.Errorf("the email of a user with a password: %d", status)
	}
	disabled := true
	_, err = admin.accounts().UpdateUser(t.Context(), connect.NewRequest(&platformv1.UpdateUserRequest{Id: user.GetId(), Disabled: &disabled}))
	must(t, err)
	p.Next(map[string]any{"email": "dan@example.com", "sub": "dan"}, nil)
	if status, _, _ := w.nobody().sso(); status != http.StatusForbidden {
		t.Errorf("a disabled user: %d", status)
	}
}

// A claim decides the role at each sign-in, when it is mapped.
func TestOIDCRoles(t *testing.T) {
	t.Parallel()
	w, p := external(t, func(o *identity.OIDCOptions) {
		o.RoleClaim = "groups"
		o.Roles = map[string]store.Role{"ops": store.RoleAdmin, "dev": store.RoleOperator, "guests": store.RoleViewer}
	})
	for _, tt := range []struct {
		groups any
		role   platformv1.Role
	}{
		{[]string{"dev"}, platformv1.Role_ROLE_OPERATOR},
		{[]string{"ops", "dev"}, platformv1.Role_ROLE_ADMIN},
		{[]string{"dev", "ops"}, platformv1.Role_ROLE_ADMIN},
		{"ops", platformv1.Role_ROLE_ADMIN},
		{[]string{"guests", "others"}, platformv1.Role_ROLE_VIEWER},
		{[]string{"dev", "guests"}, platformv1.Role_ROLE_OPERATOR},
		{[]any{1, nil}, platformv1.Role_ROLE_OPERATOR},
		{nil, platformv1.Role_ROLE_OPERATOR},
	} {
		p.Next(map[string]any{"groups": tt.groups}, nil)
		who := w.nobody()
		who.sso()
		user, err := who.me()
		must(t, err)
		if user.GetRole() != tt.role {
			t.Errorf("%v: %v, want %v", tt.groups, user.GetRole(), tt.role)
		}
	}
}

// The groups of a user are those of the last sign-in, and too many are refused:
// one that is left out could be one that a rule denies something to.
func TestOIDCGroups(t *testing.T) {
	t.Parallel()
	w, p := external(t, func(o *identity.OIDCOptions) { o.GroupsClaim = "teams" })
	for _, tt := range []struct {
		claim any
		want  string
	}{
		{[]any{"dev", "oncall", 7, ""}, "dev oncall"},
		{"dev", "dev"},
		{nil, ""},
	} {
		p.Next(map[string]any{"teams": tt.claim, "groups": []string{"others"}}, nil)
		who := w.nobody()
		who.sso()
		user, err := who.me()
		must(t, err)
		if got := strings.Join(user.GetGroups(), " "); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.claim, got, tt.want)
		}
	}
	p.Next(map[string]any{"teams": []string{strings.Repeat("x", 33<<10)}}, nil)
	if status, _, _ := w.nobody().sso(); status != http.StatusForbidden {
		t.Errorf("too many groups: %d", status)
	}
}

// Options that cannot work are refused at the start; a provider that is away is
// not.
func TestOIDCOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	public, err := url.Parse(w.url)
	must(t, err)
	for _, tt := range []struct {
		name    string
		options identity.OIDCOptions
		ok      bool
	}{
		{"away", identity.OIDCOptions{Issuer: "https://127.0.0.1:1", ClientID: "x"}, true},
		{"no encryption", identity.OIDCOptions{Issuer: "http://idp.example.com", ClientID: "x"}, false},
		{"no issuer", identity.OIDCOptions{ClientID: "x"}, false},
		{"no client", identity.OIDCOptions{Issuer: "https://idp.example.com"}, false},
		{"an odd role", identity.OIDCOptions{Issuer: "https://idp.example.com", ClientID: "x", RoleClaim: "g", Roles: map[string]store.Role{"a": "root"}}, false},
		{"no claim", identity.OIDCOptions{Issuer: "https://idp.example.com", ClientID: "x", Roles: map[string]store.Role{"a": "admin"}}, false},
		{"an odd default", identity.OIDCOptions{Issuer: "https://idp.example.com", ClientID: "x", DefaultRole: "root"}, false},
	} {
		_, err := identity.New(t.Context(), identity.Options{Store: w.store, Key: testKey, PublicURL: public, OIDC: &tt.options})
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
