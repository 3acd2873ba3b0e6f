package gitprovider_test

import (
	"strings"
	"testing"
	"time"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/gitprovider/providertest"
	"slipway.dev/slipway/internal/must"
)

// checkCase is a token, what it is for, and what the report must have.
type checkCase struct {
	name    string
	token   providertest.Token
	purpose gitprovider.Purpose
	repo    string // path below the server; empty: none is given
	kind    gitprovider.TokenKind
	login   string
	missing []string
	doubt   string // words of something unverified
	expires string // date
	never   bool
}

func runChecks(t *testing.T, kind gitprovider.Kind, cases []checkCase) {
	t.Helper()
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			server := start(t, kind, test.token)
			repository := ""
			if test.repo != "" {
				repository = server.URL + test.repo
			}
			report := must.Get(provider(t, server, kind, test.token, repository).Check(t.Context(), test.purpose))(t)
			noWrites(t, server)
			if report.Kind != test.kind || report.Login != test.login {
				t.Errorf("the token is %s of %q, want %s of %q", report.Kind, report.Login, test.kind, test.login)
			}
			sameList(t, "missing", report.MissingNames(), test.missing)
			for _, missing := range report.Missing {
				if missing.Where == "" || missing.Why == "" {
					t.Errorf("%s says neither why nor where: %+v", missing.Name, missing)
				}
			}
			if test.doubt != "" && !unverified(report, test.doubt) {
				t.Errorf("unverified = %q, want one with %q", report.Unverified, test.doubt)
			}
			if report.NeverExpires != test.never {
				t.Errorf("NeverExpires = %v", report.NeverExpires)
			}
			if got := report.ExpiresAt.Format(time.DateOnly); test.expires != "" && got != test.expires {
				t.Errorf("expires %s, want %s", got, test.expires)
			}
			if strings.Contains(report.Message(noon()), test.token.Value) {
				t.Error("the message has the token in it")
			}
		})
	}
}

