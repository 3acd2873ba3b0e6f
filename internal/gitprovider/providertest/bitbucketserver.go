package providertest

import (
	"net/http"
	"slices"
	"strings"
)

// bitbucketServerEndpoints returns the endpoints of Bitbucket Server's REST
// API 1.0 that the client uses.
func bitbucketServerEndpoints() []endpoint {
	const (
		system       = "https://developer.atlassian.com/server/bitbucket/rest/v906/api-group-system-maintenance/"
		repositories = "https://developer.atlassian.com/server/bitbucket/rest/v906/api-group-repository/"
		projects     = "https://developer.atlassian.com/server/bitbucket/rest/v906/api-group-project/"
	)
	repository := map[string]string{"name": "string!", "scmId": "string", "forkable": "bool", "public": "bool", "defaultBranch": "string"}
	hook := map[string]string{
		"name": "string!", "url": "string!", "active": "bool", "events": "array!", "sslVerificationRequired": "bool",
		"configuration": "object", "configuration.secret": "string",
	}
	paging := []string{"start", "limit"}
	const (
		api = "/rest/api/1.0"
		at  = api + "/projects/{key}/repos/{slug}"
	)
	return []endpoint{
		{method: "GET", path: api + "/application-properties", page: system, open: true, handle: serverProperties},
		{method: "GET", path: api + "/repos", page: repositories, query: append([]string{"name", "projectname", "projectkey", "permission"}, paging...), handle: serverRepositories},
		{method: "GET", path: api + "/projects", page: projects, query: append([]string{"name", "permission"}, paging...), handle: serverProjects},
		{method: "GET", path: at, page: projects, handle: serverGet},
		{method: "POST", path: api + "/projects/{key}/repos", page: projects, fields: repository, handle: serverCreate},
		{method: "GET", path: at + "/webhooks", page: repositories, query: append([]string{"event", "statistics"}, paging...), handle: serverListHooks},
		{method: "POST", path: at + "/webhooks", page: repositories, fields: hook, handle: serverHooks().create},
		{method: "PUT", path: at + "/webhooks/{hook}", page: repositories, fields: hook, handle: serverHooks().update},
		{method: "DELETE", path: at + "/webhooks/{hook}", page: repositories, handle: serverHooks().remove},
	}
}

// serverProperties serves GET /application-properties, which is public; an
// unknown token is rejected nevertheless.
func serverProperties(x *exchange) {
	if x.r.Header.Get("Authorization") != "" {
		if x.token == nil || x.token.Expired || x.token.Revoked {
			unauthorized(x)
			return
		}
		x.w.Header().Set("X-AUSERNAME", x.token.Login)
	}
	x.respond(http.StatusOK, map[string]any{"version": "9.4.0", "buildNumber": "9004000", "buildDate": "1700000000000", "displayName": "Bitbucket"})
}

// serverRank orders the roles.
func serverRank(role string) int { return slices.Index([]string{"", "read", "write", "admin"}, role) }

// serverHas reports whether the token has a permission such as REPO_WRITE.
// The limit of the token applies on top of the user's role.
func serverHas(x *exchange, path, permission string) bool {
	_, level, _ := strings.Cut(permission, "_")
	role, _ := x.role(path)
	return serverRank(role) >= serverRank(strings.ToLower(level))
}

// serverJSON encodes a repository.
func serverJSON(x *exchange, repository *Repository) map[string]any {
	key, slug, _ := strings.Cut(repository.Path, "/")
	return map[string]any{
		"slug": slug, "name": slug, "scmId": "git", "state": "AVAILABLE", "public": !repository.Private, "archived": false,
		"project": map[string]any{"key": key, "type": "NORMAL"},
		"links": map[string]any{
			"clone": []any{
				map[string]any{"name": "http", "href": x.URL + "/scm/" + strings.ToLower(key) + "/" + slug + ".git"},
				map[string]any{"name": "ssh", "href": "ssh://git@bitbucket.example.com:7999/" + strings.ToLower(key) + "/" + slug + ".git"},
			},
			"self": []any{map[string]any{"href": x.URL + "/projects/" + key + "/repos/" + slug + "/browse"}},
		},
	}
}

// serverList writes a page; limit is 25 by default and at most 1000.
func serverList(x *exchange, values []any) {
	start, limit := x.number("start", 0), min(x.number("limit", 25), 1000)
	from := min(start, len(values))
	to := min(from+limit, len(values))
	body := map[string]any{"start": start, "limit": limit, "size": to - from, "isLastPage": to == len(values), "values": values[from:to]}
	if to < len(values) {
		body["nextPageStart"] = to
	}
	x.respond(http.StatusOK, body)
}

