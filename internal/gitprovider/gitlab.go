package gitprovider

import (
	"context"
	"net/http"
	"net/url"
)

// gitLab is GitLab, in the cloud and self-managed. REST API v4.
type gitLab struct {
	*client
}

// gitLabAccess is a role.
type gitLabAccess struct {
	Level int `json:"access_level"`
}

// gitLabProject is the documented part of a project that is used.
type gitLabProject struct {
	ID            int64  `json:"id"`
	FullPath      string `json:"path_with_namespace"`
	CloneURL      string `json:"http_url_to_repo"`
	SSHURL        string `json:"ssh_url_to_repo"`
	WebURL        string `json:"web_url"`
	DefaultBranch string `json:"default_branch"`
	Visibility    string `json:"visibility"`
	Archived      bool   `json:"archived"`
	Permissions   *struct {
		Project *gitLabAccess `json:"project_access"`
		Group   *gitLabAccess `json:"group_access"`
	} `json:"permissions"`
}

// Roles that matter here, of GitLab's access levels.
const (
	gitLabDeveloper  = 30
	gitLabMaintainer = 40
)

// level returns the higher of the project and group role; 0 if neither is
// reported, as for a role inherited from a parent group.
func (p gitLabProject) level() int {
	level := 0
	if p.Permissions == nil {
		return level
	}
	for _, access := range []*gitLabAccess{p.Permissions.Project, p.Permissions.Group} {
		if access != nil {
			level = max(level, access.Level)
		}
	}
	return level
}

// gitLabAccessOf converts an access level. Only maintainers can register
// webhooks.
func gitLabAccessOf(level int) Access {
	switch {
	case level >= gitLabMaintainer:
		return AccessAdmin
	case level >= gitLabDeveloper:
		return AccessWrite
	case level > 0:
		return AccessRead
	}
	return AccessUnknown
}

// repository converts the response. Internal projects count as private: they
// need a sign-in.
func (p gitLabProject) repository() Repository {
	return Repository{
		Path: p.FullPath, CloneURL: p.CloneURL, SSHURL: p.SSHURL, WebURL: p.WebURL,
		DefaultBranch: p.DefaultBranch, Private: p.Visibility != "public", Archived: p.Archived, Access: gitLabAccessOf(p.level()),
	}
}

// at returns group and name of a repository URL, with all parent groups.
func (g *gitLab) at(repoURL string) (group, name string, err error) {
	address, err := g.address(repoURL)
	if err != nil {
		return "", "", err
	}
	return g.split(address)
}

// split removes the base path of a self-managed installation.
func (g *gitLab) split(address Address) (group, name string, err error) {
	if !address.SSH {
		// The base path is part of the web URL, but not of the project's
		// path.
		web, _ := url.Parse(webServer(GitLab, g.api))
		address = address.trimBasePath(web.Path)
	}
	return address.groupAndName()
}

// project looks up a project by its URL-encoded path: GET /projects/{id}.
func (g *gitLab) project(ctx context.Context, group, name string) (gitLabProject, error) {
	var found gitLabProject
	_, err := g.do(ctx, call{method: http.MethodGet, path: path("projects", group+"/"+name), into: &found})
	return found, err
}

// Repository looks up a project.
func (g *gitLab) Repository(ctx context.Context, repoURL string) (Repository, error) {
	group, name, err := g.at(repoURL)
	if err != nil {
		return Repository{}, err
	}
	found, err := g.project(ctx, group, name)
	return found.repository(), err
}

// CreateRepository creates a project in a group, a subgroup or the user's
// namespace: POST /projects. The first push creates the default branch.
func (g *gitLab) CreateRepository(ctx context.Context, repoURL string, private bool) (Repository, error) {
	group, name, err := g.at(repoURL)
	if err != nil {
		return Repository{}, err
	}
	// Groups, subgroups and users are all namespaces.
	var namespace struct {
		ID int64 `json:"id"`
	}
	if _, err := g.do(ctx, call{method: http.MethodGet, path: path("namespaces", group), into: &namespace}); err != nil {
		return Repository{}, err
	}
	// GitLab's third level, internal, is not offered: it means all users of
	// the server.
	visibility := "public"
	if private {
		visibility = "private"
	}
	body := map[string]any{
		"name": name, "path": name, "namespace_id": namespace.ID, "visibility": visibility,
		"initialize_with_readme": false, "description": "Shared configuration of Slipway runtimes",
	}
	var made gitLabProject
	_, err = g.do(ctx, call{method: http.MethodPost, path: "/projects", body: body, into: &made})
	return made.repository(), asConflict(err, http.StatusBadRequest, "already been taken", group+"/"+name)
}

// EnsureWebhook creates or updates the hook.
func (g *gitLab) EnsureWebhook(ctx context.Context, repoURL string, want Webhook) error {
	return ensureHook(ctx, g, repoURL, want)
}

// RemoveWebhook removes the hooks with this URL.
func (g *gitLab) RemoveWebhook(ctx context.Context, repoURL, hookURL string) error {
	return removeHook(ctx, g, repoURL, hookURL)
}

// hooks returns /projects/{id}/hooks.
func (g *gitLab) hooks(repoURL string) (*repositoryHooks, error) {
	group, name, err := g.at(repoURL)
	return &repositoryHooks{g.client, path("projects", group+"/"+name, "hooks"), gitLabHook}, err
}

// gitLabHook returns the configuration of a hook. Pushes of tags are an event
// of their own.
func gitLabHook(want Webhook) map[string]any {
	return map[string]any{
		"url": want.URL, "token": want.Secret.Reveal(), "enable_ssl_verification": true,
		"push_events": want.wants(PushEvent), "tag_push_events": want.wants(PushEvent),
		"merge_requests_events": want.wants(PullRequestEvent),
	}
}
