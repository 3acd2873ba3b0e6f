package store_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

// What is stored comes back as it was, to the microsecond.
func TestAccountsAndUsers(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		if len(account.ID) != 24 {
			t.Errorf("the ID %q has not 24 digits", account.ID)
		}
		account.Name = "Dock"
		check(t, w.UpdateAccount(ctx, account))
		if got := must(w.Account(ctx, account.ID))(t); got != account {
			t.Errorf("got %+v, want %+v", got, account)
		}
		if got := must(w.Accounts(ctx))(t); !reflect.DeepEqual(got, []store.Account{account}) {
			t.Errorf("got %+v", got)
		}
		wantError(t, w.UpdateAccount(ctx, store.Account{ID: "nobody"}), store.ErrNotFound)

		user := must(w.CreateUser(ctx, store.User{
			AccountID: account.ID, Email: "Ada@Example.org", Name: "Ada", Role: store.RoleAdmin, PasswordHash: "$argon2id$…",
			MustChangePassword: true, Subject: "https://id.example.org|42", LastSignInAt: w.clock.advance(time.Second),
		}))(t)
		if user.CreatedAt.Nanosecond() != 123456000 {
			t.Errorf("created at %s: not cut to microseconds", user.CreatedAt)
		}
		for name, find := range map[string]func() (store.User, error){
			"User":          func() (store.User, error) { return w.User(ctx, account.ID, user.ID) },
			"UserByID":      func() (store.User, error) { return w.UserByID(ctx, user.ID) },
			"UserByEmail":   func() (store.User, error) { return w.UserByEmail(ctx, " ADA@eXample.org ") },
			"UserBySubject": func() (store.User, error) { return w.UserBySubject(ctx, user.Subject) },
		} {
			if got, err := find(); err != nil || got != user {
				t.Errorf("%s: got %+v, %v; want %+v", name, got, err, user)
			}
		}
		for name, find := range map[string]func() (store.User, error){
			"of another account": func() (store.User, error) { return w.User(ctx, w.account("Other").ID, user.ID) },
			"without a subject":  func() (store.User, error) { return w.UserBySubject(ctx, "") },
			"with a zero byte":   func() (store.User, error) { return w.UserByEmail(ctx, "a\x00b\xff") },
		} {
			if _, err := find(); err == nil {
				t.Errorf("a user %s is found", name)
			} else {
				wantError(t, err, store.ErrNotFound)
			}
		}
		_, err := w.CreateUser(ctx, store.User{AccountID: account.ID, Email: "ada@EXAMPLE.org", Role: store.RoleUser})
		wantConflict(t, err)
		_, err = w.CreateUser(ctx, store.User{AccountID: "nobody", Email: "b@example.org", Role: store.RoleUser})
		wantError(t, err, store.ErrNotFound)
		_, err = w.CreateUser(ctx, store.User{AccountID: account.ID, Email: "b@example.org", Role: "root"})
		wantInvalid(t, err)
	})
}

// An account keeps an admin.
func TestLastAdmin(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		ada, bob := w.user(account, "ada@example.org", store.RoleAdmin), w.user(account, "bob@example.org", store.RoleUser)
		w.user(w.account("Other"), "eve@example.org", store.RoleAdmin)
		demoted, disabled := ada, ada
		demoted.Role, disabled.Disabled = store.RoleUser, true
		wantError(t, w.DeleteUser(ctx, account.ID, ada.ID), store.ErrLastAdmin)
		wantError(t, w.UpdateUser(ctx, demoted), store.ErrLastAdmin)
		wantError(t, w.UpdateUser(ctx, disabled), store.ErrLastAdmin)
		bob.Role = store.RoleAdmin
		check(t, w.UpdateUser(ctx, bob))
		check(t, w.UpdateUser(ctx, disabled))
		wantError(t, w.DeleteUser(ctx, account.ID, bob.ID), store.ErrLastAdmin)
		check(t, w.DeleteUser(ctx, account.ID, ada.ID))
		wantError(t, w.DeleteUser(ctx, account.ID, ada.ID), store.ErrNotFound)
	})
}

