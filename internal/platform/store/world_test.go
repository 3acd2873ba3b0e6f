package store_test

import (
	"errors"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/platform/store/pgtest"
)

// databases are the kinds that every test runs against.
func databases() []database {
	return []database{
		{name: "SQLite", url: sqliteURL},
		{name: "PostgreSQL", url: pgtest.URL},
	}
}

type database struct {
	name string
	url  func(testing.TB) string // of an empty one
}

func sqliteURL(t testing.TB) string {
	location := url.URL{Scheme: "sqlite", OmitHost: false, Path: filepath.Join(t.TempDir(), "platform database.db")}
	return location.String()
}

// each runs a test against every kind of database, with its own empty store.
func each(t *testing.T, test func(t *testing.T, w *world)) {
	for _, kind := range databases() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t, kind.url(t)))
		})
	}
}

// world is a store with a clock that tests move.
type world struct {
	*store.Store
	t     testing.TB
	url   string
	clock *clock
}

func newWorld(t testing.TB, location string) *world {
	t.Helper()
	w := &world{t: t, url: location, clock: &clock{now: time.Date(2026, 5, 1, 12, 0, 0, 123456789, time.UTC)}}
	w.Store = w.open()
	return w
}

// open opens the database once more; for SQLite the first must be closed.
func (w *world) open() *store.Store {
	w.t.Helper()
	s, err := store.Open(w.t.Context(), w.options())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	})
	return s
}

func (w *world) options() store.Options { return store.Options{URL: w.url, Now: w.clock.Now} }

// account makes an account.
func (w *world) account(name string) store.Account {
	w.t.Helper()
	return must(w.CreateAccount(w.t.Context(), store.Account{Name: name}))(w.t)
}

// runtime makes a runtime of an account.
func (w *world) runtime(account store.Account, name string) store.Runtime {
	w.t.Helper()
	return must(w.CreateRuntime(w.t.Context(), store.Runtime{AccountID: account.ID, Name: name}))(w.t)
}

// user makes a user of an account.
func (w *world) user(account store.Account, email string, role store.Role) store.User {
	w.t.Helper()
	return must(w.CreateUser(w.t.Context(), store.User{AccountID: account.ID, Email: email, Role: role}))(w.t)
}

// putGitSettings stores the settings of an account.
func (w *world) putGitSettings(settings store.GitSettings) {
	w.t.Helper()
	must(w.UpdateGitSettings(w.t.Context(), settings.AccountID, func(now *store.GitSettings) error {
		*now = settings
		return nil
	}))(w.t)
}

// change applies a change to a user, with what ends by it.
func (w *world) change(user store.User, ending store.Ending, change func(*store.User)) error {
	w.t.Helper()
	_, err := w.ChangeUser(w.t.Context(), user.AccountID, user.ID, func(now *store.User) (store.Ending, error) {
		change(now)
		return ending, nil
	})
	return err
}

// session stores a session, and leaves its user as it is.
func (w *world) session(session store.Session) error {
	_, err := w.OpenSession(w.t.Context(), session, func(*store.User) (store.Ending, error) { return store.EndNothing, nil })
	return err
}

type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(by time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
	return c.now.Truncate(time.Microsecond)
}

// must gives a value whose error ends the test.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func wantError(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func wantConflict(t testing.TB, got error) {
	t.Helper()
	if conflict := (*store.ConflictError)(nil); !errors.As(got, &conflict) {
		t.Fatalf("got %v, want a conflict", got)
	}
}

func wantInvalid(t testing.TB, got error) {
	t.Helper()
	if invalid := (*refusal.Refusal)(nil); !errors.As(got, &invalid) {
		t.Fatalf("got %v, want a refusal", got)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
