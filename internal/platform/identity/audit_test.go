package identity_test

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	_ "modernc.org/sqlite"

	"slipway.dev/slipway/internal/platform/identity"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// caller is who a person is for the gateway.
func caller(t *testing.T, w *world, p *person) identity.Caller {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url, nil)
	must(t, err)
	request.Header.Set("Cookie", "slipway="+p.cookie())
	request.RemoteAddr = "192.0.2.1:1"
	known, err := w.identity.Authenticate(request)
	must(t, err)
	return known
}

// entries are the lines of the audit log, the oldest first.
func (w *world) entries() []string {
	w.t.Helper()
	accounts, err := w.store.Accounts(w.t.Context())
	must(w.t, err)
	entries, _, err := w.store.AuditEntries(w.t.Context(), accounts[0].ID, store.AuditFilter{}, store.Page{Size: 500})
	must(w.t, err)
	lines := make([]string, len(entries))
	for n, e := range entries {
		lines[len(entries)-1-n] = strings.Join([]string{e.ActorKind, e.Actor, e.Action, e.Target, e.Outcome, e.Code, e.Detail, "from " + e.Address}, " | ")
	}
	return lines
}

// R131: who did what on what, with which outcome, and from where.
func TestAudit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin().from("198.51.100.7")
	bob, user := w.user(admin)
	bob.from("198.51.100.8")
	bob.key("laptop", 0)
	_, err := bob.accounts().DeleteUser(t.Context(), connect.NewRequest(&platformv1.DeleteUserRequest{Id: user.GetId()}))
	want(t, "a user deletes", err, connect.CodePermissionDenied)
	_, err = w.nobody().from("198.51.100.9").signIn(userEmail, "wrong")
	want(t, "a wrong password", err, connect.CodeUnauthenticated)
	_, err = admin.accounts().DeleteUser(t.Context(), connect.NewRequest(&platformv1.DeleteUserRequest{Id: "absent"}))
	want(t, "no such user", err, connect.CodeNotFound)
	must(t, admin.may())
	const want = `user | ann@example.com | auth.sign-in | auth/ann@example.com | ok | ok |  | from 127.0.0.1
user | ann@example.com | auth.change-password | user/ann@example.com | ok | ok |  | from 127.0.0.1
user | ann@example.com | account.create-user | account/Bob | begun |  |  | from 198.51.100.7
user | ann@example.com | account.create-user | user/bob@example.com | ok | ok |  | from 198.51.100.7
user | bob@example.com | auth.sign-in | auth/bob@example.com | ok | ok |  | from 127.0.0.1
user | bob@example.com | auth.change-password | user/bob@example.com | ok | ok |  | from 127.0.0.1
user | bob@example.com | key.create | key/laptop | ok | ok | PREFIX | from 198.51.100.8
user | bob@example.com | account.delete-user |  | denied | permission_denied | this needs the role admin, and yours is operator: an admin of the account can change it | from 198.51.100.8
user | bob@example.com | auth.sign-in | auth/bob@example.com | denied | unauthenticated | the email or the password is wrong | from 198.51.100.9
user | ann@example.com | account.delete-user | account/absent | begun |  |  | from 198.51.100.7
user | ann@example.com | account.delete-user | account/absent | failed | not_found |  | from 198.51.100.7`
	list, err := bob.keys().ListKeys(t.Context(), connect.NewRequest(&platformv1.ListKeysRequest{}))
	must(t, err)
	got := strings.ReplaceAll(strings.Join(w.entries(), "\n"), list.Msg.GetKeys()[0].GetPrefix(), "PREFIX")
	// The first sign-in that the test tries is with a password that is not chosen yet.
	got = strings.TrimPrefix(got, "user | ann@example.com | auth.sign-in | auth/ann@example.com | denied | unauthenticated | the email or the password is wrong | from 127.0.0.1\n")
	if got != want {
		t.Errorf("the audit log is\n%s\nwant\n%s", got, want)
	}
	answer, err := platformv1connect.NewAuditServiceClient(admin.http, w.url).ListEntries(t.Context(), connect.NewRequest(&platformv1.ListEntriesRequest{Action: "key.create"}))
	must(t, err)
	if list := answer.Msg.GetEntries(); len(list) != 1 || list[0].GetActor() != userEmail {
		t.Errorf("the service answers %v", list)
	}
}

// An admin's change that cannot be written down is not done; any other change fails.
func TestAuditFailsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	db, err := sql.Open("sqlite", "file:"+w.file+"?_pragma=busy_timeout(10000)")
	must(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), "CREATE TRIGGER refuse BEFORE INSERT ON audit_entries BEGIN SELECT RAISE(ABORT, 'no room'); END")
	must(t, err)
	_, err = admin.accounts().CreateUser(t.Context(), connect.NewRequest(&platformv1.CreateUserRequest{Email: userEmail, Role: platformv1.Role_ROLE_OPERATOR}))
	if err == nil {
		t.Error("the change went through")
	}
	if _, err := w.store.UserByEmail(t.Context(), userEmail); err != store.ErrNotFound {
		t.Errorf("the user was made: %v", err)
	}
	if _, err := admin.keys().CreateKey(t.Context(), connect.NewRequest(&platformv1.CreateKeyRequest{Name: "ci"})); err == nil {
		t.Error("a key was answered")
	}
	must(t, admin.may())
	_, err = db.ExecContext(t.Context(), "DROP TRIGGER refuse")
	must(t, err)
	_, err = admin.accounts().CreateUser(t.Context(), connect.NewRequest(&platformv1.CreateUserRequest{Email: userEmail, Role: platformv1.Role_ROLE_OPERATOR}))
	want(t, "when there is room again", err, 0)
}

