package platform

import (
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/identity/passkeytest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/test/binary"
)

// authenticatorCode is what an authenticator app shows, some steps from now.
func authenticatorCode(t *testing.T, secret string, steps int64) string {
	t.Helper()
	key := must.Get(base32.StdEncoding.DecodeString(secret))(t)
	mac := hmac.New(sha1.New, key)
	mac.Write(big.NewInt(time.Now().Unix()/30 + steps).FillBytes(make([]byte, 8)))
	sum := mac.Sum(nil)
	number := new(big.Int).SetBytes(sum[sum[19]&15:][:4]).Int64() & 0x7fffffff
	return fmt.Sprintf("%06d", number%1000000)
}

// addApp signs the admin in and adds an authenticator app.
func (p *process) addApp(t *testing.T) (secret string, recovery []string) {
	t.Helper()
	session, token := p.browser(t)
	signedIn := must.Get(session.auth.SignIn(t.Context(), connect.NewRequest(&platformv1.SignInRequest{Email: email, Password: chosenPassword})))(t)
	*token = signedIn.Msg.GetCsrfToken()
	begun := must.Get(session.factors.BeginTOTP(t.Context(), connect.NewRequest(&platformv1.BeginTOTPRequest{Password: chosenPassword})))(t)
	done := must.Get(session.factors.FinishTOTP(t.Context(), connect.NewRequest(&platformv1.FinishTOTPRequest{
		Ticket: begun.Msg.GetTicket(), Code: authenticatorCode(t, begun.Msg.GetSecret(), 0),
	})))(t)
	return begun.Msg.GetSecret(), done.Msg.GetRecoveryCodes()
}

// login runs slipway login with lines on standard input.
func (p *process) login(t *testing.T, lines ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, binary.Path(t), "login", p.url, "--email", email, "--password-stdin")
	command.Env = append(os.Environ(), "HOME="+t.TempDir(), "XDG_CONFIG_HOME=")
	command.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	out, err := command.CombinedOutput()
	return string(out), err
}

// TestSecondFactor: the command line asks for the code, nothing of the second
// factor is in the database in clear, and the operator resets it.
func TestSecondFactor(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		p := start(t, at)
		p.firstKey(t)
		secret, recovery := p.addApp(t)
		for _, wrong := range []string{"", "12345", "aaaa-bbbb-cccc-dddd"} {
			if out, err := p.login(t, chosenPassword, wrong); err == nil {
				t.Errorf("login with the code %q: %s", wrong, out)
			}
		}
		if out, err := p.login(t, chosenPassword, authenticatorCode(t, secret, 1)); err != nil || !strings.Contains(out, "Signed in to") {
			t.Errorf("login with a code: %v\n%s", err, out)
		}
		p.Stop(t)
		for _, canary := range []string{secret, recovery[0], strings.ReplaceAll(recovery[0], "-", "")} {
			if strings.Contains(p.Log.String(), canary) {
				t.Error("a secret is in the log")
			}
			if file := holds(t, at.dir, canary); file != "" {
				t.Errorf("a secret is in %s", file)
			}
			if at.url != "" && strings.Contains(dump(t, at.url), canary) {
				t.Error("a secret is in the database")
			}
		}

		again := start(t, at, "--identity.secondFactor=required")
		if out, err := again.login(t, chosenPassword, recovery[0]); err != nil {
			t.Errorf("login with a recovery code: %v\n%s", err, out)
		}
		if out, err := run(t, at, "reset-second-factor", email); err != nil || !strings.Contains(out, "has no second factor any more") {
			t.Errorf("reset: %v\n%s", err, out)
		}
		if out, err := run(t, at, "reset-second-factor", email); err == nil || !strings.Contains(out, "has no second factor") {
			t.Errorf("reset once more: %v\n%s", err, out)
		}
		if out, err := again.login(t, chosenPassword); err == nil || !strings.Contains(out, "add a second factor first") {
			t.Errorf("login without a required second factor: %v\n%s", err, out)
		}
		again.Stop(t)
		last := start(t, at)
		if out, err := last.login(t, chosenPassword); err != nil {
			t.Errorf("login with the password alone: %v\n%s", err, out)
		}
		last.Stop(t)
	})
}