// R8, R16, R17, R38: GitHub's tokens are judged by scopes or by what a repository
// responds, without a write.
func TestCheckGitHub(t *testing.T) {
	year := time.Date(2027, 11, 15, 9, 30, 0, 0, time.UTC)
	roles := map[string]string{"acme": "admin"}
	all := []string{"contents", "administration", "repository_hooks", "pull_requests", "statuses"}
	runChecks(t, gitprovider.GitHub, []checkCase{
		{name: "classic runtime token with everything", purpose: gitprovider.RuntimeToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "ghp_1", Login: "robot", Scopes: []string{"admin:repo_hook", "repo"}, Roles: roles, ExpiresAt: year},
			kind:  gitprovider.ClassicToken, login: "robot", expires: "2027-11-15"},
		{name: "classic runtime token without the hook scope", purpose: gitprovider.RuntimeToken,
			token: providertest.Token{Value: "ghp_1", Login: "robot", Scopes: []string{"repo"}, Roles: roles},
			kind:  gitprovider.ClassicToken, login: "robot", missing: []string{"admin:repo_hook"}, never: true},
		{name: "classic user token needs repo alone", purpose: gitprovider.UserToken,
			token: providertest.Token{Value: strings.Repeat("ab", 20), Login: "ada", Scopes: []string{"repo"}, Roles: roles},
			kind:  gitprovider.ClassicToken, login: "ada", never: true},
		{name: "classic token without scopes", purpose: gitprovider.RuntimeToken,
			token: providertest.Token{Value: "ghp_1", Login: "robot", Scopes: []string{}, Roles: roles},
			kind:  gitprovider.ClassicToken, login: "robot", missing: []string{"repo", "admin:repo_hook"}, never: true},
		{name: "classic token of a user who may only read", purpose: gitprovider.UserToken, repo: "/acme/config",
			token: providertest.Token{Value: "ghp_1", Login: "ada", Scopes: []string{"repo"}, Roles: map[string]string{"acme": "read"}},
			kind:  gitprovider.ClassicToken, login: "ada", missing: []string{"write access to acme/config"}, never: true},
		{name: "classic runtime token of a user who is no admin", purpose: gitprovider.RuntimeToken, repo: "/acme/config",
			token: providertest.Token{Value: "ghp_1", Login: "ada", Scopes: []string{"repo", "admin:repo_hook"}, Roles: map[string]string{"acme": "write"}},
			kind:  gitprovider.ClassicToken, login: "ada", missing: []string{"admin access to acme/config"}, never: true},
		{name: "repository that is not there yet", purpose: gitprovider.RuntimeToken, repo: "/acme/new.git",
			token: providertest.Token{Value: "ghp_1", Login: "robot", Scopes: []string{"repo", "admin:repo_hook"}, Roles: roles},
			kind:  gitprovider.ClassicToken, login: "robot", doubt: "acme/new: it does not exist", never: true},
		{name: "OAuth token", purpose: gitprovider.UserToken,
			token: providertest.Token{Value: "gho_1", Login: "ada", Scopes: []string{"repo"}, Roles: roles},
			kind:  gitprovider.OAuthToken, login: "ada", never: true},
		{name: "fine-grained runtime token with everything", purpose: gitprovider.RuntimeToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "github_pat_1", Login: "robot", Permissions: all, Roles: roles, ExpiresAt: year},
			kind:  gitprovider.FineGrainedToken, login: "robot", doubt: "whether the token may write: Contents", expires: "2027-11-15"},
		{name: "fine-grained runtime token with contents alone", purpose: gitprovider.RuntimeToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "github_pat_1", Login: "robot", Permissions: []string{"contents"}, Roles: roles, ExpiresAt: year},
			kind:  gitprovider.FineGrainedToken, login: "robot",
			missing: []string{"Administration: Read and write", "Webhooks: Read and write", "Pull requests: Read and write", "Commit statuses: Read and write"}},
		{name: "fine-grained user token", purpose: gitprovider.UserToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "github_pat_1", Login: "ada", Permissions: []string{"contents"}, Roles: roles, ExpiresAt: year},
			kind:  gitprovider.FineGrainedToken, login: "ada", doubt: "Contents: Read and write"},
		{name: "fine-grained user token without contents", purpose: gitprovider.UserToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "github_pat_1", Login: "ada", Roles: roles, ExpiresAt: year},
			kind:  gitprovider.FineGrainedToken, login: "ada", missing: []string{"Contents: Read and write"}},
		{name: "fine-grained token and a public repository", purpose: gitprovider.UserToken, repo: "/acme/open.git",
			token: providertest.Token{Value: "github_pat_1", Login: "ada", Roles: roles, ExpiresAt: year},
			kind:  gitprovider.FineGrainedToken, login: "ada", doubt: "Contents: Read and write"},
		{name: "fine-grained token and an empty repository", purpose: gitprovider.RuntimeToken, repo: "/acme/empty.git",
			token: providertest.Token{Value: "github_pat_1", Login: "robot", Permissions: all, Roles: roles, ExpiresAt: year},
			kind:  gitprovider.FineGrainedToken, login: "robot", doubt: "Commit statuses: Read and write"},
		{name: "fine-grained token without a repository", purpose: gitprovider.RuntimeToken,
			token: providertest.Token{Value: "github_pat_1", Login: "robot", Roles: roles, ExpiresAt: year},
			kind:  gitprovider.FineGrainedToken, login: "robot", doubt: "none was given"},
		{name: "GitHub App installation", purpose: gitprovider.RuntimeToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "ghs_1", Permissions: all[:4], Roles: map[string]string{"acme": "read"}},
			kind:  gitprovider.InstallationToken, missing: []string{"Commit statuses: Read and write"}, doubt: "one hour"},
		{name: "GitHub App for a user", purpose: gitprovider.UserToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "ghu_1", Login: "ada", Permissions: all, Roles: roles, ExpiresAt: year},
			kind:  gitprovider.AppUserToken, login: "ada"},
	})
}