func TestSessions(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		user := w.user(account, "ada@example.org", store.RoleUser)
		expires := w.clock.advance(time.Hour)
		session := func(hash string) store.Session {
			s := store.Session{Hash: []byte(hash), UserID: user.ID, AccountID: account.ID, CSRFHash: []byte("csrf"),
				CreatedAt: expires.Add(-time.Hour), ExpiresAt: expires, Address: "192.0.2.1", Agent: "browser"}
			check(t, w.CreateSession(ctx, s))
			return s
		}
		one := session("one")
		session("two")
		session("three")
		if got := must(w.Session(ctx, one.Hash))(t); !reflect.DeepEqual(got, one) {
			t.Errorf("got %+v, want %+v", got, one)
		}
		later := expires.Add(time.Hour)
		check(t, w.TouchSession(ctx, one.Hash, expires, later))
		if got := must(w.Session(ctx, one.Hash))(t); !got.SeenAt.Equal(expires) || !got.ExpiresAt.Equal(later) {
			t.Errorf("touched: %+v", got)
		}
		check(t, w.DeleteSession(ctx, []byte("two")))
		check(t, w.DeleteSessionsOf(ctx, user.ID, one.Hash))
		for _, hash := range []string{"two", "three"} {
			_, err := w.Session(ctx, []byte(hash))
			wantError(t, err, store.ErrNotFound)
		}
		wantError(t, w.TouchSession(ctx, []byte("three"), expires, later), store.ErrNotFound)
		if n := must(w.ExpireSessions(ctx))(t); n != 0 {
			t.Errorf("%d sessions expired early", n)
		}
		w.clock.advance(time.Hour)
		if n := must(w.ExpireSessions(ctx))(t); n != 1 {
			t.Errorf("%d sessions expired, want 1", n)
		}
		session("four")
		check(t, w.DeleteUser(ctx, account.ID, user.ID))
		_, err := w.Session(ctx, []byte("four"))
		wantError(t, err, store.ErrNotFound)
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		ada, bob := w.user(account, "ada@example.org", store.RoleUser), w.user(account, "bob@example.org", store.RoleUser)
		var keys []store.Key
		for i, owner := range []store.User{ada, bob, ada} {
			w.clock.advance(time.Second)
			keys = append(keys, must(w.CreateKey(ctx, store.Key{AccountID: account.ID, UserID: owner.ID, Name: fmt.Sprint("key ", i),
				Prefix: "slw_", Hash: []byte{byte(i)}, Scopes: []string{"all", "read"}, ExpiresAt: w.clock.advance(0)}))(t))
		}
		if got := must(w.KeyByID(ctx, keys[0].ID))(t); !reflect.DeepEqual(got, keys[0]) {
			t.Errorf("got %+v, want %+v", got, keys[0])
		}
		_, err := w.CreateKey(ctx, store.Key{AccountID: w.account("Other").ID, UserID: ada.ID, Hash: []byte{1}})
		wantError(t, err, store.ErrNotFound)
		revokedAt := w.clock.advance(time.Minute)
		check(t, w.RevokeKey(ctx, account.ID, keys[0].ID))
		w.clock.advance(time.Minute)
		check(t, w.RevokeKey(ctx, account.ID, keys[0].ID))
		if got := must(w.KeyByID(ctx, keys[0].ID))(t); !got.RevokedAt.Equal(revokedAt) {
			t.Errorf("revoked at %s, want %s", got.RevokedAt, revokedAt)
		}
		wantError(t, w.RevokeKey(ctx, w.account("Third").ID, keys[1].ID), store.ErrNotFound)
		check(t, w.TouchKey(ctx, keys[1].ID, revokedAt))
		if got := must(w.KeyByID(ctx, keys[1].ID))(t); !got.LastUsedAt.Equal(revokedAt) {
			t.Errorf("used at %s", got.LastUsedAt)
		}
		for _, test := range []struct {
			filter store.KeyFilter
			want   string
		}{
			{store.KeyFilter{}, "[key 2 key 1]"},
			{store.KeyFilter{IncludeRevoked: true}, "[key 2 key 1 key 0]"},
			{store.KeyFilter{UserID: ada.ID, IncludeRevoked: true}, "[key 2 key 0]"},
			{store.KeyFilter{UserID: ada.ID}, "[key 2]"},
		} {
			names := allPages(t, 1, func(page store.Page) ([]store.Key, string, error) { return w.Keys(ctx, account.ID, test.filter, page) },
				func(k store.Key) string { return k.Name })
			if fmt.Sprint(names) != test.want {
				t.Errorf("%+v: got %v, want %s", test.filter, names, test.want)
			}
		}
	})
}

// allPages reads a list to its end and gives the names.
func allPages[T any](t testing.TB, size int, list func(store.Page) ([]T, string, error), name func(T) string) []string {
	t.Helper()
	names := []string{}
	page := store.Page{Size: size}
	for {
		items, next, err := list(page)
		check(t, err)
		if len(items) > size {
			t.Fatalf("a page of %d has %d", size, len(items))
		}
		for _, item := range items {
			names = append(names, name(item))
		}
		if next == "" {
			return names
		}
		page.Token = next
	}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		begin := w.clock.advance(0)
		for range 3 {
			check(t, w.AddAttempt(ctx, "ada@example.org"))
			w.clock.advance(time.Minute)
		}
		check(t, w.AddAttempt(ctx, "bob@example.org"))
		count := func(key string, since time.Time, want int) {
			t.Helper()
			if got := must(w.CountAttempts(ctx, key, since))(t); got != want {
				t.Errorf("%s since %s: got %d, want %d", key, since, got, want)
			}
		}
		count("ada@example.org", begin, 3)
		count("ada@example.org", begin.Add(time.Minute), 2)
		check(t, w.ClearAttempts(ctx, "ada@example.org"))
		count("ada@example.org", begin, 0)
		count("bob@example.org", begin, 1)
		w.clock.advance(25 * time.Hour)
		check(t, w.AddAttempt(ctx, "ada@example.org"))
		count("bob@example.org", begin, 0)
	})
}
