package identity_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/identity/passkeytest"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// named is a world at a host name, which passkeys need.
func named(t *testing.T, change ...func(*identity.Options)) *world {
	t.Helper()
	w := newWorld(t)
	w.listenNamed(change...)
	return w
}

func (w *world) listenNamed(change ...func(*identity.Options)) {
	w.t.Helper()
	w.listen(append(change, func(o *identity.Options) {
		o.PublicURL.Host = "localhost:" + o.PublicURL.Port()
		w.url = o.PublicURL.String()
	})...)
}

// beginPasskey begins to add a passkey.
func (p *person) beginPasskey(password string) (*platformv1.BeginPasskeyResponse, error) {
	begun, err := p.factors().BeginPasskey(p.w.t.Context(), connect.NewRequest(&platformv1.BeginPasskeyRequest{Password: password}))
	if err != nil {
		return nil, err
	}
	return begun.Msg, nil
}

// addPasskey adds the passkey of an authenticator, and returns the recovery
// codes.
func (p *person) addPasskey(password, name string, key *passkeytest.Authenticator) ([]string, error) {
	begun, err := p.beginPasskey(password)
	if err != nil {
		return nil, err
	}
	done, err := p.factors().FinishPasskey(p.w.t.Context(), connect.NewRequest(&platformv1.FinishPasskeyRequest{
		Ticket: begun.GetTicket(), Name: name, Response: key.Create(begun.GetOptions()),
	}))
	if err != nil {
		return nil, err
	}
	_, err = p.me()
	return done.Msg.GetRecoveryCodes(), err
}

// completePasskey proves the second factor with a passkey.
func (p *person) completePasskey(ticket, response string) error {
	done, err := p.auth().CompleteSignIn(p.w.t.Context(), connect.NewRequest(&platformv1.CompleteSignInRequest{Ticket: ticket, Passkey: response}))
	if err == nil {
		p.header.Set(wire.CSRFHeader, done.Msg.GetCsrfToken())
	}
	return err
}

// challenge signs in with a password and returns the request for a second
// factor.
func (p *person) challenge(email, password string) *platformv1.SecondFactorChallenge {
	p.w.t.Helper()
	response, err := p.signIn(email, password)
	must(p.w.t, err)
	return response.GetSecondFactor()
}

func (p *person) listFactors() *platformv1.ListFactorsResponse {
	p.w.t.Helper()
	list, err := p.factors().ListFactors(p.w.t.Context(), connect.NewRequest(&platformv1.ListFactorsRequest{}))
	must(p.w.t, err)
	return list.Msg
}

func (p *person) removeFactor(id, password string) error {
	_, err := p.factors().RemoveFactor(p.w.t.Context(), connect.NewRequest(&platformv1.RemoveFactorRequest{Id: id, Password: password}))
	return err
}