// R38: GitHub names the permission that a refused request needed, and the report
// repeats it.
func TestCheckGitHubNamesWhatWasRefused(t *testing.T) {
	token := providertest.Token{Value: "github_pat_1", Login: "robot", Permissions: []string{"contents", "administration", "pull_requests", "statuses"}, Roles: map[string]string{"acme": "admin"}}
	server := start(t, gitprovider.GitHub, token)
	report := must.Get(provider(t, server, gitprovider.GitHub, token, server.URL+"/acme/config.git").Check(t.Context(), gitprovider.RuntimeToken))(t)
	if len(report.Missing) != 1 || !strings.Contains(report.Missing[0].Why, "repository_hooks=read") {
		t.Errorf("missing = %+v, want repository_hooks=read in it", report.Missing)
	}
	if !strings.Contains(report.Missing[0].Where, "/settings/personal-access-tokens") {
		t.Errorf("where = %q", report.Missing[0].Where)
	}
}

// A repository of another server proves nothing about the token, and the token is
// not sent there.
func TestCheckWithRepositoryElsewhere(t *testing.T) {
	for _, kind := range gitprovider.Kinds() {
		token := admin(kind)
		server := start(t, kind, token)
		report, err := provider(t, server, kind, token, "https://git.example.com/acme/config.git").Check(t.Context(), gitprovider.RuntimeToken)
		if err != nil || !report.OK() || !unverified(report, "at git.example.com") {
			t.Errorf("%s: %+v, %v", kind, report, err)
		}
	}
}

// R8, R16, R17: GitLab's personal, group, project and OAuth tokens.
func TestCheckGitLab(t *testing.T) {
	year := time.Date(2027, 11, 15, 0, 0, 0, 0, time.UTC)
	const repo = "/acme/platform/config.git"
	direct := func(role string) map[string]string { return map[string]string{"acme/platform/config": role} }
	runChecks(t, gitprovider.GitLab, []checkCase{
		{name: "personal runtime token", purpose: gitprovider.RuntimeToken, repo: repo,
			token: providertest.Token{Value: "glpat-1", Login: "robot", UserID: 7, Scopes: []string{"api"}, Roles: direct("admin"), ExpiresAt: year},
			kind:  gitprovider.PersonalToken, login: "robot", expires: "2027-11-15"},
		{name: "runtime token with a role from a group above", purpose: gitprovider.RuntimeToken, repo: repo,
			token: providertest.Token{Value: "glpat-1", Login: "robot", UserID: 7, Scopes: []string{"api"}, Roles: map[string]string{"acme": "admin"}},
			kind:  gitprovider.PersonalToken, login: "robot", never: true},
		{name: "runtime token with too low a role from above", purpose: gitprovider.RuntimeToken, repo: repo,
			token: providertest.Token{Value: "glpat-1", Login: "robot", UserID: 7, Scopes: []string{"api"}, Roles: map[string]string{"acme": "write"}},
			kind:  gitprovider.PersonalToken, login: "robot", missing: []string{"role Maintainer in acme/platform/config"}, never: true},
		{name: "runtime token without api", purpose: gitprovider.RuntimeToken, repo: repo,
			token: providertest.Token{Value: "glpat-1", Login: "robot", UserID: 7, Scopes: []string{"read_api", "write_repository"}, Roles: direct("admin")},
			kind:  gitprovider.PersonalToken, login: "robot", missing: []string{"api"}, never: true},
		{name: "user token", purpose: gitprovider.UserToken, repo: repo,
			token: providertest.Token{Value: "glpat-1", Login: "ada", UserID: 8, Scopes: []string{"read_api", "write_repository"}, Roles: direct("write")},
			kind:  gitprovider.PersonalToken, login: "ada", never: true},
		{name: "user token that may not read the API", purpose: gitprovider.UserToken,
			token: providertest.Token{Value: "glpat-1", Login: "ada", UserID: 8, Scopes: []string{"write_repository"}},
			kind:  gitprovider.PersonalToken, missing: []string{"read_api"}, doubt: "whose token", never: true},
		{name: "user token of a reporter", purpose: gitprovider.UserToken, repo: repo,
			token: providertest.Token{Value: "glpat-1", Login: "ada", UserID: 8, Scopes: []string{"api"}, Roles: direct("read")},
			kind:  gitprovider.PersonalToken, login: "ada", missing: []string{"role Developer in acme/platform/config"}, never: true},
		{name: "group token", purpose: gitprovider.RuntimeToken, repo: repo,
			token: providertest.Token{Value: "glpat-1", Login: "group_12_bot_4ffca233d8298ea1", UserID: 9, Scopes: []string{"api"}, Roles: map[string]string{"acme": "admin"}, ExpiresAt: year},
			kind:  gitprovider.GroupToken, login: "group_12_bot_4ffca233d8298ea1", expires: "2027-11-15"},
		{name: "project token", purpose: gitprovider.RuntimeToken, repo: repo,
			token: providertest.Token{Value: "glpat-1", Login: "project_34_bot", UserID: 9, Scopes: []string{"api"}, Roles: direct("admin"), ExpiresAt: year},
			kind:  gitprovider.ProjectToken, login: "project_34_bot", doubt: "its own project only"},
		{name: "OAuth token", purpose: gitprovider.UserToken,
			token: providertest.Token{Value: "5f1c", Login: "ada", UserID: 8, Scopes: []string{"api"}, OAuth: true},
			kind:  gitprovider.OAuthToken, login: "ada", expires: "2026-11-15"},
		{name: "token of a server with another prefix", purpose: gitprovider.UserToken,
			token: providertest.Token{Value: "acme-1", Login: "ada", UserID: 8, Scopes: []string{"api"}, ExpiresAt: year},
			kind:  gitprovider.PersonalToken, login: "ada", expires: "2027-11-15"},
	})
}

