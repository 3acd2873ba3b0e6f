package identity_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

func (p *person) factors() platformv1connect.SecondFactorServiceClient {
	return platformv1connect.NewSecondFactorServiceClient(p.http, p.w.url)
}

// app is an authenticator app with a secret.
type app struct {
	w        *world
	secret   string
	recovery []string
}

// code is what the app shows now, or some steps later.
func (a app) code(steps ...int) string {
	a.w.t.Helper()
	at := a.w.clock.now()
	for _, n := range steps {
		at = at.Add(time.Duration(n) * 30 * time.Second)
	}
	return identity.TOTPCode(a.w.t, a.secret, at)
}

// beginTOTP begins to add an authenticator app.
func (p *person) beginTOTP(password string) (*platformv1.BeginTOTPResponse, error) {
	begun, err := p.factors().BeginTOTP(p.w.t.Context(), connect.NewRequest(&platformv1.BeginTOTPRequest{Password: password}))
	if err != nil {
		return nil, err
	}
	return begun.Msg, nil
}

// finishTOTP adds an authenticator app, and keeps the token of the session that
// replaces the one before.
func (p *person) finishTOTP(ticket, code string) ([]string, error) {
	done, err := p.factors().FinishTOTP(p.w.t.Context(), connect.NewRequest(&platformv1.FinishTOTPRequest{Ticket: ticket, Code: code}))
	if err != nil {
		return nil, err
	}
	_, err = p.me()
	return done.Msg.GetRecoveryCodes(), err
}

// addApp adds an authenticator app.
func (p *person) addApp(password string) app {
	p.w.t.Helper()
	begun, err := p.beginTOTP(password)
	must(p.w.t, err)
	a := app{w: p.w, secret: begun.GetSecret()}
	a.recovery, err = p.finishTOTP(begun.GetTicket(), a.code())
	must(p.w.t, err)
	return a
}

// ticket signs in with a password that needs a second factor.
func (p *person) ticket(email, password string) string {
	p.w.t.Helper()
	response, err := p.signIn(email, password)
	must(p.w.t, err)
	if response.GetSecondFactor().GetTicket() == "" || response.GetCsrfToken() != "" || response.GetUser() != nil || p.cookie() != "" {
		p.w.t.Fatalf("a session without the second factor: %v", response)
	}
	return response.GetSecondFactor().GetTicket()
}

// complete proves the second factor.
func (p *person) complete(ticket, code string) error {
	response, err := p.auth().CompleteSignIn(p.w.t.Context(), connect.NewRequest(&platformv1.CompleteSignInRequest{Ticket: ticket, Code: code}))
	if err == nil {
		p.header.Set(wire.CSRFHeader, response.Msg.GetCsrfToken())
	}
	return err
}

