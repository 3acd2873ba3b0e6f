package store_test

import (
	"testing"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

// This version works with the database of the next one, as replicas do during an
// upgrade and after going back.
func TestNextSchema(t *testing.T) {
	t.Parallel()
	for _, kind := range databases() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			location := kind.url(t)
			store.MigrateToNext(t, location)
			w := newWorld(t, location)
			furnish(t, w)
			account := must(w.Accounts(t.Context()))(t)[0]
			runtime := must(w.RuntimeByName(t.Context(), account.ID, "prod"))(t)
			if names := applicationNames(t, w, account, store.ApplicationFilter{Labels: map[string]string{"app": "web"}}); len(names) != 1 {
				t.Errorf("applications by label: %v", names)
			}
			must(w.Session(t.Context(), []byte("session")))(t)
			if entries, _, err := w.AuditEntries(t.Context(), account.ID, store.AuditFilter{}, store.Page{}); err != nil || len(entries) != 1 {
				t.Errorf("audit log: %v, %v", entries, err)
			}
			check(t, w.DeleteReplica(t.Context(), "a"))
			check(t, w.DeleteRuntime(t.Context(), account.ID, runtime.ID, time.Time{}))
		})
	}
}