// serverRepositories serves GET /repos, filtered by name and permission.
func serverRepositories(x *exchange) {
	query := x.r.URL.Query()
	if permission := query.Get("permission"); !slices.Contains([]string{"REPO_READ", "REPO_WRITE", "REPO_ADMIN"}, permission) {
		x.undocumented("permission=%s", permission)
	}
	list := []any{}
	for i := range x.world.Repositories {
		repository := &x.world.Repositories[i]
		_, slug, _ := strings.Cut(repository.Path, "/")
		if serverHas(x, repository.Path, query.Get("permission")) && strings.HasPrefix(strings.ToLower(slug), strings.ToLower(query.Get("name"))) {
			list = append(list, serverJSON(x, repository))
		}
	}
	serverList(x, list)
}

// serverProjects serves GET /projects, filtered by permission.
func serverProjects(x *exchange) {
	if permission := x.r.URL.Query().Get("permission"); !slices.Contains([]string{"PROJECT_READ", "PROJECT_WRITE", "PROJECT_ADMIN"}, permission) {
		x.undocumented("permission=%s", permission)
	}
	list := []any{}
	for key := range x.world.Owners {
		if serverHas(x, key, x.r.URL.Query().Get("permission")) {
			list = append(list, map[string]any{"key": key, "name": key})
		}
	}
	serverList(x, list)
}

// serverMissing writes the error for an unknown repository.
func serverMissing(x *exchange) {
	serverError(x, http.StatusNotFound, "Repository "+x.r.PathValue("key")+"/"+x.r.PathValue("slug")+" does not exist.", "com.atlassian.bitbucket.repository.NoSuchRepositoryException")
}

// serverDenied writes the error for a missing permission, which is 401 at
// Bitbucket Server.
func serverDenied(x *exchange) {
	serverError(x, http.StatusUnauthorized, "You are not permitted to access this resource", "com.atlassian.bitbucket.AuthorisationException")
}

// serverGet serves GET /projects/{key}/repos/{slug}.
func serverGet(x *exchange) {
	repository := x.repository(x.r.PathValue("key") + "/" + x.r.PathValue("slug"))
	if repository == nil {
		serverMissing(x)
		return
	}
	x.respond(http.StatusOK, serverJSON(x, repository))
}

// serverCreate serves POST /projects/{key}/repos.
func serverCreate(x *exchange) {
	key := x.r.PathValue("key")
	if x.world.Owners[key] == "" {
		serverError(x, http.StatusNotFound, "Project "+key+" does not exist.", "com.atlassian.bitbucket.project.NoSuchProjectException")
		return
	}
	if !serverHas(x, key, "PROJECT_ADMIN") && key != "~"+x.token.Login {
		serverDenied(x)
		return
	}
	path := key + "/" + text(x.body["name"])
	if x.find(path) != nil {
		serverError(x, http.StatusConflict, "This repository URL is already taken by '"+text(x.body["name"])+"' in '"+key+"'", "com.atlassian.bitbucket.DuplicateEntityException")
		return
	}
	x.respond(http.StatusCreated, serverJSON(x, x.create(path, !flag(x.body["public"]))))
}

// serverAdmin returns the repository if the token's user administers it, and
// otherwise writes the error.
func serverAdmin(x *exchange, _ string) *Repository {
	repository := x.repository(x.r.PathValue("key") + "/" + x.r.PathValue("slug"))
	if repository == nil {
		serverMissing(x)
		return nil
	}
	if limited := x.token.Limit != "" && x.token.Limit != "admin"; limited || !serverHas(x, repository.Path, "REPO_ADMIN") {
		serverDenied(x)
		return nil
	}
	return repository
}

// serverHookJSON encodes a hook.
func serverHookJSON(hook Hook) map[string]any {
	return map[string]any{
		"id": hook.ID, "name": "Slipway", "url": hook.URL, "active": hook.Active, "events": hook.Events,
		"configuration": map[string]any{}, "sslVerificationRequired": hook.VerifyTLS,
	}
}

// serverHook decodes the hook of a request body.
func serverHook(x *exchange) Hook {
	for _, event := range texts(x.body["events"]) {
		if event != "repo:refs_changed" && !strings.HasPrefix(event, "pr:") {
			x.undocumented("the event %s", event)
		}
	}
	configuration, _ := x.body["configuration"].(map[string]any)
	return Hook{
		URL: text(x.body["url"]), Secret: text(configuration["secret"]), Events: texts(x.body["events"]),
		JSON: true, Active: flag(x.body["active"]), VerifyTLS: flag(x.body["sslVerificationRequired"]),
	}
}

// serverHooks are the calls of the webhooks.
func serverHooks() webhooks {
	return webhooks{
		open: serverAdmin, read: serverHook, show: serverHookJSON,
		missing: func(x *exchange) {
			serverError(x, http.StatusNotFound, "The webhook does not exist.", "com.atlassian.bitbucket.webhook.NoSuchWebhookException")
		},
	}
}

// serverListHooks serves GET .../webhooks, in pages.
func serverListHooks(x *exchange) {
	if repository := serverAdmin(x, "read"); repository != nil {
		serverList(x, serverHooks().list(repository.Hooks))
	}
}
