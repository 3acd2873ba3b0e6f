package gitprovider_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitserver"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/programs"
	"slipway.dev/slipway/internal/secret"
)

// servePlain serves a repository that needs a password, with Git's own program,
// and returns its server.
func servePlain(t *testing.T) string {
	t.Helper()
	git := must.Get(gitserver.Find(t.Context()))(t)
	dir := t.TempDir()
	must.Do(t, git.Create(t.Context(), filepath.Join(dir, "config.git"), map[string][]byte{"a": []byte("1")}))
	listener := programs.Listen(t, "")
	server := git.Serve(gitserver.Options{Dir: dir, Repositories: map[string]string{"config.git": "good"}, Log: io.Discard}, listener)
	t.Cleanup(func() { must.Do(t, server.Close()) })
	return "http://" + listener.Addr().String()
}

// plainProvider is the provider of a server without an API.
func plainProvider(t *testing.T, server, token, repository string) gitprovider.Provider {
	t.Helper()
	return must.Get(gitprovider.New(gitprovider.Options{
		Kind: gitprovider.PlainGit, APIURL: server, Token: secret.New(token), Repository: repository, Now: noon,
	}))(t)
}

// A server that speaks Git alone shows whether a token may push.
func TestPlainCheck(t *testing.T) {
	server := servePlain(t)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>sign in</html>")
	}))
	defer page.Close()
	for _, test := range []struct {
		name, server, token, repository string
		kind                            gitprovider.ErrorKind
		state                           gitprovider.TokenState
	}{
		{"good", server, "good", "/config.git", "", gitprovider.StateOK},
		{"with folder and branch", server, "good", "/config.git/team/a?ref=main", "", gitprovider.StateOK},
		{"wrong token", server, "wrong", "/config.git", gitprovider.Denied, gitprovider.StateRevoked},
		{"no repository", server, "good", "/other.git", gitprovider.NotFound, gitprovider.StateUnknown},
		{"a page for people", page.URL, "good", "/config.git", gitprovider.Invalid, gitprovider.StateUnknown},
	} {
		t.Run(test.name, func(t *testing.T) {
			report, err := plainProvider(t, test.server, test.token, test.server+test.repository).Check(t.Context(), gitprovider.RuntimeToken)
			if got := gitprovider.StateOf(report, err, noon()); got != test.state {
				t.Errorf("the token is %s, want %s: %v", got, test.state, err)
			}
			if test.kind != "" && failure(t, err).Kind != test.kind {
				t.Errorf("the error is %v", err)
			}
		})
	}
	for _, elsewhere := range []string{"", "ssh://git@127.0.0.1/config.git", page.URL + "/config.git"} {
		report, err := plainProvider(t, server, "wrong", elsewhere).Check(t.Context(), gitprovider.UserToken)
		if err != nil || !unverified(report, "rights") {
			t.Errorf("%q: %+v, %v: the token is for another server and must not be sent there", elsewhere, report, err)
		}
	}
}

// The error for what such a server cannot do states what to do instead.
func TestPlainLimits(t *testing.T) {
	server := servePlain(t)
	p := plainProvider(t, server, "good", "")
	found := must.Get(p.Repository(t.Context(), server+"/config.git"))(t)
	if found.Path != "config" || found.CloneURL != server+"/config.git" {
		t.Errorf("found %+v", found)
	}
	if _, err := p.Repository(t.Context(), "https://127.0.0.1/config.git"); failure(t, err).Kind != gitprovider.Invalid {
		t.Errorf("a repository elsewhere: %v", err)
	}
	if _, err := p.CreateRepository(t.Context(), server+"/new.git", true); !strings.Contains(failure(t, err).Message, "create it there yourself") {
		t.Errorf("the error is %v", err)
	}
	if err := p.EnsureWebhook(t.Context(), server+"/config.git", gitprovider.Webhook{URL: "https://a/webhooks/b"}); !strings.Contains(failure(t, err).Message, "https://a/webhooks/b") {
		t.Errorf("the error is %v", err)
	}
	must.Do(t, p.RemoveWebhook(t.Context(), server+"/config.git", "https://a/webhooks/b"))
}

func TestPlainKind(t *testing.T) {
	kind := must.Get(gitprovider.ParseKind("Git"))(t)
	if api := must.Get(gitprovider.DefaultAPI(kind, "http://127.0.0.1:8085/"))(t); kind != gitprovider.PlainGit || api != "http://127.0.0.1:8085" {
		t.Errorf("%s at %s", kind, api)
	}
	if _, err := gitprovider.DefaultAPI(kind, ""); failure(t, err).Kind != gitprovider.Invalid {
		t.Errorf("a server without an address: %v", err)
	}
}
