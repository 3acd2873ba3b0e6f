package store_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/platform/store/pgtest"
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
			MustChangePassword: true, Subject: "https://id.example.org|42", Groups: []string{"dev", "a \"b\", c"}, LastSignInAt: w.clock.advance(time.Second),
		}))(t)
		if user.CreatedAt.Nanosecond() != 123456000 {
			t.Errorf("created at %s: not cut to microseconds", user.CreatedAt)
		}
		for name, find := range map[string]func() (store.User, error){
			"User":          func() (store.User, error) { return w.User(ctx, account.ID, user.ID) },
			"UserByEmail":   func() (store.User, error) { return w.UserByEmail(ctx, " ADA@eXample.org ") },
			"UserBySubject": func() (store.User, error) { return w.UserBySubject(ctx, user.Subject) },
		} {
			if got, err := find(); err != nil || !reflect.DeepEqual(got, user) {
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
		_, err := w.CreateUser(ctx, store.User{AccountID: account.ID, Email: "ada@EXAMPLE.org", Role: store.RoleOperator})
		wantConflict(t, err)
		_, err = w.CreateUser(ctx, store.User{AccountID: "nobody", Email: "b@example.org", Role: store.RoleOperator})
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
		ada, bob := w.user(account, "ada@example.org", store.RoleAdmin), w.user(account, "bob@example.org", store.RoleOperator)
		w.user(w.account("Other"), "eve@example.org", store.RoleAdmin)
		demote := func(user *store.User) { user.Role = store.RoleOperator }
		disable := func(user *store.User) { user.Disabled = true }
		wantError(t, w.DeleteUser(ctx, account.ID, ada.ID), store.ErrLastAdmin)
		wantError(t, w.change(ada, store.EndAllKeys, demote), store.ErrLastAdmin)
		wantError(t, w.change(ada, store.EndAllKeys, disable), store.ErrLastAdmin)
		check(t, w.change(bob, store.EndNothing, func(user *store.User) { user.Role = store.RoleAdmin }))
		check(t, w.change(ada, store.EndNothing, disable))
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
		user := w.user(account, "ada@example.org", store.RoleOperator)
		expires := w.clock.advance(time.Hour)
		session := func(hash string) store.Session {
			s := store.Session{Hash: []byte(hash), UserID: user.ID, AccountID: account.ID, CSRFHash: []byte("csrf"),
				CreatedAt: expires.Add(-time.Hour), ExpiresAt: expires, Address: "192.0.2.1", Agent: "browser"}
			check(t, w.session(s))
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
		check(t, w.DeleteSession(ctx, []byte("three")))
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

// A change of a user ends the credentials that it names, and those of no other
// user.
func TestEndings(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		for _, test := range []struct {
			ending store.Ending
			want   string
		}{
			{store.EndNothing, "session, own key, operator's key"},
			{store.EndSessions, "own key, operator's key"},
			{store.EndOwnKeys, "operator's key"},
			{store.EndAllKeys, ""},
		} {
			var left []string
			name := fmt.Sprint("user", test.ending)
			user, other := w.user(account, name+"@example.org", store.RoleOperator), w.user(account, name+"other@example.org", store.RoleOperator)
			for _, owner := range []store.User{user, other} {
				check(t, w.session(store.Session{Hash: []byte(owner.ID), UserID: owner.ID, AccountID: account.ID, CSRFHash: []byte("csrf")}))
				for suffix, scopes := range map[string][]string{"-own": {"all"}, "-operator": {"all", store.OperatorScope}} {
					must(w.CreateKey(ctx, store.Key{ID: owner.ID + suffix, AccountID: account.ID, UserID: owner.ID, Hash: []byte{1}, Scopes: scopes}))(t)
				}
			}
			check(t, w.change(user, test.ending, func(*store.User) {}))
			if _, err := w.Session(ctx, []byte(user.ID)); err == nil {
				left = append(left, "session")
			}
			if must(w.KeyByID(ctx, user.ID+"-own"))(t).RevokedAt.IsZero() {
				left = append(left, "own key")
			}
			if must(w.KeyByID(ctx, user.ID+"-operator"))(t).RevokedAt.IsZero() {
				left = append(left, "operator's key")
			}
			if got := strings.Join(left, ", "); got != test.want {
				t.Errorf("%s: left are %q, want %q", name, got, test.want)
			}
			must(w.Session(ctx, []byte(other.ID)))(t)
			if !must(w.KeyByID(ctx, other.ID+"-own"))(t).RevokedAt.IsZero() {
				t.Errorf("%s: the key of another user is revoked", name)
			}
		}
	})
}

// Replicas that change different fields of a user at the same time lose none:
// the second one applies its change to the row of the first.
func TestConcurrentUserChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.URL(t))
	other := &world{Store: w.open(), t: t}
	account := w.account("Harbour")
	user := w.user(account, "ada@example.org", store.RoleOperator)
	runs := 0
	changed, err := w.ChangeUser(t.Context(), account.ID, user.ID, func(now *store.User) (store.Ending, error) {
		if runs++; runs == 1 {
			check(t, other.change(user, store.EndNothing, func(now *store.User) { now.Disabled = true }))
		}
		now.Name, now.LastSignInAt = "Ada", w.clock.advance(time.Second)
		return store.EndNothing, nil
	})
	check(t, err)
	stored := must(w.User(t.Context(), account.ID, user.ID))(t)
	if runs < 2 || !stored.Disabled || stored.Name != "Ada" || stored.LastSignInAt.IsZero() || !reflect.DeepEqual(stored, changed) {
		t.Errorf("after %d runs: stored %+v, returned %+v", runs, stored, changed)
	}
}

