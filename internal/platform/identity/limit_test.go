package identity_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"connectrpc.com/connect"
)

// Too many wrong passwords for a name from one place are refused for a while; others
// at the same place, and the same name elsewhere, are not.
func TestSignInLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	w.user(admin)
	const here, elsewhere = "198.51.100.7", "203.0.113.9"
	for n := range 10 {
		_, err := w.nobody().from(here).signIn(adminEmail, "wrong "+strconv.Itoa(n))
		want(t, "a wrong password", err, connect.CodeUnauthenticated)
	}
	_, err := w.nobody().from(here).signIn(adminEmail, adminPassword)
	want(t, "the eleventh, even with the right password", err, connect.CodeResourceExhausted)
	if seconds := retryAfter(t, err); seconds < 60 || seconds > 900 {
		t.Errorf("try again after %d seconds", seconds)
	}
	for range 250 {
		// What is refused must not use up what the place has.
		_, err = w.nobody().from(here).signIn(adminEmail, "x")
		want(t, "refused", err, connect.CodeResourceExhausted)
	}
	_, err = w.nobody().from(here).signIn(userEmail, userPassword)
	want(t, "another name at the same place", err, 0)
	_, err = w.nobody().from(elsewhere).signIn(adminEmail, adminPassword)
	want(t, "the same name elsewhere", err, 0)
	w.clock.forward(16 * time.Minute)
	_, err = w.nobody().from(here).signIn(adminEmail, adminPassword)
	want(t, "after a quarter of an hour", err, 0)
}

func retryAfter(t *testing.T, err error) int {
	t.Helper()
	var refused *connect.Error
	if !asConnect(err, &refused) {
		t.Fatalf("no answer of the API: %v", err)
	}
	seconds, convErr := strconv.Atoi(refused.Meta().Get("Retry-After"))
	if convErr != nil {
		t.Fatalf("Retry-After is %q", refused.Meta().Get("Retry-After"))
	}
	return seconds
}

// No client gets around the limit by writing X-Forwarded-For: what counts is what a
// trusted proxy wrote last.
func TestForgedAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for n := range 10 {
		_, err := w.nobody().from(fmt.Sprintf("192.0.2.%d, 198.51.100.7", n)).signIn(adminEmail, "wrong")
		want(t, "a wrong password", err, connect.CodeUnauthenticated)
	}
	_, err := w.nobody().from("192.0.2.77, 198.51.100.7").signIn(adminEmail, "wrong")
	want(t, "behind yet another forged address", err, connect.CodeResourceExhausted)
}
