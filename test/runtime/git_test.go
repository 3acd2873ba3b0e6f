package runtime

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
)

// gitHost is a Git provider: its API is strict, its repositories are real, and it
// sends webhooks for pushes as GitHub does.
type gitHost struct {
	stage    *stage
	provider *providertest.Server
	git      *gittest.Server
	ssh      *gittest.Server

	runtimeToken, userToken string
	// apps has an Application, and what that deploys.
	apps *gittest.Repository
	// shared is the Shared Configuration Repository, which the runtimes make.
	shared atomic.Pointer[gittest.Repository]
}

// oauthToken is what the provider issues for the first login.
const oauthToken = "access-1001"

func newGitHost(t *testing.T, g *stage) *gitHost {
	t.Helper()
	h := &gitHost{
		stage:        g,
		runtimeToken: g.canary("the Git token of the runtime", "ghp_canary0runtime0token0000000000000000"),
		userToken:    g.canary("the Git token of a user", "ghp_canary0user0token000000000000000000"),
	}
	everything := map[string]string{"team": "admin"}
	h.git = gittest.Serve(t, gittest.BasicAuth("x-access-token", h.runtimeToken), gittest.MorePasswords(map[string]bool{h.userToken: true, oauthToken: true}))
	h.ssh = gittest.ServeSSH(t)
	h.provider = providertest.Start(t, gitprovider.GitHub, providertest.World{
		Owners: map[string]string{"team": "Organization"},
		Repositories: []providertest.Repository{
			{Path: "team/apps", Private: true},
		},
		Tokens: []providertest.Token{
			{Value: h.runtimeToken, Login: "robot", UserID: 1, Scopes: []string{"repo", "admin:repo_hook"}, Roles: everything},
			{Value: h.userToken, Login: "ada", UserID: 2, Scopes: []string{"repo"}, Roles: everything},
			{Value: g.canary("the Git token of a login", oauthToken), Login: "ada", UserID: 2, Scopes: []string{"repo"}, Roles: everything, OAuth: true},
		},
		Application: providertest.Application{
			ClientID: "slipway", ClientSecret: g.canary("the secret of the OAuth application", "canary0oauth0secret"), Redirect: g.url + "/git/callback",
		},
	})
	h.provider.Git = h.passOn(t)
	h.provider.Created = func(path string) {
		made := h.git.Repository(t, path, map[string]string{"x": "x"})
		made.DeleteBranch(t, gittest.Main)
		h.shared.Store(made)
	}
	return h
}

// passOn hands requests to the Git server.
func (h *gitHost) passOn(t *testing.T) http.Handler {
	t.Helper()
	base := h.git.Repository(t, "probe", map[string]string{"x": "x"}).URL()
	target := must.Get(url.Parse(strings.TrimSuffix(base, "/probe.git")))(t)
	return httputil.NewSingleHostReverseProxy(target)
}

// written checks who wrote a commit of the Shared Configuration Repository, and
// that a token has pushed.
func (h *gitHost) written(t *testing.T, commit, author, committer, token string) {
	t.Helper()
	if got, want := h.shared.Load().Git(t, "log", "-1", "--format=%ae %ce", commit), author+" "+committer; got != want {
		t.Errorf("the commit is of %q, not %q", got, want)
	}
	if !slices.Contains(h.git.Pushers(), token) {
		t.Errorf("nothing was pushed with the token of %s", committer)
	}
}

// url is the address of a repository of the provider.
func (h *gitHost) url(path string) string { return h.provider.URL + "/" + path + ".git" }

// folder is one of the repository with the applications.
func (h *gitHost) folder(path string) folder { return folder{h.url("team/apps"), path} }

// change commits another value to the applications, and sends no webhook.
func (h *gitHost) change(t *testing.T, value string) string {
	t.Helper()
	return h.apps.Commit(t, map[string]string{"app/settings.yaml": settings(value), "small/settings.yaml": settings(value)}, value)
}

// push commits another value to the application and calls every webhook, as a
// provider does after a push. It returns the commit.
func (h *gitHost) push(t *testing.T, value string) string {
	t.Helper()
	before := h.apps.Head(t)
	commit := h.change(t, value)
	hooks := h.provider.Hooks("team/apps")
	if len(hooks) == 0 {
		t.Fatal("there is no webhook")
	}
	for _, hook := range hooks {
		began := time.Now()
		if status := h.deliver(t, hook, before, commit); status != http.StatusOK && status != http.StatusAccepted && status != http.StatusNoContent {
			t.Fatalf("the webhook %s answers %d", hook.URL, status)
		}
		if took := time.Since(began); took > time.Second {
			t.Logf("the webhook was answered after %v", took)
		}
	}
	return commit
}

// deliver sends a webhook as GitHub does after a push, with the signature of its
// secret.
func (h *gitHost) deliver(t *testing.T, hook providertest.Hook, before, after string) int {
	t.Helper()
	return providertest.Push{
		Path: "team/apps", CloneURL: h.url("team/apps"), Before: before, After: after, Files: []string{"app/settings.yaml", "small/settings.yaml"},
	}.SendGitHub(t, h.stage.answers, hook)
}

// client trusts the provider.
func (h *gitHost) client() http.RoundTripper {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(h.provider.CA)
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
}
