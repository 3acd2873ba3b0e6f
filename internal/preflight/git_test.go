package preflight_test

import (
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitops/gittest"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/kube/kubetest"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/secret"
)

// TestGitToken: R16, R37, R38: the token is accepted, has the scopes by their names,
// and lasts.
func TestGitToken(t *testing.T) {
	now := time.Now()
	both := []string{"admin:repo_hook", "repo"}
	for _, tt := range []struct {
		name  string
		token providertest.Token
		code  preflight.Code
		state preflight.State
		want  string
	}{
		{"good", providertest.Token{Scopes: both, ExpiresAt: now.Add(90 * 24 * time.Hour)}, preflight.GitScopes, preflight.Passed, ""},
		{"R37 revoked", providertest.Token{Scopes: both, Revoked: true}, preflight.GitCredentials, preflight.Failed, "create a new one"},
		{"R16 a scope is missing", providertest.Token{Scopes: []string{"repo"}}, preflight.GitScopes, preflight.Failed, "admin:repo_hook"},
		{"R16 it ends soon", providertest.Token{Scopes: both, ExpiresAt: now.Add(3*24*time.Hour + time.Hour)}, preflight.GitExpiry, preflight.Warned, "expires in 3 days"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.token.Value, tt.token.Login = "ghp_canary0000000000000000000000000000000", "robot"
			server := providertest.Start(t, gitprovider.GitHub, providertest.World{Tokens: []providertest.Token{tt.token}})
			provider, err := gitprovider.New(gitprovider.Options{Kind: gitprovider.GitHub, APIURL: server.APIURL, Token: secret.New(tt.token.Value), CAs: server.CA})
			must.Do(t, err)
			cluster := kubetest.Shared(t)
			options := tunnel(t, cluster)
			options.Only = []preflight.Code{preflight.GitCredentials, preflight.GitScopes, preflight.GitExpiry}
			results := preflight.Run(t.Context(), preflight.World{Cluster: cluster.Cluster, GitProvider: provider}, options)
			if tt.state == preflight.Passed {
				clean(t, results)
			} else {
				finds(t, results, tt.code, tt.state, tt.want)
			}
			if text, err := json.Marshal(results); err != nil || strings.Contains(string(text), "canary") {
				t.Errorf("the token is told: %s %v", text, err)
			}
			if writes := server.Writes(); len(writes) > 0 {
				t.Errorf("it wrote: %q", writes)
			}
		})
	}
}

// TestSharedRepository: R57, R38, R79: the repository on a real Git server: pushing
// with the token, its certificate with and without the authority, and a server that
// is not there.
func TestSharedRepository(t *testing.T) {
	cluster := kubetest.Shared(t)
	server := gittest.Serve(t, gittest.TLS(), gittest.BasicAuth("robot", "canary-password"))
	repository := server.Repository(t, "config", map[string]string{"README.md": "x"})
	repository.Config(t, "http.receivepack", "true")
	authorities := []byte(server.CertificateAuthority())
	codes := []preflight.Code{preflight.SharedRepository, preflight.GitTLS, preflight.Egress}
	for _, tt := range []struct {
		name  string
		git   preflight.GitAccess
		code  preflight.Code
		state preflight.State
		want  string
	}{
		{"good", preflight.GitAccess{Repository: repository.URL() + "/shared?ref=main", Token: secret.New("canary-password"), Username: "robot", CAs: authorities}, "", preflight.Passed, ""},
		{"without a token", preflight.GitAccess{Repository: repository.URL(), CAs: authorities}, "", preflight.Passed, ""},
		{"another token", preflight.GitAccess{Repository: repository.URL(), Token: secret.New("canary-other"), Username: "robot", CAs: authorities}, preflight.SharedRepository, preflight.Failed, "does not accept the token"},
		{"not there", preflight.GitAccess{Repository: strings.Replace(repository.URL(), "config", "absent", 1), Token: secret.New("canary-password"), Username: "robot", CAs: authorities}, preflight.SharedRepository, preflight.Warned, "does not exist"},
		{"R79 without the authority", preflight.GitAccess{Repository: repository.URL()}, preflight.GitTLS, preflight.Failed, "argocd-tls-certs-cm"},
		{"no authorities in the file", preflight.GitAccess{Repository: repository.URL(), CAs: []byte("x")}, preflight.GitTLS, preflight.Failed, "contains no certificate"},
		{"nobody listens", preflight.GitAccess{Repository: "https://127.0.0.1:9/a/b.git"}, preflight.Egress, preflight.Failed, "the connection is refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			options := tunnel(t, cluster)
			options.Only, options.Git = codes, tt.git
			world := preflight.World{Cluster: cluster.Cluster, Now: func() time.Time { return time.Now().Add(-time.Minute) }}
			// The runtime's own host is trusted by it, and the Git server is not.
			world.Roots = x509.NewCertPool()
			world.Roots.AppendCertsFromPEM(authorities)
			world.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
			results := preflight.Run(t.Context(), world, options)
			if text, err := json.Marshal(results); err != nil || strings.Contains(string(text), "canary") {
				t.Errorf("the token is told: %s %v", text, err)
			}
			if tt.state != preflight.Passed {
				finds(t, results, tt.code, tt.state, tt.want)
				return
			}
			for _, result := range results {
				if result.State == preflight.Failed {
					t.Errorf("%s", shown(result))
				}
			}
		})
	}
}
