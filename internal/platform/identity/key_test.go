package identity_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// R47: a key is made, shown once and stored as a hash.
func TestKeyIsShownOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	made := admin.key("ci", 0)
	if !strings.HasPrefix(made.GetSecret(), "slw_"+made.GetKey().GetId()+"_") || !strings.HasPrefix(made.GetSecret(), made.GetKey().GetPrefix()) {
		t.Errorf("the key has an odd form")
	}
	want(t, "the key", w.bearer(made.GetSecret()).may(), 0)
	list, err := admin.keys().ListKeys(t.Context(), connect.NewRequest(&platformv1.ListKeysRequest{}))
	must(t, err)
	value := made.GetSecret()[strings.LastIndex(made.GetSecret(), "_")+1:]
	text, err := proto.Marshal(list.Msg)
	must(t, err)
	if len(list.Msg.GetKeys()) != 1 || bytes.Contains(text, []byte(value)) {
		t.Errorf("the list has %d keys, or the secret", len(list.Msg.GetKeys()))
	}
	stored, err := w.store.KeyByID(t.Context(), made.GetKey().GetId())
	must(t, err)
	if sum := sha256.Sum256([]byte(value)); !bytes.Equal(stored.Hash, sum[:]) {
		t.Error("what is stored is not the hash of the secret")
	}
	me, err := w.bearer(made.GetSecret()).auth().Me(t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
	must(t, err)
	if me.Msg.GetKey().GetName() != "ci" || me.Msg.GetCsrfToken() != "" || me.Msg.GetUser().GetEmail() != adminEmail || me.Msg.GetPlatformVersion() != "v1.2.3" {
		t.Errorf("Me answers %v", me.Msg)
	}
}

// Incomplete, expired and revoked keys are rejected.
func TestKeyEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	made := admin.key("short", time.Hour)
	good := made.GetSecret()
	for name, text := range map[string]string{
		"another secret": altered(good), "cut": good[:len(good)-1], "longer": good + "a", "no id": "slw__x", "upper": strings.ToUpper(good),
		"another id": "slw_" + strings.Repeat("0", 24) + good[28:], "empty": "", "no key": "hello", "a token": "e30.e30.e30", "long": strings.Repeat("x", 9000),
	} {
		want(t, name, w.bearer(text).may(), connect.CodeUnauthenticated)
	}
	twice := w.bearer(good)
	twice.header.Add("Authorization", "Bearer "+good)
	want(t, "two headers", twice.may(), connect.CodeUnauthenticated)
	want(t, "good", w.bearer(good).may(), 0)
	w.clock.forward(61 * time.Minute)
	err := w.bearer(good).may()
	want(t, "expired", err, connect.CodeUnauthenticated)
	if err == nil || !strings.Contains(err.Error(), "expired at") {
		t.Errorf("the error does not say that it expired: %v", err)
	}
	other := admin.key("other", 0)
	_, err = admin.keys().RevokeKey(t.Context(), connect.NewRequest(&platformv1.RevokeKeyRequest{Id: other.GetKey().GetId()}))
	must(t, err)
	want(t, "revoked", w.bearer(other.GetSecret()).may(), connect.CodeUnauthenticated)
}

// A key that is made with a key does not outlive it, and has bounds.
func TestKeyOfAKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	parent := admin.key("parent", time.Hour)
	with := w.bearer(parent.GetSecret())
	for name, life := range map[string]time.Duration{"no end": 0, "longer": 48 * time.Hour} {
		if child := with.key(name, life).GetKey(); child.GetExpiresAt().AsTime().After(parent.GetKey().GetExpiresAt().AsTime()) || child.GetExpiresAt() == nil {
			t.Errorf("%s: expires at %v, its parent at %v", name, child.GetExpiresAt().AsTime(), parent.GetKey().GetExpiresAt().AsTime())
		}
	}
	for name, request := range map[string]*platformv1.CreateKeyRequest{
		"no name":    {},
		"a line":     {Name: "a\nb"},
		"a second":   {Name: "a", Lifetime: durationpb.New(time.Second)},
		"a century":  {Name: "a", Lifetime: durationpb.New(100 * 365 * 24 * time.Hour)},
		"no scope":   {Name: "a", Scopes: []platformv1.Scope{platformv1.Scope_SCOPE_UNSPECIFIED}},
		"impossible": {Name: "a", Lifetime: &durationpb.Duration{Seconds: 1, Nanos: -1}},
	} {
		_, err := with.keys().CreateKey(t.Context(), connect.NewRequest(request))
		want(t, name, err, connect.CodeInvalidArgument)
	}
}

