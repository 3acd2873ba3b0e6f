package gitprovider

import (
	"context"
	"net/http"
	"net/url"
	"strings"
)

// bitbucketCloud is bitbucket.org. REST API 2.0.
type bitbucketCloud struct {
	*client
}

// bitbucketRepository is the documented part of a repository that is used.
type bitbucketRepository struct {
	FullName   string `json:"full_name"`
	IsPrivate  bool   `json:"is_private"`
	MainBranch *struct {
		Name string `json:"name"`
	} `json:"mainbranch"`
	Links struct {
		HTML struct {
			Href string `json:"href"`
		} `json:"html"`
		Clone []struct {
			Name string `json:"name"`
			Href string `json:"href"`
		} `json:"clone"`
	} `json:"links"`
}

// repository converts the response. Bitbucket Cloud does not report the
// user's permission.
func (r bitbucketRepository) repository() Repository {
	found := Repository{Path: r.FullName, Private: r.IsPrivate, WebURL: r.Links.HTML.Href}
	if r.MainBranch != nil {
		found.DefaultBranch = r.MainBranch.Name
	}
	// The list has one link per protocol.
	for _, link := range r.Links.Clone {
		switch link.Name {
		case "https":
			found.CloneURL = withoutUser(link.Href)
		case "ssh":
			found.SSHURL = link.Href
		}
	}
	return found
}

// withoutUser removes the user name that Bitbucket adds to clone URLs.
func withoutUser(href string) string {
	u, err := url.Parse(href)
	if err != nil {
		return href
	}
	u.User = nil
	return u.String()
}

// at returns the resource path of a repository URL.
func (b *bitbucketCloud) at(repoURL string) (string, error) {
	address, err := b.address(repoURL)
	if err != nil {
		return "", err
	}
	return b.resource(address)
}

// resource returns /repositories/{workspace}/{slug}; Bitbucket's names are
// lower case.
func (b *bitbucketCloud) resource(address Address) (string, error) {
	workspace, slug, err := address.ownerAndName(Bitbucket)
	return path("repositories", strings.ToLower(workspace), strings.ToLower(slug)), err
}

// Repository looks up a repository.
func (b *bitbucketCloud) Repository(ctx context.Context, repoURL string) (Repository, error) {
	resource, err := b.at(repoURL)
	if err != nil {
		return Repository{}, err
	}
	var found bitbucketRepository
	_, err = b.do(ctx, call{method: http.MethodGet, path: resource, into: &found})
	return found.repository(), err
}

// CreateRepository creates a repository in the workspace's oldest project,
// Bitbucket's default: the URL names no project.
func (b *bitbucketCloud) CreateRepository(ctx context.Context, repoURL string, private bool) (Repository, error) {
	resource, err := b.at(repoURL)
	if err != nil {
		return Repository{}, err
	}
	body := map[string]any{"scm": "git", "is_private": private, "description": "Shared configuration of Slipway runtimes"}
	// A public fork of a private repository would expose it.
	if private {
		body["fork_policy"] = "no_public_forks"
	}
	var made bitbucketRepository
	_, err = b.do(ctx, call{method: http.MethodPost, path: resource, body: body, into: &made})
	return made.repository(), asConflict(err, http.StatusBadRequest, "already exists", strings.TrimPrefix(resource, "/repositories/"))
}

// EnsureWebhook creates or updates the hook.
func (b *bitbucketCloud) EnsureWebhook(ctx context.Context, repoURL string, want Webhook) error {
	return ensureHook(ctx, b, repoURL, want)
}

// RemoveWebhook removes the hooks with this URL.
func (b *bitbucketCloud) RemoveWebhook(ctx context.Context, repoURL, hookURL string) error {
	return removeHook(ctx, b, repoURL, hookURL)
}

// hooks returns /repositories/{workspace}/{slug}/hooks.
func (b *bitbucketCloud) hooks(repoURL string) (*repositoryHooks, error) {
	resource, err := b.at(repoURL)
	return &repositoryHooks{b.client, resource + "/hooks", bitbucketHook}, err
}

// bitbucketHook returns the configuration of a hook, with TLS verification.
func bitbucketHook(want Webhook) map[string]any {
	return map[string]any{
		"description": "Slipway", "url": want.URL, "active": true,
		"events": want.names("repo:push", "pullrequest:created", "pullrequest:updated", "pullrequest:fulfilled", "pullrequest:rejected"),
		"secret": want.Secret.Reveal(), "skip_cert_verification": false,
	}
}
