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
func (b *bitbucketCloud) EnsureWebhook(ctx context.Context, repoURL string, hook Webhook) error {
	resource, err := b.at(repoURL)
	if err != nil {
		return err
	}
	if err := hook.check(Bitbucket); err != nil {
		return err
	}
	return ensureHook(ctx, &bitbucketHooks{b.client, resource + "/hooks"}, hook)
}

// RemoveWebhook removes the hooks with this URL.
func (b *bitbucketCloud) RemoveWebhook(ctx context.Context, repoURL, hookURL string) error {
	resource, err := b.at(repoURL)
	if err != nil {
		return err
	}
	return removeHook(ctx, &bitbucketHooks{b.client, resource + "/hooks"}, hookURL)
}

// bitbucketHooks implements repositoryHooks for
// /repositories/{workspace}/{slug}/hooks.
type bitbucketHooks struct {
	*client
	path string
}

// list reads all pages, following the next URL of each page.
func (h *bitbucketHooks) list(ctx context.Context) ([]hook, error) {
	var all []hook
	next := call{method: http.MethodGet, path: h.path, query: url.Values{"pagelen": {"100"}}}
	for range maxPages {
		var page struct {
			Values []struct {
				UUID string `json:"uuid"`
				URL  string `json:"url"`
			} `json:"values"`
			Next string `json:"next"`
		}
		next.into = &page
		if _, err := h.do(ctx, next); err != nil {
			return nil, err
		}
		for _, one := range page.Values {
			all = append(all, hook{id: one.UUID, url: one.URL})
		}
		if page.Next == "" {
			return all, nil
		}
		next.url = page.Next
	}
	return nil, invalid(h.kind, "the repository has too many webhooks to read")
}

// body returns the configuration of a hook, with TLS verification.
func (h *bitbucketHooks) body(want Webhook) map[string]any {
	var events []string
	if want.wants(PushEvent) {
		events = append(events, "repo:push")
	}
	if want.wants(PullRequestEvent) {
		events = append(events, "pullrequest:created", "pullrequest:updated", "pullrequest:fulfilled", "pullrequest:rejected")
	}
	return map[string]any{
		"description": "Slipway", "url": want.URL, "active": true, "events": events,
		"secret": want.Secret.Reveal(), "skip_cert_verification": false,
	}
}

// create sends POST .../hooks.
func (h *bitbucketHooks) create(ctx context.Context, want Webhook) error {
	_, err := h.do(ctx, call{method: http.MethodPost, path: h.path, body: h.body(want)})
	return err
}

// update sends PUT .../hooks/{uid}.
func (h *bitbucketHooks) update(ctx context.Context, id string, want Webhook) error {
	_, err := h.do(ctx, call{method: http.MethodPut, path: h.path + path(id), body: h.body(want)})
	return err
}

// remove sends DELETE .../hooks/{uid}.
func (h *bitbucketHooks) remove(ctx context.Context, id string) error {
	_, err := h.do(ctx, call{method: http.MethodDelete, path: h.path + path(id)})
	return err
}
