package store_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

func TestAudit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account, other := w.account("Harbour"), w.account("Other")
		begin := w.clock.advance(0)
		add := func(to store.Account, actor, action, target string) {
			t.Helper()
			check(t, w.AppendAudit(ctx, store.AuditEntry{AccountID: to.ID, Actor: actor, ActorKind: "user", Action: action, Target: target,
				Outcome: "ok", Detail: target, Address: "192.0.2.1"}))
			w.clock.advance(time.Minute)
		}
		add(account, "ada", "runtime.register", "1")
		add(account, "bob", "runtime.register", "2")
		add(other, "ada", "runtime.register", "3")
		add(account, "ada", "key.revoke", "4")
		for _, test := range []struct {
			filter store.AuditFilter
			want   string
		}{
			{store.AuditFilter{}, "[4 2 1]"},
			{store.AuditFilter{Actor: "ada"}, "[4 1]"},
			{store.AuditFilter{Action: "runtime.register"}, "[2 1]"},
			{store.AuditFilter{Target: "2"}, "[2]"},
			{store.AuditFilter{Since: begin.Add(time.Minute)}, "[4 2]"},
			{store.AuditFilter{Until: begin.Add(time.Minute)}, "[1]"},
			{store.AuditFilter{Since: begin.Add(time.Minute), Until: begin.Add(2 * time.Minute), Actor: "bob"}, "[2]"},
			{store.AuditFilter{OldestFirst: true}, "[1 2 4]"},
			{store.AuditFilter{OldestFirst: true, Since: begin.Add(time.Minute)}, "[2 4]"},
		} {
			got := allPages(t, 1, func(page store.Page) ([]store.AuditEntry, string, error) {
				return w.AuditEntries(ctx, account.ID, test.filter, page)
			},
				func(e store.AuditEntry) string { return e.Detail })
			if fmt.Sprint(got) != test.want {
				t.Errorf("%+v: got %v, want %s", test.filter, got, test.want)
			}
		}
		if n := must(w.ExpireAudit(ctx, begin.Add(2*time.Minute)))(t); n != 2 {
			t.Errorf("%d expired, want 2", n)
		}
		entries, _, err := w.AuditEntries(ctx, account.ID, store.AuditFilter{}, store.Page{})
		check(t, err)
		entries[0].ID = ""
		want := []store.AuditEntry{{AccountID: account.ID, At: begin.Add(3 * time.Minute), Actor: "ada", ActorKind: "user", Action: "key.revoke", Target: "4",
			Outcome: "ok", Detail: "4", Address: "192.0.2.1"}}
		if !reflect.DeepEqual(entries, want) {
			t.Errorf("got %+v, want %+v", entries, want)
		}
	})
}

// All of an entry is stored, and handed to the export as it is stored.
func TestAuditFields(t *testing.T) {
	t.Parallel()
	for _, kind := range databases() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			var exported []store.AuditEntry
			s, err := store.Open(t.Context(), store.Options{URL: kind.url(t), Audited: func(e store.AuditEntry) { exported = append(exported, e) }})
			check(t, err)
			t.Cleanup(func() { check(t, s.Close()) })
			account := must(s.CreateAccount(t.Context(), store.Account{Name: "Harbour"}))(t)
			entry := store.AuditEntry{
				ID: "1", AccountID: account.ID, At: time.UnixMicro(7).UTC(), Actor: "ada (key ci)", ActorKind: "key", Action: "application.sync",
				Target: "application/argocd/shop", Outcome: "failed", Detail: "prune", Address: "192.0.2.1", Code: "unavailable",
				AuditPerson: store.AuditPerson{UserID: "u1", UserEmail: "ada", KeyID: "k1"},
				AuditObject: store.AuditObject{Runtime: "prod", Project: "web", Application: "argocd/shop", Revision: "main"},
			}
			check(t, s.AppendAudit(t.Context(), entry))
			wantConflict(t, s.AppendAudit(t.Context(), entry))
			entries, _, err := s.AuditEntries(t.Context(), account.ID, store.AuditFilter{}, store.Page{})
			check(t, err)
			if len(entries) != 1 || entries[0] != entry {
				t.Errorf("stored %+v, want %+v", entries, entry)
			}
			if len(exported) != 1 || exported[0] != entry {
				t.Errorf("exported %+v, want %+v", exported, entry)
			}
		})
	}
}

// What comes from a request cannot break the log: neither its size nor its bytes.
func TestAuditOfAnything(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		account := w.account("Harbour")
		check(t, w.AppendAudit(t.Context(), store.AuditEntry{AccountID: account.ID, Actor: "a\x00b\xffc", Target: "'; DROP TABLE users; --", Detail: strings.Repeat("é", 4000)}))
		entries, _, err := w.AuditEntries(t.Context(), account.ID, store.AuditFilter{Actor: "a\x00b\xffc"}, store.Page{})
		check(t, err)
		if len(entries) != 1 || entries[0].Actor != "a\ufffdb\ufffdc" || entries[0].Detail != strings.Repeat("é", 2048) || entries[0].Target[0] != '\'' {
			t.Errorf("got %+v", entries)
		}
	})
}

// Pages have bounded sizes, and rows that come and go neither repeat nor hide
// others.
func TestPages(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		for _, name := range []string{"b", "d", "f", "h"} {
			w.runtime(account, name)
		}
		names := func(page store.Page) (string, string) {
			t.Helper()
			runtimes, next, err := w.Runtimes(ctx, account.ID, page)
			check(t, err)
			text := ""
			for _, r := range runtimes {
				text += r.Name
			}
			return text, next
		}
		first, token := names(store.Page{Size: 2})
		w.runtime(account, "a")
		w.runtime(account, "e")
		gone := must(w.RuntimeByName(ctx, account.ID, "d"))(t)
		check(t, w.DeleteRuntime(ctx, account.ID, gone.ID, time.Time{}))
		second, last := names(store.Page{Size: 3, Token: token})
		if first != "bd" || second != "efh" || last != "" {
			t.Errorf("got %q, then %q with next %q", first, second, last)
		}
		for _, bad := range []string{"x", token + "x", strings.Repeat("A", 9000)} {
			_, _, err := w.Runtimes(ctx, account.ID, store.Page{Token: bad})
			wantInvalid(t, err)
		}
		_, _, err := w.Runtimes(ctx, w.account("Other").ID, store.Page{Token: token})
		wantInvalid(t, err)
		_, _, err = w.Users(ctx, account.ID, store.Page{Token: token})
		wantInvalid(t, err)
	})
}

func TestPageSizes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		account := w.account("Harbour")
		for i := range store.MaxPageSize + 2 {
			w.user(account, fmt.Sprintf("user%04d@example.org", i), store.RoleOperator)
		}
		for size, want := range map[int]int{0: store.DefaultPageSize, -1: store.DefaultPageSize, 7: 7, 1 << 40: store.MaxPageSize} {
			users, next, err := w.Users(ctx, account.ID, store.Page{Size: size})
			if err != nil || len(users) != want || next == "" {
				t.Errorf("size %d: %d users, next %q, %v", size, len(users), next, err)
			}
		}
	})
}