// A user with an authenticator app signs in with password and code, and each
// code is good once.
func TestTOTP(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.stop()
	bob, _ := w.user(w.admin())
	key, other := w.bearer(bob.key("ci", 0).GetSecret()), w.nobody()
	_, err := other.signIn(userEmail, userPassword)
	must(t, err)

	_, err = bob.beginTOTP("wrong")
	want(t, "a wrong password", err, connect.CodePermissionDenied)
	begun, err := bob.beginTOTP(userPassword)
	must(t, err)
	if !strings.Contains(begun.GetUri(), "secret="+begun.GetSecret()) || begun.GetQrPath() == "" || begun.GetQrSize() < 29 {
		t.Errorf("to scan: %v", begun)
	}
	a := app{w: w, secret: begun.GetSecret()}
	_, err = bob.finishTOTP(begun.GetTicket(), altered("00000" + a.code() + "0000")[5:11])
	want(t, "a wrong code", err, connect.CodeInvalidArgument)
	want(t, "the other session before", other.may(), 0)
	before := bob.cookie()
	codes, err := bob.finishTOTP(begun.GetTicket(), a.code())
	must(t, err)
	if len(codes) != 10 || bob.cookie() == before {
		t.Errorf("%d recovery codes, the session was replaced: %v", len(codes), bob.cookie() != before)
	}
	want(t, "the session that added it", bob.may(), 0)
	want(t, "the other session", other.may(), connect.CodeUnauthenticated)
	want(t, "an API key", key.may(), 0)

	p := w.nobody()
	ticket := p.ticket(userEmail, userPassword)
	want(t, "with the password only", p.may(), connect.CodeUnauthenticated)
	want(t, "the code of the setup", p.complete(ticket, a.code()), connect.CodeUnauthenticated)
	w.clock.forward(30 * time.Second)
	code := a.code()
	want(t, "the next code", p.complete(ticket, code[:3]+" "+code[3:]), 0)
	want(t, "the session", p.may(), 0)
	want(t, "the code again", w.nobody().complete(ticket, code), connect.CodeUnauthenticated)
	want(t, "the code before", w.nobody().complete(ticket, a.code(-1)), connect.CodeUnauthenticated)
	want(t, "a code of the near future", w.nobody().complete(ticket, a.code(1)), 0)
	want(t, "a code of the far future", w.nobody().complete(ticket, a.code(2)), connect.CodeUnauthenticated)

	entries := strings.Join(w.entries(), "\n")
	for _, line := range []string{
		"user | bob@example.com | second-factor.finish-totp | user/bob@example.com | ok | ok | Authenticator app",
		"user | bob@example.com | auth.sign-in | auth/bob@example.com | ok | ok | the password is right, the second factor is missing",
		"user | bob@example.com | auth.complete-sign-in | auth/bob@example.com | ok | ok | with an authenticator app",
		"user | bob@example.com | auth.complete-sign-in | auth/bob@example.com | denied | unauthenticated | the code is wrong, or was used before",
	} {
		if !strings.Contains(entries, line) {
			t.Errorf("%q is not in\n%s", line, entries)
		}
	}
}

// Of concurrent sign-ins with one code, one succeeds.
func TestTOTPAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.stop()
	admin := w.admin()
	a := admin.addApp(adminPassword)
	w.clock.forward(30 * time.Second)
	var signedIn atomic.Int32
	var all sync.WaitGroup
	for range 5 {
		p := w.nobody()
		ticket := p.ticket(adminEmail, adminPassword)
		all.Go(func() {
			if p.complete(ticket, a.code()) == nil {
				signedIn.Add(1)
			}
		})
	}
	all.Wait()
	if signedIn.Load() != 1 {
		t.Errorf("%d sign-ins with one code", signedIn.Load())
	}
}

// A sign-in with the password alone fails if the user gets a second factor
// meanwhile: adding it could not end a session that did not exist yet.
func TestFactorAddedDuringSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bob, user := w.user(w.admin())
	db, err := sql.Open("sqlite", "file:"+w.file+"?_pragma=busy_timeout(10000)")
	must(t, err)
	defer func() { _ = db.Close() }()
	// The attempts are cleared after the password was checked.
	_, err = db.ExecContext(t.Context(), fmt.Sprintf(`CREATE TRIGGER meanwhile BEFORE DELETE ON sign_in_attempts BEGIN
		INSERT OR IGNORE INTO second_factors VALUES ('app', '%s', 'totp', 'app', 1, 1, 1, 'sealed'); END`, user.GetId()))
	must(t, err)
	_, err = bob.signIn(userEmail, userPassword)
	want(t, "the sign-in", err, connect.CodeAborted)
}

// A new authenticator app replaces the one before, and neither sessions nor
// recovery codes change.
func TestTOTPReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.stop()
	admin := w.admin()
	old := admin.addApp(adminPassword)
	session := admin.cookie()
	fresh := admin.addApp(adminPassword)
	if fresh.recovery != nil || admin.cookie() != session {
		t.Error("the second app brings recovery codes or a session")
	}
	w.clock.forward(30 * time.Second)
	p := w.nobody()
	ticket := p.ticket(adminEmail, adminPassword)
	want(t, "the old app", p.complete(ticket, old.code()), connect.CodeUnauthenticated)
	want(t, "the new app", p.complete(ticket, fresh.code()), 0)
	list, err := p.factors().ListFactors(t.Context(), connect.NewRequest(&platformv1.ListFactorsRequest{}))
	must(t, err)
	if factors := list.Msg.GetFactors(); len(factors) != 1 || factors[0].GetKind() != platformv1.FactorKind_FACTOR_KIND_TOTP || list.Msg.GetRecoveryCodes() != 10 || list.Msg.GetRequired() {
		t.Errorf("the factors are %v", list.Msg)
	}
}

