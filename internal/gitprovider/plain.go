package gitprovider

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// plainGit is a Git server without an API that this package knows: Azure DevOps,
// Gitea, git-http-backend. Only Git's own HTTP protocol is used, so that it can
// check a token and find a repository, and create neither repositories nor
// webhooks.
type plainGit struct {
	*client
	// repository is the HTTP address of Options.Repository; empty without one,
	// for SSH, and for another server.
	repository string
}

// newPlainGit completes a client. Servers without an API take the token as the
// password of Basic authentication, and most of them take any user name.
func newPlainGit(c *client, repository string) *plainGit {
	if c.username == "" {
		c.username = "slipway"
	}
	p := &plainGit{client: c}
	// The token is for one origin: another port or scheme may be another server.
	if at := cloneAddress(repository); sameOrigin(at, c.api) {
		p.repository = at
	}
	return p
}

// cloneAddress drops folder and branch of the address of a Shared Configuration
// Repository. The path is kept as it is, because not every server has .git.
func cloneAddress(text string) string {
	text, _, _ = strings.Cut(text, "?")
	if at := strings.Index(text, ".git/"); at >= 0 {
		return text[:at+len(".git")]
	}
	return strings.TrimSuffix(text, "/")
}

// Check requests what a push begins with, which servers offer only to those who
// may push. A token for nothing else is not verified.
func (p *plainGit) Check(ctx context.Context, _ Purpose) (TokenReport, error) {
	report := p.newReport(UnknownToken)
	report.Login = p.username
	if p.repository == "" {
		report.addUnverified("the rights of the token: there is no repository with an http address to try it on")
		return report, nil
	}
	return report, p.offers(ctx, p.repository, "git-receive-pack")
}

// offers reports whether the server offers a service of Git for a repository.
func (p *plainGit) offers(ctx context.Context, repository, service string) error {
	got, err := p.do(ctx, call{method: http.MethodGet, base: repository, path: "/info/refs", query: url.Values{"service": {service}}})
	if err != nil {
		return err
	}
	// A page for people, such as a sign-in, has the status 200 too.
	if kind := got.header.Get("Content-Type"); !strings.HasPrefix(kind, "application/x-"+service+"-advertisement") {
		return invalid(p.kind, "there is no Git repository at %s: check its address and the token", repository)
	}
	return nil
}

// Repository looks up a repository. Git reveals nothing but its existence.
func (p *plainGit) Repository(ctx context.Context, repoURL string) (Repository, error) {
	address, err := p.address(repoURL)
	if err != nil {
		return Repository{}, err
	}
	at := cloneAddress(repoURL)
	if !sameOrigin(at, p.api) {
		return Repository{}, invalid(p.kind, "the repository is found only at an address below %s", p.api)
	}
	if err := p.offers(ctx, at, "git-upload-pack"); err != nil {
		return Repository{}, err
	}
	return Repository{Path: strings.Join(address.Segments, "/"), CloneURL: at}, nil
}

// CreateRepository is not possible.
func (p *plainGit) CreateRepository(context.Context, string, bool) (Repository, error) {
	return Repository{}, invalid(p.kind, "%s has no API to create a repository with: create it there yourself", p.kind.Title())
}

// EnsureWebhook is not possible.
func (p *plainGit) EnsureWebhook(_ context.Context, _ string, hook Webhook) error {
	return invalid(p.kind, "%s has no API to create a webhook with: add %s there yourself", p.kind.Title(), hook.URL)
}

// RemoveWebhook does nothing: EnsureWebhook has created none.
func (p *plainGit) RemoveWebhook(context.Context, string, string) error { return nil }
