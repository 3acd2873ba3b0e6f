package identity

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

// testLimiter is a limiter with an empty database.
func testLimiter(t *testing.T) *limiter {
	t.Helper()
	database, err := store.Open(t.Context(), store.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "platform.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = database.Close() })
	return newLimiter(database, time.Now)
}

// Strangers of an address that has failed often sign in one after the other.
// Addresses of one IPv6 network are one, and known devices do not wait.
func TestSlowAddress(t *testing.T) {
	limits := testLimiter(t)
	failing := limits.stranger("eve@example.com", "2001:db8:1:2::1")
	for n := range attemptsAddress {
		if n == attemptsAddress-1 {
			begins(t, failing, 0)
		}
		if err := failing.failed(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	begins(t, failing, 1)
	begins(t, limits.stranger("ann@example.com", "2001:db8:1:2::77"), 1)
	begins(t, limits.stranger("ann@example.com", "2001:db8:1:3::77"), 0)
	begins(t, limits.known("device:1"), 0)
	if err := limits.known("device:1").failed(t.Context()); err != nil {
		t.Error(err)
	}
}

// begins begins a sign-in, which takes a number of slots of the slow queue.
func begins(t *testing.T, a attempt, slots int) {
	t.Helper()
	done, err := a.begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := len(a.limiter.slow.running); got != slots {
		t.Errorf("the slow queue has %d sign-ins, want %d", got, slots)
	}
	done()
	if got := len(a.limiter.slow.running); got != 0 {
		t.Errorf("the slow queue has %d sign-ins after the end", got)
	}
}

// Sign-ins that begin at the same moment are counted one after the other.
func TestAttemptsAtOnce(t *testing.T) {
	limits := testLimiter(t)
	var begun atomic.Int32
	start := make(chan struct{})
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() {
			<-start
			if done, err := limits.stranger("ann@example.com", "198.51.100.7").begin(t.Context()); err == nil {
				done()
				begun.Add(1)
			}
		})
	}
	close(start)
	all.Wait()
	if begun.Load() != attemptsPair {
		t.Errorf("%d sign-ins began, want %d", begun.Load(), attemptsPair)
	}
}
