package providertest

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// CommitStatus is a status of a commit, the newest one last.
type CommitStatus struct{ SHA, Context, State, Description, TargetURL string }

// Deployment is a deployment of a commit to an environment, the newest one last. At GitLab
// it has one status.
type Deployment struct {
	ID               int64
	SHA, Environment string
	Statuses         []DeploymentStatus
	Created          time.Time
}

// DeploymentStatus is a status of a deployment, the newest one last.
type DeploymentStatus struct{ State, Description, EnvironmentURL, LogURL string }

// newestFirst returns the elements for which show returns something, the last one first.
func newestFirst[T any](all []T, show func(one T) map[string]any) []any {
	found := []any{}
	for i := len(all) - 1; i >= 0; i-- {
		if shown := show(all[i]); shown != nil {
			found = append(found, shown)
		}
	}
	return found
}

// addDeployment adds a deployment with the next ID.
func (x *exchange) addDeployment(of *Repository, made Deployment) Deployment {
	x.nextID++
	made.ID, made.Created = x.nextID, time.Now().UTC()
	of.Deployments = append(of.Deployments, made)
	return made
}

// gitHubDeliveryEndpoints returns the endpoints of statuses and deployments of GitHub, and
// that of the token of an App.
func gitHubDeliveryEndpoints() []endpoint {
	const (
		statuses    = "https://docs.github.com/rest/commits/statuses"
		deployments = "https://docs.github.com/rest/deployments/deployments"
		states      = "https://docs.github.com/rest/deployments/statuses"
		commits     = "https://docs.github.com/rest/commits/commits"
		apps        = "https://docs.github.com/rest/apps/apps"
		at          = "/repos/{owner}/{repo}"
	)
	paging := []string{"per_page", "page"}
	status := map[string]string{"state": "string!", "context": "string", "description": "string", "target_url": "string"}
	deployment := map[string]string{
		"ref": "string!", "environment": "string", "auto_merge": "bool", "transient_environment": "bool", "required_contexts": "array", "payload": "object",
		"description": "string", "task": "string", "production_environment": "bool",
	}
	state := map[string]string{
		"state": "string!", "log_url": "string", "description": "string", "environment": "string", "environment_url": "string", "auto_inactive": "bool",
	}
	return []endpoint{
		{method: "POST", path: "/app/installations/{id}/access_tokens", page: apps, open: true, fields: map[string]string{"repositories": "array"}, handle: gitHubAppToken},
		{method: "GET", path: at + "/commits/{sha}/statuses", page: statuses, query: paging, handle: gitHubStatuses},
		{method: "POST", path: at + "/statuses/{sha}", page: statuses, fields: status, handle: gitHubAddStatus},
		{method: "GET", path: at + "/commits/{sha}/pulls", page: commits, query: paging, handle: gitHubCommitPulls},
		{method: "GET", path: at + "/deployments", page: deployments, query: append([]string{"sha", "ref", "task", "environment"}, paging...), handle: gitHubDeployments},
		{method: "POST", path: at + "/deployments", page: deployments, fields: deployment, handle: gitHubDeploy},
		{method: "GET", path: at + "/deployments/{deployment}/statuses", page: states, query: paging, handle: gitHubStates},
		{method: "POST", path: at + "/deployments/{deployment}/statuses", page: states, fields: state, handle: gitHubAddState},
	}
}

// gitHubAppToken gives an App the first token. The signature of the request is not
// checked: the tests of package githubapp do that.
func gitHubAppToken(x *exchange) {
	x.respond(http.StatusCreated, map[string]any{"token": x.world.Tokens[0].Value, "expires_at": "2999-01-01T00:00:00Z"})
}

// gitHubStatuses serves the statuses of a commit, the newest first. The list keeps the
// older ones of a context, so that a client has to stop at the first one.
func gitHubStatuses(x *exchange) {
	of := gitHubAllowed(x, "statuses", "read")
	if of == nil {
		return
	}
	pagedList(30)(x, newestFirst(of.Statuses, func(one CommitStatus) map[string]any {
		if one.SHA != x.r.PathValue("sha") {
			return nil
		}
		return map[string]any{"context": one.Context, "state": one.State, "description": one.Description, "target_url": orNull(one.TargetURL)}
	}))
}

