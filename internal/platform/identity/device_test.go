package identity_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// device is the value of the device cookie.
func (p *person) device() string {
	p.w.t.Helper()
	at, err := url.Parse(p.w.url)
	must(p.w.t, err)
	for _, cookie := range p.jar.Cookies(at) {
		if cookie.Name == "slipway-device" {
			return cookie.Value
		}
	}
	p.w.t.Fatal("there is no device cookie")
	return ""
}

// withDevice is a client that has a device cookie and no session.
func (w *world) withDevice(value string) *person {
	p := w.nobody()
	p.header.Set("Cookie", (&http.Cookie{Name: "slipway-device", Value: value}).String())
	return p
}

// guess signs in with wrong passwords until the limit denies it, and returns the
// number of passwords that were checked.
func (w *world) guess(t *testing.T, email string, client func(n int) *person) int {
	t.Helper()
	for n := range 100 {
		_, err := client(n).signIn(email, fmt.Sprint("wrong password ", n))
		if connect.CodeOf(err) == connect.CodeResourceExhausted {
			return n
		}
		want(t, "a wrong password", err, connect.CodeUnauthenticated)
	}
	t.Fatal("the guesses have no bound")
	return 0
}

// behindProxy is a platform that trusts no proxy: all clients have one address.
func behindProxy(o *identity.Options) { o.TrustedProxies = nil }

// A stranger who tries many names behind the same proxy keeps no other user
// out, with or without a device cookie.
func TestFloodBehindAProxy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, behindProxy)
	w.admin()
	for range 195 {
		must(t, w.store.AddAttempt(t.Context(), "address:127.0.0.1"))
	}
	for n := range 10 {
		_, err := w.nobody().signIn(fmt.Sprintf("stranger%d@example.com", n), "wrong password")
		want(t, "a wrong password", err, connect.CodeUnauthenticated)
	}
	count, err := w.store.CountAttempts(t.Context(), "address:127.0.0.1", w.clock.now().Add(-15*time.Minute))
	must(t, err)
	if count != 200 {
		t.Errorf("%d failures of the address are stored, want 200", count)
	}
	_, err = w.nobody().signIn(adminEmail, adminPassword)
	want(t, "another user without a device cookie", err, 0)
	if checked := w.guess(t, adminEmail, func(int) *person { return w.nobody() }); checked != 10 {
		t.Errorf("%d passwords of one account were checked, want 10", checked)
	}
}

// Guesses of strangers from many addresses are bounded for the account, and do
// not keep the user's own device out, nor from changing the password.
func TestKnownDevice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bob, _ := w.user(w.admin())
	device := bob.device()
	stranger := func(n int) *person { return w.nobody().from(fmt.Sprintf("198.51.100.%d", n)) }
	if checked := w.guess(t, userEmail, stranger); checked != 60 {
		t.Errorf("%d passwords of one account were checked, want 60", checked)
	}
	_, err := stranger(200).signIn(userEmail, userPassword)
	want(t, "an unknown device at yet another address", err, connect.CodeResourceExhausted)
	_, err = w.withDevice(device).signIn(userEmail, userPassword)
	want(t, "the known device", err, 0)
	_, err = stranger(200).signIn(userEmail, userPassword)
	want(t, "an unknown device, after the known one signed in", err, connect.CodeResourceExhausted)
	w.choose(bob, userPassword, "another password of bob")
	_, err = w.withDevice(device).signIn(userEmail, "another password of bob")
	want(t, "the device cookie from before the change", err, connect.CodeResourceExhausted)
	_, err = w.withDevice(bob.device()).signIn(userEmail, "another password of bob")
	want(t, "the device cookie of the change", err, 0)
}

// A device cookie is bounded too, and works for its user, unaltered and in its
// time only.
func TestDeviceCookieBounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, behindProxy)
	admin := w.admin()
	bob, _ := w.user(admin)
	lost, forged := bob.device(), altered(bob.device())
	if checked := w.guess(t, userEmail, func(int) *person { return w.withDevice(lost) }); checked != 10 {
		t.Errorf("a known device has checked %d passwords, want 10", checked)
	}
	again := w.nobody()
	_, err := again.signIn(userEmail, userPassword)
	want(t, "another device, after guesses of a lost one", err, 0)
	w.guess(t, userEmail, func(int) *person { return w.nobody() })
	for name, value := range map[string]string{
		"of another user": admin.device(), "altered": forged, "with another end": again.device() + "A", "cut": again.device()[:40], "nonsense": "x", "empty": "",
	} {
		_, err := w.withDevice(value).signIn(userEmail, userPassword)
		want(t, "a device cookie "+name, err, connect.CodeResourceExhausted)
	}
	_, err = w.withDevice(again.device()).signIn(userEmail, userPassword)
	want(t, "a device cookie", err, 0)
	w.changeUser(userEmail, func(user *store.User) { user.PasswordHash = "" })
	_, err = w.withDevice(again.device()).signIn(userEmail, userPassword)
	want(t, "of a user without a password", err, connect.CodeResourceExhausted)

	w.clock.forward(30*24*time.Hour + time.Second)
	w.guess(t, adminEmail, func(int) *person { return w.nobody() })
	_, err = w.withDevice(admin.device()).signIn(adminEmail, adminPassword)
	want(t, "after a month", err, connect.CodeResourceExhausted)
}

// Guesses of the old password with a session are bounded.
func TestChangePasswordLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	change := func() error {
		_, err := admin.auth().ChangePassword(t.Context(), connect.NewRequest(&platformv1.ChangePasswordRequest{OldPassword: "wrong", NewPassword: "a good new password"}))
		return err
	}
	for range 10 {
		want(t, "a wrong old password", change(), connect.CodePermissionDenied)
	}
	want(t, "the eleventh", change(), connect.CodeResourceExhausted)
	_, err := w.nobody().signIn(adminEmail, adminPassword)
	want(t, "a sign-in", err, 0)
}