// R8, R16, R17: Bitbucket Cloud's API tokens, app passwords and access tokens, with
// the scope named as that sort of token names it.
func TestCheckBitbucket(t *testing.T) {
	full := admin(gitprovider.Bitbucket)
	classic := []string{"account", "repository:write", "repository:admin", "team", "webhook"}
	roles := map[string]string{"acme": "admin"}
	runChecks(t, gitprovider.Bitbucket, []checkCase{
		{name: "API token", purpose: gitprovider.RuntimeToken, repo: "/acme/config.git", token: full,
			kind: gitprovider.APIToken, login: "robot", doubt: "when the token expires"},
		{name: "API token without webhooks", purpose: gitprovider.RuntimeToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "ATATT1", Username: "robot@example.com", Login: "robot", Scopes: full.Scopes[:5], Roles: roles},
			kind:  gitprovider.APIToken, login: "robot",
			missing: []string{"read:webhook:bitbucket", "write:webhook:bitbucket", "delete:webhook:bitbucket"}},
		{name: "API token whose write does not imply read", purpose: gitprovider.UserToken,
			token: providertest.Token{Value: "ATATT1", Username: "robot@example.com", Login: "robot", Scopes: []string{"read:user:bitbucket", "write:repository:bitbucket"}, Roles: roles},
			kind:  gitprovider.APIToken, login: "robot", missing: []string{"read:repository:bitbucket"}},
		{name: "API token that may not read its user", purpose: gitprovider.UserToken,
			token: providertest.Token{Value: "ATATT1", Username: "robot@example.com", Login: "robot", Scopes: []string{"read:repository:bitbucket", "write:repository:bitbucket"}, Roles: roles},
			kind:  gitprovider.APIToken, missing: []string{"read:user:bitbucket"}, doubt: "whose token"},
		{name: "app password", purpose: gitprovider.RuntimeToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "ATBB1", Username: "robot", Login: "robot", Scopes: classic, Roles: roles},
			kind:  gitprovider.AppPassword, login: "robot"},
		{name: "app password of a user who is no admin", purpose: gitprovider.RuntimeToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "ATBB1", Username: "robot", Login: "robot", Scopes: classic, Roles: map[string]string{"acme": "write"}},
			kind:  gitprovider.AppPassword, login: "robot", missing: []string{"admin permission on acme/config"}},
		{name: "app password without the admin scope", purpose: gitprovider.RuntimeToken,
			token: providertest.Token{Value: "ATBB1", Username: "robot", Login: "robot", Scopes: []string{"account", "repository:write", "team", "webhook"}, Roles: roles},
			kind:  gitprovider.AppPassword, login: "robot", missing: []string{"repository:admin"}},
		{name: "user's app password", purpose: gitprovider.UserToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "ATBB1", Username: "ada", Login: "ada", Scopes: []string{"account", "repository:write"}, Roles: roles},
			kind:  gitprovider.AppPassword, login: "ada", doubt: "may write to acme/config"},
		{name: "access token of a repository", purpose: gitprovider.RuntimeToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "ATCTT1", Scopes: []string{"repository:write", "repository:admin", "webhook"}, Roles: roles},
			kind:  gitprovider.AccessToken, doubt: "a repository, a project or a workspace"},
		{name: "access token that lacks webhook", purpose: gitprovider.RuntimeToken, repo: "/acme/config.git",
			token: providertest.Token{Value: "ATCTT1", Scopes: []string{"repository:write", "repository:admin"}, Roles: roles},
			kind:  gitprovider.AccessToken, missing: []string{"webhook"}},
	})
}

