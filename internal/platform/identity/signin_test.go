package identity_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// The first admin has a one-time password and can do nothing but choose another.
func TestFirstSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.nobody()
	answer, err := p.signIn(strings.ToUpper(adminEmail), w.once.Reveal())
	must(t, err)
	if !answer.GetUser().GetMustChangePassword() || answer.GetUser().GetRole() != platformv1.Role_ROLE_ADMIN || answer.GetAccount().GetName() != "Example" {
		t.Fatalf("signed in as %v of %v", answer.GetUser(), answer.GetAccount())
	}
	want(t, "before a password is chosen", p.may(), connect.CodePermissionDenied)
	first := p.cookie()
	w.choose(p, w.once.Reveal(), adminPassword)
	want(t, "after a password is chosen", p.may(), 0)

	old := w.nobody()
	old.header.Set("Cookie", "slipway="+first)
	_, err = old.auth().Me(t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
	want(t, "the session from before the new password", err, connect.CodeUnauthenticated)
	_, err = w.nobody().signIn(adminEmail, w.once.Reveal())
	want(t, "the one-time password again", err, connect.CodeUnauthenticated)
	if _, created, err := identity.Bootstrap(t.Context(), w.store, "Other", "eve@example.com", identity.SignInPolicy{}); created || err != nil {
		t.Errorf("a second start made an admin: %v %v", created, err)
	}
}

// A sign-in that was interrupted at the new password does not void the one-time
// password: it is valid until another is chosen, and gives no other right.
func TestOneTimePasswordIsValidUntilChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 {
		p := w.nobody()
		_, err := p.signIn(adminEmail, w.once.Reveal())
		want(t, "the one-time password", err, 0)
		want(t, "something else before a password is chosen", p.may(), connect.CodePermissionDenied)
		w.clock.forward(24 * time.Hour)
	}
	p := w.nobody()
	_, err := p.signIn(adminEmail, w.once.Reveal())
	must(t, err)
	w.choose(p, w.once.Reveal(), adminPassword)
	_, err = w.nobody().signIn(adminEmail, w.once.Reveal())
	want(t, "after another is chosen", err, connect.CodeUnauthenticated)
	again, err := identity.System{Store: w.store, Actor: "root"}.ResetPassword(t.Context(), adminEmail)
	must(t, err)
	_, err = w.nobody().signIn(adminEmail, again.Reveal())
	want(t, "after a reset by the operator", err, 0)
}

// A wrong password and an unknown name are indistinguishable.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.admin()
	_, known := w.nobody().signIn(adminEmail, "not the password")
	_, unknown := w.nobody().signIn("nobody@example.com", "not the password")
	want(t, "a wrong password", known, connect.CodeUnauthenticated)
	if known.Error() != unknown.Error() {
		t.Errorf("they differ: %v and %v", known, unknown)
	}
	_, err := w.nobody().signIn(adminEmail, strings.Repeat("x", 5000))
	want(t, "a book", err, connect.CodeUnauthenticated)
}

// Chosen passwords have rules.
func TestPasswordRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, elsewhere := w.admin(), w.admin()
	for _, tt := range []struct {
		name, old, chosen string
		code              connect.Code
	}{
		{"short", adminPassword, "elevenchars", connect.CodeInvalidArgument},
		{"the email", adminPassword, "ANN@example.com", connect.CodeInvalidArgument},
		{"the same again", adminPassword, adminPassword, connect.CodeInvalidArgument},
		{"monotonous", adminPassword, "aaaaaaaaaaaaaaaa", connect.CodeInvalidArgument},
		{"too long", adminPassword, strings.Repeat("abcd", 300), connect.CodeInvalidArgument},
		{"the old one is wrong", "something else", "a good new password", connect.CodePermissionDenied},
		{"good", adminPassword, "a good new password", 0},
	} {
		_, err := p.auth().ChangePassword(t.Context(), connect.NewRequest(&platformv1.ChangePasswordRequest{OldPassword: tt.old, NewPassword: tt.chosen}))
		want(t, tt.name, err, tt.code)
	}
	want(t, "another session, after the new password", elsewhere.may(), connect.CodeUnauthenticated)
}

// The cookie is for this host only, not for scripts and not for other sites' forms.
func TestCookie(t *testing.T) {
	for _, tt := range []struct{ public, begins, has, lacks string }{
		{"https://slipway.example.com", "__Host-slipway=", "; Secure", "Domain"},
		{"http://slipway.example.com", "__Host-slipway=", "; Secure", "Domain"},
		{"http://localhost:8080", "slipway=", "; HttpOnly", "Secure"},
		{"http://[::1]:8080", "slipway=", "; HttpOnly", "Secure"},
	} {
		t.Run(tt.public, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *identity.Options) {
				o.PublicURL, _ = url.Parse(tt.public)
			})
			response, err := w.nobody().auth().SignIn(t.Context(), connect.NewRequest(&platformv1.SignInRequest{Email: adminEmail, Password: w.once.Reveal()}))
			must(t, err)
			cookie := response.Header().Get("Set-Cookie")
			if !strings.HasPrefix(cookie, tt.begins) || !strings.Contains(cookie, tt.has) || strings.Contains(cookie, tt.lacks) {
				t.Errorf("the cookie is %s", cookie)
			}
			for _, part := range []string{"; HttpOnly", "; SameSite=Lax", "; Path=/"} {
				if !strings.Contains(cookie, part) {
					t.Errorf("the cookie lacks %q: %s", part, cookie)
				}
			}
			if response.Header().Get("Cache-Control") != "no-store" {
				t.Error("the answer may be cached")
			}
		})
	}
}

