package gitprovider_test

import (
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
)

// R8: the runtime's token looks the Shared Configuration Repository up and makes
// it, for each provider.
func TestRepository(t *testing.T) {
	for _, kind := range gitprovider.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			token := admin(kind)
			server := start(t, kind, token)
			p := provider(t, server, kind, token, "")
			address, path := repositoryAt(server, kind)
			found, err := p.Repository(t.Context(), address)
			must.Do(t, err)
			if found.Path != path || !found.Private || !strings.HasSuffix(found.CloneURL, "/config.git") || strings.Contains(found.CloneURL, "@") || found.SSHURL == "" || found.WebURL == "" {
				t.Errorf("found %+v", found)
			}
			if kind != gitprovider.BitbucketServer && found.DefaultBranch != "main" {
				t.Errorf("default branch %q", found.DefaultBranch)
			}
			missing := strings.Replace(address, "config", "nothing", 1)
			_, err = p.Repository(t.Context(), missing)
			if responseError := failure(t, err); responseError.Kind != gitprovider.NotFound {
				t.Errorf("a missing repository is %s: %v", responseError.Kind, err)
			}
			_, err = p.Repository(t.Context(), "https://elsewhere.example/acme/config.git")
			if responseError := failure(t, err); responseError.Kind != gitprovider.Invalid || !strings.Contains(err.Error(), "elsewhere.example") {
				t.Errorf("another server's repository is %s: %v", responseError.Kind, err)
			}
		})
	}
}

// R8: repositories are private, empty, and made once.
func TestCreateRepository(t *testing.T) {
	for _, kind := range gitprovider.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			token := admin(kind)
			server := start(t, kind, token)
			p := provider(t, server, kind, token, "")
			existing, path := repositoryAt(server, kind)
			address := strings.Replace(existing, "config", "shared", 1)
			made, err := p.CreateRepository(t.Context(), address, true)
			must.Do(t, err)
			want := strings.Replace(path, "config", "shared", 1)
			if stored, ok := server.Repository(want); !ok || !stored.Private || made.Path != want || !made.Private {
				t.Errorf("made %+v, stored %+v", made, stored)
			}
			_, err = p.CreateRepository(t.Context(), address, true)
			if responseError := failure(t, err); responseError.Kind != gitprovider.Conflict {
				t.Errorf("the second time it is %s: %v", responseError.Kind, err)
			}
			if _, err := p.CreateRepository(t.Context(), strings.Replace(existing, "config", "open-shared", 1), false); err != nil {
				t.Error(err)
			}
			if stored, _ := server.Repository(strings.Replace(path, "config", "open-shared", 1)); stored.Private {
				t.Error("a public repository was asked for")
			}
		})
	}
}

// Repositories of the token's own user are made elsewhere than those of an
// organisation, and those of another user nowhere.
func TestCreateRepositoryForUser(t *testing.T) {
	token := admin(gitprovider.GitHub)
	server := start(t, gitprovider.GitHub, token)
	p := provider(t, server, gitprovider.GitHub, token, "")
	must.Get(p.CreateRepository(t.Context(), server.URL+"/robot/shared.git", true))(t)
	if writes := server.Writes(); len(writes) != 1 || writes[0] != "POST /api/v3/user/repos" {
		t.Errorf("writes = %q", writes)
	}
	_, err := p.CreateRepository(t.Context(), server.URL+"/somebody/shared.git", true)
	if responseError := failure(t, err); responseError.Kind != gitprovider.Invalid || !strings.Contains(err.Error(), "somebody") {
		t.Errorf("%s: %v", responseError.Kind, err)
	}
	_, err = p.CreateRepository(t.Context(), server.URL+"/nobody/shared.git", true)
	if responseError := failure(t, err); responseError.Kind != gitprovider.NotFound {
		t.Errorf("%s: %v", responseError.Kind, err)
	}

	personal := admin(gitprovider.BitbucketServer)
	data := start(t, gitprovider.BitbucketServer, personal)
	made, err := provider(t, data, gitprovider.BitbucketServer, personal, "").CreateRepository(t.Context(), data.URL+"/scm/~robot/shared.git", true)
	if err != nil || made.Path != "~robot/shared" {
		t.Errorf("made %+v: %v", made, err)
	}
}