// Recovery codes work once each, for their user, until there are new ones.
func TestRecoveryCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.stop()
	admin := w.admin()
	bob, _ := w.user(admin)
	hers, his := admin.addApp(adminPassword), bob.addApp(userPassword)
	p := w.nobody()
	ticket := p.ticket(userEmail, userPassword)
	want(t, "a code of another user", p.complete(ticket, hers.recovery[0]), connect.CodeUnauthenticated)
	want(t, "a recovery code", p.complete(ticket, strings.ToUpper(his.recovery[0])), 0)
	want(t, "the session", p.may(), 0)
	want(t, "the code again", w.nobody().complete(ticket, his.recovery[0]), connect.CodeUnauthenticated)
	if text := strings.Join(w.entries(), "\n"); !strings.Contains(text, "with a recovery code, 9 are left") {
		t.Errorf("the audit log is\n%s", text)
	}
	renew := func(password string) ([]string, error) {
		response, err := p.factors().CreateRecoveryCodes(t.Context(), connect.NewRequest(&platformv1.CreateRecoveryCodesRequest{Password: password}))
		if err != nil {
			return nil, err
		}
		return response.Msg.GetRecoveryCodes(), nil
	}
	_, err := renew("wrong")
	want(t, "new codes with a wrong password", err, connect.CodePermissionDenied)
	codes, err := renew(userPassword)
	must(t, err)
	want(t, "a code from before", w.nobody().complete(ticket, his.recovery[1]), connect.CodeUnauthenticated)
	want(t, "a new code", w.nobody().complete(ticket, codes[9]), 0)
	want(t, "a code of the other user, who has the same", w.nobody().complete(w.nobody().ticket(adminEmail, adminPassword), hers.recovery[1]), 0)
}

// Guesses of the second factor are bounded for a user who knows the password, and
// do not keep known devices out.
func TestFactorLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.stop()
	bob, _ := w.user(w.admin())
	a := bob.addApp(userPassword)
	thief := w.nobody()
	ticket := thief.ticket(userEmail, userPassword)
	for n := range 5 {
		want(t, fmt.Sprint("guess ", n), thief.from(fmt.Sprintf("198.51.100.%d", n)).complete(ticket, a.code(9)), connect.CodeUnauthenticated)
	}
	w.clock.forward(30 * time.Second)
	want(t, "the right code from an unknown device", thief.complete(thief.ticket(userEmail, userPassword), a.code()), connect.CodeResourceExhausted)
	want(t, "a recovery code from an unknown device", thief.complete(ticket, a.recovery[0]), connect.CodeResourceExhausted)
	// bob's browser has a device cookie from its first sign-in.
	response, err := bob.signIn(userEmail, userPassword)
	must(t, err)
	want(t, "the right code from a known device", bob.complete(response.GetSecondFactor().GetTicket(), a.code()), 0)
	want(t, "an unknown device after that", thief.complete(ticket, a.recovery[0]), connect.CodeResourceExhausted)
	response, err = bob.signIn(userEmail, userPassword)
	must(t, err)
	for n := range 5 {
		want(t, fmt.Sprint("wrong code ", n), bob.complete(response.GetSecondFactor().GetTicket(), "x"), connect.CodeUnauthenticated)
	}
	want(t, "a known device has a bound too", bob.complete(response.GetSecondFactor().GetTicket(), a.recovery[1]), connect.CodeResourceExhausted)
	w.clock.forward(16 * time.Minute)
	p := w.nobody()
	want(t, "after 15 minutes", p.complete(p.ticket(userEmail, userPassword), a.code()), 0)
}

