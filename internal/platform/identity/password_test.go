package identity

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/secret"
)

// Hashes cost what they should, and checks know right from wrong.
func TestHash(t *testing.T) {
	h, err := newHasher(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hash, err := h.hash(t.Context(), secret.New("correct horse battery"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("the hash is %s", hash)
	}
	for _, tt := range []struct {
		hash, password string
		ok             bool
	}{
		{hash, "correct horse battery", true},
		{hash, "correct horse batterz", false},
		{hash, "", false},
		{"", "", false},
		{"", "correct horse battery", false},
	} {
		if ok, err := h.check(t.Context(), tt.hash, secret.New(tt.password)); err != nil || ok != tt.ok {
			t.Errorf("%q: %v %v, want %v", tt.password, ok, err, tt.ok)
		}
	}
	again, err := h.hash(t.Context(), secret.New("correct horse battery"))
	if err != nil || again == hash {
		t.Errorf("two hashes have the same salt: %v", err)
	}
}

// An unknown name is hashed too: it queues like any other.
func TestUnknownNamesAreHashed(t *testing.T) {
	h := &hasher{concurrencyLimit: newConcurrencyLimit(1), dummyHash: encodedHash{memory: 8, passes: 1, threads: 1, salt: make([]byte, 16), sum: make([]byte, 32)}.String()}
	ctx, cancel := context.WithCancel(t.Context())
	h.running <- struct{}{}
	cancel()
	if _, err := h.check(ctx, "", secret.New("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("no turn was waited for: %v", err)
	}
	<-h.running
	if ok, err := h.check(t.Context(), "", secret.New("x")); ok || err != nil {
		t.Errorf("with a free slot: %v %v", ok, err)
	}
}

// Few hashes run, few wait, and not forever.
func TestConcurrencyLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := concurrencyLimit{running: make(chan struct{}, 1), waiting: make(chan struct{}, 1)}
		done, err := h.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		waited := make(chan error, 1)
		go func() {
			_, err := h.acquire(t.Context())
			waited <- err
		}()
		synctest.Wait()
		var denied *DeniedError
		if _, err := h.acquire(t.Context()); !errors.As(err, &denied) || denied.RetryAfter == 0 {
			t.Errorf("the queue has no end: %v", err)
		}
		if err := <-waited; !errors.As(err, &denied) || time.Since(began) != queueTimeout {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		done()
		if _, err := h.acquire(t.Context()); err != nil {
			t.Errorf("a slot that is released: %v", err)
		}
	})
}

// FuzzParseHash: what is read is written the same, and never costs too much.
func FuzzParseHash(f *testing.F) {
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$c3Vtc3Vtc3Vtc3Vtc3Vtc3Vtc3Vtc3Vtc3Vtc3Vtc3U")
	f.Add("$argon2id$v=19$m=999999999,t=2,p=1$c2FsdHNhbHQ$c3Vt")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := parseHash(text)
		if err != nil {
			return
		}
		if parsed.String() != text {
			t.Errorf("%q is written as %q", text, parsed.String())
		}
		if parsed.memory > 256<<10 || parsed.passes > 16 || parsed.threads > 16 || parsed.passes == 0 || parsed.threads == 0 {
			t.Errorf("%q costs too much or nothing", text)
		}
	})
}

// The mark that earlier versions gave to a used one-time password is no part of
// its hash.
func TestPasswordHash(t *testing.T) {
	for _, stored := range []string{"$argon2id$x", "spent@1700000000$argon2id$x"} {
		if got := passwordHash(stored); got != "$argon2id$x" {
			t.Errorf("%q has the hash %q", stored, got)
		}
	}
}