// The address's spelling does not matter: HTTPS, SSH, ports, pages of the web
// server, the path and ref of the Shared Configuration Repository (R57).
func TestRepositorySpellings(t *testing.T) {
	for kind, spellings := range map[gitprovider.Kind][]string{
		gitprovider.GitHub: {
			"%s/acme/config", "%s/acme/config.git/", "%s/acme/config.git/envs/prod?ref=main", "%s/acme/config/tree/main/envs",
			"git@git.internal:acme/config.git", "ssh://git@git.internal:2222/acme/config",
		},
		gitprovider.GitLab: {
			"%s/acme/platform/config", "%s/acme/platform/config/-/tree/main/envs", "%s/acme/platform/config.git/envs?ref=main",
			"git@ssh.internal:acme/platform/config.git", "ssh://git@ssh.internal:2222/acme/platform/config.git",
		},
		gitprovider.Bitbucket: {"%s/ACME/config", "%s/acme/Config.git", "%s/acme/config/src/main/", "git@ssh.internal:acme/config.git"},
		gitprovider.BitbucketServer: {
			"%s/scm/ACME/config.git", "%s/projects/acme/repos/config/browse", "ssh://git@git.internal:7999/acme/config.git", "%s/scm/acme/config.git/envs?ref=main",
		},
	} {
		token := admin(kind)
		server := start(t, kind, token)
		p := provider(t, server, kind, token, "")
		_, want := repositoryAt(server, kind)
		for _, spelling := range spellings {
			address := strings.Replace(spelling, "%s", server.URL, 1)
			if found, err := p.Repository(t.Context(), address); err != nil || found.Path != want {
				t.Errorf("%s: %s is %q (%v), want %q", kind, spelling, found.Path, err, want)
			}
		}
	}
}

// A server in house may be installed below a path.
func TestRepositoryBelowContext(t *testing.T) {
	for _, kind := range []gitprovider.Kind{gitprovider.GitLab, gitprovider.BitbucketServer} {
		token := admin(kind)
		server := providertest.Start(t, kind, providertest.World{Tokens: []providertest.Token{token}, Owners: owners(), Context: "/git"})
		address, path := repositoryAt(server, kind)
		p := provider(t, server, kind, token, address)
		must.Get(p.CreateRepository(t.Context(), address, true))(t)
		if found, err := p.Repository(t.Context(), address); err != nil || found.Path != path {
			t.Errorf("%s: %+v, %v", kind, found, err)
		}
		if report, err := p.Check(t.Context(), gitprovider.RuntimeToken); err != nil || !report.OK() {
			t.Errorf("%s: %+v, %v", kind, report, err)
		}
		if err := p.EnsureWebhook(t.Context(), address, pushHook("x")); err != nil || len(server.Hooks(path)) != 1 {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A missing permission is reported with the provider's own name.
func TestCreateRepositoryDenied(t *testing.T) {
	for kind, test := range map[gitprovider.Kind]struct {
		scopes []string
		words  string
	}{
		gitprovider.GitLab:          {[]string{"read_api"}, "insufficient_scope"},
		gitprovider.Bitbucket:       {[]string{"read:user:bitbucket"}, "required: repository:admin"},
		gitprovider.BitbucketServer: {nil, "not permitted"},
	} {
		token := admin(kind)
		token.Scopes, token.Roles = test.scopes, map[string]string{}
		server := start(t, kind, token)
		address, _ := repositoryAt(server, kind)
		_, err := provider(t, server, kind, token, "").CreateRepository(t.Context(), strings.Replace(address, "config", "shared", 1), true)
		responseError := failure(t, err)
		if responseError.Kind != gitprovider.Denied || responseError.Token != "" || !strings.Contains(err.Error(), test.words) {
			t.Errorf("%s: %s %q %v", kind, responseError.Kind, responseError.Token, err)
		}
	}
}

// Git itself can be served beside the API, for tests of those who clone.
func TestCreatedIsTold(t *testing.T) {
	token := admin(gitprovider.GitHub)
	server := start(t, gitprovider.GitHub, token)
	var told []string
	server.Created = func(path string) { told = append(told, path) }
	must.Get(provider(t, server, gitprovider.GitHub, token, "").CreateRepository(t.Context(), server.URL+"/acme/shared.git", true))(t)
	sameList(t, "created", told, []string{"acme/shared"})
}
