package identity_test

import (
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// A key of the operator works before its user has chosen a password, does no more
// than its scope and its user, expires, can be revoked, and is in the audit log.
func TestOperatorKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fresh := func(scope string, life time.Duration) *person {
		t.Helper()
		key, err := identity.System{Store: w.store, Actor: "root"}.CreateKey(t.Context(), identity.OperatorKey{Email: strings.ToUpper(adminEmail), Name: "up", Scope: scope, Life: life})
		must(t, err)
		return w.bearer(key.Reveal())
	}
	all := fresh(identity.ScopeAll, 0)
	want(t, "everything", all.may(), 0)
	_, err := all.accounts().CreateUser(t.Context(), connect.NewRequest(&platformv1.CreateUserRequest{Email: userEmail, Name: "Bob", Role: platformv1.Role_ROLE_OPERATOR}))
	want(t, "everything, changing", err, 0)
	reading := fresh(identity.ScopeRead, 0)
	want(t, "reading", reading.may(), 0)
	_, err = reading.accounts().DeleteUser(t.Context(), connect.NewRequest(&platformv1.DeleteUserRequest{Id: "x"}))
	want(t, "reading, changing", err, connect.CodePermissionDenied)
	want(t, "registering, reading", fresh(identity.ScopeRuntimeRegister, 0).may(), connect.CodePermissionDenied)
	short := fresh(identity.ScopeAll, time.Hour)
	want(t, "a short one", short.may(), 0)
	w.clock.forward(2 * time.Hour)
	want(t, "a short one, later", short.may(), connect.CodeUnauthenticated)

	list, err := all.keys().ListKeys(t.Context(), connect.NewRequest(&platformv1.ListKeysRequest{}))
	must(t, err)
	if len(list.Msg.GetKeys()) != 4 || list.Msg.GetKeys()[0].GetName() != "up" {
		t.Errorf("listed %v", list.Msg)
	}
	for _, key := range list.Msg.GetKeys() {
		must(t, w.store.RevokeKey(t.Context(), account(t, w).ID, key.GetId()))
	}
	want(t, "a revoked one", all.may(), connect.CodeUnauthenticated)
	entries, _, err := w.store.AuditEntries(t.Context(), account(t, w).ID, store.AuditFilter{Action: "key.create"}, store.Page{})
	must(t, err)
	last := entries[0]
	if len(entries) != 8 || last.ActorKind != identity.KindSystem || last.Actor != "root" || last.Target != "key/up" || last.Outcome != identity.OutcomeOK || entries[1].Outcome != identity.OutcomeBegun {
		t.Errorf("the audit log has %+v", entries)
	}
}

func account(t *testing.T, w *world) store.Account {
	t.Helper()
	all, err := w.store.Accounts(t.Context())
	must(t, err)
	return all[0]
}

// What cannot be a key is refused with the reason, and leaves nothing.
func TestOperatorKeyRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user(w.admin())
	for name, c := range map[string]struct {
		wanted identity.OperatorKey
		says   string
	}{
		"nobody":       {identity.OperatorKey{Email: "eve@example.com", Name: "k", Scope: identity.ScopeAll}, "no user with the email eve@example.com"},
		"no name":      {identity.OperatorKey{Email: adminEmail, Scope: identity.ScopeAll}, "1 to"},
		"no scope":     {identity.OperatorKey{Email: adminEmail, Name: "k"}, "a key is for"},
		"other scope":  {identity.OperatorKey{Email: adminEmail, Name: "k", Scope: "operator"}, "a key is for"},
		"no admin":     {identity.OperatorKey{Email: userEmail, Name: "k", Scope: identity.ScopeRuntimeRegister}, "is not an admin"},
		"long life":    {identity.OperatorKey{Email: adminEmail, Name: "k", Scope: identity.ScopeAll, Life: 20 * 366 * 24 * time.Hour}, "ten years"},
		"in the past":  {identity.OperatorKey{Email: adminEmail, Name: "k", Scope: identity.ScopeAll, Life: -time.Hour}, "ten years"},
		"other's name": {identity.OperatorKey{Email: adminEmail, Name: "a\nb", Scope: identity.ScopeAll}, "printable"},
	} {
		key, err := identity.System{Store: w.store, Actor: "root"}.CreateKey(t.Context(), c.wanted)
		if err == nil || !strings.Contains(err.Error(), c.says) || !key.IsZero() {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
	w.changeUser(userEmail, func(bob *store.User) { bob.Disabled = true })
	_, err := identity.System{Store: w.store, Actor: "root"}.CreateKey(t.Context(), identity.OperatorKey{Email: userEmail, Name: "k", Scope: identity.ScopeAll})
	if err == nil || !strings.Contains(err.Error(), "is disabled") {
		t.Errorf("for one who is disabled: %v", err)
	}
	keys, _, err := w.store.Keys(t.Context(), account(t, w).ID, store.KeyFilter{}, store.Page{})
	must(t, err)
	if len(keys) != 0 {
		t.Errorf("there are %d keys", len(keys))
	}
}
