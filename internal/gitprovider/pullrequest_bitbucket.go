package gitprovider

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// bitbucketPulls are the pull requests of Bitbucket Cloud.
type bitbucketPulls struct {
	*client
	at string
}

// bitbucketPull is a pull request of Bitbucket Cloud.
type bitbucketPull struct {
	ID          int64        `json:"id"`
	Title       string       `json:"title"`
	State       string       `json:"state"`
	Source      bitbucketEnd `json:"source"`
	Destination bitbucketEnd `json:"destination"`
	Author      struct {
		Nickname string `json:"nickname"`
	} `json:"author"`
	Merge *struct {
		Hash string `json:"hash"`
	} `json:"merge_commit"`
	Links struct {
		HTML struct {
			Href string `json:"href"`
		} `json:"html"`
	} `json:"links"`
}

// bitbucketEnd is one of the two branches of a pull request. The repository of a
// fork that was deleted is null.
type bitbucketEnd struct {
	Branch struct {
		Name string `json:"name"`
	} `json:"branch"`
	Commit struct {
		Hash string `json:"hash"`
	} `json:"commit"`
	Repository *struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
}

// isFork reports whether the branch is of another repository.
func (p bitbucketPull) isFork() bool {
	from, to := p.Source.Repository, p.Destination.Repository
	return from == nil || to == nil || !strings.EqualFold(from.FullName, to.FullName)
}

// status converts the response.
func (p bitbucketPull) status() PullRequestStatus {
	made := PullRequestStatus{
		Number: p.ID, URL: p.Links.HTML.Href, State: PullRequestClosed, Head: p.Source.Branch.Name, Base: p.Destination.Branch.Name,
		HeadSHA: p.Source.Commit.Hash, Fork: p.isFork(),
	}
	switch p.State {
	case "OPEN":
		made.State = PullRequestOpen
	case "MERGED":
		made.State = PullRequestMerged
		if p.Merge != nil {
			made.MergeSHA = p.Merge.Hash
		}
	}
	return made
}

