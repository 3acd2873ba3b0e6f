package gitprovider_test

import (
	"slices"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/gitprovider"
)

// documentedScopes are those of docs/git-providers.md.
var documentedScopes = map[gitprovider.Kind]map[gitprovider.Purpose][]string{
	gitprovider.GitHub: {gitprovider.RuntimeToken: {"repo", "admin:repo_hook"}, gitprovider.UserToken: {"repo"}},
	gitprovider.GitLab: {gitprovider.RuntimeToken: {"api"}, gitprovider.UserToken: {"read_api", "write_repository"}},
	gitprovider.Bitbucket: {
		gitprovider.RuntimeToken: {
			"read:user:bitbucket", "read:workspace:bitbucket", "read:repository:bitbucket", "write:repository:bitbucket", "admin:repository:bitbucket",
			"read:webhook:bitbucket", "write:webhook:bitbucket", "delete:webhook:bitbucket",
		},
		gitprovider.UserToken: {"read:user:bitbucket", "read:repository:bitbucket", "write:repository:bitbucket"},
	},
}

// R69, R70: a token that follows the documentation passes the check, and the help
// is what the documentation has.
func TestHelpIsWhatTheCheckWants(t *testing.T) {
	for kind, scopes := range documentedScopes {
		for purpose, needs := range scopes {
			if help := gitprovider.HelpFor(kind, "", purpose).Needs; !slices.Equal(slices.Sorted(slices.Values(help)), slices.Sorted(slices.Values(needs))) {
				t.Errorf("%s %s: the help has %q, and the documentation %q", kind, purpose, help, needs)
			}
			token := admin(kind)
			token.Scopes = needs
			server := start(t, kind, token)
			address, _ := repositoryAt(server, kind)
			report, err := provider(t, server, kind, token, address).Check(t.Context(), purpose)
			if err != nil || !report.OK() {
				t.Errorf("%s %s with %q: %v, %v", kind, purpose, token.Scopes, report.Missing, err)
			}
			// One scope less is one that is missing, and is named.
			for i, scope := range token.Scopes {
				less := token
				less.Scopes = append(slices.Clone(token.Scopes[:i]), token.Scopes[i+1:]...)
				if len(less.Scopes) == 0 {
					less.Scopes = []string{"read_user"}
				}
				server.SetToken(less)
				report, err := provider(t, server, kind, less, "").Check(t.Context(), purpose)
				if err != nil || !slices.Contains(report.MissingNames(), scope) {
					t.Errorf("%s %s without %s: %q, %v", kind, purpose, scope, report.MissingNames(), err)
				}
			}
		}
	}
}

// The pages are those of the user's own server.
func TestHelpPages(t *testing.T) {
	for kind, host := range map[gitprovider.Kind]string{
		gitprovider.GitHub: "https://github.example.com/", gitprovider.GitLab: "https://gitlab.example.com/", gitprovider.BitbucketServer: "https://bitbucket.example.com/",
	} {
		help := gitprovider.HelpFor(kind, host, gitprovider.RuntimeToken)
		if !strings.HasPrefix(help.Page, host) || !strings.HasPrefix(help.SSHKeys, host) || len(help.Needs) == 0 {
			t.Errorf("%s: %+v", kind, help)
		}
	}
	if help := gitprovider.HelpFor(gitprovider.GitHub, "", gitprovider.UserToken); !slices.Contains(help.FineGrained, "Contents: Read and write") || slices.Contains(help.FineGrained, "Webhooks: Read and write") {
		t.Errorf("a user's fine-grained token: %q", help.FineGrained)
	}
}
