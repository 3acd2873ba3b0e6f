package gitprovider

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// tokenKind evaluates how the token is sent and the prefixes of Atlassian's
// tokens.
func (b *bitbucketCloud) tokenKind() TokenKind {
	token := b.token.Reveal()
	switch {
	case !b.basic() && strings.HasPrefix(token, "ATCTT"):
		return AccessToken
	case !b.basic():
		return OAuthToken
	case strings.HasPrefix(token, "ATATT") || strings.Contains(b.username, "@"):
		return APIToken
	}
	return AppPassword
}

// Check returns owner and permissions of the token.
func (b *bitbucketCloud) Check(ctx context.Context, purpose Purpose) (TokenReport, error) {
	report := b.newReport(b.tokenKind())
	report.addUnverified("when the token expires: Bitbucket Cloud does not report it")
	// API tokens sent as bearer tokens fail with an unhelpful error, so they
	// are detected here.
	if strings.HasPrefix(b.token.Reveal(), "ATATT") && !b.basic() {
		return TokenReport{}, invalid(Bitbucket, "this is an API token: set the user name to the email of its Atlassian account")
	}
	// The scopes are a header of every response, also of a rejected one.
	header, err := b.identify(ctx, &report)
	if err != nil {
		return TokenReport{}, err
	}
	scopes, hasScopes := scopesOf(header)
	report.Scopes = scopes
	if hasScopes {
		b.checkScopes(&report, purpose)
	} else {
		report.addUnverified("the scopes of the token: Bitbucket Cloud did not report them")
	}
	return report, b.checkRepository(ctx, &report, purpose)
}

// identify returns the response headers, which have the scopes, and sets the
// login. An access token has no user; reading its repository shows that it is
// valid.
func (b *bitbucketCloud) identify(ctx context.Context, report *TokenReport) (http.Header, error) {
	if report.Kind == AccessToken {
		report.addUnverified("whether it is a token of a repository, a project or a workspace")
		if b.repo == nil {
			return nil, invalid(Bitbucket, "a Bitbucket access token can be checked only with the address of a repository that it is for")
		}
		resource, err := b.resource(*b.repo)
		if err != nil {
			return nil, err
		}
		got, err := b.do(ctx, call{method: http.MethodGet, path: resource})
		if failure, ok := errors.AsType[*Error](err); ok && notVisible(failure) {
			err = nil
		}
		return got.header, err
	}
	var user struct {
		Username string `json:"username"`
		Nickname string `json:"nickname"`
	}
	got, err := b.do(ctx, call{method: http.MethodGet, path: "/user", into: &user})
	if failure, ok := errors.AsType[*Error](err); ok && failure.Kind == Denied && failure.Token == "" {
		report.addUnverified("whose token it is")
		return got.header, nil // the scopes show which one is missing
	}
	if report.Login = user.Username; report.Login == "" {
		report.Login = user.Nickname
	}
	return got.header, err
}

// bitbucketNeed is a required scope in Bitbucket's two spellings: that of
// OAuth, app passwords and access tokens, and that of API tokens. Any name of
// either list satisfies it.
type bitbucketNeed struct {
	classic []string
	token   []string
	why     string
	runtime bool
	account bool // not available to tokens without a user
}

// bitbucketNeeds returns the required scopes.
func bitbucketNeeds() []bitbucketNeed {
	return []bitbucketNeed{
		{classic: []string{"account", "account:write"}, token: []string{"read:user:bitbucket", "write:user:bitbucket"}, why: "to see whose token it is", account: true},
		{classic: []string{"repository:write"}, token: []string{"write:repository:bitbucket"}, why: "to push"},
		{classic: []string{"repository", "repository:write"}, token: []string{"read:repository:bitbucket"}, why: "to clone"},
		{classic: []string{"repository:admin"}, token: []string{"admin:repository:bitbucket"}, why: "to create the Shared Configuration Repository", runtime: true},
		{classic: []string{"team", "team:write"}, token: []string{"read:workspace:bitbucket", "admin:workspace:bitbucket"}, why: "to read the workspace", runtime: true, account: true},
		{classic: []string{"webhook"}, token: []string{"read:webhook:bitbucket"}, why: "to list webhooks", runtime: true},
		{classic: []string{"webhook"}, token: []string{"write:webhook:bitbucket"}, why: "to register webhooks", runtime: true},
		{classic: []string{"webhook"}, token: []string{"delete:webhook:bitbucket"}, why: "to remove webhooks", runtime: true},
	}
}

// checkScopes reports missing scopes in the spelling of this kind of token.
func (b *bitbucketCloud) checkScopes(report *TokenReport, purpose Purpose) {
	where := map[TokenKind]string{
		APIToken:    "https://id.atlassian.com/manage-profile/security/api-tokens",
		AppPassword: "https://bitbucket.org/account/settings/app-passwords/",
		AccessToken: "Access tokens in the settings of the repository, project or workspace",
		OAuthToken:  "the permissions of the OAuth consumer in the workspace's settings",
	}[report.Kind]
	// Scopes do not include each other in Bitbucket's API tokens, so each is
	// checked.
	for _, need := range bitbucketNeeds() {
		if need.runtime && purpose != RuntimeToken || need.account && report.Kind == AccessToken {
			continue
		}
		if has(report.Scopes, need.classic) || has(report.Scopes, need.token) {
			continue
		}
		name := need.classic[0]
		if report.Kind == APIToken {
			name = need.token[0]
		}
		if !slices.Contains(report.MissingNames(), name) {
			report.addMissing(name, need.why, where)
		}
	}
}

// has reports whether scopes include one of the names.
func has(scopes, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return slices.Contains(scopes, name) })
}

// checkRepository checks whether webhooks can be listed, which needs the
// admin permission on the repository. No call reveals whether the token may
// push.
func (b *bitbucketCloud) checkRepository(ctx context.Context, report *TokenReport, purpose Purpose) error {
	if b.repo == nil {
		return nil
	}
	resource, err := b.resource(*b.repo)
	if err != nil {
		return err
	}
	name := strings.TrimPrefix(resource, "/repositories/")
	request := call{method: http.MethodGet, path: resource}
	if purpose == RuntimeToken && !slices.Contains(report.MissingNames(), "webhook") && !slices.Contains(report.MissingNames(), "read:webhook:bitbucket") {
		request.path, request.query = resource+"/hooks", url.Values{"pagelen": {"1"}}
	}
	_, err = b.do(ctx, request)
	failure, failed := errors.AsType[*Error](err)
	switch {
	case err == nil && request.query != nil:
	// Reading succeeded, but no call shows whether the user may push.
	case err == nil:
		report.addUnverified("whether the token's user may write to %s", name)
	case failed && failure.Kind == NotFound:
		report.addUnverified("the rights on %s: it does not exist, or the token may not see it", name)
	case failed && failure.Kind == Denied && failure.Token == "":
		right := "read permission on "
		if request.query != nil {
			right = "admin permission on "
		}
		report.addMissing(right+name, failure.Message, "https://bitbucket.org/"+name+"/admin/permissions")
	default:
		return err
	}
	return nil
}
