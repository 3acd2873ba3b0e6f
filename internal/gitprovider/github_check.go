package gitprovider

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// gitHubTokenKind goes by the documented prefixes; older classic tokens are 40
// hexadecimal digits.
func gitHubTokenKind(token string) TokenKind {
	switch {
	case strings.HasPrefix(token, "github_pat_"):
		return FineGrainedToken
	case strings.HasPrefix(token, "ghp_"), regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(token):
		return ClassicToken
	case strings.HasPrefix(token, "gho_"):
		return OAuthToken
	case strings.HasPrefix(token, "ghu_"):
		return AppUserToken
	case strings.HasPrefix(token, "ghs_"):
		return InstallationToken
	}
	return UnknownToken
}

// Check asks who the token is and what it may do.
func (g *gitHub) Check(ctx context.Context, purpose Purpose) (TokenReport, error) {
	report := g.newReport(gitHubTokenKind(g.token.Reveal()))
	got, err := g.identify(ctx, &report)
	if err != nil {
		return TokenReport{}, err
	}
	g.expiry(&report, got.header)
	scopes, scoped := scopesOf(got.header)
	if scoped && report.Kind == UnknownToken {
		report.Kind = ClassicToken
	}
	if report.Kind == ClassicToken || report.Kind == OAuthToken {
		report.Scopes = scopes
		g.judgeScopes(&report, purpose)
	}
	return report, g.judgeRepository(ctx, &report, purpose)
}

// identify finds the login. A token of an installation is nobody's, and the
// list of its repositories shows that it works.
func (g *gitHub) identify(ctx context.Context, report *TokenReport) (answer, error) {
	if report.Kind == InstallationToken {
		report.unsure("the permissions of the GitHub App as a whole: they are checked on the repository")
		return g.do(ctx, call{method: http.MethodGet, path: "/installation/repositories", query: url.Values{"per_page": {"1"}}, into: &struct{}{}})
	}
	login, got, err := g.user(ctx)
	report.Login = login
	return got, err
}

// expiry reads the documented header; a personal token without it has no end.
func (g *gitHub) expiry(report *TokenReport, header http.Header) {
	value := header.Get("GitHub-Authentication-Token-Expiration")
	for _, layout := range []string{"2006-01-02 15:04:05 MST", "2006-01-02 15:04:05 -0700"} {
		if at, err := time.Parse(layout, value); err == nil {
			report.ExpiresAt = at.UTC()
			return
		}
	}
	switch {
	case value == "" && (report.Kind == ClassicToken || report.Kind == FineGrainedToken || report.Kind == OAuthToken):
		report.NeverExpires = true
	case report.Kind == InstallationToken:
		report.unsure("when the token expires: GitHub makes installation tokens for one hour")
	default:
		report.unsure("when the token expires")
	}
}

// scopesOf reads X-OAuth-Scopes; false when the header is not there, as for
// fine-grained tokens.
func scopesOf(header http.Header) ([]string, bool) {
	if len(header.Values("X-OAuth-Scopes")) == 0 {
		return nil, false
	}
	var scopes []string
	for scope := range strings.SplitSeq(strings.Join(header.Values("X-OAuth-Scopes"), ","), ",") {
		if scope = readable(scope); scope != "" {
			scopes = append(scopes, scope)
		}
	}
	slices.Sort(scopes)
	return slices.Compact(scopes), true
}

// judgeScopes needs repo, and admin:repo_hook for the runtime (R16, R17).
func (g *gitHub) judgeScopes(report *TokenReport, purpose Purpose) {
	where := webServer(GitHub, g.api) + "/settings/tokens"
	if !slices.Contains(report.Scopes, "repo") {
		report.lack("repo", "to read and push repositories", where)
	}
	if purpose == RuntimeToken && !slices.Contains(report.Scopes, "admin:repo_hook") {
		report.lack("admin:repo_hook", "to register webhooks", where)
	}
}

// gitHubNeed is a permission of fine-grained tokens and GitHub Apps, and a read
// that is refused without it.
type gitHubNeed struct {
	name  string
	why   string
	path  string
	query url.Values
	// private: public repositories answer everybody.
	private bool
	// runtime: a user's token does not need it.
	runtime bool
}

