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

// Check asks who the token is and what it may do.
func (g *gitLab) Check(ctx context.Context, purpose Purpose) (TokenReport, error) {
	report := g.newReport(PersonalToken)
	if err := g.introspect(ctx, &report); err != nil {
		return TokenReport{}, err
	}
	user, err := g.identify(ctx, &report)
	if err != nil {
		return TokenReport{}, err
	}
	g.judgeScopes(&report, purpose)
	return report, g.judgeRole(ctx, &report, user, purpose)
}

// introspect reads the token's own record. Group and project tokens have one
// too, for they are tokens of bot users. OAuth tokens have another.
func (g *gitLab) introspect(ctx context.Context, report *TokenReport) error {
	if isPersonal := strings.HasPrefix(g.token.Reveal(), "glpat-"); !isPersonal {
		// Servers may have another prefix or none, so this is tried and not known.
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
	if failed && failure.Kind == Denied && failure.Token == "" {
		report.unsure("scopes and expiry of the token: it may not read its own record")
		return nil
	}
	if err != nil {
		return err
	}
	if self.Revoked || (self.Active != nil && !*self.Active) {
		return &Error{Kind: Denied, Provider: GitLab, Token: StateRevoked, Message: "GitLab says that the token is revoked or no longer active: make a new one"}
	}
	report.Scopes = slices.Sorted(slices.Values(self.Scopes))
	if self.ExpiresAt == "" {
		report.NeverExpires = true
	} else if at, err := time.Parse(time.DateOnly, self.ExpiresAt); err == nil {
		report.ExpiresAt = at // tokens end at midnight UTC of that date
	} else {
		report.unsure("when the token expires")
	}
	return nil
}

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

// identify finds the login. The names of bot users are documented, and tell
// tokens of groups and projects.
func (g *gitLab) identify(ctx context.Context, report *TokenReport) (id int64, err error) {
	var user struct {
		ID       int64  `json:"id"`
		Username string `json:"username"`
	}
	_, err = g.do(ctx, call{method: http.MethodGet, path: "/user", into: &user})
	if failure, ok := errors.AsType[*Error](err); ok && failure.Kind == Denied && failure.Token == "" {
		report.unsure("whose token it is: that needs read_user, read_api or api")
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

// judgeScopes needs api for the runtime, and write_repository and read_api for
// a user; api includes both.
func (g *gitLab) judgeScopes(report *TokenReport, purpose Purpose) {
	where := webServer(GitLab, g.api) + "/-/user_settings/personal_access_tokens"
	if report.Kind == GroupToken || report.Kind == ProjectToken {
		where = "Settings > Access tokens of the " + string(report.Kind)
	}
	if len(report.Scopes) == 0 || slices.Contains(report.Scopes, "api") {
		return
	}
	if purpose == RuntimeToken {
		report.lack("api", "to create repositories and webhooks, and to push", where)
		return
	}
	if !slices.Contains(report.Scopes, "write_repository") {
		report.lack("write_repository", "to push", where)
	}
	if !slices.Contains(report.Scopes, "read_api") {
		report.lack("read_api", "to look repositories up", where)
	}
}

// judgeRole needs Developer, and Maintainer for the runtime: it pushes to the
// default branch, which GitLab protects, and registers webhooks.
func (g *gitLab) judgeRole(ctx context.Context, report *TokenReport, user int64, purpose Purpose) error {
	if report.Kind == ProjectToken && purpose == RuntimeToken {
		report.unsure("creating the Shared Configuration Repository: a project's token works in its own project only")
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
	case failed && hidden(failure):
		report.unsure("the role in %s/%s: it does not exist, or the token may not see it (%s)", group, name, failure.Message)
		return nil
	case err != nil:
		return err
	}
	level := found.level()
	if level == 0 && user != 0 {
		if level, err = g.inherited(ctx, found.ID, user); err != nil {
			return err
		}
	}
	where := found.WebURL + "/-/project_members"
	switch {
	case level == 0:
		report.unsure("the role in %s", found.FullPath)
	case level < gitLabDeveloper:
		report.lack("role Developer in "+found.FullPath, "to push", where)
	case level < gitLabMaintainer && purpose == RuntimeToken:
		report.lack("role Maintainer in "+found.FullPath, "to push to the protected default branch and register webhooks", where)
	}
	return nil
}

// inherited is the role that comes from groups above; 0 when GitLab does not say.
func (g *gitLab) inherited(ctx context.Context, project, user int64) (int, error) {
	var member gitLabAccess
	_, err := g.do(ctx, call{
		method: http.MethodGet, into: &member,
		path: path("projects", strconv.FormatInt(project, 10), "members", "all", strconv.FormatInt(user, 10)),
	})
	if failure, ok := errors.AsType[*Error](err); ok && hidden(failure) {
		return 0, nil
	}
	return member.Level, err
}
