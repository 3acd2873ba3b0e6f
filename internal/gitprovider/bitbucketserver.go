package gitprovider

import (
	"context"
	"net/http"
	"net/url"
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
func (b *bitbucketServer) EnsureWebhook(ctx context.Context, repoURL string, want Webhook) error {
	return ensureHook(ctx, b, repoURL, want)
}

// RemoveWebhook removes the hooks with this URL.
func (b *bitbucketServer) RemoveWebhook(ctx context.Context, repoURL, hookURL string) error {
	return removeHook(ctx, b, repoURL, hookURL)
}

// hooks returns .../repos/{slug}/webhooks.
func (b *bitbucketServer) hooks(repoURL string) (*repositoryHooks, error) {
	key, slug, err := b.at(repoURL)
	return &repositoryHooks{b.client, b.repositoryPath(key, slug) + "/webhooks", bitbucketServerHook}, err
}

// bitbucketServerHook returns the configuration of a hook, with TLS
// verification.
func bitbucketServerHook(want Webhook) map[string]any {
	return map[string]any{
		"name": "Slipway", "url": want.URL, "active": true,
		"events":        want.names("repo:refs_changed", "pr:opened", "pr:from_ref_updated", "pr:merged", "pr:declined"),
		"configuration": map[string]string{"secret": want.Secret.Reveal()}, "sslVerificationRequired": true,
	}
}
