package identity

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

// Sign-ins that begin at the same moment are counted one after the other.
func TestAttemptsAtOnce(t *testing.T) {
	database, err := store.Open(t.Context(), store.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "platform.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = database.Close() }()
	limits := &limiter{store: database, now: time.Now}
	var begun atomic.Int32
	start := make(chan struct{})
	var all sync.WaitGroup
	for range 60 {
		all.Go(func() {
			<-start
			if limits.attempt("ann@example.com", "198.51.100.7").begin(t.Context()) == nil {
				begun.Add(1)
			}
		})
	}
	close(start)
	all.Wait()
	if begun.Load() != attemptsNameAndAddress {
		t.Errorf("%d sign-ins began, want %d", begun.Load(), attemptsNameAndAddress)
	}
}
