package gitprovider

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// gitHub is GitHub and GitHub Enterprise. REST API version 2022-11-28.
type gitHub struct {
	*client
}

// gitHubRepository is the documented part of a repository that is used.
type gitHubRepository struct {
	FullName      string `json:"full_name"`
	CloneURL      string `json:"clone_url"`
	SSHURL        string `json:"ssh_url"`
	HTMLURL       string `json:"html_url"`
	DefaultBranch string `json:"default_branch"`
	Private       bool   `json:"private"`
	Archived      bool   `json:"archived"`
	Permissions   *struct {
		Admin bool `json:"admin"`
		Push  bool `json:"push"`
		Pull  bool `json:"pull"`
	} `json:"permissions"`
}

// repository converts the response; permissions are absent for
// unauthenticated reads.
func (r gitHubRepository) repository() Repository {
	access := AccessUnknown
	// The highest permission counts; each includes the lower ones.
	if p := r.Permissions; p != nil {
		switch {
		case p.Admin:
			access = AccessAdmin
		case p.Push:
			access = AccessWrite
		case p.Pull:
			access = AccessRead
		}
	}
	return Repository{
		Path: r.FullName, CloneURL: r.CloneURL, SSHURL: r.SSHURL, WebURL: r.HTMLURL,
		DefaultBranch: r.DefaultBranch, Private: r.Private, Archived: r.Archived, Access: access,
	}
}

// at returns owner and name of a repository URL on this server.
func (g *gitHub) at(repoURL string) (owner, name string, err error) {
	address, err := g.address(repoURL)
	if err != nil {
		return "", "", err
	}
	return address.ownerAndName(GitHub)
}

// Repository looks up a repository: GET /repos/{owner}/{repo}.
func (g *gitHub) Repository(ctx context.Context, repoURL string) (Repository, error) {
	owner, name, err := g.at(repoURL)
	if err != nil {
		return Repository{}, err
	}
	return g.repository(ctx, owner, name)
}

func (g *gitHub) repository(ctx context.Context, owner, name string) (Repository, error) {
	var found gitHubRepository
	_, err := g.do(ctx, call{method: http.MethodGet, path: path("repos", owner, name), into: &found})
	return found.repository(), err
}

// CreateRepository creates a repository for the token's user or an
// organization: POST /user/repos or /orgs/{org}/repos. The first push creates
// the default branch.
func (g *gitHub) CreateRepository(ctx context.Context, repoURL string, private bool) (Repository, error) {
	owner, name, err := g.at(repoURL)
	if err != nil {
		return Repository{}, err
	}
	var account struct {
		Login string `json:"login"`
		Type  string `json:"type"`
	}
	// The type of the owner selects the endpoint.
	if _, err := g.do(ctx, call{method: http.MethodGet, path: path("users", owner), into: &account}); err != nil {
		return Repository{}, err
	}
	target := path("orgs", owner, "repos")
	if account.Type != "Organization" {
		login, _, err := g.user(ctx)
		if err != nil {
			return Repository{}, err
		}
		// Logins are case-insensitive.
		if !strings.EqualFold(login, owner) {
			return Repository{}, invalid(GitHub, "%s is a user, and the token belongs to %s: GitHub allows a token to create repositories for its own user and for organizations only", owner, login)
		}
		target = path("user", "repos")
	}
	var made gitHubRepository
	// No initial commit: the runtime pushes the first one.
	body := map[string]any{"name": name, "private": private, "auto_init": false, "description": "Shared configuration of Slipway runtimes"}
	_, err = g.do(ctx, call{method: http.MethodPost, path: target, body: body, into: &made})
	return made.repository(), asConflict(err, http.StatusUnprocessableEntity, "already exists", owner+"/"+name)
}

// user returns the token's user: GET /user. The response headers describe the
// token.
func (g *gitHub) user(ctx context.Context) (login string, got apiResponse, err error) {
	var user struct {
		Login string `json:"login"`
	}
	got, err = g.do(ctx, call{method: http.MethodGet, path: "/user", into: &user})
	return user.Login, got, err
}

// asConflict converts the error for an existing repository or hook to a
// Conflict. Providers use different statuses, so the text is compared as
// well.
func asConflict(err error, status int, words, name string) error {
	failure, ok := errors.AsType[*Error](err)
	if !ok || (failure.Kind != Conflict && (failure.Status != status || !strings.Contains(strings.ToLower(failure.Message), words))) {
		return err
	}
	return &Error{Kind: Conflict, Provider: failure.Provider, Status: failure.Status, Message: name + " exists already at " + failure.Provider.Title()}
}

// EnsureWebhook creates or updates the hook.
func (g *gitHub) EnsureWebhook(ctx context.Context, repoURL string, want Webhook) error {
	return ensureHook(ctx, g, repoURL, want)
}

// RemoveWebhook removes the hooks with this URL.
func (g *gitHub) RemoveWebhook(ctx context.Context, repoURL, hookURL string) error {
	return removeHook(ctx, g, repoURL, hookURL)
}

// hooks returns /repos/{owner}/{repo}/hooks.
func (g *gitHub) hooks(repoURL string) (*repositoryHooks, error) {
	owner, name, err := g.at(repoURL)
	return &repositoryHooks{g.client, path("repos", owner, name, "hooks"), gitHubHook}, err
}

// gitHubHook returns the configuration of a hook, with TLS verification.
func gitHubHook(want Webhook) map[string]any {
	return map[string]any{
		"active": true, "events": want.names("push", "pull_request"),
		"config": map[string]string{"url": want.URL, "content_type": "json", "secret": want.Secret.Reveal(), "insecure_ssl": "0"},
	}
}
