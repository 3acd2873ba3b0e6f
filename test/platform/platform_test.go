package platform

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/jackc/pgx/v5"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/observe/otlp/otlptest"
	"slipway.dev/slipway/internal/platform/server"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// TestFirstStart: the password of the first admin is printed once, is good for one
// thing, and is nowhere else; what an admin made is there after a restart.
func TestFirstStart(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		p := start(t, at)
		key := p.firstKey(t)
		password := p.Password(t)
		if strings.Count(p.Out.String(), password) != 1 || !strings.Contains(p.Out.String(), email) {
			t.Errorf("printed:\n%s", p.Out)
		}
		agent := join(t, p.with(t, key), "prod")
		heartbeat(t, p.with(t, agent.GetAccessToken()))
		p.Stop(t)
		secrets := []string{password, strings.Split(key, "_")[2], agent.GetRefreshToken(), agent.GetAccessToken(), "correct horse battery staple"}
		for _, canary := range secrets {
			if strings.Contains(p.Log.String(), canary) {
				t.Errorf("a secret is in the log:\n%s", p.Log)
			}
			if file := holds(t, at.dir, canary); file != "" {
				t.Errorf("a secret is in %s", file)
			}
			if at.url != "" && strings.Contains(dump(t, at.url), canary) {
				t.Error("a secret is in the database")
			}
		}
		again := start(t, at)
		if again.Out.String() != "" {
			t.Errorf("a second start prints %q", again.Out)
		}
		me, err := again.with(t, key).auth.Me(t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
		if err != nil || me.Msg.GetUser().GetEmail() != email {
			t.Errorf("after a restart: %v, %v", me, err)
		}
		heartbeat(t, again.with(t, agent.GetAccessToken())) // the signing key is the same
		again.Stop(t)
	})
}

// dump is everything in a PostgreSQL database, as text. Bytes are in it as they are
// and not in hexadecimal digits, so that what is searched for is found.
func dump(t *testing.T, url string) string {
	t.Helper()
	connection := must.Get(pgx.Connect(t.Context(), url))(t)
	defer func() { _ = connection.Close(context.WithoutCancel(t.Context())) }()
	read := func(query string) (values []any) {
		rows, err := connection.Query(t.Context(), query)
		must.Do(t, err)
		values, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (any, error) { return row.Values() })
		must.Do(t, err)
		return values
	}
	var all strings.Builder
	for _, name := range read("SELECT table_name FROM information_schema.tables WHERE table_schema NOT IN ('pg_catalog', 'information_schema')") {
		for _, row := range read("SELECT * FROM " + pgx.Identifier{name.([]any)[0].(string)}.Sanitize()) {
			for _, value := range row.([]any) {
				if raw, isBytes := value.([]byte); isBytes {
					value = string(raw)
				}
				fmt.Fprintln(&all, value)
			}
		}
	}
	if !strings.Contains(all.String(), email) {
		t.Fatal("the dump has not even the email of the admin")
	}
	return all.String()
}

// holds names the file below a folder that has the text.
func holds(t *testing.T, dir, text string) string {
	t.Helper()
	found := ""
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if bytes.Contains(content, []byte(text)) {
			found = path
		}
		return err
	})
	must.Do(t, err)
	return found
}

// R32, R33, R113: a runtime registers, gives signs of life, reports, and is deleted
// only when it is silent.
func TestLifeOfARuntime(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		p := start(t, at)
		admin := p.with(t, p.firstKey(t))
		agent := p.with(t, join(t, admin, "prod").GetAccessToken())
		heartbeat(t, agent)
		if answer, err := report(t.Context(), agent, resyncBegin(1), application(2, "shop"), resyncEnd(3)); err != nil || answer.GetStored() != 3 {
			t.Fatalf("%v, %v", answer, err)
		}
		list, err := admin.runtimes.ListRuntimes(t.Context(), connect.NewRequest(&platformv1.ListRuntimesRequest{}))
		if err != nil || len(list.Msg.GetRuntimes()) != 1 || !list.Msg.GetRuntimes()[0].GetOnline() || !list.Msg.GetRuntimes()[0].GetConfigurationRuntime() {
			t.Errorf("%v, %v", list, err)
		}
		if got := total(t, admin); got != 1 {
			t.Errorf("there are %d applications", got)
		}
		remove := connect.NewRequest(&platformv1.DeleteRuntimeRequest{Name: "prod"})
		if _, err := admin.runtimes.DeleteRuntime(t.Context(), remove); connect.CodeOf(err) != connect.CodeFailedPrecondition {
			t.Errorf("one that is online is deleted: %v", err)
		}
		join(t, admin, "silent")
		if _, err := admin.runtimes.DeleteRuntime(t.Context(), connect.NewRequest(&platformv1.DeleteRuntimeRequest{Name: "silent"})); err != nil {
			t.Errorf("one that is silent is not deleted: %v", err)
		}
		if _, err := agent.agent.Unregister(t.Context(), connect.NewRequest(&platformv1.UnregisterRequest{})); err != nil {
			t.Error(err)
		}
		if got := total(t, admin); got != 0 {
			t.Errorf("%d applications of a runtime that is gone", got)
		}
		p.Stop(t)
	})
}

