package gitprovider

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// gitHubPulls are the pull requests of GitHub, and of Gitea, whose API follows it.
type gitHubPulls struct {
	*client
	owner, at string
}

// status converts the response.
func (p pullOfGitHub) status() PullRequestStatus {
	made := PullRequestStatus{
		Number: p.Number, URL: p.HTMLURL, State: PullRequestOpen, Head: p.Head.Ref, Base: p.Base.Ref, HeadSHA: p.Head.SHA, Fork: p.isFork(),
	}
	switch {
	// Lists of GitHub have the time, and one pull request has the field merged.
	// Without a merge merge_commit_sha is that of a trial merge, which is on no branch.
	case p.Merged || p.MergedAt != "":
		made.State, made.MergeSHA = PullRequestMerged, p.MergeSHA
	case p.State != "open":
		made.State = PullRequestClosed
	}
	return made
}

// list lists pull requests. Gitea has no filter by branch.
func (g *gitHubPulls) list(ctx context.Context, head, base string, all bool) ([]PullRequestStatus, error) {
	state := "open"
	if all {
		state = "all"
	}
	wanted := call{method: http.MethodGet, path: g.at + "/pulls", query: url.Values{
		"state": {state}, "per_page": {"100"}, "head": {g.owner + ":" + head}, "base": {base},
	}}
	if g.kind == Gitea {
		wanted.query = url.Values{"state": {state}, "limit": {"50"}}
	}
	if g.kind == Gitea && all {
		found, err := firstPages[pullOfGitHub](ctx, g.client, wanted, newestPages)
		return converted(found, err, pullOfGitHub.status)
	}
	found, err := linkPages[pullOfGitHub](ctx, g.client, wanted)
	return converted(found, err, pullOfGitHub.status)
}

// newestPages is how many pages of closed pull requests of Gitea are read.
const newestPages = 4

// create opens a pull request.
func (g *gitHubPulls) create(ctx context.Context, wanted NewPullRequest) (PullRequestStatus, error) {
	body := map[string]any{"title": wanted.Title, "body": wanted.Body, "head": wanted.Head, "base": wanted.Base}
	var made pullOfGitHub
	_, err := g.do(ctx, call{method: http.MethodPost, path: g.at + "/pulls", body: body, into: &made})
	return made.status(), err
}

// get reads a pull request.
func (g *gitHubPulls) get(ctx context.Context, number int64) (PullRequestStatus, error) {
	var found pullOfGitHub
	_, err := g.do(ctx, call{method: http.MethodGet, path: g.at + "/pulls/" + strconv.FormatInt(number, 10), into: &found})
	return found.status(), err
}

// comments lists comments: pull requests are issues.
func (g *gitHubPulls) comments(ctx context.Context, number int64) ([]pullComment, error) {
	type comment struct {
		ID   int64  `json:"id"`
		Body string `json:"body"`
	}
	query := url.Values{"per_page": {"100"}}
	// Gitea ignores unknown parameters today, but does not document these.
	if g.kind == Gitea {
		query = nil // it returns all at once
	}
	found, err := linkPages[comment](ctx, g.client, call{method: http.MethodGet, path: g.issue(number), query: query})
	return converted(found, err, func(c comment) pullComment { return pullComment{id: strconv.FormatInt(c.ID, 10), text: c.Body} })
}

// issue returns the path of the comments.
func (g *gitHubPulls) issue(number int64) string {
	return g.at + "/issues/" + strconv.FormatInt(number, 10) + "/comments"
}

// write writes a comment.
func (g *gitHubPulls) write(ctx context.Context, number int64, known *pullComment, text string) error {
	wanted := call{method: http.MethodPost, path: g.issue(number), body: map[string]any{"body": text}}
	// Comments have numbers of their own, in the whole repository.
	if known != nil {
		wanted.method, wanted.path = http.MethodPatch, g.at+"/issues/comments/"+known.id
	}
	_, err := g.do(ctx, wanted)
	return err
}

// gitLabPulls are the merge requests of GitLab.
type gitLabPulls struct {
	*client
	at string
}

