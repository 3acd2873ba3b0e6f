package providertest

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// gitLabEndpoints returns the endpoints of GitLab's REST API v4 that the
// client uses.
func gitLabEndpoints() []endpoint {
	const (
		tokens     = "https://docs.gitlab.com/api/personal_access_tokens/"
		users      = "https://docs.gitlab.com/api/users/"
		projects   = "https://docs.gitlab.com/api/projects/"
		members    = "https://docs.gitlab.com/api/project_members/"
		namespaces = "https://docs.gitlab.com/api/namespaces/"
		webhooks   = "https://docs.gitlab.com/api/project_webhooks/"
	)
	project := map[string]string{
		"name": "string!", "path": "string", "namespace_id": "number", "visibility": "string",
		"initialize_with_readme": "bool", "description": "string", "default_branch": "string",
	}
	hook := map[string]string{
		"url": "string!", "token": "string", "enable_ssl_verification": "bool",
		"push_events": "bool", "tag_push_events": "bool", "merge_requests_events": "bool",
	}
	return []endpoint{
		{method: "GET", path: "/personal_access_tokens/self", page: tokens, handle: gitLabSelf},
		{method: "GET", path: "/user", page: users, handle: gitLabUser},
		{method: "GET", path: "/namespaces/{id}", page: namespaces, handle: gitLabNamespace},
		{method: "GET", path: "/projects/{id}", page: projects, handle: gitLabGet},
		{method: "POST", path: "/projects", page: projects, fields: project, handle: gitLabCreate},
		{method: "GET", path: "/projects/{id}/members/all/{user}", page: members, handle: gitLabMember},
		{method: "GET", path: "/projects/{id}/hooks", page: webhooks, query: []string{"per_page", "page"}, handle: gitLabListHooks},
		{method: "POST", path: "/projects/{id}/hooks", page: webhooks, fields: hook, handle: gitLabHooks().create},
		{method: "PUT", path: "/projects/{id}/hooks/{hook}", page: webhooks, fields: hook, handle: gitLabHooks().update},
		{method: "DELETE", path: "/projects/{id}/hooks/{hook}", page: webhooks, handle: gitLabHooks().remove},
	}
}

// gitLabScope rejects a token without one of the scopes.
func gitLabScope(x *exchange, scopes ...string) bool {
	if x.scoped(scopes...) {
		return true
	}
	x.respond(http.StatusForbidden, map[string]any{
		"error": "insufficient_scope", "error_description": "The request requires higher privileges than provided by the access token.",
		"scope": strings.Join(scopes, " "),
	})
	return false
}

// gitLabMessage writes an error body.
func gitLabMessage(x *exchange, status int, message string) {
	x.respond(status, map[string]any{"message": strconv.Itoa(status) + " " + message})
}

// gitLabSelf serves GET /personal_access_tokens/self. Personal, group and
// project tokens have a record, OAuth tokens do not.
func gitLabSelf(x *exchange) {
	if x.token.OAuth {
		gitLabMessage(x, http.StatusUnauthorized, "Unauthorized")
		return
	}
	record := map[string]any{
		"id": 42, "name": "slipway", "revoked": false, "active": true, "created_at": "2026-01-02T03:04:05.678Z",
		"scopes": x.token.Scopes, "user_id": x.token.UserID, "expires_at": nil,
	}
	if !x.token.ExpiresAt.IsZero() {
		record["expires_at"] = x.token.ExpiresAt.UTC().Format(time.DateOnly)
	}
	x.respond(http.StatusOK, record)
}

// gitLabUser serves GET /user.
func gitLabUser(x *exchange) {
	if gitLabScope(x, "read_user", "read_api", "api") {
		x.respond(http.StatusOK, map[string]any{"id": x.token.UserID, "username": x.token.Login, "state": "active", "bot": strings.Contains(x.token.Login, "_bot")})
	}
}

// gitLabNamespace serves GET /namespaces/{id}.
func gitLabNamespace(x *exchange) {
	if !gitLabScope(x, "read_api", "api") {
		return
	}
	name := x.r.PathValue("id")
	kind, found := x.world.Owners[name]
	if !found {
		gitLabMessage(x, http.StatusNotFound, "Namespace Not Found")
		return
	}
	x.respond(http.StatusOK, map[string]any{"id": gitLabNamespaceID(x, name), "kind": kind, "full_path": name})
}

// gitLabNamespaceID numbers the owners in the order of their names.
func gitLabNamespaceID(x *exchange, name string) int {
	return slices.Index(slices.Sorted(maps.Keys(x.world.Owners)), name) + 1
}

// gitLabLevel returns the access level of a role.
func gitLabLevel(role string) int {
	return map[string]int{"read": 20, "write": 30, "admin": 40}[role]
}

// gitLabProjectID numbers the projects in their order.
func gitLabProjectID(x *exchange, repository *Repository) int {
	return 1 + slices.IndexFunc(x.world.Repositories, func(r Repository) bool { return r.Path == repository.Path })
}

