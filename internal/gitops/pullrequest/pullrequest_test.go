package pullrequest_test

import (
	"errors"
	"net/http"
	"testing"

	"slipway.dev/slipway/internal/gitops/pullrequest"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/outbound"
	"slipway.dev/slipway/internal/secret"
)

// The provider is detected from a neutral host, and the credential of the repository
// is sent in the way that its API takes it.
func TestNew(t *testing.T) {
	for _, tt := range []struct {
		kind  gitprovider.Kind
		path  string
		given credential.Credential
		token providertest.Token
		named bool
	}{
		{kind: gitprovider.GitHub, path: "/acme/shop.git", given: credential.Credential{Username: "git", Password: secret.New("canary")}, token: providertest.Token{Scopes: []string{"repo"}}},
		{kind: gitprovider.GitLab, path: "/acme/shop", given: credential.Credential{Username: "oauth2", Password: secret.New("canary")}, token: providertest.Token{Scopes: []string{"api"}}, named: true},
		{kind: gitprovider.Gitea, path: "/acme/shop", given: credential.Credential{Username: "ann", Password: secret.New("canary")}, token: providertest.Token{Username: "ann"}},
		{kind: gitprovider.Gitea, path: "/acme/shop", given: credential.Credential{BearerToken: secret.New("canary")}},
		{kind: gitprovider.BitbucketServer, path: "/scm/acme/shop.git", given: credential.Credential{Username: "ann", Password: secret.New("canary")}, token: providertest.Token{Username: "ann"}},
		{kind: gitprovider.BitbucketServer, path: "/scm/acme/shop.git", given: credential.Credential{Username: "ann", Password: secret.New("BBDC-canary")}, token: providertest.Token{Value: "BBDC-canary"}},
	} {
		tt.token.Login, tt.token.Roles = "ann", map[string]string{"acme": "write", "ACME": "write"}
		if tt.token.Value == "" {
			tt.token.Value = "canary"
		}
		server := providertest.Start(t, tt.kind, providertest.World{Tokens: []providertest.Token{tt.token}, Repositories: []providertest.Repository{{Path: "acme/shop"}, {Path: "ACME/shop"}}})
		server.Git = http.NotFoundHandler() // the questions about other providers
		options := pullrequest.Options{RepoURL: server.URL + tt.path, Access: remote.Access{Credential: tt.given, Authorities: server.CA}}
		if tt.named {
			options.Kind = tt.kind
		}
		pulls, err := pullrequest.New(t.Context(), options)
		if err != nil {
			t.Errorf("%s: %v", tt.kind, err)
			continue
		}
		if pulls.Kind() != tt.kind {
			t.Errorf("%s is detected as %s", tt.kind, pulls.Kind())
		}
		must.Get(pulls.Open(t.Context(), gitprovider.NewPullRequest{Head: "a", Base: "main", Title: "t"}))(t)
		// The rules for addresses of this machine hold for the API as well.
		options.Access.Outbound = outbound.New()
		if pulls, err = pullrequest.New(t.Context(), options); err == nil {
			_, err = pulls.Get(t.Context(), 1)
		}
		if err == nil {
			t.Errorf("%s: the outbound policy is not asked", tt.kind)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	key := credential.Credential{SSHPrivateKey: secret.New("key")}
	if _, err := pullrequest.New(t.Context(), pullrequest.Options{RepoURL: "git@github.com:acme/shop.git", Access: remote.Access{Credential: key}}); !errors.Is(err, pullrequest.ErrNoToken) {
		t.Errorf("the error is %v", err)
	}
	app := credential.Credential{Password: secret.New("token"), App: credential.GitHubApp{Key: secret.New("key")}}
	if _, err := pullrequest.New(t.Context(), pullrequest.Options{RepoURL: "https://git.example.com/acme/shop.git", Access: remote.Access{Credential: app}}); err == nil {
		t.Error("the token of the App is sent to another host than the repository's")
	}
}
