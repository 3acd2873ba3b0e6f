package gitprovider

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Gitea is Gitea and Forgejo. Only a [Listing] and [PullRequests] use it: the
// runtime has no tokens and webhooks there.
const Gitea Kind = "gitea"

// Listing reads lists of a Git provider, for generators of ApplicationSets. It
// is safe for concurrent use.
type Listing struct{ client *client }

// NewListing returns a Listing. It sends no request. Without a token it reads
// what is public.
func NewListing(options Options) (*Listing, error) {
	options.anonymous = true
	if options.Kind == Gitea {
		base := strings.TrimSuffix(strings.TrimRight(options.APIURL, "/"), "/api/v1")
		if base == "" {
			return nil, invalid(Gitea, "the URL of the Gitea server is missing")
		}
		options.APIURL = base + "/api/v1"
	}
	if options.Kind == AzureDevOps {
		options.APIURL = cmp.Or(strings.TrimRight(options.APIURL, "/"), azureAPI)
	}
	client, err := newClient(options)
	if err != nil {
		return nil, err
	}
	// Azure DevOps takes tokens as passwords of any user.
	client.password = options.Username != "" || options.Kind == AzureDevOps
	return &Listing{client}, nil
}

// Origin is where requests are sent, with the token.
func (l *Listing) Origin() string { return l.client.api }

// Server is the address of the web pages, below which the repositories are.
func (l *Listing) Server() string {
	return strings.TrimSuffix(webServer(l.client.kind, l.client.api), "/api/v1")
}

// PullRequest is an open pull or merge request.
type PullRequest struct {
	Number       int64
	Title        string
	Branch       string
	TargetBranch string
	HeadSHA      string
	Labels       []string
	Author       string
	// Fork is set if Branch is not of the repository itself, and if the provider does
	// not say so.
	Fork bool
}

// PullRequestQuery selects pull requests.
type PullRequestQuery struct {
	// Owner is the organization, user, workspace or project of the repository.
	// It is empty for GitLab, whose repository is a number or a path.
	Owner, Repository string
	// Labels must all be there.
	Labels []string
	// State is that of GitLab's merge requests; empty is any.
	State string
}

// PullRequests lists the pull requests of a repository. A repository that does
// not exist, or that the token cannot see, is an [Error] of kind NotFound.
func (l *Listing) PullRequests(ctx context.Context, query PullRequestQuery) ([]PullRequest, error) {
	var all []PullRequest
	var err error
	switch l.client.kind {
	case GitHub:
		all, err = l.gitHubPulls(ctx, query)
	case GitLab:
		all, err = l.gitLabPulls(ctx, query)
	case Gitea:
		all, err = l.giteaPulls(ctx, query)
	case Bitbucket:
		all, err = l.bitbucketPulls(ctx, query)
	case BitbucketServer:
		all, err = l.bitbucketServerPulls(ctx, query)
	case AzureDevOps:
		all, err = l.azurePulls(ctx, query)
	default:
		return nil, invalid(l.client.kind, "%s has no pull requests", l.client.kind.Title())
	}
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(one PullRequest) bool {
		return slices.ContainsFunc(query.Labels, func(label string) bool { return !slices.Contains(one.Labels, label) })
	}), nil
}

// label is a label of GitHub and Gitea.
type label struct {
	Name string `json:"name"`
}

// names returns the names of labels.
func names(labels []label) []string {
	list := make([]string, len(labels))
	for i, one := range labels {
		list[i] = one.Name
	}
	return list
}

// pullOfGitHub is a pull request of GitHub and Gitea, whose API follows it.
type pullOfGitHub struct {
	Number   int64     `json:"number"`
	Title    string    `json:"title"`
	State    string    `json:"state"`
	Merged   bool      `json:"merged"`
	MergedAt string    `json:"merged_at"`
	MergeSHA string    `json:"merge_commit_sha"`
	HTMLURL  string    `json:"html_url"`
	Head     gitHubEnd `json:"head"`
	Base     gitHubEnd `json:"base"`
	Labels   []label   `json:"labels"`
	User     struct {
		Login string `json:"login"`
	} `json:"user"`
}

// gitHubEnd is one of the two branches of a pull request. The repository of a
// fork that was deleted is null.
type gitHubEnd struct {
	Ref  string `json:"ref"`
	SHA  string `json:"sha"`
	Repo *struct {
		FullName string `json:"full_name"`
	} `json:"repo"`
}

