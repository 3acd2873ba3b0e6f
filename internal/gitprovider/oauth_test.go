package gitprovider_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/secret"
)

const callback = "https://slipway.example.com/auth/git/callback"

func oauthWorld() providertest.World {
	return providertest.World{Application: providertest.Application{ClientID: "client-1", ClientSecret: "application-secret", Redirect: callback}}
}

func newOAuth(t *testing.T, server *providertest.Server, kind gitprovider.Kind, password string) *gitprovider.OAuth {
	t.Helper()
	return must.Get(gitprovider.NewOAuth(gitprovider.OAuthOptions{
		Kind: kind, APIURL: server.APIURL, ClientID: "client-1", ClientSecret: secret.New(password),
		Purpose: gitprovider.RuntimeToken, CAs: server.CA, Now: noon,
	}))(t)
}

// browse is the user's browser: it goes to the provider and returns where it is
// sent back to.
func browse(t *testing.T, server *providertest.Server, address string) url.Values {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(server.CA)
	browser := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer browser.CloseIdleConnections()
	response := must.Get(browser.Get(address))(t)
	defer response.Body.Close()
	back, err := response.Location()
	if err != nil || !strings.HasPrefix(back.String(), callback+"?") {
		t.Fatalf("sent to %v: %v", back, err)
	}
	return back.Query()
}

// R64: the code flow for every provider, with PKCE where it is documented, and
// renewal, where each refresh token works once.
func TestOAuth(t *testing.T) {
	for _, kind := range gitprovider.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			server := providertest.Start(t, kind, oauthWorld())
			flow := newOAuth(t, server, kind, "application-secret")
			verifier, challenge := gitprovider.NewVerifier()
			address := must.Get(flow.AuthorizeURL("state-1", callback, challenge))(t)
			if strings.Contains(address, "application-secret") || strings.Contains(address, verifier.Reveal()) {
				t.Errorf("the browser's address has a secret in it: %s", address)
			}
			if pkce := strings.Contains(address, "code_challenge="); pkce != (kind != gitprovider.Bitbucket) {
				t.Errorf("PKCE: %v", pkce)
			}
			back := browse(t, server, address)
			if back.Get("state") != "state-1" {
				t.Errorf("state %q", back.Get("state"))
			}
			grant := must.Get(flow.Exchange(t.Context(), back.Get("code"), verifier.Reveal(), callback))(t)
			if grant.Token.IsZero() || grant.Refresh.IsZero() || grant.ExpiresAt.Sub(noon()).Seconds() != 7200 || len(grant.Scopes) == 0 {
				t.Errorf("grant %+v", grant)
			}
			if matches := fmt.Sprintf("%+v", grant); strings.Contains(matches, grant.Token.Reveal()) {
				t.Error("printing a grant shows its token")
			}
			next, err := flow.Refresh(t.Context(), grant.Refresh)
			if err != nil || next.Token.Reveal() == grant.Token.Reveal() || next.Refresh.Reveal() == grant.Refresh.Reveal() {
				t.Errorf("renewed %+v: %v", next, err)
			}
			_, err = flow.Refresh(t.Context(), grant.Refresh)
			if responseError := failure(t, err); responseError.Kind != gitprovider.Denied || responseError.Token != gitprovider.StateExpired {
				t.Errorf("a refresh token twice: %s %v", responseError.Kind, err)
			}
			_, err = flow.Exchange(t.Context(), back.Get("code"), verifier.Reveal(), callback)
			if responseError := failure(t, err); responseError.Kind != gitprovider.Denied {
				t.Errorf("a code twice: %s %v", responseError.Kind, err)
			}
		})
	}
}

// A stolen code is worth nothing without the verifier.
func TestOAuthNeedsVerifier(t *testing.T) {
	for _, kind := range []gitprovider.Kind{gitprovider.GitHub, gitprovider.GitLab, gitprovider.BitbucketServer} {
		server := providertest.Start(t, kind, oauthWorld())
		flow := newOAuth(t, server, kind, "application-secret")
		_, challenge := gitprovider.NewVerifier()
		address, err := flow.AuthorizeURL("state", callback, challenge)
		must.Do(t, err)
		_, err = flow.Exchange(t.Context(), browse(t, server, address).Get("code"), "guessed", callback)
		if responseError := failure(t, err); responseError.Kind != gitprovider.Denied {
			t.Errorf("%s: %s %v", kind, responseError.Kind, err)
		}
	}
}

// R64: without a registered application, or with one that the provider does not
// accept, the error explains it and contains no secret.
func TestOAuthNotRegistered(t *testing.T) {
	for _, kind := range gitprovider.Kinds() {
		_, err := gitprovider.NewOAuth(gitprovider.OAuthOptions{Kind: kind, APIURL: "https://git.example.com"})
		if responseError := failure(t, err); responseError.Kind != gitprovider.NotRegistered || !strings.Contains(err.Error(), "admin") {
			t.Errorf("%s: %s %v", kind, responseError.Kind, err)
		}
		server := providertest.Start(t, kind, oauthWorld())
		flow := newOAuth(t, server, kind, "another-secret")
		verifier, challenge := gitprovider.NewVerifier()
		address := must.Get(flow.AuthorizeURL("state", callback, challenge))(t)
		_, err = flow.Exchange(t.Context(), browse(t, server, address).Get("code"), verifier.Reveal(), callback)
		responseError := failure(t, err)
		if responseError.Kind != gitprovider.NotRegistered || strings.Contains(err.Error(), "another-secret") {
			t.Errorf("%s: %s %v", kind, responseError.Kind, err)
		}
	}
}

// The requested scopes are those of the purpose.
func TestOAuthScopes(t *testing.T) {
	for _, test := range []struct {
		kind    gitprovider.Kind
		purpose gitprovider.Purpose
		want    string
	}{
		{gitprovider.GitHub, gitprovider.RuntimeToken, "repo admin:repo_hook"},
		{gitprovider.GitHub, gitprovider.UserToken, "repo"},
		{gitprovider.GitLab, gitprovider.RuntimeToken, "api"},
		{gitprovider.GitLab, gitprovider.UserToken, "read_api write_repository"},
		{gitprovider.Bitbucket, gitprovider.RuntimeToken, ""},
		{gitprovider.BitbucketServer, gitprovider.RuntimeToken, "REPO_ADMIN"},
		{gitprovider.BitbucketServer, gitprovider.UserToken, "REPO_WRITE"},
	} {
		options := gitprovider.OAuthOptions{Kind: test.kind, ClientID: "c", ClientSecret: secret.New("s"), Purpose: test.purpose}
		if test.kind == gitprovider.BitbucketServer {
			options.APIURL = "https://bitbucket.example.com"
		}
		flow := must.Get(gitprovider.NewOAuth(options))(t)
		address := must.Get(flow.AuthorizeURL("state", callback, "challenge"))(t)
		parsed, err := url.Parse(address)
		if err != nil || parsed.Query().Get("scope") != test.want {
			t.Errorf("%s %s: %s", test.kind, test.purpose, address)
		}
		hosts := []string{"github.com", "gitlab.com", "bitbucket.org", "bitbucket.example.com"}
		if !slices.Contains(hosts, parsed.Host) {
			t.Errorf("%s sends the browser to %s", test.kind, parsed.Host)
		}
		if _, err := flow.AuthorizeURL("", callback, "challenge"); err == nil {
			t.Errorf("%s: a flow without state", test.kind)
		}
		if _, err := flow.AuthorizeURL("state", "javascript:x", "challenge"); err == nil {
			t.Errorf("%s: a strange callback", test.kind)
		}
	}
}
