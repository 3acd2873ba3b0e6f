package fleet

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
)

// pulse is a watchView that records its calls.
type pulse struct {
	began time.Time
	notes []string
	sent  bool
	fail  error // of keepAlive
}

func (p *pulse) note(what string) {
	p.notes = append(p.notes, what+" "+time.Since(p.began).String())
}

func (p *pulse) sendAll(context.Context) error { p.note("all"); return nil }
func (p *pulse) sendChanged(_ context.Context, _ []store.Change) error {
	p.note("some")
	p.sent = true
	return nil
}
func (p *pulse) sendExpired(context.Context) error { return nil }
func (p *pulse) synced() error                     { return nil }
func (p *pulse) keepAlive() error                  { p.note("alive"); return p.fail }

func (p *pulse) takeSent() bool {
	sent := p.sent
	p.sent = false
	return sent
}

// TestWatchKeepsAlive: an idle watch sends a keepalive every 20 seconds, counted
// from the last message, and ends with its client.
func TestWatchKeepsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, view := &Fleet{}, &pulse{began: time.Now()}
		changes := make(chan store.Change)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- f.watchLoop(ctx, "acme", view, changes) }()
		<-time.After(41 * time.Second)
		changes <- store.Change{Kind: store.ChangeRuntime, AccountID: "other"}
		changes <- store.Change{Kind: store.ChangeRuntime, AccountID: "acme"}
		<-time.After(30 * time.Second)
		changes <- store.Change{Kind: store.ChangeAll}
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if want := []string{"alive 20s", "alive 40s", "some 41s", "alive 1m2s", "all 1m11s"}; !slices.Equal(view.notes, want) {
			t.Errorf("got %q, want %q", view.notes, want)
		}
	})
}

// TestWatchEndsWithItsClient: a client that is gone is detected by the keepalive.
func TestWatchEndsWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("the client is gone")
		view := &pulse{began: time.Now(), fail: gone}
		if err := new(Fleet).watchLoop(t.Context(), "acme", view, make(chan store.Change)); !errors.Is(err, gone) {
			t.Errorf("it ended with %v", err)
		}
		if took := time.Since(view.began); took != keepAliveInterval {
			t.Errorf("it took %v", took)
		}
	})
}

// FuzzProposal: what is proposed for any text is a name that a runtime can have and
// that none has.
func FuzzProposal(f *testing.F) {
	for _, text := range []string{"", "prod", "My Prod!", "42", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "é--", "a-----------------------------------b"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		first := proposal(normalizeName(text), nil)
		second := proposal(normalizeName(text), []store.Runtime{{Name: first}})
		for _, name := range []string{first, second} {
			if err := wire.RuntimeName(name); err != nil {
				t.Errorf("%q becomes %q: %v", text, name, err)
			}
		}
		if first == second {
			t.Errorf("%q is proposed although a runtime has it", second)
		}
	})
}
