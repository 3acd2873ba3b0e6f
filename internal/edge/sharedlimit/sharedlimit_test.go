package sharedlimit

import (
	"bytes"
	"context"
	"log/slog"
	"reflect"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/must"
)

// TestSum has vectors of the reference implementation: key 00..0f, texts 00, 00 01, …
func TestSum(t *testing.T) {
	key := NewHashKey("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f")
	text := []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e")
	for size, want := range map[int]uint64{
		0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 7: 0xab0200f58b01d137, 8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5,
	} {
		if got := key.Sum(text[:size]); got != want {
			t.Errorf("%d bytes: %x, want %x", size, got, want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	m := message{sender: 7, entries: []Entry{{Limit: 1, Key: 2, Spent: time.Second, Requests: 3, Debt: 4}, {Key: 1 << 63}}}
	f.Add(m.appendTo(nil))
	f.Add([]byte{version})
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := decode(text)
		if err != nil {
			return
		}
		again, err := decode(m.appendTo(nil))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Errorf("%v becomes %v, error %v", m, again, err)
		}
	})
}

func TestMessageIsBounded(t *testing.T) {
	m := message{entries: make([]Entry, MaxEntries)}
	for i := range m.entries {
		m.entries[i] = Entry{Spent: 1 << 59, Requests: 1 << 59, Debt: 1 << 59}
	}
	text := m.appendTo(nil)
	if _, err := decode(text); err != nil || len(text) > maxMessage {
		t.Errorf("the largest message has %d bytes of %d, error %v", len(text), maxMessage, err)
	}
	m.entries = append(m.entries, Entry{})
	if _, err := decode(m.appendTo(nil)); err == nil {
		t.Error("a message above the bound is accepted")
	}
}

// accounts record what an Exchange calls.
type accounts struct {
	mu       sync.Mutex
	lend     []Entry
	charged  []Entry
	replicas Replicas
	changed  chan struct{}
}

func newAccounts() *accounts { return &accounts{changed: make(chan struct{}, 1)} }

func (a *accounts) Lend(time.Time) []Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	lent := a.lend
	a.lend = nil
	return lent
}

func (a *accounts) Charge(_ uint64, entries []Entry, _ time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.charged = append(a.charged, entries...)
}

func (a *accounts) SetReplicas(heard, members int) {
	a.mu.Lock()
	a.replicas = Replicas{Heard: heard, Members: members}
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// await waits until a condition holds.
func (a *accounts) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		a.mu.Lock()
		ok := holds()
		a.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-a.changed:
		case <-timeout:
			t.Fatalf("no %s: %+v, charged %v", what, a.replicas, a.charged)
		}
	}
}

// replica runs an Exchange whose peers are set later, because their ports are.
type replica struct {
	counts   *accounts
	exchange *Exchange
	stop     func()
}

func startReplicas(t *testing.T, secrets ...string) []*replica {
	t.Helper()
	var replicas []*replica
	var peers []string
	for _, secret := range secrets {
		a := newAccounts()
		e := must.Get(New(t.Context(), Options{
			Address: "127.0.0.1:0", Secret: bytes.Repeat([]byte(secret), 32), Accounting: a, Log: slog.New(slog.DiscardHandler),
		}))(t)
		peers = append(peers, e.listener.Addr().String())
		replicas = append(replicas, &replica{counts: a, exchange: e})
	}
	for _, r := range replicas {
		r.exchange.options.Peers = peers
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.exchange.Run(ctx) }()
		r.stop = sync.OnceFunc(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(r.stop)
	}
	return replicas
}

// TestExchange runs three replicas that all have the same list, and stops one.
func TestExchange(t *testing.T) {
	replicas := startReplicas(t, "s", "s", "s")
	for _, r := range replicas {
		r.counts.await(t, "three replicas", func() bool { return r.counts.replicas == Replicas{3, 3} })
	}
	want := Entry{Limit: 5, Key: 6, Spent: time.Second, Requests: 7, Debt: 8}
	replicas[0].counts.mu.Lock()
	replicas[0].counts.lend = []Entry{want}
	replicas[0].counts.mu.Unlock()
	for _, r := range replicas[1:] {
		r.counts.await(t, "charge", func() bool { return len(r.counts.charged) == 1 && r.counts.charged[0] == want })
	}
	replicas[0].counts.mu.Lock()
	if len(replicas[0].counts.charged) > 0 {
		t.Errorf("a replica charges itself: %v", replicas[0].counts.charged)
	}
	replicas[0].counts.mu.Unlock()
	replicas[2].stop()
	for _, r := range replicas[:2] {
		r.counts.await(t, "missing replica", func() bool { return r.counts.replicas == Replicas{2, 3} })
	}
}

// TestStranger has a replica with another secret, which must not be heard.
func TestStranger(t *testing.T) {
	replicas := startReplicas(t, "s", "s", "x")
	stranger := replicas[2]
	for _, r := range replicas[:2] {
		r.counts.await(t, "two of three replicas", func() bool { return r.counts.replicas == Replicas{2, 3} })
	}
	stranger.counts.await(t, "failed messages", func() bool { return stranger.exchange.Stats().Failed > 3 })
	if stats := stranger.exchange.Stats(); stats.Sent > 0 || stats.Received > 0 {
		t.Errorf("a replica with another secret takes part: %+v", stats)
	}
}
