package providertest

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/gitprovider"
)

// gitHubPullEndpoints returns the endpoints of pull requests of GitHub, and of Gitea,
// whose API follows it.
func gitHubPullEndpoints(kind gitprovider.Kind) []endpoint {
	const at = "/repos/{owner}/{repo}"
	pulls, comments := "https://docs.github.com/rest/pulls/pulls", "https://docs.github.com/rest/issues/comments"
	paging, filters := []string{"per_page", "page"}, []string{"state", "head", "base", "per_page", "page"}
	if kind == gitprovider.Gitea {
		pulls = "https://docs.gitea.com/api/#tag/repository/operation/repoListPullRequests"
		comments = "https://docs.gitea.com/api/#tag/issue/operation/issueGetComments"
		paging, filters = []string{"since", "before"}, []string{"state", "sort", "page", "limit"}
	}
	calls := gitHubPullCalls(kind)
	fields := map[string]string{"title": "string!", "body": "string", "head": "string!", "base": "string!"}
	return []endpoint{
		{method: "GET", path: at + "/pulls", page: pulls, query: filters, handle: calls.listPulls},
		{method: "POST", path: at + "/pulls", page: pulls, fields: fields, handle: calls.create},
		{method: "GET", path: at + "/pulls/{number}", page: pulls, handle: calls.get},
		{method: "GET", path: at + "/issues/{number}/comments", page: comments, query: paging, handle: calls.listComments},
		{method: "POST", path: at + "/issues/{number}/comments", page: comments, fields: map[string]string{"body": "string!"}, handle: calls.addComment},
		{method: "PATCH", path: at + "/issues/comments/{comment}", page: comments, fields: map[string]string{"body": "string!"}, handle: calls.editComment},
	}
}

// gitHubPullCalls are those of GitHub and Gitea.
func gitHubPullCalls(kind gitprovider.Kind) pullCalls {
	calls := pullCalls{
		open: func(x *exchange, write bool) *Repository {
			// Pull requests of a public repository are readable without a permission.
			repository := x.repository(gitHubPath(x))
			if repository != nil && !repository.Private && !write || kind == gitprovider.Gitea && repository != nil {
				return repository
			}
			return gitHubAllowed(x, "pull_requests", "write")
		},
		selects: func(x *exchange, pull Pull) bool {
			// The owner in front of the branch is that of the fork, or of the repository.
			query := x.r.URL.Query()
			if head := query.Get("head"); head != "" && head != x.r.PathValue("owner")+":"+pull.Head {
				return false
			}
			if base := query.Get("base"); base != "" && base != pull.Base {
				return false
			}
			return cmp.Or(query.Get("state"), "open") == "all" || pull.State == gitprovider.PullRequestOpen
		},
		show: gitHubPullJSON,
		read: func(x *exchange) Pull {
			return Pull{Title: text(x.body["title"]), Body: text(x.body["body"]), Head: text(x.body["head"]), Base: text(x.body["base"])}
		},
		list: plainList, comments: pagedList(30),
		showComment: func(comment PullComment) map[string]any {
			return map[string]any{"id": comment.ID, "body": comment.Text}
		},
		text:    func(x *exchange) string { return text(x.body["body"]) },
		problem: gitHubDenied, duplicate: http.StatusUnprocessableEntity,
	}
	if kind == gitprovider.Gitea {
		calls.duplicate, calls.comments = http.StatusConflict, plainList
	}
	return calls
}

// gitHubPullJSON encodes a pull request.
func gitHubPullJSON(x *exchange, of *Repository, pull Pull) map[string]any {
	// A merged pull request has the state closed, too.
	state := "open"
	if pull.State != gitprovider.PullRequestOpen {
		state = "closed"
	}
	labels := []any{}
	for _, name := range pull.Labels {
		labels = append(labels, map[string]any{"name": name})
	}
	var mergedAt any
	if pull.State == gitprovider.PullRequestMerged {
		mergedAt = "2026-01-02T03:04:05Z"
	}
	return map[string]any{
		"number": pull.Number, "title": pull.Title, "body": pull.Body, "state": state, "merged": mergedAt != nil, "merged_at": mergedAt, "merge_commit_sha": pull.MergeSHA,
		"html_url": x.URL + "/" + of.Path + "/pull/" + strconv.FormatInt(pull.Number, 10), "labels": labels, "user": map[string]any{"login": pull.Author},
		"head": map[string]any{"ref": pull.Head, "sha": pull.HeadSHA, "repo": map[string]any{"full_name": cmp.Or(pull.Fork, of.Path)}},
		"base": map[string]any{"ref": pull.Base, "repo": map[string]any{"full_name": of.Path}},
	}
}

