package identity

import (
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/secret"
)

// testSealer issues tickets with a key that the letter makes.
func testSealer(t testing.TB, letter string, now func() time.Time) ticketSealer {
	t.Helper()
	sealer, err := signing.NewSealer(secret.New(letter+"123456789abcdef0123456789abcdef"), "tickets")
	if err != nil {
		t.Fatal(err)
	}
	return ticketSealer{sealer: sealer, now: now}
}

// A ticket is read with the key and for the purpose that it was sealed with,
// unchanged and in time.
func TestTicket(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func() time.Time { return now }
	tickets := testSealer(t, "a", clock)
	sealed, err := tickets.seal("one", time.Minute, flow{State: "s", Verifier: "v"})
	if err != nil {
		t.Fatal(err)
	}
	var opened flow
	if err := tickets.open("one", sealed, &opened); err != nil || opened.Verifier != "v" {
		t.Errorf("%v %v", opened, err)
	}
	if err := testSealer(t, "b", clock).open("one", sealed, &opened); err == nil {
		t.Error("another key opens it")
	}
	if err := tickets.open("two", sealed, &opened); err == nil {
		t.Error("it is valid for another purpose")
	}
	for n := range sealed {
		changed := []byte(sealed)
		changed[n] ^= 1
		if err := tickets.open("one", string(changed), &opened); err == nil {
			t.Fatalf("changed at %d it still opens", n)
		}
	}
	now = now.Add(time.Minute)
	if err := tickets.open("one", sealed, &opened); err == nil {
		t.Error("it does not expire")
	}
}

// FuzzTicket: a ticket cannot be forged without the key.
func FuzzTicket(f *testing.F) {
	tickets := testSealer(f, "a", func() time.Time { return time.Unix(0, 0) })
	f.Add("AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		var value any
		if err := tickets.open("one", text, &value); err == nil {
			t.Errorf("%q opens", text)
		}
	})
}