// A passkey is added, signs in, and its response is accepted once.
func TestPasskey(t *testing.T) {
	t.Parallel()
	w := named(t)
	bob, _ := w.user(w.admin())
	key := passkeytest.New(t, w.url)
	_, err := bob.addPasskey("wrong", "Key", key)
	want(t, "a wrong password", err, connect.CodePermissionDenied)
	codes, err := bob.addPasskey(userPassword, "My key", key)
	must(t, err)
	if len(codes) != 10 {
		t.Errorf("%d recovery codes", len(codes))
	}
	want(t, "the session that added it", bob.may(), 0)
	begun, err := bob.beginPasskey(userPassword)
	must(t, err)
	if !strings.Contains(begun.GetOptions(), `"excludeCredentials":[{"type":"public-key","id":"`+key.Text()) {
		t.Errorf("the browser may create a second one on the same key: %s", begun.GetOptions())
	}
	_, err = bob.addPasskey(userPassword, "The same key", key)
	want(t, "the same passkey again", err, connect.CodeAlreadyExists)
	_, err = w.admin().addPasskey(adminPassword, "The same key", key)
	want(t, "the same passkey for another user", err, connect.CodeAlreadyExists)

	p := w.nobody()
	asked := p.challenge(userEmail, userPassword)
	if asked.GetTotp() || !strings.Contains(asked.GetPasskey(), key.Text()) {
		t.Errorf("the request is %v", asked)
	}
	want(t, "before", p.may(), connect.CodeUnauthenticated)
	response := key.Get(asked.GetPasskey())
	want(t, "the passkey", p.completePasskey(asked.GetTicket(), response), 0)
	want(t, "the session", p.may(), 0)
	want(t, "the response again", w.nobody().completePasskey(asked.GetTicket(), response), connect.CodeUnauthenticated)
	want(t, "another response to the same challenge", w.nobody().completePasskey(asked.GetTicket(), key.Get(asked.GetPasskey())), connect.CodeUnauthenticated)
	want(t, "a recovery code instead", w.nobody().complete(asked.GetTicket(), codes[0]), 0)
	earlier, later := p.challenge(userEmail, userPassword), p.challenge(userEmail, userPassword)
	want(t, "the later challenge", w.nobody().completePasskey(later.GetTicket(), key.Get(later.GetPasskey())), 0)
	want(t, "the earlier one after it", w.nobody().completePasskey(earlier.GetTicket(), key.Get(earlier.GetPasskey())), connect.CodeUnauthenticated)
	late := p.challenge(userEmail, userPassword)
	w.clock.forward(5 * time.Minute)
	want(t, "a challenge after five minutes", w.nobody().completePasskey(late.GetTicket(), key.Get(late.GetPasskey())), connect.CodeFailedPrecondition)

	entries := strings.Join(w.entries(), "\n")
	for _, line := range []string{
		"user | bob@example.com | second-factor.finish-passkey | user/bob@example.com | ok | ok | My key",
		"user | bob@example.com | auth.complete-sign-in | auth/bob@example.com | ok | ok | with the passkey My key",
		"user | bob@example.com | auth.complete-sign-in | auth/bob@example.com | denied | unauthenticated | the passkey was not accepted",
	} {
		if !strings.Contains(entries, line) {
			t.Errorf("%q is not in\n%s", line, entries)
		}
	}
}

// Passkeys and an authenticator app work beside each other, and each is removed
// alone.
func TestPasskeysAndApp(t *testing.T) {
	t.Parallel()
	w := named(t)
	w.clock.stop()
	bob, _ := w.user(w.admin())
	one, two := passkeytest.New(t, w.url), passkeytest.New(t, w.url)
	_, err := bob.addPasskey(userPassword, "One", one)
	must(t, err)
	if codes, err := bob.addPasskey(userPassword, "Two", two); err != nil || codes != nil {
		t.Errorf("the second passkey: %v, codes %v", err, codes)
	}
	a := bob.addApp(userPassword)
	w.clock.forward(30 * time.Second)
	asked := w.nobody().challenge(userEmail, userPassword)
	if !asked.GetTotp() || !strings.Contains(asked.GetPasskey(), one.Text()) || !strings.Contains(asked.GetPasskey(), two.Text()) {
		t.Errorf("the request is %v", asked)
	}
	want(t, "the second passkey", w.nobody().completePasskey(asked.GetTicket(), two.Get(asked.GetPasskey())), 0)
	want(t, "the app", w.nobody().complete(asked.GetTicket(), a.code()), 0)
	var names []string
	list := bob.listFactors()
	for _, factor := range list.GetFactors() {
		names = append(names, factor.GetName()+" "+factor.GetKind().String())
	}
	slices.Sort(names)
	if got := strings.Join(names, ", "); got != "Authenticator app FACTOR_KIND_TOTP, One FACTOR_KIND_PASSKEY, Two FACTOR_KIND_PASSKEY" || list.GetNoPasskeys() != "" {
		t.Errorf("the factors are %s, no passkeys: %q", got, list.GetNoPasskeys())
	}
	id := func(name string) string {
		for _, factor := range list.GetFactors() {
			if factor.GetName() == name {
				return factor.GetId()
			}
		}
		t.Fatalf("there is no factor %s", name)
		return ""
	}
	w.clock.forward(30 * time.Second)
	asked = w.nobody().challenge(userEmail, userPassword)
	want(t, "to remove it with a wrong password", bob.removeFactor(id("One"), "wrong"), connect.CodePermissionDenied)
	must(t, bob.removeFactor(id("One"), userPassword))
	want(t, "the removed passkey", w.nobody().completePasskey(asked.GetTicket(), one.Get(asked.GetPasskey())), connect.CodeUnauthenticated)
	want(t, "the other one", w.nobody().completePasskey(asked.GetTicket(), two.Get(asked.GetPasskey())), 0)
	if text := strings.Join(w.entries(), "\n"); !strings.Contains(text, "user | bob@example.com | second-factor.remove-factor | user/bob@example.com | ok | ok | One") {
		t.Errorf("the audit log is\n%s", text)
	}
	for n := range 8 {
		_, err := bob.addPasskey(userPassword, fmt.Sprint("Key ", n), passkeytest.New(t, w.url))
		must(t, err)
	}
	_, err = bob.beginPasskey(userPassword)
	want(t, "more than ten factors", err, connect.CodeFailedPrecondition)
}

