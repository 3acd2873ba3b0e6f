package providertest

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"slipway.dev/slipway/internal/gitprovider"
)

// bitbucketState is the state of a pull request, of the cloud and of the server.
func bitbucketState(pull Pull) string {
	switch pull.State {
	case gitprovider.PullRequestOpen:
		return "OPEN"
	case gitprovider.PullRequestMerged:
		return "MERGED"
	}
	return "DECLINED"
}

// below returns an object in a body.
func below(body map[string]any, names ...string) map[string]any {
	for _, name := range names {
		body, _ = body[name].(map[string]any)
	}
	return body
}

// bitbucketPullEndpoints returns the endpoints of pull requests of Bitbucket Cloud.
func bitbucketPullEndpoints() []endpoint {
	const (
		page = "https://developer.atlassian.com/cloud/bitbucket/rest/api-group-pullrequests/"
		at   = "/repositories/{workspace}/{slug}/pullrequests"
	)
	fields := map[string]string{
		"title": "string!", "description": "string", "close_source_branch": "bool",
		"source": "object!", "source.branch": "object!", "source.branch.name": "string!",
		"destination": "object", "destination.branch": "object", "destination.branch.name": "string",
	}
	comment := map[string]string{"content": "object!", "content.raw": "string!"}
	end := func(branch, path string) map[string]any {
		return map[string]any{"branch": map[string]any{"name": branch}, "repository": map[string]any{"full_name": path}}
	}
	list := func(x *exchange, elements []any) {
		x.respond(http.StatusOK, map[string]any{"pagelen": 50, "page": 1, "size": len(elements), "values": elements})
	}
	calls := pullCalls{
		open: func(x *exchange, write bool) *Repository {
			if write {
				return bitbucketRepository(x, "read", "pullrequest:write", "write:pullrequest:bitbucket")
			}
			return bitbucketRepository(x, "read", "pullrequest", "read:pullrequest:bitbucket")
		},
		selects: func(x *exchange, pull Pull) bool {
			// The query language is not implemented: the text is compared.
			query := x.r.URL.Query().Get("q")
			named := query == `source.branch.name = "`+pull.Head+`" AND destination.branch.name = "`+pull.Base+`"`
			return (query == "" || named) && anyOf(x, "state", bitbucketState(pull))
		},
		show: func(x *exchange, of *Repository, pull Pull) map[string]any {
			source := end(pull.Head, cmp.Or(pull.Fork, of.Path))
			source["commit"] = map[string]any{"hash": pull.HeadSHA}
			var merge any
			if pull.State == gitprovider.PullRequestMerged {
				merge = map[string]any{"hash": pull.MergeSHA}
			}
			return map[string]any{
				"type": "pullrequest", "id": pull.Number, "title": pull.Title, "state": bitbucketState(pull), "author": map[string]any{"nickname": pull.Author},
				"source": source, "destination": end(pull.Base, of.Path), "merge_commit": merge,
				"links": map[string]any{"html": map[string]any{"href": x.URL + "/" + of.Path + "/pull-requests/" + strconv.FormatInt(pull.Number, 10)}},
			}
		},
		read: func(x *exchange) Pull {
			return Pull{
				Title: text(x.body["title"]), Body: text(x.body["description"]),
				Head: text(below(x.body, "source", "branch")["name"]), Base: text(below(x.body, "destination", "branch")["name"]),
			}
		},
		list: list, comments: list,
		showComment: func(comment PullComment) map[string]any {
			return map[string]any{"id": comment.ID, "deleted": false, "content": map[string]any{"raw": comment.Text}}
		},
		text: func(x *exchange) string { return text(below(x.body, "content")["raw"]) },
		problem: func(x *exchange, status int, message string) {
			bitbucketError(x, status, map[string]any{"message": message})
		},
		duplicate: http.StatusBadRequest,
	}
	return []endpoint{
		{method: "GET", path: at, page: page, query: []string{"q", "sort", "pagelen", "page"}, repeated: []string{"state"}, handle: calls.listPulls},
		{method: "POST", path: at, page: page, fields: fields, handle: calls.create},
		{method: "GET", path: at + "/{number}", page: page, handle: calls.get},
		{method: "GET", path: at + "/{number}/comments", page: page, query: []string{"pagelen", "page", "q", "sort"}, handle: calls.listComments},
		{method: "POST", path: at + "/{number}/comments", page: page, fields: comment, handle: calls.addComment},
		{method: "PUT", path: at + "/{number}/comments/{comment}", page: page, fields: comment, handle: calls.editComment},
	}
}