// orNull is a text, or null for an empty one.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// gitHubAddStatus serves POST .../statuses/{sha}, which never refuses a second one.
func gitHubAddStatus(x *exchange) {
	if of := gitHubAllowed(x, "statuses", "write"); of != nil {
		of.Statuses = append(of.Statuses, CommitStatus{
			SHA: x.r.PathValue("sha"), Context: text(x.body["context"]), State: text(x.body["state"]), Description: text(x.body["description"]), TargetURL: text(x.body["target_url"]),
		})
		x.respond(http.StatusCreated, map[string]any{"id": len(of.Statuses)})
	}
}

// gitHubCommitPulls serves the pull requests of a commit.
func gitHubCommitPulls(x *exchange) {
	of := gitHubAllowed(x, "pull_requests", "read")
	if of == nil {
		return
	}
	pagedList(30)(x, newestFirst(of.Pulls, func(pull Pull) map[string]any {
		if pull.HeadSHA != x.r.PathValue("sha") {
			return nil
		}
		return gitHubPullJSON(x, of, pull)
	}))
}

// gitHubDeployments serves the deployments of a commit to an environment.
func gitHubDeployments(x *exchange) {
	of := gitHubAllowed(x, "deployments", "read")
	if of == nil {
		return
	}
	query := x.r.URL.Query()
	pagedList(30)(x, newestFirst(of.Deployments, func(one Deployment) map[string]any {
		if one.SHA != query.Get("sha") || one.Environment != query.Get("environment") {
			return nil
		}
		return map[string]any{"id": one.ID, "sha": one.SHA, "environment": one.Environment}
	}))
}

// gitHubDeploy serves POST .../deployments, which never refuses a second one.
func gitHubDeploy(x *exchange) {
	if of := gitHubAllowed(x, "deployments", "write"); of != nil {
		made := x.addDeployment(of, Deployment{SHA: text(x.body["ref"]), Environment: text(x.body["environment"])})
		x.respond(http.StatusCreated, map[string]any{"id": made.ID})
	}
}

// gitHubDeployment returns the deployment in the path; nil after an error response.
func gitHubDeployment(x *exchange, level string) *Deployment {
	of := gitHubAllowed(x, "deployments", level)
	if of == nil {
		return nil
	}
	for i := range of.Deployments {
		if strconv.FormatInt(of.Deployments[i].ID, 10) == x.r.PathValue("deployment") {
			return &of.Deployments[i]
		}
	}
	gitHubDenied(x, http.StatusNotFound, "Not Found")
	return nil
}

// gitHubStates serves the statuses of a deployment, the newest first.
func gitHubStates(x *exchange) {
	if of := gitHubDeployment(x, "read"); of != nil {
		pagedList(30)(x, newestFirst(of.Statuses, func(one DeploymentStatus) map[string]any {
			return map[string]any{
				"state": one.State, "description": one.Description, "environment": of.Environment, "environment_url": one.EnvironmentURL, "log_url": one.LogURL,
			}
		}))
	}
}

// gitHubAddState serves POST .../deployments/{deployment}/statuses. It accepts the same
// status again, as GitHub does: a client that does not look first writes it twice.
func gitHubAddState(x *exchange) {
	if of := gitHubDeployment(x, "write"); of != nil {
		of.Statuses = append(of.Statuses, DeploymentStatus{
			State: text(x.body["state"]), Description: text(x.body["description"]), EnvironmentURL: text(x.body["environment_url"]), LogURL: text(x.body["log_url"]),
		})
		x.respond(http.StatusCreated, map[string]any{"id": len(of.Statuses)})
	}
}

// gitLabDeliveryEndpoints returns the endpoints of statuses and deployments of GitLab.
func gitLabDeliveryEndpoints() []endpoint {
	const (
		commits     = "https://docs.gitlab.com/api/commits/"
		deployments = "https://docs.gitlab.com/api/deployments/"
		at          = "/projects/{id}"
	)
	status := map[string]string{"state": "string!", "name": "string", "description": "string", "target_url": "string"}
	deployment := map[string]string{"environment": "string!", "sha": "string!", "ref": "string!", "tag": "bool!", "status": "string!"}
	paging := []string{"per_page", "page"}
	return []endpoint{
		{method: "GET", path: at + "/repository/commits/{sha}/statuses", page: commits, query: append([]string{"name", "ref", "stage", "all"}, paging...), handle: gitLabStatuses},
		{method: "POST", path: at + "/statuses/{sha}", page: commits, fields: status, handle: gitLabAddStatus},
		{method: "GET", path: at + "/repository/commits/{sha}/merge_requests", page: commits, query: append([]string{"state"}, paging...), handle: gitLabCommitRequests},
		{method: "GET", path: at + "/deployments", page: deployments, query: append([]string{"environment", "status", "order_by", "sort"}, paging...), handle: gitLabDeployments},
		{method: "POST", path: at + "/deployments", page: deployments, fields: deployment, handle: gitLabDeploy},
	}
}

