package server_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/platform/server"
	"slipway.dev/slipway/internal/platform/store/pgtest"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// TestAnnouncedOnce: of replicas that start at the same time one hands out the
// password of the first admin, and none does later.
func TestAnnouncedOnce(t *testing.T) {
	url := pgtest.URL(t)
	said := &passwords{}
	shared := func(o *server.Options) {
		o.Database, o.ControlDir, o.Announce = secret.New(url), "", said.announce
	}
	var replicas []*platform
	for range 3 {
		replicas = append(replicas, begin(t, shared))
	}
	for _, p := range replicas {
		programs.Until(t, "a replica that is ready", p.health.Ready)
		p.stop()
	}
	launch(t, shared).stop()
	all := said.all()
	if len(all) != 1 || !strings.HasPrefix(all[0], email+" ") {
		t.Errorf("announced %d times", len(all))
	}
	if got := users(t, url); len(got) != 1 || got[0] != email+" of Example" {
		t.Errorf("the users are %v", got)
	}
	_, password, _ := strings.Cut(all[0], " ")
	for _, p := range replicas {
		if strings.Contains(p.logs.String(), password) {
			t.Error("the password is in the log")
		}
	}
}

// TestAnnounceFails: a password that cannot be announced aborts the start with the
// reason, and is not made again by itself.
func TestAnnounceFails(t *testing.T) {
	full := errors.New("the disk of the terminal is full")
	p := begin(t, func(o *server.Options) { o.Announce = func(string, secret.Text) error { return full } })
	if err := <-p.ended; !errors.Is(err, full) {
		t.Errorf("it ended with %v", err)
	}
	p.ended = nil
	again := launch(t, func(o *server.Options) {
		o.Database, o.ControlDir = secret.New(p.database), p.dir
	})
	if all := again.announced.all(); len(all) != 0 {
		t.Errorf("announced %d passwords", len(all))
	}
	var answer strings.Builder
	check(t, server.SendCommand(t.Context(), p.dir, "/users/reset-password?email="+email, &answer))
	if len(answer.String()) < 16 {
		t.Errorf("the new password has %d characters", answer.Len())
	}
}

// TestWrongKey: a key that does not fit the database ends the start, and harms
// nothing.
func TestWrongKey(t *testing.T) {
	p := launch(t)
	p.stop()
	again := func(key string) func(*server.Options) {
		return func(o *server.Options) {
			o.Database, o.Key, o.ControlDir = secret.New(p.database), secret.New(key), p.dir
		}
	}
	wrong := begin(t, again(strings.Repeat("x", 32)))
	if err := <-wrong.ended; err == nil || !strings.Contains(err.Error(), "key") || strings.Contains(err.Error(), "xxxx") {
		t.Errorf("it ended with %v", err)
	}
	wrong.ended = nil
	launch(t, again(strings.Repeat("k", 32))).stop()
}

// TestControl: commands reach the platform that runs with a folder, however long
// its name is, and fail when none runs.
func TestControl(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := server.SendCommand(t.Context(), dir, "/keys/rotate", io.Discard); !errors.Is(err, server.ErrNotRunning) {
		t.Errorf("without a folder: %v", err)
	}
	check(t, os.MkdirAll(dir, 0o700))
	if err := server.SendCommand(t.Context(), dir, "/keys/rotate", io.Discard); !errors.Is(err, server.ErrNotRunning) {
		t.Errorf("without a platform: %v", err)
	}
	p := launch(t, func(o *server.Options) { o.ControlDir = dir })
	p.dir = dir
	if info, err := os.Stat(filepath.Join(dir, "control.sock")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket is for others too: %v, %v", info, err)
	}
	ask := func(command string) (string, error) {
		var answer strings.Builder
		err := server.SendCommand(t.Context(), p.dir, command, &answer)
		return answer.String(), err
	}
	for command, says := range map[string]string{
		"/users/reset-password?email=eve@example.com":                            "no user with the email",
		"/users/create-key?email=eve@example.com&name=k&scope=all&life=0s":       "no user with the email",
		"/users/create-key?email=" + email + "&name=k&scope=all":                 "the life of a key",
		"/users/create-key?email=" + email + "&name=k&scope=operator&life=0s":    "a key is for",
		"/users/create-key?email=" + email + "&name=k&scope=all&life=900000000s": "ten years",
		"/nonsense": "not found",
	} {
		if answer, err := ask(command); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %q", command, err, answer)
		}
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			if answer, err := ask(fmt.Sprintf("/users/create-key?email=%s&name=k%d&scope=read&life=24h", email, i)); err != nil || !strings.HasPrefix(answer, "slw_") || strings.Contains(p.logs.String(), answer) {
				t.Errorf("%v, a key %v", err, strings.HasPrefix(answer, "slw_"))
			}
		})
	}
	all.Wait()
	p.stop()
	if _, err := ask("/keys/rotate"); !errors.Is(err, server.ErrNotRunning) {
		t.Errorf("after the end: %v", err)
	}
}

// TestCommandsAreRecorded: what is done on the platform's machine is in the audit
// log with the local user, and without what it printed.
func TestCommandsAreRecorded(t *testing.T) {
	p := launch(t)
	key := p.key("all")
	var printed strings.Builder
	for _, command := range []string{"/users/reset-password?email=" + email, "/keys/rotate?revoke=true"} {
		check(t, server.SendCommand(t.Context(), p.dir, command, &printed))
	}
	check(t, server.SendCommand(t.Context(), p.dir, "/backup", io.Discard))
	var got []string
	programs.Until(t, "the entry of the backup", func() bool {
		list, err := platformv1connect.NewAuditServiceClient(client(t, key, nil), p.url).ListEntries(t.Context(), connect.NewRequest(&platformv1.ListEntriesRequest{OldestFirst: true}))
		check(t, err)
		got = nil
		for _, entry := range list.Msg.GetEntries() {
			got = append(got, entry.GetAction()+" "+entry.GetTarget()+" "+entry.GetOutcome()+" "+entry.GetCode()+" "+entry.GetDetail())
			if entry.GetActor() != server.OperatorName(os.Getuid()) || entry.GetActorKind() != "system" {
				t.Errorf("the actor is %q, %s", entry.GetActor(), entry.GetActorKind())
			}
		}
		return len(got) == 8
	})
	prefix := key[:12]
	want := []string{
		"key.create key/tests begun  " + prefix + " for " + email, "key.create key/tests ok ok " + prefix + " for " + email,
		"account.reset-password user/" + email + " begun  ", "account.reset-password user/" + email + " ok ok ",
		"platform.rotate-keys platform begun  revoke", "platform.rotate-keys platform ok ok revoke",
		"platform.backup platform begun  ", "platform.backup platform ok ok ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if printed.Len() < 16 || strings.Contains(strings.Join(got, "\n"), printed.String()) {
		t.Errorf("the log has the password: %d", printed.Len())
	}
}