// Of concurrent sign-ins with one response, one succeeds.
func TestPasskeyAtOnce(t *testing.T) {
	t.Parallel()
	w := named(t)
	key := passkeytest.New(t, w.url)
	_, err := w.admin().addPasskey(adminPassword, "Key", key)
	must(t, err)
	asked := w.nobody().challenge(adminEmail, adminPassword)
	response := key.Get(asked.GetPasskey())
	var signedIn atomic.Int32
	var all sync.WaitGroup
	for range 5 {
		p := w.nobody()
		all.Go(func() {
			if p.completePasskey(asked.GetTicket(), response) == nil {
				signedIn.Add(1)
			}
		})
	}
	all.Wait()
	if signedIn.Load() != 1 {
		t.Errorf("%d sign-ins with one response", signedIn.Load())
	}
}

// Responses that are not exactly right are refused, when a passkey is added and
// when it is used.
func TestPasskeyRefusals(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*passkeytest.Authenticator){
		"another origin":       func(a *passkeytest.Authenticator) { a.Origin = "http://evil.example" },
		"the origin with more": func(a *passkeytest.Authenticator) { a.Origin += ".evil.example" },
		"another scheme":       func(a *passkeytest.Authenticator) { a.Origin = strings.Replace(a.Origin, "http", "https", 1) },
		"another port":         func(a *passkeytest.Authenticator) { a.Origin += "1" },
		"another party":        func(a *passkeytest.Authenticator) { a.RPID = "evil.example" },
		"no user present":      func(a *passkeytest.Authenticator) { a.Flags = 0 },
		"in a foreign frame":   func(a *passkeytest.Authenticator) { a.CrossOrigin = true },
		"of another type":      func(a *passkeytest.Authenticator) { a.Type = "payment.get" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := named(t)
			admin := w.admin()
			key := passkeytest.New(t, w.url)
			spoilt := *key
			spoil(&spoilt)
			_, err := admin.addPasskey(adminPassword, "Key", &spoilt)
			want(t, "to add it", err, connect.CodeInvalidArgument)
			_, err = admin.addPasskey(adminPassword, "Key", key)
			must(t, err)
			spoilt.Counter = key.Counter
			p := w.nobody()
			asked := p.challenge(adminEmail, adminPassword)
			want(t, "to sign in", p.completePasskey(asked.GetTicket(), spoilt.Get(asked.GetPasskey())), connect.CodeUnauthenticated)
			want(t, "the session", p.may(), connect.CodeUnauthenticated)
			key.Counter = spoilt.Counter
			want(t, "the right response", p.completePasskey(asked.GetTicket(), key.Get(asked.GetPasskey())), 0)
		})
	}
}

