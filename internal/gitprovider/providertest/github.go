package providertest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// gitHubEndpoints returns the endpoints of GitHub's REST API that the client
// uses, with their parameters and fields.
func gitHubEndpoints() []endpoint {
	const (
		users    = "https://docs.github.com/rest/users/users"
		apps     = "https://docs.github.com/rest/apps/installations"
		repos    = "https://docs.github.com/rest/repos/repos"
		webhooks = "https://docs.github.com/rest/repos/webhooks"
		keys     = "https://docs.github.com/rest/deploy-keys/deploy-keys"
		commits  = "https://docs.github.com/rest/commits/commits"
		statuses = "https://docs.github.com/rest/commits/statuses"
	)
	paging := []string{"per_page", "page"}
	repository := map[string]string{"name": "string!", "private": "bool", "auto_init": "bool", "description": "string"}
	hook := map[string]string{
		"active": "bool", "events": "array", "config": "object!",
		"config.url": "string!", "config.content_type": "string", "config.secret": "string", "config.insecure_ssl": "string",
	}
	newHook := maps.Clone(hook)
	newHook["name"] = "string"
	const at = "/repos/{owner}/{repo}"
	return []endpoint{
		{method: "GET", path: "/meta", page: "https://docs.github.com/rest/meta/meta", open: true, handle: gitHubMeta},
		{method: "GET", path: "/user", page: users, handle: gitHubUser},
		{method: "GET", path: "/users/{name}", page: users, handle: gitHubAccount},
		{method: "GET", path: "/installation/repositories", page: apps, query: paging, handle: gitHubInstallation},
		{method: "GET", path: at, page: repos, handle: gitHubGet},
		{method: "POST", path: "/user/repos", page: repos, fields: repository, handle: gitHubCreate},
		{method: "POST", path: "/orgs/{org}/repos", page: repos, fields: repository, handle: gitHubCreate},
		{method: "GET", path: at + "/hooks", page: webhooks, query: paging, handle: gitHubListHooks},
		{method: "POST", path: at + "/hooks", page: webhooks, fields: newHook, handle: gitHubCreateHook},
		{method: "PATCH", path: at + "/hooks/{hook}", page: webhooks, fields: hook, handle: gitHubHooks().update},
		{method: "DELETE", path: at + "/hooks/{hook}", page: webhooks, handle: gitHubHooks().remove},
		{method: "GET", path: at + "/keys", page: keys, query: paging, handle: gitHubReading("administration", false)},
		{method: "GET", path: at + "/commits", page: commits, query: paging, handle: gitHubReading("contents", true)},
		{method: "GET", path: at + "/commits/heads/{branch}/status", page: statuses, handle: gitHubReading("statuses", true)},
	}
}

// gitHubMeta responds without a token, with what distinguishes GitHub Enterprise Server
// from other hosts.
func gitHubMeta(x *exchange) {
	x.respond(http.StatusOK, map[string]any{"installed_version": "3.17.0"})
}

// setHeaders sets the headers of every response: the token's expiry and
// scopes, and the accepted permissions.
func setHeaders(x *exchange, accepted string) {
	// Fine-grained tokens have no scope headers.
	if x.token.Scopes != nil {
		x.w.Header().Set("X-OAuth-Scopes", strings.Join(x.token.Scopes, ", "))
		x.w.Header().Set("X-Accepted-OAuth-Scopes", accepted)
	}
	if !x.token.ExpiresAt.IsZero() {
		x.w.Header().Set("GitHub-Authentication-Token-Expiration", x.token.ExpiresAt.UTC().Format("2006-01-02 15:04:05 UTC"))
	}
}

// isInstallation reports whether the token belongs to an App installation.
func isInstallation(x *exchange) bool { return strings.HasPrefix(x.token.Value, "ghs_") }

// gitHubDenied writes an error body.
func gitHubDenied(x *exchange, status int, message string) {
	x.respond(status, map[string]any{"message": message, "documentation_url": x.page, "status": http.StatusText(status)})
}

// gitHubUser serves GET /user. Installation tokens have no user.
func gitHubUser(x *exchange) {
	setHeaders(x, "")
	if isInstallation(x) {
		gitHubDenied(x, http.StatusForbidden, "Resource not accessible by integration")
		return
	}
	x.respond(http.StatusOK, map[string]any{"login": x.token.Login, "id": x.token.UserID, "type": "User"})
}

