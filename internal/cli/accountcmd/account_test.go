package accountcmd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/cli/clitest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// TestAccount: the account, its users, and what a user who is no admin may not.
func TestAccount(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	w.Must(t, "account update --name Acme")
	if got := w.Must(t, "account get"); !strings.Contains(got, "Acme") {
		t.Errorf("get: %s", got)
	}
	got := w.Run(t, "account users create grace@example.com --role user")
	password := strings.TrimSpace(got.Stdout)
	if got.Code != 0 || len(strings.Fields(password)) != 1 || strings.Contains(got.Stderr, password) {
		t.Fatalf("the password is not alone on standard output: %+v", got)
	}
	if got := w.Must(t, "account users list"); !strings.Contains(clitest.TrimLines(got), "grace@example.com grace@example.com operator must choose a password -") {
		t.Errorf("list:\n%s", got)
	}
	w.Fails(t, "account users update grace@example.com", 2, "name what to change")
	w.Fails(t, "account users update grace@example.com --role admin --disable --enable", 2, "--disable and --enable exclude each other")
	w.Fails(t, "account users update nobody@example.com --role user", 1, "the account has no user nobody@example.com")
	w.Fails(t, "account users create x@example.com --role king", 2, "it is one of restricted, viewer, operator, admin")
	w.Fails(t, "account users delete grace@example.com", 2, "--yes")
	reset := w.Must(t, "account users reset-password GRACE@example.com")
	if reset == password+"\n" || strings.TrimSpace(reset) == "" {
		t.Errorf("reset: %q", reset)
	}
	// As grace: another home, so another person.
	grace := &clitest.PlatformWorld{Url: w.Url, Home: t.TempDir(), Log: w.Log}
	input := reset + clitest.ChosenPassword + " too\n"
	if got := grace.RunWith(t, input, "login "+w.Url+" --email grace@example.com --password-stdin"); got.Code != 0 {
		t.Fatalf("grace: %+v", got)
	}
	grace.Fails(t, "account users list", 1, "you may not do this")
	grace.Fails(t, "audit list", 1, "admin")
	grace.Fails(t, "account update --name Mine", 1, "you may not do this")
	w.Must(t, "account users update grace@example.com --disable")
	grace.Fails(t, "whoami", 1, "run slipway login "+w.Url)
	w.Must(t, "account users delete grace@example.com --yes")
}

// TestAccountGit: R56, R57, R58, R115: the Git settings of the account.
func TestAccountGit(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	if got := w.Run(t, "account git get"); got.Code != 0 || got.Stdout != "" || !strings.Contains(got.Stderr, "Nothing is set") {
		t.Errorf("nothing yet: %+v", got)
	}
	w.Must(t, "account git set --shared-repository https://github.com/acme/shared.git/team?ref=main")
	clitest.RequireText(t, w.Must(t, "account git get"), `
Provider: github
API: https://api.github.com
Shared repository: https://github.com/acme/shared.git/team?ref=main
Validated: no runtime has reached it yet`)
	w.Fails(t, "account git set", 2, "--shared-repository is missing")
	w.Fails(t, "account git reset", 2, "--yes")
	w.Must(t, "account git reset --yes")
	var settings struct{ Provider string }
	if err := json.Unmarshal([]byte(w.Must(t, "account git get -o json")), &settings); err != nil || settings.Provider != "" {
		t.Errorf("after the reset: %+v, %v", settings, err)
	}
}

// TestAccountGitProbe: the platform probes a server whose name is inconclusive for
// its provider, and the command shows where tokens are created and what they
// need; without a response the provider is required. (R58, R69)
func TestAccountGitProbe(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v4/version" || r.Header.Get("Authorization") != "" {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"message":"401 Unauthorized"}`)
	}))
	defer server.Close()
	w := clitest.NewPlatformWorld(t, "--outbound.allow=127.0.0.1")
	w.Login(t)
	w.Fails(t, "account git set --shared-repository https://127.0.0.1:1/acme/shared.git", 1, "set it to github, gitlab")
	got := w.Run(t, "account git set --shared-repository "+server.URL+"/acme/shared.git")
	if got.Code != 0 || !strings.Contains(got.Stdout, "gitlab") || !strings.Contains(got.Stdout, server.URL+"/api/v4") {
		t.Fatalf("probing: %+v", got)
	}
	for _, part := range []string{"set-runtime-token. It is created at " + server.URL + "/-/user_settings/personal_access_tokens and needs api.", "register. It is created at", "needs read_api, write_repository."} {
		if !strings.Contains(got.Stderr, part) {
			t.Errorf("%q is missing in\n%s", part, got.Stderr)
		}
	}
	// The platform does not connect to its own machine by default.
	closed := clitest.NewPlatformWorld(t)
	closed.Login(t)
	closed.Fails(t, "account git set --shared-repository "+server.URL+"/acme/shared.git", 1, "set it to github, gitlab")
}