func gitHubNeeds(branch string) []gitHubNeed {
	one := url.Values{"per_page": {"1"}}
	needs := []gitHubNeed{
		{name: "Contents: Read and write", why: "to clone and push", path: "/commits", query: one, private: true},
		{name: "Administration: Read and write", why: "to create the Shared Configuration Repository", path: "/keys", query: one, runtime: true},
		{name: "Webhooks: Read and write", why: "to register webhooks", path: "/hooks", query: one, runtime: true},
		{name: "Pull requests: Read and write", why: "to open pull requests of promotions", path: "/pulls", query: one, private: true, runtime: true},
	}
	if branch != "" {
		needs = append(needs, gitHubNeed{name: "Commit statuses: Read and write", why: "to report deployments", path: "/commits" + path(append([]string{"heads"}, strings.Split(branch, "/")...)...) + "/status", private: true, runtime: true})
	}
	return needs
}

// judgeRepository checks the user's role on the repository and, for tokens
// without scopes, which reads of it are refused.
func (g *gitHub) judgeRepository(ctx context.Context, report *TokenReport, purpose Purpose) error {
	fine := report.Kind != ClassicToken && report.Kind != OAuthToken
	if g.repo == nil {
		if fine {
			report.unsure("the permissions of the token: GitHub tells them only by what it answers about a repository, and none was given")
		}
		return nil
	}
	owner, name, err := g.repo.ownerAndName(GitHub)
	if err != nil {
		return err
	}
	found, err := g.repository(ctx, owner, name)
	if failure, ok := errors.AsType[*Error](err); ok && hidden(failure) {
		report.unsure("the rights on %s/%s: it does not exist, or the token may not see it (%s)", owner, name, failure.Message)
		return nil
	}
	if err != nil {
		return err
	}
	if report.Kind != InstallationToken {
		judgeRole(report, found, purpose)
	}
	if !fine {
		return nil
	}
	return g.judgeNeeds(ctx, report, found, purpose)
}

// judgeRole needs push, and admin for the runtime, which registers webhooks.
func judgeRole(report *TokenReport, found Repository, purpose Purpose) {
	switch {
	case found.Access == AccessUnknown:
		report.unsure("the role of %s on %s", report.Login, found.Path)
	case found.Access == AccessRead:
		report.lack("write access to "+found.Path, "to push", found.WebURL+"/settings/access")
	case found.Access == AccessWrite && purpose == RuntimeToken:
		report.lack("admin access to "+found.Path, "to register webhooks", found.WebURL+"/settings/access")
	}
}

func (g *gitHub) judgeNeeds(ctx context.Context, report *TokenReport, found Repository, purpose Purpose) error {
	where := webServer(GitHub, g.api) + "/settings/personal-access-tokens"
	if report.Kind == AppUserToken || report.Kind == InstallationToken {
		where = "the permissions of the GitHub App"
	}
	owner, name, _ := strings.Cut(found.Path, "/")
	var unproven []string
	empty := false
	for _, need := range gitHubNeeds(found.DefaultBranch) {
		if need.runtime && purpose != RuntimeToken {
			continue
		}
		if empty && strings.HasSuffix(need.path, "/status") {
			unproven = append(unproven, need.name) // there is no commit to ask for
			continue
		}
		if need.private && !found.Private {
			unproven = append(unproven, need.name)
			continue
		}
		got, err := g.do(ctx, call{method: http.MethodGet, path: path("repos", owner, name) + need.path, query: need.query})
		failure, failed := errors.AsType[*Error](err)
		switch {
		case err == nil, failed && failure.Status == http.StatusConflict:
			empty = empty || err != nil // 409: the repository has no commit
			unproven = append(unproven, need.name)
		case failed && hidden(failure):
			why := need.why
			if accepted := readable(got.header.Get("X-Accepted-GitHub-Permissions")); accepted != "" {
				why += "; GitHub asks for " + accepted
			}
			report.lack(need.name, why, where)
		default:
			return err
		}
	}
	if len(unproven) > 0 {
		report.unsure("whether the token may write: %s (GitHub shows that only by writing)", strings.Join(unproven, ", "))
	}
	return nil
}
