package providertest

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// bitbucketEndpoints returns the endpoints of Bitbucket Cloud's REST API 2.0
// that the client uses.
func bitbucketEndpoints() []endpoint {
	const (
		users        = "https://developer.atlassian.com/cloud/bitbucket/rest/api-group-users/"
		repositories = "https://developer.atlassian.com/cloud/bitbucket/rest/api-group-repositories/"
	)
	repository := map[string]string{"scm": "string", "is_private": "bool", "fork_policy": "string", "description": "string"}
	hook := map[string]string{
		"description": "string!", "url": "string!", "active": "bool", "events": "array!", "secret": "string", "skip_cert_verification": "bool",
	}
	const at = "/repositories/{workspace}/{slug}"
	return []endpoint{
		{method: "GET", path: "/user", page: users, handle: bitbucketUser},
		{method: "GET", path: at, page: repositories, handle: bitbucketGet},
		{method: "POST", path: at, page: repositories, fields: repository, handle: bitbucketCreate},
		{method: "GET", path: at + "/hooks", page: repositories, query: []string{"pagelen", "page"}, handle: bitbucketListHooks},
		{method: "POST", path: at + "/hooks", page: repositories, fields: hook, handle: bitbucketHooks().create},
		{method: "PUT", path: at + "/hooks/{hook}", page: repositories, fields: hook, handle: bitbucketHooks().update},
		{method: "DELETE", path: at + "/hooks/{hook}", page: repositories, handle: bitbucketHooks().remove},
	}
}

// bitbucketError writes an error body.
func bitbucketError(x *exchange, status int, body map[string]any) {
	x.respond(status, map[string]any{"type": "error", "error": body})
}

// bitbucketScope sets the scope headers and rejects a token without one of
// the scopes. The error names the first one.
func bitbucketScope(x *exchange, scopes ...string) bool {
	if x.token.Scopes != nil {
		x.w.Header().Set("X-OAuth-Scopes", strings.Join(x.token.Scopes, ", "))
	}
	x.w.Header().Set("X-Accepted-OAuth-Scopes", scopes[0])
	if x.scoped(scopes...) {
		return true
	}
	bitbucketError(x, http.StatusForbidden, map[string]any{
		"message": "Your credentials lack one or more required privilege scopes.",
		"detail":  map[string]any{"granted": x.token.Scopes, "required": []string{scopes[0]}},
	})
	return false
}

// bitbucketUser serves GET /user.
func bitbucketUser(x *exchange) {
	if bitbucketScope(x, "account", "account:write", "read:user:bitbucket") {
		x.respond(http.StatusOK, map[string]any{"type": "user", "username": x.token.Login, "nickname": x.token.Login, "uuid": "{9c3f0f8e-5c5c-4a1a-9d4e-000000000001}"})
	}
}

// bitbucketJSON encodes a repository. Clone URLs contain the user name, as at
// Bitbucket.
func bitbucketJSON(x *exchange, repository *Repository) map[string]any {
	var branch any
	if repository.DefaultBranch != "" {
		branch = map[string]any{"type": "branch", "name": repository.DefaultBranch}
	}
	return map[string]any{
		"type": "repository", "full_name": repository.Path, "is_private": repository.Private, "mainbranch": branch,
		"links": map[string]any{
			"html": map[string]any{"href": x.URL + "/" + repository.Path},
			"clone": []any{
				map[string]any{"name": "https", "href": strings.Replace(x.URL, "https://", "https://somebody@", 1) + "/" + repository.Path + ".git"},
				map[string]any{"name": "ssh", "href": "git@bitbucket.org:" + repository.Path + ".git"},
			},
		},
	}
}

// bitbucketPath returns workspace/slug of the request.
func bitbucketPath(x *exchange) string {
	return x.r.PathValue("workspace") + "/" + x.r.PathValue("slug")
}

// bitbucketRepository returns the repository if the token has scope and role,
// and otherwise writes the error.
func bitbucketRepository(x *exchange, role string, scopes ...string) *Repository {
	if !bitbucketScope(x, scopes...) {
		return nil
	}
	repository := x.repository(bitbucketPath(x))
	if repository == nil {
		bitbucketError(x, http.StatusNotFound, map[string]any{"message": "Repository " + bitbucketPath(x) + " not found"})
		return nil
	}
	if got, _ := x.role(repository.Path); role == "admin" && got != "admin" {
		bitbucketError(x, http.StatusForbidden, map[string]any{"message": "Your credentials do not have admin access to this repository."})
		return nil
	}
	return repository
}