// The settings bound the lifetimes of new keys, and are the default of requests
// without one.
func TestKeyLifetimes(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name     string
		settings identity.KeyLifetimes
		request  *durationpb.Duration
		want     time.Duration // 0 is no expiry
		refused  string
	}{
		{"no settings", identity.KeyLifetimes{}, nil, 0, ""},
		{"no settings, for ever", identity.KeyLifetimes{}, durationpb.New(0), 0, ""},
		{"a default", identity.KeyLifetimes{Default: 90 * day}, nil, 90 * day, ""},
		{"a default, for ever", identity.KeyLifetimes{Default: 90 * day}, durationpb.New(0), 0, ""},
		{"a default and longer", identity.KeyLifetimes{Default: 90 * day}, durationpb.New(91 * day), 91 * day, ""},
		{"both", identity.KeyLifetimes{Default: 90 * day, Max: 365 * day}, nil, 90 * day, ""},
		{"the maximum alone", identity.KeyLifetimes{Max: 365 * day}, nil, 365 * day, ""},
		{"exactly the maximum", identity.KeyLifetimes{Max: 365 * day}, durationpb.New(365 * day), 365 * day, ""},
		{"above the maximum", identity.KeyLifetimes{Max: 365 * day}, durationpb.New(365*day + 1), 0, "at most 365 days on this platform"},
		{"for ever", identity.KeyLifetimes{Max: 36 * time.Hour}, durationpb.New(0), 0, "at most 36h0m0s on this platform"},
		{"in the past", identity.KeyLifetimes{}, durationpb.New(-time.Hour), 0, "between a minute and ten years"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *identity.Options) { o.KeyLifetimes = tt.settings })
			made, err := w.admin().keys().CreateKey(t.Context(), connect.NewRequest(&platformv1.CreateKeyRequest{Name: "ci", Lifetime: tt.request}))
			if tt.refused != "" {
				want(t, "the request", err, connect.CodeInvalidArgument)
				if err != nil && !strings.Contains(err.Error(), tt.refused) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			must(t, err)
			key := made.Msg.GetKey()
			if tt.want == 0 {
				if key.GetExpiresAt() != nil {
					t.Errorf("it expires at %v", key.GetExpiresAt().AsTime())
				}
				return
			}
			if life := key.GetExpiresAt().AsTime().Sub(key.GetCreatedAt().AsTime()).Round(time.Minute); life != tt.want {
				t.Errorf("it is good for %v, want %v", life, tt.want)
			}
		})
	}
}

// Revoking a key ends the keys that were created with it, and theirs.
func TestRevokedFamily(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	root := admin.key("root", 0)
	child := w.bearer(root.GetSecret()).key("child", 0)
	family := map[string]string{"the key": root.GetSecret(), "its child": child.GetSecret(), "its grandchild": w.bearer(child.GetSecret()).key("grandchild", 0).GetSecret()}
	if parent := child.GetKey().GetParentId(); parent != root.GetKey().GetId() || root.GetKey().GetParentId() != "" {
		t.Errorf("the parent of the child is %q, and of the key %q", parent, root.GetKey().GetParentId())
	}
	other := w.bearer(admin.key("other", 0).GetSecret())
	for name, key := range family {
		want(t, name, w.bearer(key).may(), 0)
	}
	_, err := admin.keys().RevokeKey(t.Context(), connect.NewRequest(&platformv1.RevokeKeyRequest{Id: root.GetKey().GetId()}))
	must(t, err)
	for name, key := range family {
		want(t, name+", revoked", w.bearer(key).may(), connect.CodeUnauthenticated)
	}
	want(t, "another key", other.may(), 0)
}