// A ticket is good for five minutes, for its user and password, and for nothing
// else.
func TestSignInTicket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.stop()
	admin := w.admin()
	bob, user := w.user(admin)
	a := bob.addApp(userPassword)
	setup, err := bob.beginTOTP(userPassword)
	must(t, err)
	p := w.nobody()
	ticket := p.ticket(userEmail, userPassword)
	for name, forged := range map[string]string{"no ticket": "", "an altered one": altered(ticket), "one of a setup": setup.GetTicket(), "a long one": strings.Repeat("a", 20<<10)} {
		want(t, name, p.complete(forged, a.recovery[0]), connect.CodeFailedPrecondition)
	}
	_, err = bob.finishTOTP(ticket, a.code())
	want(t, "a ticket of a sign-in to set up", err, connect.CodeFailedPrecondition)
	_, err = admin.finishTOTP(setup.GetTicket(), app{w: w, secret: setup.GetSecret()}.code())
	want(t, "the setup of another user", err, connect.CodeFailedPrecondition)
	w.clock.forward(5*time.Minute - time.Second)
	want(t, "in time", p.complete(ticket, a.recovery[1]), 0)
	w.clock.forward(2 * time.Second)
	want(t, "too late", p.complete(ticket, a.recovery[2]), connect.CodeFailedPrecondition)

	ticket = w.nobody().ticket(userEmail, userPassword)
	bob.choosesAgain("another password of bob")
	want(t, "after a password change", p.complete(ticket, a.recovery[2]), connect.CodeFailedPrecondition)
	ticket = w.nobody().ticket(userEmail, "another password of bob")
	disabled := true
	_, err = admin.accounts().UpdateUser(t.Context(), connect.NewRequest(&platformv1.UpdateUserRequest{Id: user.GetId(), Disabled: &disabled}))
	must(t, err)
	want(t, "of a disabled user", p.complete(ticket, a.recovery[3]), connect.CodeUnauthenticated)
	_, err = admin.accounts().DeleteUser(t.Context(), connect.NewRequest(&platformv1.DeleteUserRequest{Id: user.GetId()}))
	must(t, err)
	want(t, "of a deleted user", p.complete(ticket, a.recovery[4]), connect.CodeFailedPrecondition)
}

// choosesAgain changes bob's password.
func (p *person) choosesAgain(chosen string) { p.w.choose(p, userPassword, chosen) }