// Only a passkey of the user, with its key and a counter that grows, responds to
// the challenge of a sign-in.
func TestPasskeyOfOthers(t *testing.T) {
	t.Parallel()
	w := named(t)
	admin := w.admin()
	bob, user := w.user(admin)
	hers, his := passkeytest.New(t, w.url), passkeytest.New(t, w.url)
	_, err := admin.addPasskey(adminPassword, "Hers", hers)
	must(t, err)
	_, err = bob.addPasskey(userPassword, "His", his)
	must(t, err)
	asked := w.nobody().challenge(userEmail, userPassword)
	other := w.nobody().challenge(adminEmail, adminPassword)
	forged := passkeytest.New(t, w.url)
	forged.ID, forged.Counter = his.ID, 100
	back, same := *his, *his
	back.Counter, same.Counter = 0, his.Counter-1
	for name, response := range map[string]string{
		"of another user":                    hers.Get(asked.GetPasskey()),
		"with another key":                   forged.Get(asked.GetPasskey()),
		"that is unknown":                    passkeytest.New(t, w.url).Get(asked.GetPasskey()),
		"whose counter went back":            back.Get(asked.GetPasskey()),
		"whose counter stayed":               same.Get(asked.GetPasskey()),
		"to the challenge of another user":   his.Get(other.GetPasskey()),
		"that creates a passkey":             his.Create(asked.GetPasskey()),
		"that is no JSON":                    "{",
		"that is empty":                      "{}",
		"with text that is not base64 in it": `{"id":"!","rawId":"!","type":"public-key","response":{"clientDataJSON":"!","authenticatorData":"!","signature":"!"}}`,
	} {
		// There are more of them than the limit allows, and the audit log has
		// one denial in ten seconds.
		w.clock.forward(10 * time.Second)
		must(t, w.store.ClearAttempts(t.Context(), "factor:"+user.GetId()))
		want(t, "a response "+name, w.nobody().completePasskey(asked.GetTicket(), response), connect.CodeUnauthenticated)
	}
	if strings.Count(w.logs.String(), "its signature counter went back") != 2 {
		t.Errorf("the log is\n%s", w.logs)
	}
	if text := strings.Join(w.entries(), "\n"); !strings.Contains(text, "denied | unauthenticated | the signature counter of the passkey His went back") {
		t.Errorf("the audit log is\n%s", text)
	}
	must(t, w.store.ClearAttempts(t.Context(), "factor:"+user.GetId()))
	for range 5 {
		want(t, "a guess", w.nobody().completePasskey(asked.GetTicket(), "{}"), connect.CodeUnauthenticated)
	}
	want(t, "one guess too many", w.nobody().completePasskey(asked.GetTicket(), his.Get(asked.GetPasskey())), connect.CodeResourceExhausted)
}

// FinishPasskey accepts a new passkey of the caller for its own ticket only.
func TestFinishPasskey(t *testing.T) {
	t.Parallel()
	w := named(t)
	admin := w.admin()
	bob, _ := w.user(admin)
	key := passkeytest.New(t, w.url)
	_, err := bob.addPasskey(userPassword, "Key", key)
	must(t, err)
	asked := w.nobody().challenge(userEmail, userPassword)
	begun, err := bob.beginPasskey(userPassword)
	must(t, err)
	app, err := bob.beginTOTP(userPassword)
	must(t, err)
	created := func(options string) string { return passkeytest.New(t, w.url).Create(options) }
	finish := func(p *person, ticket, name, response string) error {
		_, err := p.factors().FinishPasskey(t.Context(), connect.NewRequest(&platformv1.FinishPasskeyRequest{Ticket: ticket, Name: name, Response: response}))
		return err
	}
	for name, ticket := range map[string]string{"no ticket": "", "a ticket of a sign-in": asked.GetTicket(), "a ticket of an app": app.GetTicket()} {
		want(t, name, finish(bob, ticket, "Key", created(begun.GetOptions())), connect.CodeFailedPrecondition)
	}
	want(t, "the ticket of another user", finish(admin, begun.GetTicket(), "Key", created(begun.GetOptions())), connect.CodeFailedPrecondition)
	want(t, "no name", finish(bob, begun.GetTicket(), " ", created(begun.GetOptions())), connect.CodeInvalidArgument)
	want(t, "no response", finish(bob, begun.GetTicket(), "Key", ""), connect.CodeInvalidArgument)
	want(t, "a response to a sign-in", finish(bob, begun.GetTicket(), "Key", key.Get(begun.GetOptions())), connect.CodeInvalidArgument)
	want(t, "another challenge", finish(bob, begun.GetTicket(), "Key", created(asked.GetPasskey())), connect.CodeInvalidArgument)
	w.clock.forward(15 * time.Minute)
	want(t, "too late", finish(bob, begun.GetTicket(), "Key", created(begun.GetOptions())), connect.CodeFailedPrecondition)
}