// gitLabJSON encodes a project with the direct role of the token's user;
// inherited roles are not part of it, as at GitLab.
func gitLabJSON(x *exchange, repository *Repository) map[string]any {
	visibility := "public"
	if repository.Private {
		visibility = "private"
	}
	var branch any
	if repository.DefaultBranch != "" {
		branch = repository.DefaultBranch
	}
	permissions := map[string]any{"project_access": nil, "group_access": nil}
	if role, direct := x.role(repository.Path); direct {
		permissions["project_access"] = map[string]any{"access_level": gitLabLevel(role), "notification_level": 3}
	}
	return map[string]any{
		"id": gitLabProjectID(x, repository), "path_with_namespace": repository.Path, "visibility": visibility, "archived": false,
		"empty_repo": repository.Empty, "default_branch": branch, "permissions": permissions,
		"web_url": x.URL + "/" + repository.Path, "http_url_to_repo": x.URL + "/" + repository.Path + ".git",
		"ssh_url_to_repo": "git@gitlab.example.com:" + repository.Path + ".git",
	}
}

// gitLabProject returns a project by ID or path if the token can see it, and
// otherwise writes 404.
func gitLabProject(x *exchange, scopes ...string) *Repository {
	if !gitLabScope(x, scopes...) {
		return nil
	}
	path := x.r.PathValue("id")
	if n, err := strconv.Atoi(path); err == nil && n >= 1 && n <= len(x.world.Repositories) {
		path = x.world.Repositories[n-1].Path
	}
	repository := x.repository(path)
	if repository == nil {
		gitLabMessage(x, http.StatusNotFound, "Project Not Found")
	}
	return repository
}

// gitLabGet serves GET /projects/{id}.
func gitLabGet(x *exchange) {
	if repository := gitLabProject(x, "read_api", "api"); repository != nil {
		x.respond(http.StatusOK, gitLabJSON(x, repository))
	}
}

// gitLabMember serves GET /projects/{id}/members/all/{user}, which includes
// inherited roles.
func gitLabMember(x *exchange) {
	repository := gitLabProject(x, "read_api", "api")
	if repository == nil {
		return
	}
	role, _ := x.role(repository.Path)
	if role == "" || x.r.PathValue("user") != strconv.FormatInt(x.token.UserID, 10) {
		gitLabMessage(x, http.StatusNotFound, "Not found")
		return
	}
	x.respond(http.StatusOK, map[string]any{"id": x.token.UserID, "username": x.token.Login, "access_level": gitLabLevel(role)})
}

// gitLabCreate serves POST /projects.
func gitLabCreate(x *exchange) {
	if !gitLabScope(x, "api") {
		return
	}
	owner := ""
	for name := range x.world.Owners {
		if float64(gitLabNamespaceID(x, name)) == x.body["namespace_id"] {
			owner = name
		}
	}
	if visibility := text(x.body["visibility"]); !slices.Contains([]string{"private", "internal", "public"}, visibility) {
		x.undocumented("the visibility %q", visibility)
	}
	path := owner + "/" + text(x.body["path"])
	if x.find(path) != nil {
		x.respond(http.StatusBadRequest, map[string]any{"message": map[string]any{
			"name": []string{"has already been taken"}, "path": []string{"has already been taken"},
		}})
		return
	}
	x.respond(http.StatusCreated, gitLabJSON(x, x.create(path, x.body["visibility"] == "private")))
}

// gitLabMaintained returns the project if the token's user is a maintainer,
// and otherwise writes 403.
func gitLabMaintained(x *exchange, _ string) *Repository {
	repository := gitLabProject(x, "api")
	if repository == nil {
		return nil
	}
	if role, _ := x.role(repository.Path); role != "admin" {
		gitLabMessage(x, http.StatusForbidden, "Forbidden")
		return nil
	}
	return repository
}

// gitLabHookJSON encodes a hook without its token.
func gitLabHookJSON(hook Hook) map[string]any {
	return map[string]any{
		"id": hook.ID, "url": hook.URL, "push_events": slices.Contains(hook.Events, "push_events"),
		"enable_ssl_verification": hook.VerifyTLS, "created_at": "2026-01-02T03:04:05.678Z",
	}
}

// gitLabHook decodes the hook of a request body.
func gitLabHook(x *exchange) Hook {
	hook := Hook{URL: text(x.body["url"]), Secret: text(x.body["token"]), JSON: true, Active: true, VerifyTLS: flag(x.body["enable_ssl_verification"])}
	for _, name := range []string{"push_events", "tag_push_events", "merge_requests_events"} {
		if flag(x.body[name]) {
			hook.Events = append(hook.Events, name)
		}
	}
	return hook
}

// gitLabHooks are the calls of the webhooks.
func gitLabHooks() webhooks {
	return webhooks{
		open: gitLabMaintained, read: gitLabHook, show: gitLabHookJSON,
		missing: func(x *exchange) { gitLabMessage(x, http.StatusNotFound, "Not found") },
	}
}

// gitLabListHooks serves GET /projects/{id}/hooks, in pages.
func gitLabListHooks(x *exchange) {
	if repository := gitLabMaintained(x, "read"); repository != nil {
		x.respond(http.StatusOK, gitLabHooks().list(pageOf(x, repository.Hooks, 20)))
	}
}