// A required second factor limits sessions with a password to adding one. API
// keys and users of the identity provider are not concerned.
func TestSecondFactorRequired(t *testing.T) {
	t.Parallel()
	w, _ := external(t)
	w.clock.stop()
	admin := w.admin()
	key := w.bearer(admin.key("ci", 0).GetSecret())
	carol := w.nobody()
	carol.sso()
	_, err := carol.me()
	must(t, err)
	options := w.options
	w.listen(func(o *identity.Options) {
		o.OIDC = options.OIDC
		o.SignIn.SecondFactorRequired = true
	})
	err = admin.may()
	want(t, "a session with a password", err, connect.CodePermissionDenied)
	if err == nil || !strings.Contains(err.Error(), "add a second factor first") {
		t.Errorf("the error is %v", err)
	}
	want(t, "an API key", key.may(), 0)
	want(t, "a user of the identity provider", carol.may(), 0)
	me, err := admin.auth().Me(t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
	must(t, err)
	if !me.Msg.GetMustAddSecondFactor() {
		t.Error("Me does not ask for it")
	}
	_, err = admin.keys().CreateKey(t.Context(), connect.NewRequest(&platformv1.CreateKeyRequest{Name: "around"}))
	want(t, "an API key as a way around", err, connect.CodePermissionDenied)
	_, err = carol.beginTOTP("")
	want(t, "a user of the identity provider adds one", err, connect.CodeFailedPrecondition)
	admin.addApp(adminPassword)
	want(t, "with a second factor", admin.may(), 0)
	me, err = admin.auth().Me(t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
	must(t, err)
	if me.Msg.GetMustAddSecondFactor() || !me.Msg.GetUser().GetSecondFactor() {
		t.Errorf("Me is %v", me.Msg)
	}
	list, err := admin.factors().ListFactors(t.Context(), connect.NewRequest(&platformv1.ListFactorsRequest{}))
	must(t, err)
	if !list.Msg.GetRequired() {
		t.Error("the list does not say that it is required")
	}
	remove := func() error {
		_, err := admin.factors().RemoveFactor(t.Context(), connect.NewRequest(&platformv1.RemoveFactorRequest{Id: list.Msg.GetFactors()[0].GetId(), Password: adminPassword}))
		return err
	}
	want(t, "removing the last one", remove(), connect.CodeFailedPrecondition)
	w.listen()
	want(t, "removing it where it is optional", remove(), 0)
	_, err = w.nobody().signIn(adminEmail, adminPassword)
	must(t, err)
	if codes, err := w.store.CountRecoveryCodes(t.Context(), me.Msg.GetUser().GetId()); err != nil || codes != 0 {
		t.Errorf("%d recovery codes are left: %v", codes, err)
	}
}

// An admin resets the second factor of another user, and the operator of any.
func TestResetSecondFactor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.stop()
	admin := w.admin()
	bob, user := w.user(admin)
	admin.addApp(adminPassword)
	reset := func(id string) error {
		_, err := admin.accounts().ResetSecondFactor(t.Context(), connect.NewRequest(&platformv1.ResetSecondFactorRequest{Id: id}))
		return err
	}
	a := bob.addApp(userPassword)
	ticket := w.nobody().ticket(userEmail, userPassword)
	want(t, "of another user", reset(user.GetId()), 0)
	want(t, "the session", bob.may(), connect.CodeUnauthenticated)
	want(t, "a recovery code from before", w.nobody().complete(ticket, a.recovery[0]), connect.CodeUnauthenticated)
	w.clock.forward(30 * time.Second)
	want(t, "a code from before", w.nobody().complete(ticket, a.code()), connect.CodeUnauthenticated)
	_, err := bob.signIn(userEmail, userPassword)
	must(t, err)
	want(t, "the password is enough", bob.may(), 0)
	me, err := admin.me()
	must(t, err)
	want(t, "of their own", reset(me.GetId()), connect.CodeFailedPrecondition)
	want(t, "of no user", reset("absent"), connect.CodeNotFound)

	operator := identity.System{Store: w.store, Actor: "command line (root)"}
	must(t, operator.ResetSecondFactor(t.Context(), strings.ToUpper(adminEmail)))
	want(t, "the admin's session", admin.may(), connect.CodeUnauthenticated)
	for _, email := range []string{adminEmail, "absent@example.com"} {
		if err := operator.ResetSecondFactor(t.Context(), email); err == nil {
			t.Errorf("nothing to reset for %s, and no error", email)
		}
	}
	entries := strings.Join(w.entries(), "\n")
	for _, line := range []string{
		"user | ann@example.com | account.reset-second-factor | user/bob@example.com | ok",
		"system | command line (root) | account.reset-second-factor | user/ann@example.com | ok",
	} {
		if !strings.Contains(entries, line) {
			t.Errorf("%q is not in\n%s", line, entries)
		}
	}
}

// A one-time password needs the second factor as well, and is spent with the
// password.
func TestOneTimePasswordAndFactor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.clock.stop()
	admin := w.admin()
	bob, user := w.user(admin)
	a := bob.addApp(userPassword)
	reset, err := admin.accounts().ResetPassword(t.Context(), connect.NewRequest(&platformv1.ResetPasswordRequest{Id: user.GetId()}))
	must(t, err)
	once := reset.Msg.GetOneTimePassword()
	p := w.nobody()
	ticket := p.ticket(userEmail, once)
	want(t, "the second factor", p.complete(ticket, a.recovery[0]), 0)
	_, err = p.beginTOTP(once)
	want(t, "another app before the password is changed", err, connect.CodeFailedPrecondition)
	w.choose(p, once, "another password of bob")
	want(t, "after the change", p.may(), 0)
	w.clock.forward(11 * time.Minute)
	_, err = w.nobody().signIn(userEmail, once)
	want(t, "the one-time password later", err, connect.CodeUnauthenticated)
}