// A key is revoked at once if the credential that created it ended meanwhile:
// neither a reset nor a revocation saw it.
func TestKeyOfAnEndedCredential(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	parent := w.bearer(admin.key("parent", 0).GetSecret())
	db, err := sql.Open("sqlite", "file:"+w.file+"?_pragma=busy_timeout(10000)")
	must(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), "CREATE TRIGGER reset BEFORE INSERT ON api_keys BEGIN DELETE FROM sessions; UPDATE api_keys SET revoked_at = 1; END")
	must(t, err)
	for name, caller := range map[string]*person{"session": admin, "key": parent} {
		_, err := caller.keys().CreateKey(t.Context(), connect.NewRequest(&platformv1.CreateKeyRequest{Name: name}))
		want(t, "with a "+name, err, connect.CodeUnauthenticated)
	}
	keys, _, err := w.store.Keys(t.Context(), admin.account(), store.KeyFilter{}, store.Page{})
	must(t, err)
	if len(keys) != 0 {
		t.Errorf("%d keys are valid", len(keys))
	}
}

// A user sees and revokes their own keys, and cannot make one that registers.
func TestKeysOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	bob, _ := w.user(admin)
	hers, his := admin.key("hers", 0), bob.key("his", 0)
	list, err := bob.keys().ListKeys(t.Context(), connect.NewRequest(&platformv1.ListKeysRequest{}))
	must(t, err)
	if keys := list.Msg.GetKeys(); len(keys) != 1 || keys[0].GetName() != "his" {
		t.Errorf("a user sees %v", keys)
	}
	_, err = bob.keys().RevokeKey(t.Context(), connect.NewRequest(&platformv1.RevokeKeyRequest{Id: hers.GetKey().GetId()}))
	want(t, "somebody else's key", err, connect.CodeNotFound)
	want(t, "it still works", w.bearer(hers.GetSecret()).may(), 0)
	_, err = bob.keys().CreateKey(t.Context(), connect.NewRequest(&platformv1.CreateKeyRequest{Name: "r", Scopes: []platformv1.Scope{platformv1.Scope_SCOPE_RUNTIME_REGISTER}}))
	want(t, "a key that registers, of a user", err, connect.CodePermissionDenied)
	_, err = admin.keys().RevokeKey(t.Context(), connect.NewRequest(&platformv1.RevokeKeyRequest{Id: his.GetKey().GetId()}))
	want(t, "an admin revokes it", err, 0)
	want(t, "it is dead", w.bearer(his.GetSecret()).may(), connect.CodeUnauthenticated)
}

// The last use of a key is written at most once a minute.
func TestKeyLastUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	made := w.admin().key("ci", 0)
	used := func() time.Time {
		must(t, w.bearer(made.GetSecret()).may())
		key, err := w.store.KeyByID(t.Context(), made.GetKey().GetId())
		must(t, err)
		return key.LastUsedAt
	}
	first := used()
	if first.IsZero() {
		t.Fatal("the first use was not written")
	}
	if again := used(); !again.Equal(first) {
		t.Error("the second use was written at once")
	}
	w.clock.forward(61 * time.Second)
	if later := used(); !later.After(first) {
		t.Error("a use after a minute was not written")
	}
}