// TestKeys: the secret of a key is alone on standard output, lists have all pages,
// and a revoked key is dead.
func TestKeys(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	got := w.Run(t, "api-key create ci --scope read --lifetime 12h")
	secretText := strings.TrimSpace(got.Stdout)
	if got.Code != 0 || !strings.HasPrefix(secretText, "slw_") || strings.Contains(got.Stderr, secretText) || strings.Contains(secretText, "\n") {
		t.Fatalf("create: %+v", got)
	}
	api := platformv1connect.NewKeyServiceClient(&http.Client{Transport: clitest.Bearer{Token: w.Key(t)}}, w.Url)
	const more = 230 // more than a page
	for i := range more {
		must.Get(api.CreateKey(t.Context(), connect.NewRequest(&platformv1.CreateKeyRequest{Name: fmt.Sprintf("key-%03d", i)})))(t)
	}
	var list struct {
		Keys []struct{ ID, Name, Prefix string }
	}
	text := w.Must(t, "api-key list -o json")
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Keys) != more+2 || strings.Contains(text, secretText) {
		t.Fatalf("%d keys, %v", len(list.Keys), err)
	}
	id := ""
	for _, key := range list.Keys {
		if key.Name == "ci" {
			id = key.ID
		}
	}
	w.Must(t, "api-key revoke "+id)
	w.Fails(t, "api-key revoke "+secretText, 2, "does not belong into a command line")
	w.Fails(t, "api-key create x --scope everything", 2, "runtime-register")
	w.Fails(t, "api-key create x --lifetime 1y", 2, "12h or 90d")
	w.Environ = []string{"SLIPWAY_URL=" + w.Url, "SLIPWAY_API_KEY=" + secretText}
	w.Fails(t, "api-key list", 1, "the platform does not accept the key")
	w.Environ = nil
	audit := w.Must(t, "audit list --since 1h --action key.create --limit 3")
	if strings.Count(audit, "key.create") != 3 || !strings.Contains(audit, "key/key-229") {
		t.Errorf("audit:\n%s", audit)
	}
	var entries struct{ Entries []struct{ Action string } }
	if err := json.Unmarshal([]byte(w.Must(t, "audit list --limit 0 --action key.create -o json")), &entries); err != nil || len(entries.Entries) != more+2 {
		t.Errorf("%d entries, %v", len(entries.Entries), err)
	}
	w.Fails(t, "audit list --since yesterday", 2, "neither a length of time")
	lines := strings.Split(strings.TrimSpace(w.Must(t, "audit export --since 1h --action key.create")), "\n")
	if len(lines) != more+2 {
		t.Fatalf("%d lines of %d", len(lines), more+2)
	}
	last := ""
	for n, line := range lines {
		var entry struct{ At, Action, Code, UserEmail, KeyID string }
		// The first key is that of the login, which a session created.
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Action != "key.create" || entry.Code != "ok" || entry.UserEmail == "" ||
			entry.KeyID == "" && n > 0 || entry.At < last {
			t.Fatalf("%v in %s", err, line)
		}
		last = entry.At
	}
	w.Fails(t, "audit export --until tomorrow", 2, "neither a length of time")
}

// TestFollowAudit: entries come once each, as they are made, until the command is
// interrupted.
func TestFollowAudit(t *testing.T) {
	w := clitest.NewPlatformWorld(t)
	w.Login(t)
	var out programs.Output
	command := w.Command(t.Context(), strings.Fields("audit export --action key.create --follow"))
	command.Stdout, command.Stderr = &out, &out
	must.Do(t, command.Start())
	for n := range 3 {
		w.Must(t, fmt.Sprintf("api-key create key-%d", n))
		programs.Until(t, "the entry of the key", func() bool { return strings.Contains(out.String(), fmt.Sprintf("key/key-%d", n)) })
	}
	must.Do(t, command.Process.Signal(os.Interrupt))
	err := command.Wait()
	if lines := strings.Count(out.String(), "\n"); lines != 4 { // one is the key of the login
		t.Errorf("%d lines, %v:\n%s", lines, err, out.String())
	}
	w.Environ = []string{"SLIPWAY_URL=" + w.Url, "SLIPWAY_API_KEY=slw_x"}
	w.Fails(t, "audit export --follow", 1, "the platform does not accept the key")
}