// gitLabLatest returns the latest status of a name.
func gitLabLatest(of *Repository, sha, name string) (latest CommitStatus) {
	for _, one := range of.Statuses {
		if one.SHA == sha && one.Context == name {
			latest = one
		}
	}
	return latest
}

// gitLabStatuses serves the latest status of each name of a commit.
func gitLabStatuses(x *exchange) {
	of := gitLabProject(x, "read_api", "api")
	if of == nil {
		return
	}
	sha, name := x.r.PathValue("sha"), x.r.URL.Query().Get("name")
	pagedList(20)(x, newestFirst(of.Statuses, func(one CommitStatus) map[string]any {
		if one.SHA != sha || name != "" && one.Context != name || one != gitLabLatest(of, sha, one.Context) {
			return nil
		}
		return map[string]any{"name": one.Context, "status": one.State, "description": one.Description}
	}))
}

// gitLabAddStatus serves POST .../statuses/{sha}, which refuses the state that there is.
func gitLabAddStatus(x *exchange) {
	of := gitLabProject(x, "api")
	if of == nil {
		return
	}
	made := CommitStatus{
		SHA: x.r.PathValue("sha"), Context: text(x.body["name"]), State: text(x.body["state"]), Description: text(x.body["description"]), TargetURL: text(x.body["target_url"]),
	}
	if gitLabLatest(of, made.SHA, made.Context).State == made.State {
		gitLabMessage(x, http.StatusBadRequest, "Cannot transition status via :"+made.State+" from :"+made.State)
		return
	}
	of.Statuses = append(of.Statuses, made)
	x.respond(http.StatusCreated, map[string]any{"name": made.Context, "status": made.State})
}

// gitLabCommitRequests serves the merge requests of a commit.
func gitLabCommitRequests(x *exchange) {
	of := gitLabProject(x, "read_api", "api")
	if of == nil {
		return
	}
	pagedList(20)(x, newestFirst(of.Pulls, func(pull Pull) map[string]any {
		if pull.HeadSHA != x.r.PathValue("sha") {
			return nil
		}
		return map[string]any{"iid": pull.Number, "state": gitLabState(pull)}
	}))
}

// gitLabDeployments serves the deployments to an environment, the newest first. GitLab has
// no filter by commit, so that clients compare it themselves.
func gitLabDeployments(x *exchange) {
	of := gitLabProject(x, "read_api", "api")
	if of == nil {
		return
	}
	query := x.r.URL.Query()
	if query.Get("sort") != "desc" || query.Get("order_by") != "id" {
		x.undocumented("the list is in the order %q %q, which this server does not have", query.Get("order_by"), query.Get("sort"))
	}
	pagedList(20)(x, newestFirst(of.Deployments, func(one Deployment) map[string]any {
		if one.Environment != query.Get("environment") {
			return nil
		}
		return map[string]any{
			"id": one.ID, "sha": one.SHA, "status": one.Statuses[0].State, "created_at": one.Created.Format("2006-01-02T15:04:05.000Z07:00"),
			"environment": map[string]any{"name": one.Environment},
		}
	}))
}

// gitLabDeploy serves POST .../deployments, which never refuses a second one.
func gitLabDeploy(x *exchange) {
	of := gitLabProject(x, "api")
	if of == nil {
		return
	}
	if !strings.Contains("running success failed canceled", text(x.body["status"])) {
		gitLabMessage(x, http.StatusBadRequest, "status does not have a valid value")
		return
	}
	made := x.addDeployment(of, Deployment{
		SHA: text(x.body["sha"]), Environment: text(x.body["environment"]), Statuses: []DeploymentStatus{{State: text(x.body["status"])}},
	})
	x.respond(http.StatusCreated, map[string]any{"id": made.ID, "status": text(x.body["status"])})
}