// giteaEndpoints returns the endpoints of Gitea that the client uses.
func giteaEndpoints() []endpoint {
	version := endpoint{method: "GET", path: "/version", page: "https://docs.gitea.com/api/#tag/miscellaneous", open: true, handle: func(x *exchange) {
		x.respond(http.StatusOK, map[string]any{"version": "1.27.3"})
	}}
	return append(gitHubPullEndpoints(gitprovider.Gitea), version)
}

// gitLabPullEndpoints returns the endpoints of merge requests of GitLab.
func gitLabPullEndpoints() []endpoint {
	const (
		requests = "https://docs.gitlab.com/api/merge_requests/"
		notes    = "https://docs.gitlab.com/api/notes/"
		at       = "/projects/{id}/merge_requests"
	)
	fields := map[string]string{
		"title": "string!", "description": "string", "source_branch": "string!", "target_branch": "string!", "remove_source_branch": "bool", "labels": "string",
	}
	calls := pullCalls{
		open: func(x *exchange, write bool) *Repository {
			if write {
				return gitLabProject(x, "api")
			}
			return gitLabProject(x, "read_api", "api")
		},
		selects: func(x *exchange, pull Pull) bool {
			query := x.r.URL.Query()
			return (query.Get("source_branch") == "" || query.Get("source_branch") == pull.Head) && (query.Get("target_branch") == "" || query.Get("target_branch") == pull.Base) &&
				(query.Get("state") == "all" || query.Get("state") == "" || query.Get("state") == gitLabState(pull))
		},
		show: func(x *exchange, of *Repository, pull Pull) map[string]any {
			// A fork is a project with a number of its own.
			target := gitLabProjectID(x, of)
			from := target
			if pull.Fork != "" {
				from = target + 1000
			}
			return map[string]any{
				"iid": pull.Number, "title": pull.Title, "description": pull.Body, "state": gitLabState(pull), "labels": append([]string{}, pull.Labels...),
				"source_branch": pull.Head, "target_branch": pull.Base, "sha": pull.HeadSHA, "merge_commit_sha": pull.MergeSHA, "squash_commit_sha": nil,
				"source_project_id": from, "target_project_id": target, "author": map[string]any{"username": pull.Author},
				"web_url": x.URL + "/" + of.Path + "/-/merge_requests/" + strconv.FormatInt(pull.Number, 10),
			}
		},
		read: func(x *exchange) Pull {
			return Pull{Title: text(x.body["title"]), Body: text(x.body["description"]), Head: text(x.body["source_branch"]), Base: text(x.body["target_branch"])}
		},
		list: plainList, comments: pagedList(20),
		showComment: func(comment PullComment) map[string]any {
			return map[string]any{"id": comment.ID, "body": comment.Text, "system": false}
		},
		text:    func(x *exchange) string { return text(x.body["body"]) },
		problem: gitLabMessage, duplicate: http.StatusConflict,
	}
	note := map[string]string{"body": "string!"}
	return []endpoint{
		{method: "GET", path: at, page: requests, query: []string{"state", "source_branch", "target_branch", "labels", "per_page", "page"}, handle: calls.listPulls},
		{method: "POST", path: at, page: requests, fields: fields, handle: calls.create},
		{method: "GET", path: at + "/{number}", page: requests, handle: calls.get},
		{method: "GET", path: at + "/{number}/notes", page: notes, query: []string{"per_page", "page"}, handle: calls.listComments},
		{method: "POST", path: at + "/{number}/notes", page: notes, fields: note, handle: calls.addComment},
		{method: "PUT", path: at + "/{number}/notes/{comment}", page: notes, fields: note, handle: calls.editComment},
	}
}

// gitLabState is the state of a merge request.
func gitLabState(pull Pull) string {
	if pull.State == gitprovider.PullRequestOpen {
		return "opened"
	}
	return strings.ToLower(string(pull.State))
}