// gitHubInstallation serves GET /installation/repositories, for installation
// tokens only.
func gitHubInstallation(x *exchange) {
	setHeaders(x, "")
	if !isInstallation(x) {
		gitHubDenied(x, http.StatusForbidden, "You must authenticate with an installation access token in order to list repositories for an installation.")
		return
	}
	x.respond(http.StatusOK, map[string]any{"total_count": len(x.token.Roles), "repositories": []any{}})
}

// gitHubAccount serves GET /users/{name}, which is public.
func gitHubAccount(x *exchange) {
	// The type distinguishes users from organizations.
	kind, found := x.world.Owners[x.r.PathValue("name")]
	if !found {
		gitHubDenied(x, http.StatusNotFound, "Not Found")
		return
	}
	x.respond(http.StatusOK, map[string]any{"login": x.r.PathValue("name"), "type": kind})
}

// gitHubJSON encodes a repository with the permissions of the token's user.
func gitHubJSON(x *exchange, repository *Repository) map[string]any {
	role, _ := x.role(repository.Path)
	// GitHub reports a default branch even for an empty repository.
	branch := repository.DefaultBranch
	if branch == "" {
		branch = "main"
	}
	return map[string]any{
		"id": 1296269, "full_name": repository.Path, "private": repository.Private, "archived": false, "default_branch": branch,
		"html_url": x.URL + "/" + repository.Path, "clone_url": x.URL + "/" + repository.Path + ".git",
		"ssh_url":     "git@" + strings.TrimPrefix(x.URL, "https://") + ":" + repository.Path + ".git",
		"permissions": map[string]any{"admin": role == "admin", "push": role == "admin" || role == "write", "pull": true},
	}
}

// gitHubPath returns owner/name of the request.
func gitHubPath(x *exchange) string { return x.r.PathValue("owner") + "/" + x.r.PathValue("repo") }

// gitHubGet serves GET /repos/{owner}/{repo}. A repository that the token
// cannot see is 404, as at GitHub.
func gitHubGet(x *exchange) {
	setHeaders(x, "repo")
	repository := x.repository(gitHubPath(x))
	// A private repository without the scope is 404, not 403: GitHub does not
	// reveal its existence.
	if repository == nil || x.token.Scopes != nil && repository.Private && !x.scoped("repo") {
		gitHubDenied(x, http.StatusNotFound, "Not Found")
		return
	}
	x.respond(http.StatusOK, gitHubJSON(x, repository))
}

// gitHubCreate serves POST /user/repos and POST /orgs/{org}/repos.
func gitHubCreate(x *exchange) {
	setHeaders(x, "public_repo, repo")
	// Without an organization the token's user is the owner.
	owner := x.r.PathValue("org")
	if owner == "" {
		owner = x.token.Login
	}
	name := owner + "/" + text(x.body["name"])
	if x.find(name) != nil {
		x.respond(http.StatusUnprocessableEntity, map[string]any{
			"message": "Repository creation failed.", "documentation_url": x.page,
			"errors": []any{map[string]any{"resource": "Repository", "code": "custom", "field": "name", "message": "name already exists on this account"}},
		})
		return
	}
	// The check follows the conflict, as at GitHub.
	if x.token.Scopes != nil && !x.scoped("repo") {
		gitHubDenied(x, http.StatusNotFound, "Not Found")
		return
	}
	x.respond(http.StatusCreated, gitHubJSON(x, x.create(name, flag(x.body["private"]))))
}

// gitHubAllowed returns the repository if the token has the permission, and
// otherwise writes the error. Fine-grained tokens get 403 and the header that
// names the permission; others need scope and role.
func gitHubAllowed(x *exchange, permission, level string) *Repository {
	setHeaders(x, "admin:repo_hook, read:repo_hook, repo, write:repo_hook")
	repository := x.repository(gitHubPath(x))
	if repository == nil {
		gitHubDenied(x, http.StatusNotFound, "Not Found")
		return nil
	}
	role, _ := x.role(repository.Path)
	// The header names the missing permission only for fine-grained tokens.
	fine := x.token.Scopes == nil
	if fine && !slices.Contains(x.token.Permissions, permission) {
		x.w.Header().Set("X-Accepted-GitHub-Permissions", permission+"="+level)
		gitHubDenied(x, http.StatusForbidden, "Resource not accessible by personal access token")
		return nil
	}
	if permission == "repository_hooks" && (role != "admin" && !isInstallation(x) || !fine && !x.scoped("admin:repo_hook", "repo")) {
		gitHubDenied(x, http.StatusNotFound, "Not Found")
		return nil
	}
	return repository
}

