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

// gitHubTokenKind evaluates the documented token prefixes; older classic
// tokens are 40 hexadecimal digits.
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

// Check returns owner and permissions of the token. Classic and OAuth tokens
// report their scopes; others are checked on the repository.
func (g *gitHub) Check(ctx context.Context, purpose Purpose) (TokenReport, error) {
	report := g.newReport(gitHubTokenKind(g.token.Reveal()))
	got, err := g.identify(ctx, &report)
	if err != nil {
		return TokenReport{}, err
	}
	g.expiry(&report, got.header)
	// The header exists only for tokens with scopes, so it identifies unknown
	// prefixes.
	scopes, hasScopes := scopesOf(got.header)
	if hasScopes && report.Kind == UnknownToken {
		report.Kind = ClassicToken
	}
	if report.Kind == ClassicToken || report.Kind == OAuthToken {
		report.Scopes = scopes
		g.checkScopes(&report, purpose)
	}
	return report, g.checkRepository(ctx, &report, purpose)
}

// identify returns the login. An installation token has no user; listing its
// repositories shows that it is valid.
func (g *gitHub) identify(ctx context.Context, report *TokenReport) (apiResponse, error) {
	if report.Kind == InstallationToken {
		report.addUnverified("the permissions of the GitHub App as a whole: they are checked on the repository")
		return g.do(ctx, call{method: http.MethodGet, path: "/installation/repositories", query: url.Values{"per_page": {"1"}}, into: &struct{}{}})
	}
	login, got, err := g.user(ctx)
	report.Login = login
	return got, err
}

// expiry reads the documented expiry header; a personal token without it does
// not expire.
func (g *gitHub) expiry(report *TokenReport, header http.Header) {
	value := header.Get("GitHub-Authentication-Token-Expiration")
	// GitHub documents two formats.
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
		report.addUnverified("when the token expires: GitHub makes installation tokens for one hour")
	default:
		report.addUnverified("when the token expires")
	}
}

// scopesOf reads X-OAuth-Scopes; false if the header is absent, as for
// fine-grained tokens.
func scopesOf(header http.Header) ([]string, bool) {
	if len(header.Values("X-OAuth-Scopes")) == 0 {
		return nil, false
	}
	var scopes []string
	for scope := range strings.SplitSeq(strings.Join(header.Values("X-OAuth-Scopes"), ","), ",") {
		if scope = sanitize(scope); scope != "" {
			scopes = append(scopes, scope)
		}
	}
	slices.Sort(scopes)
	return slices.Compact(scopes), true
}

// checkScopes requires repo, and admin:repo_hook for the runtime (R16, R17).
func (g *gitHub) checkScopes(report *TokenReport, purpose Purpose) {
	// The page of the server that the token belongs to.
	where := webServer(GitHub, g.api) + "/settings/tokens"
	if !slices.Contains(report.Scopes, "repo") {
		report.addMissing("repo", "to read and push repositories", where)
	}
	if purpose == RuntimeToken && !slices.Contains(report.Scopes, "admin:repo_hook") {
		report.addMissing("admin:repo_hook", "to register webhooks", where)
	}
}

// gitHubNeed is a permission of fine-grained tokens and GitHub Apps, with a
// read request that fails without it.
type gitHubNeed struct {
	name  string
	why   string
	path  string
	query url.Values
	// private is set if the read succeeds for everyone on a public
	// repository.
	private bool
	// runtime is set if only the runtime's token needs it.
	runtime bool
}

// gitHubNeeds returns the required permissions. A commit status can only be
// read if there is a branch.
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

// checkRepository checks the user's role on the repository and, for tokens
// without scopes, which reads fail.
func (g *gitHub) checkRepository(ctx context.Context, report *TokenReport, purpose Purpose) error {
	// Fine-grained tokens and Apps have permissions instead of scopes.
	fine := report.Kind != ClassicToken && report.Kind != OAuthToken
	if g.repo == nil {
		if fine {
			report.addUnverified("the permissions of the token: GitHub reveals them only by access to a repository, and none was given")
		}
		return nil
	}
	owner, name, err := g.repo.ownerAndName(GitHub)
	if err != nil {
		return err
	}
	found, err := g.repository(ctx, owner, name)
	// A missing repository is normal before the first runtime creates it.
	if failure, ok := errors.AsType[*Error](err); ok && notVisible(failure) {
		report.addUnverified("the rights on %s/%s: it does not exist, or the token may not see it (%s)", owner, name, failure.Message)
		return nil
	}
	if err != nil {
		return err
	}
	if report.Kind != InstallationToken {
		checkRole(report, found, purpose)
	}
	if !fine {
		return nil
	}
	return g.checkPermissions(ctx, report, found, purpose)
}

// checkRole requires push, and admin for the runtime, which registers
// webhooks.
func checkRole(report *TokenReport, found Repository, purpose Purpose) {
	switch {
	case found.Access == AccessUnknown:
		report.addUnverified("the role of %s on %s", report.Login, found.Path)
	case found.Access == AccessRead:
		report.addMissing("write access to "+found.Path, "to push", found.WebURL+"/settings/access")
	case found.Access == AccessWrite && purpose == RuntimeToken:
		report.addMissing("admin access to "+found.Path, "to register webhooks", found.WebURL+"/settings/access")
	}
}

// checkPermissions sends a read request for each permission. Only a missing
// permission is proven: that a token may write cannot be tested without
// writing.
func (g *gitHub) checkPermissions(ctx context.Context, report *TokenReport, found Repository, purpose Purpose) error {
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
			unproven = append(unproven, need.name) // there is no commit
			continue
		}
		// Public repositories are readable by everyone, which proves nothing.
		if need.private && !found.Private {
			unproven = append(unproven, need.name)
			continue
		}
		// Reads have no side effects, unlike the writes that the permission
		// is for.
		got, err := g.do(ctx, call{method: http.MethodGet, path: path("repos", owner, name) + need.path, query: need.query})
		failure, failed := errors.AsType[*Error](err)
		switch {
		case err == nil, failed && failure.Status == http.StatusConflict:
			empty = empty || err != nil // 409: the repository has no commit
			unproven = append(unproven, need.name)
		case failed && notVisible(failure):
			why := need.why
			if accepted := sanitize(got.header.Get("X-Accepted-GitHub-Permissions")); accepted != "" {
				why += "; GitHub requires " + accepted
			}
			report.addMissing(need.name, why, where)
		default:
			return err
		}
	}
	if len(unproven) > 0 {
		report.addUnverified("whether the token may write: %s (only a write would show it)", strings.Join(unproven, ", "))
	}
	return nil
}