// A session ends after 12 hours without use and after 7 days in any case.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.admin()
	w.clock.forward(12*time.Hour - time.Minute)
	want(t, "after almost 12 hours", p.may(), 0)
	w.clock.forward(12*time.Hour + time.Minute)
	want(t, "after 12 idle hours", p.may(), connect.CodeUnauthenticated)

	p = w.admin()
	for range 13 {
		w.clock.forward(12*time.Hour - time.Minute)
		want(t, "in use", p.may(), 0)
	}
	w.clock.forward(11*time.Hour + 50*time.Minute)
	want(t, "in use, before 7 days", p.may(), 0)
	w.clock.forward(30 * time.Minute)
	want(t, "in use, after 7 days", p.may(), connect.CodeUnauthenticated)
}

// Signing in and out replaces the session.
func TestRotation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.admin()
	first := p.cookie()
	_, err := p.signIn(adminEmail, adminPassword)
	must(t, err)
	second := p.cookie()
	if second == first {
		t.Fatal("the cookie is the same after signing in again")
	}
	_, err = p.auth().SignOut(t.Context(), connect.NewRequest(&platformv1.SignOutRequest{}))
	must(t, err)
	if p.cookie() != "" {
		t.Error("the cookie is still there")
	}
	for name, value := range map[string]string{"replaced": first, "signed out": second} {
		q := w.nobody()
		q.header.Set("Cookie", "slipway="+value)
		_, err := q.auth().Me(t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
		want(t, name, err, connect.CodeUnauthenticated)
	}
}

// Requests with a cookie need the token of the session, and must come from our
// pages.
func TestCSRF(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.admin()
	other := w.admin()
	cookie, token := "slipway="+p.cookie(), p.header.Get(wire.CSRFHeader)
	for _, tt := range []struct {
		name   string
		header map[string]string
		code   connect.Code
		meToo  connect.Code
	}{
		{"with the token", map[string]string{wire.CSRFHeader: token}, 0, 0},
		{"from our page", map[string]string{wire.CSRFHeader: token, "Origin": w.url, "Sec-Fetch-Site": "same-origin"}, 0, 0},
		{"without the token", nil, connect.CodePermissionDenied, 0},
		{"with a wrong token", map[string]string{wire.CSRFHeader: altered(token)}, connect.CodePermissionDenied, 0},
		{"with the token of another session", map[string]string{wire.CSRFHeader: other.header.Get(wire.CSRFHeader)}, connect.CodePermissionDenied, 0},
		{"from another origin", map[string]string{wire.CSRFHeader: token, "Origin": "https://evil.example"}, connect.CodePermissionDenied, connect.CodePermissionDenied},
		{"from a page without origin", map[string]string{wire.CSRFHeader: token, "Origin": "null"}, connect.CodePermissionDenied, connect.CodePermissionDenied},
		{"from a sibling", map[string]string{wire.CSRFHeader: token, "Sec-Fetch-Site": "same-site"}, connect.CodePermissionDenied, connect.CodePermissionDenied},
		{"from another site", map[string]string{wire.CSRFHeader: token, "Sec-Fetch-Site": "cross-site"}, connect.CodePermissionDenied, connect.CodePermissionDenied},
		{"with the cookie twice", map[string]string{wire.CSRFHeader: token, "Cookie": cookie + "; " + cookie}, connect.CodeUnauthenticated, connect.CodeUnauthenticated},
	} {
		q := w.nobody()
		q.header.Set("Cookie", cookie)
		for name, value := range tt.header {
			q.header.Set(name, value)
		}
		want(t, tt.name, q.may(), tt.code)
		_, err := q.auth().Me(t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
		want(t, tt.name+": Me", err, tt.meToo)
	}
	evil := w.nobody()
	evil.header.Set("Origin", "https://evil.example")
	_, err := evil.signIn(adminEmail, adminPassword)
	want(t, "signing a visitor in", err, connect.CodePermissionDenied)
}

// Requests of the gateway follow the same rules, by their method.
func TestAuthenticateRequest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.admin()
	for _, tt := range []struct {
		name, method string
		header       map[string]string
		status       int
	}{
		{"a page", http.MethodGet, nil, http.StatusOK},
		{"a link from elsewhere", http.MethodGet, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, http.StatusOK},
		{"a script elsewhere", http.MethodGet, map[string]string{"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, http.StatusForbidden},
		{"a WebSocket from elsewhere", http.MethodGet, map[string]string{"Upgrade": "websocket", "Connection": "Upgrade", "Origin": "https://evil.example"}, http.StatusForbidden},
		{"a form", http.MethodPost, nil, http.StatusForbidden},
		{"a call", http.MethodPost, map[string]string{wire.CSRFHeader: p.header.Get(wire.CSRFHeader)}, http.StatusOK},
		{"basic", http.MethodGet, map[string]string{"Authorization": "Basic YTpi"}, http.StatusForbidden},
	} {
		request, err := http.NewRequestWithContext(t.Context(), tt.method, w.url+"/gateway/x", nil)
		must(t, err)
		request.Header.Set("Cookie", "slipway="+p.cookie())
		for name, value := range tt.header {
			request.Header.Set(name, value)
		}
		response, err := http.DefaultTransport.RoundTrip(request)
		must(t, err)
		_ = response.Body.Close()
		if response.StatusCode != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, response.StatusCode, tt.status)
		}
	}
}
