package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/wire/platformv1"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
)

// TestAccount: the account, its users, and what a user who is no admin may not.
func TestAccount(t *testing.T) {
	w := newPlatformWorld(t)
	w.login(t)
	w.must(t, "account update --name Acme")
	if got := w.must(t, "account get"); !strings.Contains(got, "Acme") {
		t.Errorf("get: %s", got)
	}
	got := w.run(t, "account users create grace@example.com --role user")
	password := strings.TrimSpace(got.stdout)
	if got.code != 0 || len(strings.Fields(password)) != 1 || strings.Contains(got.stderr, password) {
		t.Fatalf("the password is not alone on standard output: %+v", got)
	}
	if got := w.must(t, "account users list"); !strings.Contains(trimLines(got), "grace@example.com grace@example.com user must choose a password -") {
		t.Errorf("list:\n%s", got)
	}
	w.fails(t, "account users update grace@example.com", 2, "say what to change")
	w.fails(t, "account users update nobody@example.com --role user", 1, "the account has no user nobody@example.com")
	w.fails(t, "account users create x@example.com --role king", 2, "neither admin nor user")
	w.fails(t, "account users delete grace@example.com", 2, "--yes")
	reset := w.must(t, "account users reset-password GRACE@example.com")
	if reset == password+"\n" || strings.TrimSpace(reset) == "" {
		t.Errorf("reset: %q", reset)
	}
	// As grace: another home, so another person.
	grace := &platformWorld{url: w.url, home: t.TempDir(), log: w.log}
	input := reset + chosenPassword + " too\n"
	if got := grace.runWith(t, input, "login "+w.url+" --email grace@example.com --password-stdin"); got.code != 0 {
		t.Fatalf("grace: %+v", got)
	}
	grace.fails(t, "account users list", 1, "you may not do this")
	grace.fails(t, "audit list", 1, "admin")
	grace.fails(t, "account update --name Mine", 1, "you may not do this")
	w.must(t, "account users update grace@example.com --disable")
	grace.fails(t, "whoami", 1, "run slipway login "+w.url)
	w.must(t, "account users delete grace@example.com --yes")
}

// TestAccountGit: R56, R57, R58, R115: the Git settings of the account.
func TestAccountGit(t *testing.T) {
	w := newPlatformWorld(t)
	w.login(t)
	if got := w.run(t, "account git get"); got.code != 0 || got.stdout != "" || !strings.Contains(got.stderr, "Nothing is set") {
		t.Errorf("nothing yet: %+v", got)
	}
	w.must(t, "account git set --shared-repository https://github.com/acme/shared.git/team?ref=main")
	requireText(t, w.must(t, "account git get"), `
Provider: github
API: https://api.github.com
Shared repository: https://github.com/acme/shared.git/team?ref=main
Validated: no runtime has reached it yet`)
	w.fails(t, "account git set", 2, "--shared-repository is missing")
	w.fails(t, "account git reset", 2, "--yes")
	w.must(t, "account git reset --yes")
	var settings struct{ Provider string }
	if err := json.Unmarshal([]byte(w.must(t, "account git get -o json")), &settings); err != nil || settings.Provider != "" {
		t.Errorf("after the reset: %+v, %v", settings, err)
	}
}

// TestKeys: the secret of a key is alone on standard output, lists have all pages,
// and a revoked key is dead.
func TestKeys(t *testing.T) {
	w := newPlatformWorld(t)
	w.login(t)
	got := w.run(t, "api-key create ci --scope read --lifetime 12h")
	secretText := strings.TrimSpace(got.stdout)
	if got.code != 0 || !strings.HasPrefix(secretText, "slw_") || strings.Contains(got.stderr, secretText) || strings.Contains(secretText, "\n") {
		t.Fatalf("create: %+v", got)
	}
	api := platformv1connect.NewKeyServiceClient(&http.Client{Transport: bearer{w.key(t)}}, w.url)
	const more = 230 // more than a page
	for i := range more {
		if _, err := api.CreateKey(t.Context(), connect.NewRequest(&platformv1.CreateKeyRequest{Name: fmt.Sprintf("key-%03d", i)})); err != nil {
			t.Fatal(err)
		}
	}
	var list struct {
		Keys []struct{ ID, Name, Prefix string }
	}
	text := w.must(t, "api-key list -o json")
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Keys) != more+2 || strings.Contains(text, secretText) {
		t.Fatalf("%d keys, %v", len(list.Keys), err)
	}
	id := ""
	for _, key := range list.Keys {
		if key.Name == "ci" {
			id = key.ID
		}
	}
	w.must(t, "api-key revoke "+id)
	w.fails(t, "api-key revoke "+secretText, 2, "does not belong into a command line")
	w.fails(t, "api-key create x --scope everything", 2, "runtime-register")
	w.fails(t, "api-key create x --lifetime 1y", 2, "12h or 90d")
	w.environ = []string{"SLIPWAY_URL=" + w.url, "SLIPWAY_API_KEY=" + secretText}
	w.fails(t, "api-key list", 1, "the platform does not know you")
	w.environ = nil
	audit := w.must(t, "audit list --since 1h --action key.create --limit 3")
	if strings.Count(audit, "key.create") != 3 || !strings.Contains(audit, "key/key-229") {
		t.Errorf("audit:\n%s", audit)
	}
	var entries struct{ Entries []struct{ Action string } }
	if err := json.Unmarshal([]byte(w.must(t, "audit list --limit 0 --action key.create -o json")), &entries); err != nil || len(entries.Entries) != more+2 {
		t.Errorf("%d entries, %v", len(entries.Entries), err)
	}
	w.fails(t, "audit list --since yesterday", 2, "neither a length of time")
}