// R8, R16, R17: Bitbucket Server has no scopes; the permission on the repository or
// the project counts.
func TestCheckBitbucketServer(t *testing.T) {
	token := func(role string) providertest.Token {
		return providertest.Token{Value: "BBDC-1", Login: "robot", Roles: map[string]string{"ACME": role}}
	}
	const kind, repo = gitprovider.AccessToken, "/scm/acme/config.git"
	runChecks(t, gitprovider.BitbucketServer, []checkCase{
		{name: "admin", purpose: gitprovider.RuntimeToken, repo: repo, token: token("admin"), kind: kind, login: "robot", doubt: "when the token expires"},
		{name: "writer as the runtime", purpose: gitprovider.RuntimeToken, repo: repo, token: token("write"), kind: kind, login: "robot", missing: []string{"REPO_ADMIN on ACME/config"}},
		{name: "writer as a user", purpose: gitprovider.UserToken, repo: repo, token: token("write"), kind: kind, login: "robot"},
		{name: "admin whose token is limited", purpose: gitprovider.RuntimeToken, repo: repo, kind: kind, login: "robot", missing: []string{"REPO_ADMIN on ACME/config"},
			token: providertest.Token{Value: "BBDC-1", Login: "robot", Roles: map[string]string{"ACME": "admin"}, Limit: "write"}},
		{name: "reader as a user", purpose: gitprovider.UserToken, repo: repo, token: token("read"), kind: kind, login: "robot", missing: []string{"REPO_WRITE on ACME/config"}},
		{name: "new repository of a project's admin", purpose: gitprovider.RuntimeToken, repo: "/scm/acme/new.git", token: token("admin"), kind: kind, login: "robot", doubt: "it does not exist"},
		{name: "new repository of a writer", purpose: gitprovider.RuntimeToken, repo: "/scm/acme/new.git", token: token("write"), kind: kind, login: "robot", missing: []string{"PROJECT_ADMIN on ACME"}},
		{name: "no repository", purpose: gitprovider.RuntimeToken, token: token("admin"), kind: kind, login: "robot", doubt: "none was given"},
		{name: "the web page's address", purpose: gitprovider.RuntimeToken, repo: "/projects/ACME/repos/config/browse", token: token("admin"), kind: kind, login: "robot"},
	})
}

