package store_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/platform/store/pgtest"
	"slipway.dev/slipway/internal/programs"
)

// Connections that turn read-only without ending are replaced by connections to
// the new primary.
func TestReadOnlyConnections(t *testing.T) {
	t.Parallel()
	pair := pgtest.NewPair(t)
	w := newWorld(t, pair.URL())
	w.account("Harbour")
	pair.Demote(t)
	pair.Promote(t)
	// Each connection of the pool can fail once.
	for attempt := 0; ; attempt++ {
		_, err := w.CreateAccount(t.Context(), store.Account{Name: "Pier"})
		if err == nil {
			break
		}
		wantError(t, err, store.ErrUnavailable)
		if attempt == 20 {
			t.Fatal(err)
		}
	}
	if accounts := must(w.Accounts(t.Context()))(t); len(accounts) != 2 {
		t.Errorf("got %v", accounts)
	}
}

// The platform sees the standby of its primary, and that it is gone.
func TestReplication(t *testing.T) {
	t.Parallel()
	pair := pgtest.NewPair(t)
	w := newWorld(t, pair.URL())
	want := store.Replication{Kind: "postgres", Hosts: 2, Standbys: 1, Synchronous: true}
	if got := must(w.Replication(t.Context()))(t); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	pair.KillStandby(t)
	want.Standbys = 0
	programs.Eventually(t, func(ctx context.Context) error {
		if got, err := w.Replication(ctx); err != nil || got != want {
			return fmt.Errorf("got %+v, %w", got, err)
		}
		return nil
	})
}

// A commit that no standby confirmed is not acknowledged, also when PostgreSQL
// ends its wait with success.
func TestUnconfirmedCommit(t *testing.T) {
	t.Parallel()
	pair := pgtest.NewPair(t)
	w := newWorld(t, pair.URL())
	w.account("Harbour")
	pair.KillStandby(t)
	committed := make(chan error, 1)
	go func() {
		_, err := w.CreateAccount(t.Context(), store.Account{Name: "Pier"})
		committed <- err
	}()
	pair.CancelCommits(t)
	err := <-committed
	wantError(t, err, store.ErrUnavailable)
	if !strings.Contains(err.Error(), "no standby confirmed") {
		t.Error(err)
	}
}

// A host that accepts connections and never responds does not keep the platform
// from the next one.
func TestHostThatHangs(t *testing.T) {
	t.Parallel()
	hanging, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = hanging.Close() })
	location, err := url.Parse(pgtest.URL(t))
	check(t, err)
	query := location.Query()
	query.Set("host", "127.0.0.1,"+query.Get("host"))
	query.Set("port", strconv.Itoa(hanging.Addr().(*net.TCPAddr).Port)+",5432")
	location.RawQuery = query.Encode()
	newWorld(t, location.String()).account("Harbour")
}