// TestKill: what was acknowledged is there after a kill -9, at any moment.
func TestKill(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		p := start(t, at)
		key := p.firstKey(t)
		credential := join(t, p.with(t, key), "prod")
		must.Get(report(t.Context(), p.with(t, credential.GetAccessToken()), resyncBegin(1), resyncEnd(2)))(t)
		acknowledged := int64(2)
		for round := range 4 {
			agent := p.with(t, credential.GetAccessToken())
			var last atomic.Int64
			last.Store(acknowledged)
			broken := make(chan struct{})
			go func() {
				defer close(broken)
				for number := acknowledged + 1; ; number++ {
					answer, err := report(context.WithoutCancel(t.Context()), agent, application(number, fmt.Sprintf("app-%d", number)))
					if err != nil {
						return
					}
					last.Store(answer.GetStored())
				}
			}()
			want := acknowledged + int64(3+7*round)
			programs.Until(t, "some reports", func() bool { return last.Load() >= want })
			p.Kill()
			<-broken
			acknowledged = last.Load()
			p = start(t, at)
			answer, err := report(t.Context(), p.with(t, credential.GetAccessToken()))
			if err != nil || answer.GetStored() < acknowledged {
				t.Fatalf("round %d: %d was acknowledged, stored is %v, %v", round, acknowledged, answer, err)
			}
			acknowledged = answer.GetStored()
			if got := total(t, p.with(t, key)); int64(got) != acknowledged-2 {
				t.Fatalf("round %d: there are %d applications of %d", round, got, acknowledged-2)
			}
		}
		p.Stop(t)
	})
}

// TestStop: a watch ends with a reason when the platform stops, which takes seconds.
func TestStop(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		p := start(t, at)
		admin := p.with(t, p.firstKey(t))
		stream, err := admin.runtimes.WatchRuntimes(within(t), connect.NewRequest(&platformv1.WatchRuntimesRequest{}))
		if err != nil || !stream.Receive() || !stream.Msg().GetSynced() {
			t.Fatalf("%v, %v", err, stream.Err())
		}
		began := time.Now()
		p.Stop(t)
		if took := time.Since(began); took > 60*time.Second {
			t.Errorf("stopping took %v", took)
		}
		if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeUnavailable || !strings.Contains(stream.Err().Error(), "shutting down") {
			t.Errorf("the watch ended with %v", stream.Err())
		}
	})
}

// TestCreateKey: a program that sets a platform up gets a key without signing in,
// alone on standard output, whether the platform runs or not.
func TestCreateKey(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		p := start(t, at)
		create := func(words ...string) string {
			t.Helper()
			out, err := run(t, at, append([]string{"create-key", email}, words...)...)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "slw_") {
				t.Errorf("printed %q", out)
			}
			return strings.TrimSpace(out)
		}
		// The admin has not chosen a password yet.
		registering := p.with(t, create("the installer", "--register", "--days", "1"))
		join(t, registering, "prod")
		_, err := registering.runtimes.ListRuntimes(t.Context(), connect.NewRequest(&platformv1.ListRuntimesRequest{}))
		if connect.CodeOf(err) != connect.CodePermissionDenied {
			t.Errorf("a key to register lists: %v", err)
		}
		if got := total(t, p.with(t, create("reader", "--read"))); got != 0 {
			t.Errorf("there are %d applications", got)
		}
		first := p.Password(t)
		if out, err := run(t, at, "reset-password", email); err != nil || strings.Contains(out, first) {
			t.Errorf("%v\n%s", err, out)
		}
		p.Stop(t)
		offline := create("offline", "--days=0")
		for name, words := range map[string][]string{
			"is for --register or for --read": {email, "k", "--register", "--read"},
			"is not a number of days":         {email, "k", "--days=-1"},
			"write it as":                     {email},
			"no user with the email":          {"eve@example.com", "k"},
			"printable":                       {email, ""},
		} {
			if out, err := run(t, at, append([]string{"create-key"}, words...)...); err == nil || !strings.Contains(out, name) {
				t.Errorf("%v: %v\n%s", words, err, out)
			}
		}
		again := start(t, at)
		// A command leaves its entries whether the platform runs or not, and none
		// when it was refused.
		self := server.OperatorName(os.Getuid())
		admin := again.with(t, offline)
		if got, want := admin.audited(t, "account.reset-password"), self+"|user/"+email+"|begun|\n"+self+"|user/"+email+"|ok|"; got != want {
			t.Errorf("resets in the audit log:\n%s\nwant\n%s", got, want)
		}
		created := admin.audited(t, "key.create")
		if strings.Count(created, self+"|key/") != 6 || strings.Count(created, "|key/offline|ok|slw_") != 1 || strings.Contains(created, offline) {
			t.Errorf("keys in the audit log:\n%s", created)
		}
		list := must.Get(again.with(t, offline).keys.ListKeys(t.Context(), connect.NewRequest(&platformv1.ListKeysRequest{})))(t)
		life := map[string]string{}
		for _, key := range list.Msg.GetKeys() {
			life[key.GetName()] = "for ever"
			if key.GetExpiresAt() != nil {
				life[key.GetName()] = key.GetExpiresAt().AsTime().Sub(key.GetCreatedAt().AsTime()).String()
			}
		}
		if want := (map[string]string{"the installer": "24h0m0s", "reader": "2160h0m0s", "offline": "for ever"}); !maps.Equal(life, want) {
			t.Errorf("the keys are good for %v, want %v", life, want)
		}
		again.Stop(t)
	})
}

