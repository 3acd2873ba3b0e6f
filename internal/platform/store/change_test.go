package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/platform/store/pgtest"
)

// next waits for a change.
func next(t testing.TB, changes <-chan store.Change) store.Change {
	t.Helper()
	select {
	case change, open := <-changes:
		if !open {
			t.Fatal("the channel is closed")
		}
		return change
	case <-time.After(30 * time.Second):
		t.Fatal("no change came")
	}
	return store.Change{}
}

// Every stored change is published once, with its keys.
func TestChanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		changes := w.Changes(ctx)
		want := func(want ...store.Change) {
			t.Helper()
			for _, want := range want {
				if got := next(t, changes); got != want {
					t.Fatalf("got %+v, want %+v", got, want)
				}
			}
		}
		account := w.account("Harbour")
		runtime := w.runtime(account, "prod")
		about := func(kind store.ChangeKind) store.Change {
			return store.Change{Kind: kind, AccountID: account.ID, ID: runtime.ID}
		}
		want(about(store.ChangeRuntime))
		check(t, w.PutCredential(ctx, store.RuntimeCredential{RuntimeID: runtime.ID, RefreshHash: []byte("a")}))
		check(t, w.RevokeCredential(ctx, runtime.ID))
		want(about(store.ChangeCredential), about(store.ChangeCredential))

		report(t, w, runtime, store.Application{Namespace: "apps", Name: "web"})
		web := about(store.ChangeApplication)
		web.Namespace, web.Name = "apps", "web"
		want(web)
		report(t, w, runtime, make30()...)
		want(about(store.ChangeApplication)) // many at once are told as one

		replica := store.Replica{ID: "a", SeenAt: w.clock.advance(0)}
		check(t, w.PutReplica(ctx, replica))
		replica.SeenAt = w.clock.advance(time.Second)
		check(t, w.PutReplica(ctx, replica)) // a heartbeat is no change
		check(t, w.PutConnection(ctx, store.Connection{RuntimeID: runtime.ID, ReplicaID: "a", Count: 1}))
		check(t, w.PutConnection(ctx, store.Connection{RuntimeID: runtime.ID, ReplicaID: "a", Count: 1}))
		check(t, w.DeleteRuntime(ctx, account.ID, runtime.ID, time.Time{}))
		about1 := store.Change{Kind: store.ChangeReplica, ID: "a"}
		want(about1, about1, about(store.ChangeRuntime), about(store.ChangeCredential), about(store.ChangeApplication))
		cancel()
		for range changes { // it is closed
		}
	})
}

func make30() []store.Application {
	applications := make([]store.Application, 30)
	for i := range applications {
		applications[i].Name = fmt.Sprint("app", i)
	}
	return applications
}

// Rejected changes are not published.
func TestChangesOfRefusals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		changes := w.Changes(t.Context())
		account := w.account("Harbour")
		if first := w.runtime(account, "prod"); next(t, changes).ID != first.ID {
			t.Error("the first runtime was not told")
		}
		_, err := w.CreateRuntime(t.Context(), store.Runtime{AccountID: account.ID, Name: "prod"})
		wantConflict(t, err)
		marker := w.runtime(account, "marker")
		if got := next(t, changes); got.ID != marker.ID {
			t.Errorf("got %+v", got)
		}
	})
}

// A subscriber that does not read blocks no one, and gets ChangeAll for what it
// missed something.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		runtime := w.runtime(w.account("Harbour"), "prod")
		slow, fast := w.Changes(t.Context()), w.Changes(t.Context())
		const updates = 600
		for range updates {
			must(w.UpdateRuntime(t.Context(), runtime.ID, func(*store.Runtime) error { return nil }))(t)
			if got := next(t, fast); got.ID != runtime.ID {
				t.Fatalf("the fast reader got %+v", got)
			}
		}
		for range updates {
			if next(t, slow).Kind == store.ChangeAll {
				return
			}
		}
		t.Error("the slow reader was not told that it missed changes")
	})
}

// Replicas hear of each other's changes, also after their connections were cut;
// what they may have missed is ChangeAll.
func TestChangesOfReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.URL(t))
	here, there := w.Changes(t.Context()), w.open().Changes(t.Context())
	account := w.account("Harbour")
	runtime := w.runtime(account, "one")
	for _, changes := range []<-chan store.Change{here, there} {
		if got := next(t, changes); got != (store.Change{Kind: store.ChangeRuntime, AccountID: account.ID, ID: runtime.ID}) {
			t.Errorf("got %+v", got)
		}
	}
	name := w.url[strings.LastIndex(w.url, "/slipway_")+1 : strings.Index(w.url, "?")]
	pgtest.Admin(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
	for _, changes := range []<-chan store.Change{here, there} {
		if got := next(t, changes); got.Kind != store.ChangeAll {
			t.Errorf("got %+v, want ChangeAll", got)
		}
	}
	// The pool may still have a dead connection for a first call.
	var second store.Runtime
	for attempt := 0; ; attempt++ {
		created, err := w.CreateRuntime(t.Context(), store.Runtime{AccountID: account.ID, Name: "two"})
		if err == nil {
			second = created
			break
		}
		wantError(t, err, store.ErrUnavailable)
		if attempt == 20 {
			t.Fatal(err)
		}
	}
	for _, changes := range []<-chan store.Change{here, there} {
		if got := next(t, changes); got.ID != second.ID {
			t.Errorf("got %+v", got)
		}
	}
}

// A database that is away is ErrUnavailable, for those that are open and for those
// that open; when it is back everything goes on.
func TestPostgreSQLAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.URL(t))
	account := w.account("Harbour")
	changes := w.Changes(t.Context())
	name := w.url[strings.LastIndex(w.url, "/slipway_")+1 : strings.Index(w.url, "?")]
	pgtest.Admin(t, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS false")
	pgtest.Admin(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"+name+"'")
	for range 20 {
		_, err := w.Account(t.Context(), account.ID)
		wantError(t, err, store.ErrUnavailable)
	}
	wantError(t, w.Ready(t.Context()), store.ErrUnavailable)
	_, err := store.Open(t.Context(), w.options())
	wantError(t, err, store.ErrUnavailable)
	pgtest.Admin(t, "ALTER DATABASE "+name+" ALLOW_CONNECTIONS true")
	if got := next(t, changes); got.Kind != store.ChangeAll {
		t.Errorf("got %+v, want ChangeAll", got)
	}
	if got := must(w.Account(t.Context(), account.ID))(t); got != account {
		t.Errorf("got %+v", got)
	}
}

// No error shows the password of a database's URL.
func TestErrorsHidePasswords(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"postgres://slipway:hunter2@127.0.0.1:1/slipway",
		"postgres://slipway:hunter2@127.0.0.1:port/slipway",
		"postgres://slipway:hunter2@127.0.0.1/slipway?sslmode=hunter2",
		"mysql://slipway:hunter2@127.0.0.1/slipway",
		"sqlite://slipway:hunter2@host/file",
		"://hunter2",
	} {
		_, err := store.Open(t.Context(), store.Options{URL: url})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