// Streams end within five seconds after what their caller showed has ended, and
// nothing is sent then.
func TestStreamsEnd(t *testing.T) {
	w := newWorld(t)
	admin := w.admin()
	bob, user := w.user(admin)
	key := admin.key("watch", 0)
	disabled := true
	for _, tt := range []struct {
		name string
		who  *person
		end  func() error
	}{
		{"the key is revoked", w.bearer(key.GetSecret()), func() error {
			return w.store.RevokeKey(t.Context(), admin.account(), key.GetKey().GetId())
		}},
		{"the user signs out", admin, func() error {
			_, err := admin.auth().SignOut(t.Context(), connect.NewRequest(&platformv1.SignOutRequest{}))
			return err
		}},
		{"the user is disabled", bob, func() error {
			_, err := w.admin().accounts().UpdateUser(t.Context(), connect.NewRequest(&platformv1.UpdateUserRequest{Id: user.GetId(), Disabled: &disabled}))
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { streamEnds(t, tt.who, tt.end) })
	}
}

func (p *person) account() string {
	p.w.t.Helper()
	accounts, err := p.w.store.Accounts(p.w.t.Context())
	must(p.w.t, err)
	return accounts[0].ID
}

func streamEnds(t *testing.T, who *person, end func() error) {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	stream, err := who.runtimes().WatchRuntimes(ctx, connect.NewRequest(&platformv1.WatchRuntimesRequest{}))
	must(t, err)
	defer func() { _ = stream.Close() }()
	if !stream.Receive() || !stream.Msg().GetSynced() {
		t.Fatalf("the stream did not begin: %v", stream.Err())
	}
	must(t, end())
	began := time.Now()
	if stream.Receive() {
		t.Errorf("%v arrived", stream.Msg())
	}
	want(t, "the stream", stream.Err(), connect.CodeUnauthenticated)
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

// Keys of a user and the keys that were created with them end with a password
// change, a reset, a disabled user and a deleted one, and do not come back.
func TestKeyFollowsItsUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	bob, user := w.user(admin)
	pair := func(p *person) map[string]*person {
		key := w.bearer(p.key("ci", 0).GetSecret())
		both := map[string]*person{"the key": key, "its child": w.bearer(key.key("child", 0).GetSecret())}
		for name, one := range both {
			want(t, name+" at first", one.may(), 0)
		}
		return both
	}
	ended := func(when string, keys map[string]*person) {
		t.Helper()
		for name, key := range keys {
			want(t, name+" "+when, key.may(), connect.CodeUnauthenticated)
		}
	}
	keys, hers := pair(bob), pair(admin)
	operator, err := identity.System{Store: w.store, Actor: "root"}.CreateKey(t.Context(), identity.OperatorKey{Email: userEmail, Name: "up", Scope: identity.ScopeAll})
	must(t, err)
	machine := w.bearer(operator.Reveal())
	w.choose(bob, userPassword, "another password of bob")
	ended("after a change", keys)
	want(t, "the session that changed it", bob.may(), 0)
	want(t, "the operator's key after a change", machine.may(), 0)

	keys = pair(bob)
	reset, err := admin.accounts().ResetPassword(t.Context(), connect.NewRequest(&platformv1.ResetPasswordRequest{Id: user.GetId()}))
	must(t, err)
	ended("after a reset", keys)
	want(t, "the session after a reset", bob.may(), connect.CodeUnauthenticated)
	want(t, "the operator's key after a reset", machine.may(), 0)
	bob = w.nobody()
	_, err = bob.signIn(userEmail, reset.Msg.GetOneTimePassword())
	must(t, err)
	w.choose(bob, reset.Msg.GetOneTimePassword(), userPassword)
	ended("after the user has chosen a password", keys)

	keys = pair(bob)
	keys["the operator's key"] = machine
	for _, disabled := range []bool{true, false} {
		_, err = admin.accounts().UpdateUser(t.Context(), connect.NewRequest(&platformv1.UpdateUserRequest{Id: user.GetId(), Disabled: &disabled}))
		must(t, err)
		ended(fmt.Sprint("with disabled=", disabled), keys)
		want(t, "the session", bob.may(), connect.CodeUnauthenticated)
	}

	_, err = bob.signIn(userEmail, userPassword)
	must(t, err)
	keys = pair(bob)
	_, err = admin.accounts().DeleteUser(t.Context(), connect.NewRequest(&platformv1.DeleteUserRequest{Id: user.GetId()}))
	must(t, err)
	ended("after the user is deleted", keys)
	for name, key := range hers {
		want(t, name+" of another user", key.may(), 0)
	}
	if _, err := w.store.UserByEmail(t.Context(), userEmail); err != store.ErrNotFound {
		t.Errorf("the user is still there: %v", err)
	}
}
