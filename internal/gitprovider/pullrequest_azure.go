package gitprovider

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// azureRepository splits the path for Azure DevOps:
// organization/project/_git/repository, or v3/organization/project/repository
// over SSH. A repository with the name of its project has no project in its path.
func (a Address) azureRepository() (owner, name string, err error) {
	s := a.Segments
	if a.SSH && len(s) == 4 && s[0] == "v3" {
		return s[1] + "/" + s[2], s[3], nil
	}
	switch at := slices.Index(s, "_git"); {
	case at == 2 && len(s) == 4:
		return s[0] + "/" + s[1], s[3], nil
	case at == 1 && len(s) == 3:
		return s[0] + "/" + s[2], s[2], nil
	}
	return "", "", invalid(AzureDevOps, "the repository's address must be as https://dev.azure.com/<organization>/<project>/_git/<repository>")
}

// azurePullAPI are the pull requests of Azure DevOps.
type azurePullAPI struct {
	*client
	at string // of the repository
}

// azurePull is a pull request of Azure DevOps.
type azurePull struct {
	ID     int64   `json:"pullRequestId"`
	Title  string  `json:"title"`
	Status string  `json:"status"`
	Source string  `json:"sourceRefName"`
	Target string  `json:"targetRefName"`
	Labels []label `json:"labels"`
	Commit struct {
		ID string `json:"commitId"`
	} `json:"lastMergeSourceCommit"`
	Merge struct {
		ID string `json:"commitId"`
	} `json:"lastMergeCommit"`
	Author struct {
		Name string `json:"uniqueName"`
	} `json:"createdBy"`
	// Fork is set for a branch of a fork.
	Fork       *struct{} `json:"forkSource"`
	Repository struct {
		WebURL string `json:"webUrl"`
	} `json:"repository"`
}

// status converts the response.
func (p azurePull) status() PullRequestStatus {
	made := PullRequestStatus{
		Number: p.ID, State: PullRequestClosed, Head: branchOf(p.Source), Base: branchOf(p.Target), HeadSHA: p.Commit.ID, Fork: p.Fork != nil,
	}
	// The field url is that of the API. Lists have no address of the page at all.
	if p.Repository.WebURL != "" {
		made.URL = strings.TrimRight(p.Repository.WebURL, "/") + "/pullrequest/" + strconv.FormatInt(p.ID, 10)
	}
	switch p.Status {
	case "active":
		made.State = PullRequestOpen
	case "completed":
		made.State, made.MergeSHA = PullRequestMerged, p.Merge.ID
	}
	return made
}

// version is the query of every call.
func (a *azurePullAPI) version() url.Values { return url.Values{"api-version": {azureVersion}} }

// list lists pull requests.
func (a *azurePullAPI) list(ctx context.Context, head, base string, all bool) ([]PullRequestStatus, error) {
	status := "active"
	if all {
		status = "all"
	}
	query := url.Values{
		"searchCriteria.status": {status}, "searchCriteria.sourceRefName": {"refs/heads/" + head}, "searchCriteria.targetRefName": {"refs/heads/" + base},
		"$top": {strconv.Itoa(azurePage)},
	}
	found, err := azurePages[azurePull](ctx, a.client, a.at+"/pullrequests", query)
	return converted(found, err, azurePull.status)
}

// create opens a pull request.
func (a *azurePullAPI) create(ctx context.Context, wanted NewPullRequest) (PullRequestStatus, error) {
	// Azure DevOps refuses longer descriptions than the others.
	body := map[string]any{
		"title": wanted.Title, "description": shorten(wanted.Body, 4000), "sourceRefName": "refs/heads/" + wanted.Head, "targetRefName": "refs/heads/" + wanted.Base,
	}
	var made azurePull
	_, err := a.do(ctx, call{method: http.MethodPost, path: a.at + "/pullrequests", query: a.version(), body: body, into: &made})
	return made.status(), err
}

// get reads a pull request.
func (a *azurePullAPI) get(ctx context.Context, number int64) (PullRequestStatus, error) {
	var found azurePull
	_, err := a.do(ctx, call{method: http.MethodGet, path: a.one(number), query: a.version(), into: &found})
	return found.status(), err
}

// one returns the path of a pull request.
func (a *azurePullAPI) one(number int64) string {
	return a.at + "/pullrequests/" + strconv.FormatInt(number, 10)
}

// comments lists the first comment of each thread. Its identifier has the thread.
func (a *azurePullAPI) comments(ctx context.Context, number int64) ([]pullComment, error) {
	type thread struct {
		ID       int64 `json:"id"`
		Deleted  bool  `json:"isDeleted"`
		Comments []struct {
			ID      int64  `json:"id"`
			Content string `json:"content"`
			Deleted bool   `json:"isDeleted"`
		} `json:"comments"`
	}
	found, err := azurePages[thread](ctx, a.client, a.one(number)+"/threads", url.Values{})
	return converted(found, err, func(t thread) pullComment {
		// Threads of the service about votes and pushes have comments as well, whose
		// text has no marker.
		if t.Deleted || len(t.Comments) == 0 || t.Comments[0].Deleted {
			return pullComment{}
		}
		first := t.Comments[0]
		return pullComment{id: strconv.FormatInt(t.ID, 10) + "/comments/" + strconv.FormatInt(first.ID, 10), text: first.Content}
	})
}

// write writes a comment in a thread of its own. A closed thread does not block a
// policy that wants all of them resolved.
func (a *azurePullAPI) write(ctx context.Context, number int64, known *pullComment, text string) error {
	wanted := call{method: http.MethodPost, path: a.one(number) + "/threads", query: a.version(), body: map[string]any{
		"status": "closed", "comments": []any{map[string]any{"parentCommentId": 0, "commentType": "text", "content": text}},
	}}
	if known != nil {
		wanted.method, wanted.path = http.MethodPatch, wanted.path+"/"+known.id
		wanted.body = map[string]any{"content": text}
	}
	_, err := a.do(ctx, wanted)
	return err
}