// Strangers cannot fill the audit log, and what they type is not in it.
func TestDenialsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	made := admin.key("ci", 0)
	w.clock.stop() // with the race detector the calls take longer than the interval of the throttle
	auditsFirst := len(w.entries())
	wrong := altered(made.GetSecret())
	for range 50 {
		want(t, "a wrong key", w.bearer(wrong).may(), connect.CodeUnauthenticated)
		want(t, "nobody", w.nobody().may(), connect.CodeUnauthenticated)
	}
	if more := len(w.entries()) - auditsFirst; more != 1 {
		t.Errorf("%d entries for the same denial, want 1", more)
	}
}

// Failed sign-ins of unknown users are recorded without what they typed, and all
// strangers together cannot fill the log.
func TestStrangersAreRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.admin()
	before := len(w.entries())
	w.clock.stop() // after the entries before, which are sorted by time
	for n := range 30 {
		_, err := w.nobody().from(fmt.Sprintf("198.51.100.%d", n)).signIn(fmt.Sprintf("canary-%d@example.com", n), "canary")
		want(t, "a stranger", err, connect.CodeUnauthenticated)
	}
	entries := w.entries()[before:]
	const line = "user | unknown user | auth.sign-in | auth | denied | unauthenticated | the email or the password is wrong | from 198.51.100.0"
	if len(entries) != 1 || entries[0] != line {
		t.Fatalf("the log has %q, want %q", entries, line)
	}
	w.clock.forward(time.Minute)
	_, err := w.nobody().signIn("canary@example.com", "canary")
	want(t, "later", err, connect.CodeUnauthenticated)
	if entries = w.entries()[before:]; len(entries) != 2 || !strings.Contains(entries[1], "(and 29 more times before)") || strings.Contains(entries[1], "canary") {
		t.Errorf("the log has %q", entries)
	}
}

// The person behind a key is in the entry, also when the key is no good any more.
func TestPersonBehindKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bob, user := w.user(w.admin())
	made := bob.key("ci", 0)
	scripted := w.bearer(made.GetSecret())
	_, err := scripted.keys().CreateKey(t.Context(), connect.NewRequest(&platformv1.CreateKeyRequest{Name: "child"}))
	must(t, err)
	must(t, w.store.RevokeKey(t.Context(), account(t, w).ID, made.GetKey().GetId()))
	want(t, "a revoked key", scripted.may(), connect.CodeUnauthenticated)
	entries, _, err := w.store.AuditEntries(t.Context(), account(t, w).ID, store.AuditFilter{}, store.Page{Size: 2})
	must(t, err)
	for n, want := range []string{"denied", "ok"} {
		got := entries[n]
		if got.Outcome != want || got.ActorKind != identity.KindKey || got.KeyID != made.GetKey().GetId() || got.UserID != user.GetId() {
			t.Errorf("got %+v", got)
		}
	}
	if entries[1].UserEmail != userEmail || entries[1].Actor != userEmail+" (key ci)" {
		t.Errorf("got %+v", entries[1])
	}
}

// No password, cookie, token or key is in the database or in the log.
func TestCanaries(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.admin()
	bob, _ := w.user(admin)
	made := bob.key("ci", 0)
	must(t, w.bearer(made.GetSecret()).may())
	_, err := w.nobody().signIn("canary-typed-as-name", "canary-typed-as-password")
	want(t, "a stranger", err, connect.CodeUnauthenticated)
	want(t, "a canary as a key", w.bearer("canary-as-bearer").may(), connect.CodeUnauthenticated)
	codes := bob.addApp(userPassword)
	canaries := []string{
		codes.secret, codes.recovery[0], strings.ReplaceAll(codes.recovery[0], "-", ""),
		adminPassword, userPassword, w.once.Reveal(), admin.cookie(), bob.cookie(), admin.header.Get(wire.CSRFHeader),
		made.GetSecret(), made.GetSecret()[30:], "canary-typed", "canary-as-bearer",
	}
	must(t, w.store.Close())
	files, err := filepath.Glob(w.file + "*")
	must(t, err)
	texts := map[string]string{"the log": w.logs.String()}
	for _, file := range files {
		data, err := os.ReadFile(file)
		must(t, err)
		texts[filepath.Base(file)] = string(data)
	}
	if !strings.Contains(texts["platform.db"], userEmail) {
		t.Error("the database is not where the test looks")
	}
	for where, text := range texts {
		for n, canary := range canaries {
			if canary == "" || strings.Contains(text, canary) {
				t.Errorf("canary %d is in %s", n, where)
			}
		}
	}
}

// What procedures are called in the audit log.
func TestAction(t *testing.T) {
	for procedure, want := range map[string]string{
		"/slipway.platform.v1.RuntimeService/RegisterRuntime":   "runtime.register",
		"/slipway.platform.v1.RuntimeService/RevokeCredentials": "runtime.revoke-credentials",
		"/slipway.platform.v1.KeyService/RevokeKey":             "key.revoke",
		"/slipway.platform.v1.KeyService/ListKeys":              "key.list",
		"/slipway.platform.v1.GitService/SetGitSettings":        "git.set-settings",
		"/slipway.platform.v1.AuthService/SignIn":               "auth.sign-in",
		"/slipway.runtime.v1.ApplicationService/Sync":           "application.sync",
		"/slipway.runtime.v1.GitSourceService/CreateGitSource":  "git-source.create",
		"/slipway.runtime.v1.IntegrationService/BeginOAuth":     "integration.begin-oauth",
	} {
		if got := identity.Action(procedure); got != want {
			t.Errorf("%s is %q, want %q", procedure, got, want)
		}
	}
}
