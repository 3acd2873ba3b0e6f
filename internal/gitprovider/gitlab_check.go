package gitprovider

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Check returns owner and permissions of the token.
func (g *gitLab) Check(ctx context.Context, purpose Purpose) (TokenReport, error) {
	report := g.newReport(PersonalToken)
	if err := g.introspect(ctx, &report); err != nil {
		return TokenReport{}, err
	}
	// The user is needed for inherited roles.
	user, err := g.identify(ctx, &report)
	if err != nil {
		return TokenReport{}, err
	}
	g.checkScopes(&report, purpose)
	return report, g.checkRole(ctx, &report, user, purpose)
}

// introspect reads the token's own record: GET /personal_access_tokens/self.
// Group and project tokens have one too, because they belong to bot users.
// OAuth tokens have another endpoint.
func (g *gitLab) introspect(ctx context.Context, report *TokenReport) error {
	if isPersonal := strings.HasPrefix(g.token.Reveal(), "glpat-"); !isPersonal {
		// Self-managed servers may use another prefix or none, so both
		// endpoints are tried.
		err := g.introspectOAuth(ctx, report)
		if failure, failed := errors.AsType[*Error](err); !failed || failure.Retryable() {
			return err
		}
	}
	var self struct {
		Scopes    []string `json:"scopes"`
		ExpiresAt string   `json:"expires_at"`
		Revoked   bool     `json:"revoked"`
		Active    *bool    `json:"active"`
	}
	_, err := g.do(ctx, call{method: http.MethodGet, path: "/personal_access_tokens/self", into: &self})
	failure, failed := errors.AsType[*Error](err)
	// The token is valid, but lacks the scope to read its own record.
	if failed && failure.Kind == Denied && failure.Token == "" {
		report.addUnverified("scopes and expiry of the token: it may not read its own record")
		return nil
	}
	if err != nil {
		return err
	}
	// Revoked tokens are normally rejected; some versions return the record.
	if self.Revoked || (self.Active != nil && !*self.Active) {
		return &Error{Kind: Denied, Provider: GitLab, Token: StateRevoked, Message: "the token is revoked or no longer active at GitLab: create a new one"}
	}
	report.Scopes = slices.Sorted(slices.Values(self.Scopes))
	// Self-managed servers may allow tokens without expiry.
	if self.ExpiresAt == "" {
		report.NeverExpires = true
	} else if at, err := time.Parse(time.DateOnly, self.ExpiresAt); err == nil {
		report.ExpiresAt = at // tokens expire at midnight UTC
	} else {
		report.addUnverified("when the token expires")
	}
	return nil
}

// introspectOAuth reads the record of an OAuth token: GET /oauth/token/info.
func (g *gitLab) introspectOAuth(ctx context.Context, report *TokenReport) error {
	var info struct {
		Scopes       []string `json:"scope"`
		ExpiresIn    *int64   `json:"expires_in"`
		ExpiresInToo *int64   `json:"expires_in_seconds"` // older servers
	}
	_, err := g.do(ctx, call{method: http.MethodGet, base: webServer(GitLab, g.api), path: "/oauth/token/info", into: &info})
	if err != nil {
		return err
	}
	report.Kind = OAuthToken
	report.Scopes = slices.Sorted(slices.Values(info.Scopes))
	// Older servers use another field name.
	if info.ExpiresIn == nil {
		info.ExpiresIn = info.ExpiresInToo
	}
	if info.ExpiresIn == nil {
		report.NeverExpires = true
	} else {
		report.ExpiresAt = g.now().Add(time.Duration(*info.ExpiresIn) * time.Second).UTC()
	}
	return nil
}

// identify returns the user ID and sets the login. The documented names of
// bot users identify group and project tokens.
func (g *gitLab) identify(ctx context.Context, report *TokenReport) (id int64, err error) {
	var user struct {
		ID       int64  `json:"id"`
		Username string `json:"username"`
	}
	_, err = g.do(ctx, call{method: http.MethodGet, path: "/user", into: &user})
	if failure, ok := errors.AsType[*Error](err); ok && failure.Kind == Denied && failure.Token == "" {
		report.addUnverified("whose token it is: that needs read_user, read_api or api")
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	report.Login = user.Username
	switch bot := regexp.MustCompile(`^(project|group)_\d+_bot`).FindStringSubmatch(user.Username); {
	case bot != nil && bot[1] == "group":
		report.Kind = GroupToken
	case bot != nil:
		report.Kind = ProjectToken
	case strings.HasPrefix(user.Username, "service_account_"):
		report.Kind = ServiceToken
	}
	return user.ID, nil
}

// checkScopes requires api for the runtime, and write_repository and read_api
// for a user; api includes both.
func (g *gitLab) checkScopes(report *TokenReport, purpose Purpose) {
	// Group and project tokens are managed in their settings, not in those of
	// a user.
	where := webServer(GitLab, g.api) + "/-/user_settings/personal_access_tokens"
	if report.Kind == GroupToken || report.Kind == ProjectToken {
		where = "Settings > Access tokens of the " + string(report.Kind)
	}
	// Unknown scopes are already reported as unverified.
	if len(report.Scopes) == 0 || slices.Contains(report.Scopes, "api") {
		return
	}
	if purpose == RuntimeToken {
		report.addMissing("api", "to create repositories and webhooks, and to push", where)
		return
	}
	if !slices.Contains(report.Scopes, "write_repository") {
		report.addMissing("write_repository", "to push", where)
	}
	if !slices.Contains(report.Scopes, "read_api") {
		report.addMissing("read_api", "to look repositories up", where)
	}
}

// checkRole requires Developer, and Maintainer for the runtime: it pushes to
// the default branch, which GitLab protects, and registers webhooks.
func (g *gitLab) checkRole(ctx context.Context, report *TokenReport, user int64, purpose Purpose) error {
	// Such a token can be sufficient if the repository exists already.
	if report.Kind == ProjectToken && purpose == RuntimeToken {
		report.addUnverified("creating the Shared Configuration Repository: a project's token works in its own project only")
	}
	if g.repo == nil {
		return nil
	}
	group, name, err := g.split(*g.repo)
	if err != nil {
		return err
	}
	found, err := g.project(ctx, group, name)
	failure, failed := errors.AsType[*Error](err)
	switch {
	case failed && notVisible(failure):
		report.addUnverified("the role in %s/%s: it does not exist, or the token may not see it (%s)", group, name, failure.Message)
		return nil
	case err != nil:
		return err
	}
	level := found.level()
	// Roles of parent groups are not part of the project.
	if level == 0 && user != 0 {
		if level, err = g.inherited(ctx, found.ID, user); err != nil {
			return err
		}
	}
	where := found.WebURL + "/-/project_members"
	switch {
	case level == 0:
		report.addUnverified("the role in %s", found.FullPath)
	case level < gitLabDeveloper:
		report.addMissing("role Developer in "+found.FullPath, "to push", where)
	case level < gitLabMaintainer && purpose == RuntimeToken:
		report.addMissing("role Maintainer in "+found.FullPath, "to push to the protected default branch and register webhooks", where)
	}
	return nil
}

// inherited returns the role inherited from parent groups; 0 if GitLab does
// not report it.
func (g *gitLab) inherited(ctx context.Context, project, user int64) (int, error) {
	var member gitLabAccess
	_, err := g.do(ctx, call{
		method: http.MethodGet, into: &member,
		path: path("projects", strconv.FormatInt(project, 10), "members", "all", strconv.FormatInt(user, 10)),
	})
	if failure, ok := errors.AsType[*Error](err); ok && notVisible(failure) {
		return 0, nil
	}
	return member.Level, err
}