// mergeRequest is a merge request of GitLab.
type mergeRequest struct {
	IID           int64    `json:"iid"`
	Title         string   `json:"title"`
	State         string   `json:"state"`
	WebURL        string   `json:"web_url"`
	SourceBranch  string   `json:"source_branch"`
	TargetBranch  string   `json:"target_branch"`
	SourceProject int64    `json:"source_project_id"`
	TargetProject int64    `json:"target_project_id"`
	SHA           string   `json:"sha"`
	MergeSHA      string   `json:"merge_commit_sha"`
	SquashSHA     string   `json:"squash_commit_sha"`
	Labels        []string `json:"labels"`
	Author        struct {
		Username string `json:"username"`
	} `json:"author"`
}

// isFork reports whether the branch is of another project. A fork that was
// deleted has no number.
func (m mergeRequest) isFork() bool { return m.SourceProject != m.TargetProject }

// status converts the response. A locked one is about to be merged.
func (m mergeRequest) status() PullRequestStatus {
	made := PullRequestStatus{
		Number: m.IID, URL: m.WebURL, State: PullRequestOpen, Head: m.SourceBranch, Base: m.TargetBranch, HeadSHA: m.SHA, Fork: m.isFork(),
	}
	switch m.State {
	case "merged":
		made.State, made.MergeSHA = PullRequestMerged, m.MergeSHA
		if made.MergeSHA == "" {
			made.MergeSHA = m.SquashSHA // of a merge without a merge commit
		}
	case "closed":
		made.State = PullRequestClosed
	}
	return made
}

// list lists merge requests.
func (g *gitLabPulls) list(ctx context.Context, head, base string, all bool) ([]PullRequestStatus, error) {
	state := "opened"
	if all {
		state = "all"
	}
	query := url.Values{"state": {state}, "source_branch": {head}, "target_branch": {base}, "per_page": {"100"}}
	found, err := linkPages[mergeRequest](ctx, g.client, call{method: http.MethodGet, path: g.at, query: query})
	return converted(found, err, mergeRequest.status)
}

// create opens a merge request.
func (g *gitLabPulls) create(ctx context.Context, wanted NewPullRequest) (PullRequestStatus, error) {
	// The branch is ours, and of no use after the merge.
	body := map[string]any{
		"title": wanted.Title, "description": wanted.Body, "source_branch": wanted.Head, "target_branch": wanted.Base, "remove_source_branch": true,
	}
	var made mergeRequest
	_, err := g.do(ctx, call{method: http.MethodPost, path: g.at, body: body, into: &made})
	return made.status(), err
}

// get reads a merge request.
func (g *gitLabPulls) get(ctx context.Context, number int64) (PullRequestStatus, error) {
	var found mergeRequest
	_, err := g.do(ctx, call{method: http.MethodGet, path: g.one(number), into: &found})
	return found.status(), err
}

// one returns the path of a merge request.
func (g *gitLabPulls) one(number int64) string { return g.at + "/" + strconv.FormatInt(number, 10) }

// comments lists notes.
func (g *gitLabPulls) comments(ctx context.Context, number int64) ([]pullComment, error) {
	type note struct {
		ID     int64  `json:"id"`
		Body   string `json:"body"`
		System bool   `json:"system"`
	}
	found, err := linkPages[note](ctx, g.client, call{method: http.MethodGet, path: g.one(number) + "/notes", query: url.Values{"per_page": {"100"}}})
	return converted(found, err, func(n note) pullComment {
		if n.System {
			n.Body = "" // written by GitLab itself
		}
		return pullComment{id: strconv.FormatInt(n.ID, 10), text: n.Body}
	})
}

// write writes a note.
func (g *gitLabPulls) write(ctx context.Context, number int64, known *pullComment, text string) error {
	wanted := call{method: http.MethodPost, path: g.one(number) + "/notes", body: map[string]any{"body": text}}
	if known != nil {
		wanted.method, wanted.path = http.MethodPut, wanted.path+"/"+known.id
	}
	_, err := g.do(ctx, wanted)
	return err
}

// withoutBase removes the base path of a server's installation.
func (a Address) withoutBase(server string) Address {
	if parsed, err := url.Parse(server); err == nil && !a.SSH {
		return a.trimBasePath(strings.Trim(parsed.Path, "/"))
	}
	return a
}