// isFork reports whether the branch is of another repository.
func (p pullOfGitHub) isFork() bool {
	return p.Head.Repo == nil || p.Base.Repo == nil || !strings.EqualFold(p.Head.Repo.FullName, p.Base.Repo.FullName)
}

// pull converts the response.
func (p pullOfGitHub) pull() PullRequest {
	return PullRequest{
		Number: p.Number, Title: p.Title, Branch: p.Head.Ref, TargetBranch: p.Base.Ref, HeadSHA: p.Head.SHA,
		Labels: names(p.Labels), Author: p.User.Login, Fork: p.isFork(),
	}
}

// gitHubPulls lists the open pull requests of GitHub.
func (l *Listing) gitHubPulls(ctx context.Context, query PullRequestQuery) ([]PullRequest, error) {
	found, err := linkPages[pullOfGitHub](ctx, l.client, call{
		method: http.MethodGet, path: path("repos", query.Owner, query.Repository, "pulls"), query: url.Values{"per_page": {"100"}, "state": {"open"}},
	})
	return converted(found, err, pullOfGitHub.pull)
}

// giteaPulls lists the open pull requests of Gitea.
func (l *Listing) giteaPulls(ctx context.Context, query PullRequestQuery) ([]PullRequest, error) {
	found, err := linkPages[pullOfGitHub](ctx, l.client, call{
		method: http.MethodGet, path: path("repos", query.Owner, query.Repository, "pulls"), query: url.Values{"limit": {"50"}, "state": {"open"}},
	})
	return converted(found, err, pullOfGitHub.pull)
}

// gitLabPulls lists merge requests of GitLab.
func (l *Listing) gitLabPulls(ctx context.Context, query PullRequestQuery) ([]PullRequest, error) {
	values := url.Values{"per_page": {"100"}}
	if len(query.Labels) > 0 {
		values.Set("labels", strings.Join(query.Labels, ","))
	}
	if query.State != "" {
		values.Set("state", query.State)
	}
	found, err := linkPages[mergeRequest](ctx, l.client, call{
		method: http.MethodGet, path: path("projects", query.Repository, "merge_requests"), query: values,
	})
	return converted(found, err, func(m mergeRequest) PullRequest {
		return PullRequest{
			Number: m.IID, Title: m.Title, Branch: m.SourceBranch, TargetBranch: m.TargetBranch, HeadSHA: m.SHA,
			Labels: m.Labels, Author: m.Author.Username, Fork: m.isFork(),
		}
	})
}

// bitbucketPulls lists the open pull requests of Bitbucket Cloud.
func (l *Listing) bitbucketPulls(ctx context.Context, query PullRequestQuery) ([]PullRequest, error) {
	found, err := nextPages[bitbucketPull](ctx, l.client, call{
		method: http.MethodGet, path: path("repositories", query.Owner, query.Repository, "pullrequests"), query: url.Values{"pagelen": {"50"}, "state": {"OPEN"}},
	})
	return converted(found, err, func(p bitbucketPull) PullRequest {
		return PullRequest{
			Number: p.ID, Title: p.Title, Branch: p.Source.Branch.Name, TargetBranch: p.Destination.Branch.Name, HeadSHA: p.Source.Commit.Hash,
			Author: p.Author.Nickname, Fork: p.isFork(),
		}
	})
}

// bitbucketServerPulls lists the open pull requests of Bitbucket Server.
func (l *Listing) bitbucketServerPulls(ctx context.Context, query PullRequestQuery) ([]PullRequest, error) {
	found, err := serverPages[bitbucketServerPull](ctx, l.client, call{
		method: http.MethodGet, path: bitbucketREST + path("projects", query.Owner, "repos", query.Repository, "pull-requests"),
		query: url.Values{"limit": {"100"}, "state": {"OPEN"}},
	})
	return converted(found, err, func(p bitbucketServerPull) PullRequest {
		return PullRequest{
			Number: p.ID, Title: p.Title, Branch: p.From.DisplayID, TargetBranch: p.To.DisplayID, HeadSHA: p.From.LatestCommit, Author: p.Author.User.Name, Fork: p.isFork(),
		}
	})
}

// converted converts the elements of a list.
func converted[A, B any](list []A, err error, convert func(A) B) ([]B, error) {
	if err != nil {
		return nil, err
	}
	made := make([]B, len(list))
	for i, one := range list {
		made[i] = convert(one)
	}
	return made, nil
}