// list lists pull requests. Names of branches have no quotes, which would end the
// text of the query.
func (b *bitbucketPulls) list(ctx context.Context, head, base string, all bool) ([]PullRequestStatus, error) {
	if strings.ContainsAny(head+base, `"\`) {
		return nil, invalid(Bitbucket, "the name of a branch has a quote")
	}
	// Without a state only open ones are listed. The parameter may be repeated.
	states := []string{"OPEN"}
	if all {
		states = []string{"OPEN", "MERGED", "DECLINED", "SUPERSEDED"}
	}
	query := url.Values{
		"q":     {`source.branch.name = "` + head + `" AND destination.branch.name = "` + base + `"`},
		"state": states, "sort": {"-created_on"}, "pagelen": {"50"},
	}
	found, err := nextPages[bitbucketPull](ctx, b.client, call{method: http.MethodGet, path: b.at, query: query})
	return converted(found, err, bitbucketPull.status)
}

// create opens a pull request.
func (b *bitbucketPulls) create(ctx context.Context, wanted NewPullRequest) (PullRequestStatus, error) {
	branch := func(name string) map[string]any { return map[string]any{"branch": map[string]any{"name": name}} }
	body := map[string]any{
		"title": wanted.Title, "description": wanted.Body, "source": branch(wanted.Head), "destination": branch(wanted.Base), "close_source_branch": true,
	}
	var made bitbucketPull
	_, err := b.do(ctx, call{method: http.MethodPost, path: b.at, body: body, into: &made})
	return made.status(), err
}

// get reads a pull request.
func (b *bitbucketPulls) get(ctx context.Context, number int64) (PullRequestStatus, error) {
	var found bitbucketPull
	_, err := b.do(ctx, call{method: http.MethodGet, path: b.one(number), into: &found})
	return found.status(), err
}

// one returns the path of a pull request.
func (b *bitbucketPulls) one(number int64) string { return b.at + "/" + strconv.FormatInt(number, 10) }

// comments lists comments without the deleted ones.
func (b *bitbucketPulls) comments(ctx context.Context, number int64) ([]pullComment, error) {
	type comment struct {
		ID      int64 `json:"id"`
		Deleted bool  `json:"deleted"`
		Content struct {
			Raw string `json:"raw"`
		} `json:"content"`
	}
	found, err := nextPages[comment](ctx, b.client, call{method: http.MethodGet, path: b.one(number) + "/comments", query: url.Values{"pagelen": {"100"}}})
	return converted(found, err, func(c comment) pullComment {
		if c.Deleted {
			c.Content.Raw = ""
		}
		return pullComment{id: strconv.FormatInt(c.ID, 10), text: c.Content.Raw}
	})
}

// write writes a comment.
func (b *bitbucketPulls) write(ctx context.Context, number int64, known *pullComment, text string) error {
	body := map[string]any{"content": map[string]any{"raw": text}}
	wanted := call{method: http.MethodPost, path: b.one(number) + "/comments", body: body}
	if known != nil {
		wanted.method, wanted.path = http.MethodPut, wanted.path+"/"+known.id
	}
	_, err := b.do(ctx, wanted)
	return err
}

// bitbucketServerPulls are the pull requests of Bitbucket Server.
type bitbucketServerPulls struct {
	*client
	key, slug, at string
}

// bitbucketServerPull is a pull request of Bitbucket Server.
type bitbucketServerPull struct {
	ID     int64              `json:"id"`
	Title  string             `json:"title"`
	State  string             `json:"state"`
	From   bitbucketServerRef `json:"fromRef"`
	To     bitbucketServerRef `json:"toRef"`
	Author struct {
		User struct {
			Name string `json:"name"`
		} `json:"user"`
	} `json:"author"`
	Properties struct {
		Merge struct {
			ID string `json:"id"`
		} `json:"mergeCommit"`
	} `json:"properties"`
	Links struct {
		Self []struct {
			Href string `json:"href"`
		} `json:"self"`
	} `json:"links"`
}

// bitbucketServerRef is one of the two branches of a pull request.
type bitbucketServerRef struct {
	DisplayID    string `json:"displayId"`
	LatestCommit string `json:"latestCommit"`
	Repository   struct {
		Slug    string `json:"slug"`
		Project struct {
			Key string `json:"key"`
		} `json:"project"`
	} `json:"repository"`
}

// isFork reports whether the branch is of another repository.
func (p bitbucketServerPull) isFork() bool { return p.From.Repository != p.To.Repository }

// status converts the response.
func (p bitbucketServerPull) status() PullRequestStatus {
	made := PullRequestStatus{
		Number: p.ID, State: PullRequestClosed, Head: p.From.DisplayID, Base: p.To.DisplayID, HeadSHA: p.From.LatestCommit, Fork: p.isFork(),
	}
	if len(p.Links.Self) > 0 {
		made.URL = p.Links.Self[0].Href
	}
	switch p.State {
	case "OPEN":
		made.State = PullRequestOpen
	case "MERGED":
		made.State, made.MergeSHA = PullRequestMerged, p.Properties.Merge.ID
	}
	return made
}

// list lists pull requests from a branch.
func (b *bitbucketServerPulls) list(ctx context.Context, head, _ string, all bool) ([]PullRequestStatus, error) {
	state := "OPEN"
	if all {
		state = "ALL"
	}
	// OUTGOING makes at the branch that a pull request comes from; the default is the
	// one that it is for.
	query := url.Values{"state": {state}, "at": {"refs/heads/" + head}, "direction": {"OUTGOING"}, "limit": {"100"}}
	found, err := serverPages[bitbucketServerPull](ctx, b.client, call{method: http.MethodGet, path: b.at, query: query})
	return converted(found, err, bitbucketServerPull.status)
}

// create opens a pull request.
func (b *bitbucketServerPulls) create(ctx context.Context, wanted NewPullRequest) (PullRequestStatus, error) {
	ref := func(branch string) map[string]any {
		repository := map[string]any{"slug": b.slug, "project": map[string]any{"key": b.key}}
		return map[string]any{"id": "refs/heads/" + branch, "repository": repository}
	}
	// Both references name the repository, because a fork could be one of them.
	body := map[string]any{"title": wanted.Title, "description": wanted.Body, "fromRef": ref(wanted.Head), "toRef": ref(wanted.Base)}
	var made bitbucketServerPull
	_, err := b.do(ctx, call{method: http.MethodPost, path: b.at, body: body, into: &made})
	return made.status(), err
}

// get reads a pull request.
func (b *bitbucketServerPulls) get(ctx context.Context, number int64) (PullRequestStatus, error) {
	var found bitbucketServerPull
	_, err := b.do(ctx, call{method: http.MethodGet, path: b.one(number), into: &found})
	return found.status(), err
}

// one returns the path of a pull request.
func (b *bitbucketServerPulls) one(number int64) string {
	return b.at + "/" + strconv.FormatInt(number, 10)
}

// comments lists comments. There is no list of comments that belong to no file:
// they are activities.
func (b *bitbucketServerPulls) comments(ctx context.Context, number int64) ([]pullComment, error) {
	type activity struct {
		Action  string `json:"action"`
		Comment struct {
			ID      int64  `json:"id"`
			Version int    `json:"version"`
			Text    string `json:"text"`
		} `json:"comment"`
	}
	found, err := serverPages[activity](ctx, b.client, call{method: http.MethodGet, path: b.one(number) + "/activities", query: url.Values{"limit": {"100"}}})
	return converted(found, err, func(a activity) pullComment {
		if a.Action != "COMMENTED" {
			return pullComment{}
		}
		return pullComment{id: strconv.FormatInt(a.Comment.ID, 10), version: a.Comment.Version, text: a.Comment.Text}
	})
}

// write writes a comment.
func (b *bitbucketServerPulls) write(ctx context.Context, number int64, known *pullComment, text string) error {
	wanted := call{method: http.MethodPost, path: b.one(number) + "/comments", body: map[string]any{"text": text}}
	// A comment that was changed meanwhile has another version, and the write fails.
	if known != nil {
		wanted.method, wanted.path = http.MethodPut, wanted.path+"/"+known.id
		wanted.body = map[string]any{"text": text, "version": known.version}
	}
	_, err := b.do(ctx, wanted)
	return err
}