// TestPasswordsDisabled: without passwords the first start prints none, and the
// operator's key is the way in while the identity provider is away.
func TestPasswordsDisabled(t *testing.T) {
	onBoth(t, func(t *testing.T, at place) {
		at.args = append(at.args, "--identity.passwords=disabled", "--oidc.issuer=http://127.0.0.1:1", "--oidc.clientID=slipway")
		p := start(t, at)
		if p.Out.String() != "" {
			t.Errorf("the first start prints %q", p.Out)
		}
		if out, err := run(t, at, "reset-password", email); err == nil || !strings.Contains(out, "slipway platform create-key") {
			t.Errorf("reset a password: %v\n%s", err, out)
		}
		// The running platform decides, whatever options the command has.
		if at.url == "" {
			if out, err := run(t, place{args: at.args[:1]}, "reset-password", email); err == nil || !strings.Contains(out, "identity.passwords is disabled") {
				t.Errorf("reset a password without the option: %v\n%s", err, out)
			}
		}
		key, err := run(t, at, "create-key", email, "break-glass", "--days=1")
		if err != nil {
			t.Fatalf("%v\n%s", err, key)
		}
		me, err := p.with(t, strings.TrimSpace(key)).auth.Me(t.Context(), connect.NewRequest(&platformv1.MeRequest{}))
		if err != nil || me.Msg.GetUser().GetRole() != platformv1.Role_ROLE_ADMIN || !me.Msg.GetUser().GetExternal() {
			t.Errorf("with the operator's key: %v, %v", me, err)
		}
		p.Stop(t)
	})
}

// TestOneFolderOnePlatform: a second process is refused, and does the first no harm.
func TestOneFolderOnePlatform(t *testing.T) {
	at := sqlitePlace(t)
	p := start(t, at)
	second := launch(t, at)
	if state := second.Wait(t); state.Success() || !second.Logged("is open in another process") {
		t.Errorf("it ended with %v\n%s", state, second.Log)
	}
	out, err := run(t, at, "reset-password", email)
	if err != nil || !strings.Contains(out, "password: ") {
		t.Errorf("the first does not take commands any more: %v\n%s", err, out)
	}
	if out, err := run(t, at, "rotate-keys", "--revoke"); err != nil || !strings.Contains(out, "new key") {
		t.Errorf("%v\n%s", err, out)
	}
	p.Stop(t)
}

// TestCommandsAreExported: a command without a running platform exports its audit
// entries before it ends, and ends when the collector is away.
func TestCommandsAreExported(t *testing.T) {
	at := sqlitePlace(t)
	start(t, at).Stop(t)
	receiver := otlptest.New(t, "")
	at.args = append(at.args, "--audit.otlp.http.endpoint="+receiver.URL, "--audit.otlp.http.headers=X-Key=canary")
	if out, err := run(t, at, "reset-password", email); err != nil || strings.Contains(out, "canary") {
		t.Fatalf("%v\n%s", err, out)
	}
	records := receiver.Records()
	if len(records) != 2 || records[1]["slipway.audit.action"] != "account.reset-password" || records[1]["slipway.audit.outcome"] != "ok" || receiver.Headers()[0].Get("X-Key") != "canary" {
		t.Errorf("exported %v", records)
	}
	receiver.Close()
	if out, err := run(t, at, "reset-password", email); err != nil || !strings.Contains(out, "audit export incomplete") || strings.Contains(out, "canary") {
		t.Errorf("%v\n%s", err, out)
	}
}
