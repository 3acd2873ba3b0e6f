package gitprovider

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// Check returns owner and permissions of the token. Bitbucket Server reports
// no scopes; its lists can be filtered by the permission that the token has
// on repositories and projects.
func (b *bitbucketServer) Check(ctx context.Context, purpose Purpose) (TokenReport, error) {
	report := b.newReport(AccessToken)
	got, err := b.do(ctx, call{method: http.MethodGet, path: bitbucketREST + "/application-properties", into: &struct{}{}})
	if err != nil {
		return TokenReport{}, err
	}
	// This endpoint is public: only the header shows that the token was
	// accepted.
	report.Login = sanitize(got.header.Get("X-AUSERNAME"))
	if unescaped, err := url.PathUnescape(report.Login); err == nil {
		report.Login = unescaped
	}
	if report.Login == "" {
		return TokenReport{}, &Error{Kind: Denied, Provider: BitbucketServer, Status: got.status, Token: StateRevoked,
			Message: "Bitbucket Server does not accept the token: it is wrong, expired or revoked; create a new HTTP access token"}
	}
	report.addUnverified("whether it is a token of a user, a project or a repository")
	report.addUnverified("when the token expires: Bitbucket Server does not report it")
	if b.repo == nil {
		report.addUnverified("the permissions of the token: Bitbucket Server reports them by repository, and none was given")
		return report, nil
	}
	return report, b.checkRepository(ctx, &report, purpose)
}

// checkRepository requires REPO_WRITE, and REPO_ADMIN for the runtime, which
// registers webhooks. A repository that does not exist yet needs
// PROJECT_ADMIN.
func (b *bitbucketServer) checkRepository(ctx context.Context, report *TokenReport, purpose Purpose) error {
	key, slug, err := b.split(*b.repo)
	if err != nil {
		return err
	}
	where := "HTTP access tokens, and Repository settings > Repository permissions of " + key + "/" + slug
	// Permissions include the lower ones, so the highest needed one is
	// checked.
	need, why := "REPO_WRITE", "to push"
	if purpose == RuntimeToken {
		need, why = "REPO_ADMIN", "to register webhooks"
	}
	// The repository may not exist yet, which needs another permission.
	visible, err := b.allowed(ctx, key, slug, "REPO_READ")
	if err != nil {
		return err
	}
	if !visible {
		return b.checkProject(ctx, report, key, slug, purpose)
	}
	granted, err := b.allowed(ctx, key, slug, need)
	switch {
	case err != nil:
		return err
	case !granted:
		report.addMissing(need+" on "+key+"/"+slug, why, where)
		return nil
	case purpose != RuntimeToken:
		report.addUnverified("whether the token itself is limited to reading")
		return nil
	}
	// The search evaluates the user's permissions; this read needs the
	// token's too.
	_, err = b.do(ctx, call{method: http.MethodGet, path: b.repositoryPath(key, slug) + "/webhooks", query: url.Values{"limit": {"1"}}})
	if failure, ok := errors.AsType[*Error](err); ok && notVisible(failure) {
		report.addMissing(need+" on "+key+"/"+slug, "the token itself is limited: "+failure.Message, where)
		return nil
	}
	return err
}

// allowed searches the repositories on which the token has a permission.
func (b *bitbucketServer) allowed(ctx context.Context, key, slug, permission string) (bool, error) {
	query := url.Values{"name": {slug}, "permission": {permission}, "limit": {"100"}}
	found, err := serverPages[bitbucketServerRepository](ctx, b.client, call{method: http.MethodGet, path: bitbucketREST + "/repos", query: query})
	if err != nil {
		return false, err
	}
	// The name filter matches prefixes, so the result is compared exactly.
	for _, one := range found {
		if strings.EqualFold(one.Project.Key, key) && strings.EqualFold(one.Slug, slug) {
			return true, nil
		}
	}
	return false, nil
}

// checkProject checks the project of a repository that does not exist or is
// not visible.
func (b *bitbucketServer) checkProject(ctx context.Context, report *TokenReport, key, slug string, purpose Purpose) error {
	report.addUnverified("the permissions on %s/%s: it does not exist, or the token may not see it", key, slug)
	// Users always administer their personal project.
	if purpose != RuntimeToken || strings.HasPrefix(key, "~") {
		return nil
	}
	type project struct {
		Key string `json:"key"`
	}
	query := url.Values{"permission": {"PROJECT_ADMIN"}, "limit": {"100"}}
	found, err := serverPages[project](ctx, b.client, call{method: http.MethodGet, path: bitbucketREST + "/projects", query: query})
	if err != nil {
		return err
	}
	for _, one := range found {
		if strings.EqualFold(one.Key, key) {
			return nil
		}
	}
	report.addMissing("PROJECT_ADMIN on "+key, "to create the Shared Configuration Repository", "Project settings > Project permissions of "+key)
	return nil
}