// A passkey is a second factor wherever one is required, and an admin resets it
// with the others.
func TestPasskeyPolicy(t *testing.T) {
	t.Parallel()
	w := named(t, func(o *identity.Options) { o.SignIn.SecondFactorRequired = true })
	admin := w.admin()
	want(t, "without a second factor", admin.may(), connect.CodePermissionDenied)
	_, err := admin.addPasskey(adminPassword, "Hers", passkeytest.New(t, w.url))
	must(t, err)
	want(t, "with a passkey", admin.may(), 0)
	want(t, "to remove the last one", admin.removeFactor(admin.listFactors().GetFactors()[0].GetId(), adminPassword), connect.CodeFailedPrecondition)

	w.listenNamed()
	bob, user := w.user(admin)
	his := passkeytest.New(t, w.url)
	codes, err := bob.addPasskey(userPassword, "His", his)
	must(t, err)
	bob.addApp(userPassword)
	asked := w.nobody().challenge(userEmail, userPassword)
	_, err = admin.accounts().ResetSecondFactor(t.Context(), connect.NewRequest(&platformv1.ResetSecondFactorRequest{Id: user.GetId()}))
	must(t, err)
	want(t, "the session", bob.may(), connect.CodeUnauthenticated)
	want(t, "the passkey from before", w.nobody().completePasskey(asked.GetTicket(), his.Get(asked.GetPasskey())), connect.CodeUnauthenticated)
	want(t, "a recovery code from before", w.nobody().complete(asked.GetTicket(), codes[0]), connect.CodeUnauthenticated)
	_, err = bob.signIn(userEmail, userPassword)
	must(t, err)
	want(t, "the password is enough", bob.may(), 0)
	if factors := bob.listFactors(); len(factors.GetFactors()) != 0 || factors.GetRecoveryCodes() != 0 {
		t.Errorf("there are %v", factors)
	}
}

// A platform at an IP address has no passkeys, gives the reason, and does not
// request those that a user has from before.
func TestPasskeyNeedsAName(t *testing.T) {
	t.Parallel()
	w := named(t)
	key := passkeytest.New(t, w.url)
	codes, err := w.admin().addPasskey(adminPassword, "Key", key)
	must(t, err)
	asked := w.nobody().challenge(adminEmail, adminPassword)
	w.listen()
	p := w.nobody()
	now := p.challenge(adminEmail, adminPassword)
	if now.GetPasskey() != "" || now.GetTicket() == "" {
		t.Errorf("the request is %v", now)
	}
	want(t, "a passkey", p.completePasskey(asked.GetTicket(), key.Get(asked.GetPasskey())), connect.CodeUnauthenticated)
	want(t, "a recovery code", p.complete(p.challenge(adminEmail, adminPassword).GetTicket(), codes[0]), 0)
	_, err = p.beginPasskey(adminPassword)
	want(t, "to add one", err, connect.CodeFailedPrecondition)
	if reason := p.listFactors().GetNoPasskeys(); err == nil || !strings.Contains(err.Error(), reason) ||
		!strings.Contains(reason, "browsers refuse them at 127.0.0.1") || !strings.Contains(reason, "server.publicURL") {
		t.Errorf("the reason is %q, the error %v", reason, err)
	}
	w.listenNamed()
	key.Origin = w.url
	want(t, "a ticket without a challenge", w.nobody().completePasskey(now.GetTicket(), key.Get(`{"challenge":""}`)), connect.CodeUnauthenticated)
	asked = w.nobody().challenge(adminEmail, adminPassword)
	want(t, "at a name again", w.nobody().completePasskey(asked.GetTicket(), key.Get(asked.GetPasskey())), 0)
}
