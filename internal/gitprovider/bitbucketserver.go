package gitprovider

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"strconv"
)

// bitbucketServer is Bitbucket Server and Data Center. Its API URL is the
// server's own; REST paths are appended.
type bitbucketServer struct {
	*client
}

// bitbucketREST is the base path of REST API 1.0.
const bitbucketREST = "/rest/api/1.0"

// bitbucketServerRepository is the documented part of a repository that is
// used.
type bitbucketServerRepository struct {
	Slug    string `json:"slug"`
	Public  bool   `json:"public"`
	Archive bool   `json:"archived"`
	Project struct {
		Key string `json:"key"`
	} `json:"project"`
	Links struct {
		Clone []struct {
			Name string `json:"name"`
			Href string `json:"href"`
		} `json:"clone"`
		Self []struct {
			Href string `json:"href"`
		} `json:"self"`
	} `json:"links"`
}

// repository converts the response.
func (r bitbucketServerRepository) repository() Repository {
	found := Repository{Path: r.Project.Key + "/" + r.Slug, Private: !r.Public, Archived: r.Archive}
	for _, link := range r.Links.Clone {
		switch link.Name {
		case "http", "https":
			found.CloneURL = withoutUser(link.Href)
		case "ssh":
			found.SSHURL = link.Href
		}
	}
	if len(r.Links.Self) > 0 {
		found.WebURL = r.Links.Self[0].Href
	}
	return found
}

// at returns project key and slug of a repository URL.
func (b *bitbucketServer) at(repoURL string) (key, slug string, err error) {
	address, err := b.address(repoURL)
	if err != nil {
		return "", "", err
	}
	return b.split(address)
}

// split removes the base path of the installation from web URLs; SSH URLs
// have none.
func (b *bitbucketServer) split(address Address) (key, slug string, err error) {
	if web, err := url.Parse(b.api); err == nil && !address.SSH {
		address = address.trimBasePath(web.Path)
	}
	_, key, slug, err = address.projectAndSlug()
	return key, slug, err
}

// repositoryPath returns the resource path of a repository.
func (b *bitbucketServer) repositoryPath(key, slug string) string {
	return bitbucketREST + path("projects", key, "repos", slug)
}

// Repository looks up a repository. The default branch would need another
// call and is left empty.
func (b *bitbucketServer) Repository(ctx context.Context, repoURL string) (Repository, error) {
	key, slug, err := b.at(repoURL)
	if err != nil {
		return Repository{}, err
	}
	var found bitbucketServerRepository
	_, err = b.do(ctx, call{method: http.MethodGet, path: b.repositoryPath(key, slug), into: &found})
	return found.repository(), err
}

// CreateRepository creates a repository in a project, or in the user's own
// (~name).
func (b *bitbucketServer) CreateRepository(ctx context.Context, repoURL string, private bool) (Repository, error) {
	key, slug, err := b.at(repoURL)
	if err != nil {
		return Repository{}, err
	}
	// The slug is derived from the name; an equal name gives the expected
	// slug.
	body := map[string]any{"name": slug, "scmId": "git", "forkable": true, "public": !private, "defaultBranch": "main"}
	var made bitbucketServerRepository
	_, err = b.do(ctx, call{method: http.MethodPost, path: bitbucketREST + path("projects", key, "repos"), body: body, into: &made})
	return made.repository(), asConflict(err, http.StatusConflict, "", key+"/"+slug)
}

// EnsureWebhook creates or updates the hook.
func (b *bitbucketServer) EnsureWebhook(ctx context.Context, repoURL string, hook Webhook) error {
	key, slug, err := b.at(repoURL)
	if err != nil {
		return err
	}
	if err := hook.check(BitbucketServer); err != nil {
		return err
	}
	return ensureHook(ctx, &bitbucketServerHooks{b.client, b.repositoryPath(key, slug) + "/webhooks"}, hook)
}

// RemoveWebhook removes the hooks with this URL.
func (b *bitbucketServer) RemoveWebhook(ctx context.Context, repoURL, hookURL string) error {
	key, slug, err := b.at(repoURL)
	if err != nil {
		return err
	}
	return removeHook(ctx, &bitbucketServerHooks{b.client, b.repositoryPath(key, slug) + "/webhooks"}, hookURL)
}

// bitbucketServerHooks implements repositoryHooks for
// .../repos/{slug}/webhooks.
type bitbucketServerHooks struct {
	*client
	path string
}

// serverPage is the envelope of a page.
type serverPage[T any] struct {
	Values   []T  `json:"values"`
	LastPage bool `json:"isLastPage"`
	Next     *int `json:"nextPageStart"`
}

// serverPages reads all pages of a list.
func serverPages[T any](ctx context.Context, c *client, first call) ([]T, error) {
	var all []T
	next := first
	for range maxPages {
		var page serverPage[T]
		next.into = &page
		if _, err := c.do(ctx, next); err != nil {
			return nil, err
		}
		all = append(all, page.Values...)
		if page.LastPage || page.Next == nil {
			return all, nil
		}
		// The filter must be repeated for every page.
		next.query = url.Values{"start": {strconv.Itoa(*page.Next)}}
		maps.Copy(next.query, first.query)
	}
	return nil, invalid(c.kind, "the list at %s is too long to read", first.path)
}

// list reads all pages of the webhooks.
func (h *bitbucketServerHooks) list(ctx context.Context) ([]hook, error) {
	// Only ID and URL are needed to find a hook.
	type existing struct {
		ID  int64  `json:"id"`
		URL string `json:"url"`
	}
	found, err := serverPages[existing](ctx, h.client, call{method: http.MethodGet, path: h.path, query: url.Values{"limit": {"100"}}})
	if err != nil {
		return nil, err
	}
	var all []hook
	for _, one := range found {
		all = append(all, hook{id: strconv.FormatInt(one.ID, 10), url: one.URL})
	}
	return all, nil
}

// body returns the configuration of a hook, with TLS verification.
func (h *bitbucketServerHooks) body(want Webhook) map[string]any {
	var events []string
	if want.wants(PushEvent) {
		events = append(events, "repo:refs_changed")
	}
	if want.wants(PullRequestEvent) {
		events = append(events, "pr:opened", "pr:from_ref_updated", "pr:merged", "pr:declined")
	}
	return map[string]any{
		"name": "Slipway", "url": want.URL, "active": true, "events": events,
		"configuration": map[string]string{"secret": want.Secret.Reveal()}, "sslVerificationRequired": true,
	}
}

// create sends POST .../webhooks.
func (h *bitbucketServerHooks) create(ctx context.Context, want Webhook) error {
	_, err := h.do(ctx, call{method: http.MethodPost, path: h.path, body: h.body(want)})
	return err
}

// update sends PUT .../webhooks/{id}.
func (h *bitbucketServerHooks) update(ctx context.Context, id string, want Webhook) error {
	_, err := h.do(ctx, call{method: http.MethodPut, path: h.path + path(id), body: h.body(want)})
	return err
}

// remove sends DELETE .../webhooks/{id}.
func (h *bitbucketServerHooks) remove(ctx context.Context, id string) error {
	_, err := h.do(ctx, call{method: http.MethodDelete, path: h.path + path(id)})
	return err
}