// bitbucketGet serves GET /repositories/{workspace}/{slug}.
func bitbucketGet(x *exchange) {
	if repository := bitbucketRepository(x, "read", "repository", "repository:write", "read:repository:bitbucket"); repository != nil {
		x.respond(http.StatusOK, bitbucketJSON(x, repository))
	}
}

// bitbucketCreate serves POST /repositories/{workspace}/{slug}.
func bitbucketCreate(x *exchange) {
	if !bitbucketScope(x, "repository:admin", "admin:repository:bitbucket") {
		return
	}
	if x.body["scm"] != "git" {
		x.undocumented("scm is %v", x.body["scm"])
	}
	if policy, given := x.body["fork_policy"]; given && !slices.Contains([]string{"allow_forks", "no_public_forks", "no_forks"}, text(policy)) {
		x.undocumented("fork_policy is %v", policy)
	}
	path := bitbucketPath(x)
	if x.world.Owners[x.r.PathValue("workspace")] == "" {
		bitbucketError(x, http.StatusNotFound, map[string]any{"message": "No workspace with identifier '" + x.r.PathValue("workspace") + "'."})
		return
	}
	if x.find(path) != nil {
		bitbucketError(x, http.StatusBadRequest, map[string]any{"message": "Repository with this Slug and Owner already exists."})
		return
	}
	x.respond(http.StatusOK, bitbucketJSON(x, x.create(path, flag(x.body["is_private"]))))
}

// bitbucketHookJSON encodes a hook without its secret.
func bitbucketHookJSON(hook Hook) map[string]any {
	return map[string]any{
		"type": "webhook_subscription", "uuid": bitbucketUID(hook.ID), "url": hook.URL, "active": hook.Active,
		"events": hook.Events, "secret_set": hook.Secret != "", "skip_cert_verification": !hook.VerifyTLS,
	}
}

// bitbucketUID returns the UUID of a hook, in braces as Bitbucket has it.
func bitbucketUID(id int64) string { return "{hook-" + strconv.FormatInt(id, 10) + "}" }

// bitbucketHook decodes the hook of a request body.
func bitbucketHook(x *exchange) Hook {
	for _, event := range texts(x.body["events"]) {
		if event != "repo:push" && !strings.HasPrefix(event, "pullrequest:") {
			x.undocumented("the event %s", event)
		}
	}
	return Hook{
		URL: text(x.body["url"]), Secret: text(x.body["secret"]), Events: texts(x.body["events"]),
		JSON: true, Active: flag(x.body["active"]), VerifyTLS: !flag(x.body["skip_cert_verification"]),
	}
}

// bitbucketHooks are the calls of the webhooks.
func bitbucketHooks() webhooks {
	return webhooks{
		open: func(x *exchange, action string) *Repository {
			return bitbucketRepository(x, "admin", "webhook", action+":webhook:bitbucket")
		},
		read: bitbucketHook, show: bitbucketHookJSON,
		missing: func(x *exchange) {
			bitbucketError(x, http.StatusNotFound, map[string]any{"message": "Webhook not found"})
		},
	}
}

// bitbucketListHooks serves GET .../hooks, in pages with a next URL.
func bitbucketListHooks(x *exchange) {
	repository := bitbucketRepository(x, "admin", "webhook", "read:webhook:bitbucket")
	if repository == nil {
		return
	}
	size := min(x.number("pagelen", 10), 100)
	page := max(x.number("page", 1), 1)
	from := min((page-1)*size, len(repository.Hooks))
	to := min(from+size, len(repository.Hooks))
	body := map[string]any{"pagelen": size, "page": page, "size": len(repository.Hooks), "values": bitbucketHooks().list(repository.Hooks[from:to])}
	if to < len(repository.Hooks) {
		body["next"] = x.origin + x.r.URL.Path + "?pagelen=" + strconv.Itoa(size) + "&page=" + strconv.Itoa(page+1)
	}
	x.respond(http.StatusOK, body)
}