// TestOneCodeAtTwoReplicas: a ticket of one replica is good at the other, and a
// code opens one session, wherever it is sent.
func TestOneCodeAtTwoReplicas(t *testing.T) {
	at := postgresPlace(t)
	one := start(t, at)
	one.firstKey(t)
	secret, _ := one.addApp(t)
	replicas := []*process{one, start(t, at)}
	session, _ := one.browser(t)
	response := must.Get(session.auth.SignIn(t.Context(), connect.NewRequest(&platformv1.SignInRequest{Email: email, Password: chosenPassword})))(t)
	complete := &platformv1.CompleteSignInRequest{Ticket: response.Msg.GetSecondFactor().GetTicket(), Code: authenticatorCode(t, secret, 1)}
	var signedIn atomic.Int32
	var all sync.WaitGroup
	// As many as the limit of wrong codes allows.
	for n := range 4 {
		browser, _ := replicas[n%2].browser(t)
		all.Go(func() {
			_, err := browser.auth.CompleteSignIn(t.Context(), connect.NewRequest(complete))
			if err == nil {
				signedIn.Add(1)
			} else if connect.CodeOf(err) != connect.CodeUnauthenticated {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if signedIn.Load() != 1 {
		t.Errorf("%d sessions with one code", signedIn.Load())
	}
}

// TestPasskey: with each database a passkey signs in once at a challenge, its
// counter may not go back, and the command line has no use for it.
func TestPasskey(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		listen := programs.FreeAddress(t)
		at.address = listen.String()
		public := fmt.Sprintf("http://localhost:%d", listen.Port())
		p := start(t, at, "--server.publicURL="+public)
		admin := p.with(t, p.firstKey(t))
		key := passkeytest.New(t, public)
		recovery := p.addPasskey(t, key)
		signIn := func() *platformv1.SecondFactorChallenge {
			t.Helper()
			session, _ := p.browser(t)
			response, err := session.auth.SignIn(t.Context(), connect.NewRequest(&platformv1.SignInRequest{Email: email, Password: chosenPassword}))
			if err != nil {
				t.Fatal(err)
			}
			return response.Msg.GetSecondFactor()
		}
		complete := func(ticket, response string) connect.Code {
			session, _ := p.browser(t)
			_, err := session.auth.CompleteSignIn(t.Context(), connect.NewRequest(&platformv1.CompleteSignInRequest{Ticket: ticket, Passkey: response}))
			if err == nil {
				return 0
			}
			return connect.CodeOf(err)
		}
		before, challenge := *key, signIn()
		before.Counter--
		if code := complete(challenge.GetTicket(), before.Get(challenge.GetPasskey())); code != connect.CodeUnauthenticated {
			t.Errorf("a copy whose counter is behind: %v", code)
		}
		response := key.Get(challenge.GetPasskey())
		if code := complete(challenge.GetTicket(), response); code != 0 {
			t.Errorf("the passkey: %v", code)
		}
		if code := complete(challenge.GetTicket(), response); code != connect.CodeUnauthenticated {
			t.Errorf("the response again: %v", code)
		}
		challenge = signIn()
		if code := complete(challenge.GetTicket(), key.Get(challenge.GetPasskey())); code != 0 {
			t.Errorf("the passkey after that: %v", code)
		}
		for _, lines := range [][]string{{chosenPassword}, {chosenPassword, ""}} {
			if out, err := p.login(t, lines...); err == nil || !strings.Contains(out, "is a passkey, which needs a browser") || !strings.Contains(out, "--api-key-file") {
				t.Errorf("login with %d lines: %v\n%s", len(lines), err, out)
			}
		}
		if out, err := p.login(t, chosenPassword, recovery[0]); err != nil {
			t.Errorf("login with a recovery code: %v\n%s", err, out)
		}
		entries := admin.audited(t, "auth.complete-sign-in")
		for _, line := range []string{"ok|with the passkey Blue key", "denied|the signature counter of the passkey Blue key went back"} {
			if !strings.Contains(entries, line) {
				t.Errorf("%q is not in\n%s", line, entries)
			}
		}
		p.Stop(t)
	})
}

// addPasskey signs the admin in and adds a passkey.
func (p *process) addPasskey(t *testing.T, key *passkeytest.Authenticator) (recovery []string) {
	t.Helper()
	session, token := p.browser(t)
	signedIn, err := session.auth.SignIn(t.Context(), connect.NewRequest(&platformv1.SignInRequest{Email: email, Password: chosenPassword}))
	if err != nil {
		t.Fatal(err)
	}
	*token = signedIn.Msg.GetCsrfToken()
	begun, err := session.factors.BeginPasskey(t.Context(), connect.NewRequest(&platformv1.BeginPasskeyRequest{Password: chosenPassword}))
	if err != nil {
		t.Fatal(err)
	}
	done, err := session.factors.FinishPasskey(t.Context(), connect.NewRequest(&platformv1.FinishPasskeyRequest{
		Ticket: begun.Msg.GetTicket(), Name: "Blue key", Response: key.Create(begun.Msg.GetOptions()),
	}))
	if err != nil {
		t.Fatal(err)
	}
	return done.Msg.GetRecoveryCodes()
}