// gitHubReading returns a handler that serves an empty list to tokens with
// the permission. Lists of public repositories need none.
func gitHubReading(permission string, public bool) func(*exchange) {
	return func(x *exchange) {
		// Everyone can read these lists of a public repository.
		if repository := x.repository(gitHubPath(x)); public && repository != nil && !repository.Private {
			x.respond(http.StatusOK, []any{})
			return
		}
		repository := gitHubAllowed(x, permission, "read")
		switch {
		case repository == nil:
		// An empty repository has no commits to list.
		case permission == "contents" && repository.Empty:
			gitHubDenied(x, http.StatusConflict, "Git Repository is empty.")
		case permission == "statuses" && repository.Empty:
			gitHubDenied(x, http.StatusNotFound, "Not Found")
		case permission == "statuses":
			x.respond(http.StatusOK, map[string]any{"state": "pending", "statuses": []any{}, "total_count": 0})
		default:
			x.respond(http.StatusOK, []any{})
		}
	}
}

// gitHubHookJSON encodes a hook. The secret is masked, as at GitHub.
func gitHubHookJSON(hook Hook) map[string]any {
	config := map[string]any{"url": hook.URL, "content_type": "form", "insecure_ssl": "1"}
	if hook.JSON {
		config["content_type"] = "json"
	}
	if hook.VerifyTLS {
		config["insecure_ssl"] = "0"
	}
	// The real secret is never returned, so clients cannot compare it.
	if hook.Secret != "" {
		config["secret"] = "********"
	}
	return map[string]any{"type": "Repository", "id": hook.ID, "name": "web", "active": hook.Active, "events": hook.Events, "config": config}
}

// gitHubHooks are the calls of the webhooks.
func gitHubHooks() webhooks {
	return webhooks{
		open:    func(x *exchange, _ string) *Repository { return gitHubAllowed(x, "repository_hooks", "write") },
		read:    gitHubHook,
		show:    gitHubHookJSON,
		missing: func(x *exchange) { gitHubDenied(x, http.StatusNotFound, "Not Found") },
	}
}

// gitHubListHooks serves GET /repos/{owner}/{repo}/hooks, in pages.
func gitHubListHooks(x *exchange) {
	if repository := gitHubAllowed(x, "repository_hooks", "read"); repository != nil {
		x.respond(http.StatusOK, gitHubHooks().list(pageOf(x, repository.Hooks, 30)))
	}
}

// gitHubHook decodes the hook of a request body.
func gitHubHook(x *exchange) Hook {
	config, _ := x.body["config"].(map[string]any)
	// Only the events that Slipway uses are accepted.
	for _, event := range texts(x.body["events"]) {
		if !slices.Contains([]string{"push", "pull_request"}, event) {
			x.undocumented("the event %s", event)
		}
	}
	return Hook{
		URL: text(config["url"]), Secret: text(config["secret"]), Events: texts(x.body["events"]),
		JSON: config["content_type"] == "json", VerifyTLS: config["insecure_ssl"] == "0", Active: flag(x.body["active"]),
	}
}

// gitHubCreateHook serves POST .../hooks. A second hook with the same
// configuration is rejected.
func gitHubCreateHook(x *exchange) {
	repository := gitHubAllowed(x, "repository_hooks", "write")
	if repository == nil {
		return
	}
	if x.body["name"] != "web" {
		x.undocumented("name is %v: only web is known", x.body["name"])
	}
	hook := gitHubHook(x)
	// GitHub rejects a second hook with the same URL; the other providers do
	// not.
	if slices.ContainsFunc(repository.Hooks, func(h Hook) bool { return h.URL == hook.URL }) {
		x.respond(http.StatusUnprocessableEntity, map[string]any{
			"message": "Validation Failed", "documentation_url": x.page,
			"errors": []any{map[string]any{"resource": "Hook", "code": "custom", "message": "Hook already exists on this repository"}},
		})
		return
	}
	x.respond(http.StatusCreated, gitHubHookJSON(x.addHook(repository, hook)))
}
