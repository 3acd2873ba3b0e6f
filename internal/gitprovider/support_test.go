package gitprovider_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

// noon is the clock of the tests.
func noon() time.Time { return time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC) }

// provider makes one for a token of the server; repository may be empty.
func provider(t *testing.T, server *providertest.Server, kind gitprovider.Kind, token providertest.Token, repository string) gitprovider.Provider {
	t.Helper()
	return must.Get(gitprovider.New(gitprovider.Options{
		Kind: kind, APIURL: server.APIURL, Token: secret.New(token.Value), Username: token.Username,
		Repository: repository, CAs: server.CA, Now: noon,
	}))(t)
}

// failure is the package's error, or the test ends.
func failure(t *testing.T, err error) *gitprovider.Error {
	t.Helper()
	found, ok := errors.AsType[*gitprovider.Error](err)
	if !ok {
		t.Fatalf("error is %T %v, not *gitprovider.Error", err, err)
	}
	return found
}

func sameList(t *testing.T, describeCall string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s = %q, want %q", describeCall, got, want)
	}
}

// unverified reports whether one of the report's doubts has these words.
func unverified(report gitprovider.TokenReport, words string) bool {
	return slices.ContainsFunc(report.Unverified, func(s string) bool { return strings.Contains(s, words) })
}

// noWrites fails when a check changed something.
func noWrites(t *testing.T, server *providertest.Server) {
	t.Helper()
	if writes := server.Writes(); len(writes) > 0 {
		t.Errorf("the check wrote: %q", writes)
	}
}

// repositoryAt is the address of the test's repository, as each provider spells
// it, and its path there.
func repositoryAt(server *providertest.Server, kind gitprovider.Kind) (address, path string) {
	switch kind {
	case gitprovider.GitLab:
		return server.URL + "/acme/platform/config.git", "acme/platform/config"
	case gitprovider.BitbucketServer:
		return server.URL + "/scm/acme/config.git", "ACME/config"
	}
	return server.URL + "/acme/config.git", "acme/config"
}

// owners are who can have repositories, for all providers at once.
func owners() map[string]string {
	return map[string]string{"acme": "Organization", "acme/platform": "group", "ACME": "project", "robot": "User", "~robot": "project", "somebody": "User"}
}

// admin is a token that may do everything.
func admin(kind gitprovider.Kind) providertest.Token {
	token := providertest.Token{
		Value: "token-of-the-canary-7f3a", Login: "robot", UserID: 7,
		Roles: map[string]string{"acme": "admin", "ACME": "admin"},
	}
	switch kind {
	case gitprovider.GitHub:
		token.Value, token.Scopes = "ghp_canary7f3a", []string{"admin:repo_hook", "repo"}
	case gitprovider.GitLab:
		token.Value, token.Scopes = "glpat-canary7f3a", []string{"api"}
	case gitprovider.Bitbucket:
		token.Value, token.Username = "ATATTcanary7f3a", "robot@example.com"
		token.Scopes = []string{
			"read:user:bitbucket", "read:repository:bitbucket", "write:repository:bitbucket", "admin:repository:bitbucket",
			"read:workspace:bitbucket", "read:webhook:bitbucket", "write:webhook:bitbucket", "delete:webhook:bitbucket",
		}
	}
	return token
}

// start runs a server with one token and one private repository.
func start(t *testing.T, kind gitprovider.Kind, tokens ...providertest.Token) *providertest.Server {
	t.Helper()
	repositories := []providertest.Repository{
		{Path: "acme/config", Private: true, DefaultBranch: "main"},
		{Path: "acme/open", DefaultBranch: "main"},
		{Path: "acme/empty", Private: true, Empty: true},
		{Path: "acme/platform/config", Private: true, DefaultBranch: "main"},
	}
	if kind == gitprovider.BitbucketServer {
		repositories = []providertest.Repository{{Path: "ACME/config", Private: true, DefaultBranch: "main"}}
	}
	return providertest.Start(t, kind, providertest.World{Tokens: tokens, Repositories: repositories, Owners: owners()})
}

// proxyThatFails counts the tries to connect and fails them all.
func proxyThatFails(maxAttempts *int) func(*http.Request) (*url.URL, error) {
	return func(*http.Request) (*url.URL, error) {
		*maxAttempts++
		return nil, errors.New("no route")
	}
}