// serverPullEndpoints returns the endpoints of pull requests of Bitbucket Server.
func serverPullEndpoints() []endpoint {
	const (
		page = "https://developer.atlassian.com/server/bitbucket/rest/v906/api-group-pull-requests/"
		at   = "/rest/api/1.0/projects/{key}/repos/{slug}/pull-requests"
	)
	fields := map[string]string{"title": "string!", "description": "string", "fromRef": "object!", "toRef": "object!"}
	// Both references have the same fields.
	for _, ref := range []string{"fromRef", "toRef"} {
		for name, kind := range map[string]string{"id": "string!", "repository": "object!", "repository.slug": "string!", "repository.project": "object!", "repository.project.key": "string!"} {
			fields[ref+"."+name] = kind
		}
	}
	ref := func(branch, path string) map[string]any {
		key, slug, _ := strings.Cut(path, "/")
		return map[string]any{
			"id": "refs/heads/" + branch, "displayId": branch, "repository": map[string]any{"slug": slug, "project": map[string]any{"key": key}},
		}
	}
	branch := func(x *exchange, name string) string {
		return strings.TrimPrefix(text(below(x.body, name)["id"]), "refs/heads/")
	}
	calls := pullCalls{
		open: func(x *exchange, write bool) *Repository {
			repository := x.repository(x.r.PathValue("key") + "/" + x.r.PathValue("slug"))
			if repository == nil {
				serverMissing(x)
			}
			return repository
		},
		selects: func(x *exchange, pull Pull) bool {
			query := x.r.URL.Query()
			return (query.Get("at") == "" || query.Get("at") == "refs/heads/"+pull.Head && query.Get("direction") == "OUTGOING") &&
				(query.Get("state") == "ALL" || query.Get("state") == bitbucketState(pull))
		},
		show: func(x *exchange, of *Repository, pull Pull) map[string]any {
			from := ref(pull.Head, cmp.Or(pull.Fork, of.Path))
			from["latestCommit"] = pull.HeadSHA
			return map[string]any{
				"id": pull.Number, "title": pull.Title, "state": bitbucketState(pull), "fromRef": from, "toRef": ref(pull.Base, of.Path),
				"author": map[string]any{"user": map[string]any{"name": pull.Author}}, "properties": map[string]any{"mergeCommit": map[string]any{"id": pull.MergeSHA}},
				"links": map[string]any{"self": []any{map[string]any{"href": x.URL + "/projects/" + of.Path + "/pull-requests/" + strconv.FormatInt(pull.Number, 10)}}},
			}
		},
		read: func(x *exchange) Pull {
			return Pull{Title: text(x.body["title"]), Body: text(x.body["description"]), Head: branch(x, "fromRef"), Base: branch(x, "toRef")}
		},
		list: serverList,
		comments: func(x *exchange, elements []any) {
			// Comments are among other activities, as at the real server.
			activities := []any{map[string]any{"action": "OPENED"}}
			for _, one := range elements {
				activities = append(activities, map[string]any{"action": "COMMENTED", "comment": one})
			}
			serverList(x, activities)
		},
		showComment: func(comment PullComment) map[string]any {
			return map[string]any{"id": comment.ID, "version": comment.Version, "text": comment.Text}
		},
		text: func(x *exchange) string { return text(x.body["text"]) },
		problem: func(x *exchange, status int, message string) {
			serverError(x, status, message, "com.atlassian.bitbucket.pull.DuplicatePullRequestException")
		},
		duplicate: http.StatusConflict,
	}
	return []endpoint{
		{method: "GET", path: at, page: page, query: []string{"state", "at", "direction", "start", "limit"}, handle: calls.listPulls},
		{method: "POST", path: at, page: page, fields: fields, handle: calls.create},
		{method: "GET", path: at + "/{number}", page: page, handle: calls.get},
		{method: "GET", path: at + "/{number}/activities", page: page, query: []string{"start", "limit"}, handle: calls.listComments},
		{method: "POST", path: at + "/{number}/comments", page: page, fields: map[string]string{"text": "string!"}, handle: calls.addComment},
		{method: "PUT", path: at + "/{number}/comments/{comment}", page: page, fields: map[string]string{"text": "string!", "version": "number!"}, handle: calls.editComment},
	}
}