// R114: expired and revoked tokens are distinguished from insufficient ones.
func TestTokenStates(t *testing.T) {
	for _, kind := range gitprovider.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			token := admin(kind)
			server := start(t, kind, token)
			p := provider(t, server, kind, token, "")
			report, err := p.Check(t.Context(), gitprovider.RuntimeToken)
			if state := gitprovider.StateOf(report, err, noon()); state != gitprovider.StateOK {
				t.Errorf("a good token is %s: %v", state, err)
			}
			token.Revoked = true
			server.SetToken(token)
			report, err = p.Check(t.Context(), gitprovider.RuntimeToken)
			if state := gitprovider.StateOf(report, err, noon()); state != gitprovider.StateRevoked {
				t.Errorf("a revoked token is %s: %v", state, err)
			}
			if found := failure(t, err); found.Kind != gitprovider.Denied || strings.Contains(err.Error(), token.Value) {
				t.Errorf("the error is %s: %v", found.Kind, err)
			}
			token.Revoked, token.Expired = false, true
			server.SetToken(token)
			report, err = p.Check(t.Context(), gitprovider.RuntimeToken)
			want := gitprovider.StateRevoked // providers that answer both alike
			if kind == gitprovider.GitLab {
				want = gitprovider.StateExpired
			}
			if state := gitprovider.StateOf(report, err, noon()); state != want {
				t.Errorf("an expired token is %s, want %s: %v", state, want, err)
			}
		})
	}
}

// R114: a record marked as revoked counts, although the request succeeded; and a
// token that is revoked between two requests is not a missing right.
func TestRevokedMeanwhile(t *testing.T) {
	token := admin(gitprovider.GitLab)
	server := start(t, gitprovider.GitLab, token)
	for _, record := range []string{`{"scopes":["api"],"revoked":true}`, `{"scopes":["api"],"revoked":false,"active":false}`} {
		server.Respond(providertest.Canned{Status: 200, Body: record})
		report, err := provider(t, server, gitprovider.GitLab, token, "").Check(t.Context(), gitprovider.RuntimeToken)
		if state := gitprovider.StateOf(report, err, noon()); state != gitprovider.StateRevoked {
			t.Errorf("%s is %s: %v", record, state, err)
		}
	}
	classic := admin(gitprovider.GitHub)
	hub := start(t, gitprovider.GitHub, classic)
	hub.Respond(
		providertest.Canned{Status: 200, Header: map[string]string{"X-OAuth-Scopes": "repo, admin:repo_hook"}, Body: `{"login":"robot"}`},
		providertest.Canned{Status: 401, Body: `{"message":"Bad credentials"}`},
	)
	report, err := provider(t, hub, gitprovider.GitHub, classic, hub.URL+"/acme/config.git").Check(t.Context(), gitprovider.RuntimeToken)
	if state := gitprovider.StateOf(report, err, noon()); state != gitprovider.StateRevoked {
		t.Errorf("the state is %s: %v", state, err)
	}
}

// R114: the days that a token has left.
func TestDaysLeft(t *testing.T) {
	for _, test := range []struct {
		left  time.Duration
		days  int
		words string
	}{
		{time.Hour, 0, "expires today"}, {24 * time.Hour, 1, "expires in 1 day"}, {30*24*time.Hour + time.Minute, 30, "expires in 30 days"},
		{-time.Minute, -1, "expired at"}, {-25 * time.Hour, -2, "expired at"},
	} {
		report := gitprovider.TokenReport{ExpiresAt: noon().Add(test.left)}
		if days, known := report.DaysLeft(noon()); days != test.days || !known {
			t.Errorf("%s: %d days, %v", test.left, days, known)
		}
		if got := report.Expiry(noon()); !strings.HasPrefix(got, test.words) {
			t.Errorf("%s: %q", test.left, got)
		}
	}
	if state := gitprovider.StateOf(gitprovider.TokenReport{ExpiresAt: noon()}, nil, noon()); state != gitprovider.StateExpired {
		t.Errorf("a token at its end is %s", state)
	}
	if got := (gitprovider.TokenReport{}).Expiry(noon()); got != "expiry not known" {
		t.Errorf("no expiry: %q", got)
	}
}