// A session that is opened while the user is disabled or gets a second factor
// sees it: the callback runs again on what the other replica stored.
func TestSessionOfAChangedUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, pgtest.URL(t))
	other := &world{Store: w.open(), t: t}
	account := w.account("Harbour")
	refused := errors.New("refused")
	for name, change := range map[string]func(store.User) error{
		"disabled": func(user store.User) error {
			return other.change(user, store.EndAllKeys, func(now *store.User) { now.Disabled = true })
		},
		"factor": func(user store.User) error {
			_, err := other.AddFactor(t.Context(), store.Factor{ID: "app", UserID: user.ID, Kind: store.FactorTOTP, Secret: []byte("sealed")}, nil)
			return err
		},
	} {
		user := w.user(account, name+"@example.org", store.RoleOperator)
		runs := 0
		_, err := w.OpenSession(t.Context(), store.Session{Hash: []byte(name), UserID: user.ID, AccountID: account.ID}, func(now *store.User) (store.Ending, error) {
			if runs++; runs == 1 {
				check(t, change(user))
			}
			if now.Disabled || now.SecondFactor {
				return store.EndNothing, refused
			}
			return store.EndNothing, nil
		})
		wantError(t, err, refused)
		_, err = w.Session(t.Context(), []byte(name))
		wantError(t, err, store.ErrNotFound)
	}
}

// Changes of different fields from many goroutines are all kept.
func TestParallelUserChanges(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		account := w.account("Harbour")
		user := w.user(account, "ada@example.org", store.RoleOperator)
		var all sync.WaitGroup
		for _, change := range []func(*store.User){
			func(now *store.User) { now.Disabled = true },
			func(now *store.User) { now.Name = "Ada" },
			func(now *store.User) { now.PasswordHash = "$argon2id$…" },
			func(now *store.User) { now.MustChangePassword = true },
		} {
			all.Go(func() {
				if err := w.change(user, store.EndNothing, change); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		stored := must(w.User(t.Context(), account.ID, user.ID))(t)
		if !stored.Disabled || stored.Name != "Ada" || stored.PasswordHash == "" || !stored.MustChangePassword {
			t.Errorf("stored %+v", stored)
		}
	})
}

// Revoking a key revokes its descendants, and neither its parent nor another
// key.
func TestRevokeFamily(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		user := w.user(account, "ada@example.org", store.RoleOperator)
		for _, names := range [][2]string{{"root", ""}, {"child", "root"}, {"grandchild", "child"}, {"sibling", "root"}, {"other", ""}} {
			key := must(w.CreateKey(ctx, store.Key{ID: names[0], ParentID: names[1], AccountID: account.ID, UserID: user.ID, Hash: []byte{1}}))(t)
			if got := must(w.KeyByID(ctx, key.ID))(t); got.ParentID != names[1] {
				t.Errorf("the parent of %s is %q", key.ID, got.ParentID)
			}
		}
		revoked := func(want string) {
			t.Helper()
			var names []string
			for _, id := range []string{"root", "child", "grandchild", "sibling", "other"} {
				if !must(w.KeyByID(ctx, id))(t).RevokedAt.IsZero() {
					names = append(names, id)
				}
			}
			if got := strings.Join(names, " "); got != want {
				t.Errorf("revoked are %q, want %q", got, want)
			}
		}
		wantError(t, w.RevokeKey(ctx, w.account("Other").ID, "root"), store.ErrNotFound)
		wantError(t, w.RevokeKey(ctx, account.ID, ""), store.ErrNotFound)
		revoked("")
		check(t, w.RevokeKey(ctx, account.ID, "child"))
		revoked("child grandchild")
		check(t, w.RevokeKey(ctx, account.ID, "root"))
		revoked("root child grandchild sibling")
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		ada, bob := w.user(account, "ada@example.org", store.RoleOperator), w.user(account, "bob@example.org", store.RoleOperator)
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
