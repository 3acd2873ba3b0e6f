package gitprovider

import (
	"context"
	"errors"
	"regexp"
	"strings"
)

// PullRequests opens the pull or merge requests of one repository, reads their
// state, and comments on them. It is safe for concurrent use.
type PullRequests struct {
	kind Kind
	api  pullAPI
}

// pullAPI is what the APIs of the providers differ in.
type pullAPI interface {
	// list lists the pull requests between two branches, the newest first: open
	// ones, or all. It may return those of other branches and of forks.
	list(ctx context.Context, head, base string, all bool) ([]PullRequestStatus, error)
	// create opens a pull request. What a provider responds to a second one
	// differs: the caller lists them again.
	create(ctx context.Context, wanted NewPullRequest) (PullRequestStatus, error)
	// get reads one pull request, whatever its state is.
	get(ctx context.Context, number int64) (PullRequestStatus, error)
	// comments lists those that belong to no line of a file. Deleted ones and those
	// of the provider itself may be there with an empty text.
	comments(ctx context.Context, number int64) ([]pullComment, error)
	// write adds a comment, or replaces the text of a known one.
	write(ctx context.Context, number int64, known *pullComment, text string) error
}

// NewPullRequest is a pull request to open, between two branches of one
// repository.
type NewPullRequest struct {
	Head, Base string
	Title      string
	// Body is Markdown.
	Body string
}

// PullRequestState is whether a pull request is open.
type PullRequestState string

// The states. Declined, abandoned and superseded pull requests are closed.
const (
	PullRequestOpen   PullRequestState = "open"
	PullRequestMerged PullRequestState = "merged"
	PullRequestClosed PullRequestState = "closed"
)

// PullRequestStatus is a pull request and its state.
type PullRequestStatus struct {
	Number int64
	// URL is that of its web page.
	URL   string
	State PullRequestState
	// Head is the branch, and HeadSHA its commit.
	Head, Base string
	HeadSHA    string
	// MergeSHA is the commit on the base branch; empty until it is merged, and
	// where the provider does not return it.
	MergeSHA string
	// Fork is set if Head is a branch of another repository.
	Fork bool
}

// pullComment is an existing comment.
type pullComment struct {
	id string
	// version is that of Bitbucket Server, whose changes name it.
	version int
	text    string
}

// Limits of texts, below those of all providers.
const (
	maxPullTitle   = 250
	maxPullBody    = 30_000
	maxCommentBody = 30_000
)

// NewPullRequests returns the pull requests of Options.Repository. It sends no
// request. All kinds with pull requests are supported, [Gitea] and [AzureDevOps]
// too; a token is required.
func NewPullRequests(options Options) (*PullRequests, error) {
	if options.Token.IsZero() {
		return nil, invalid(options.Kind, "pull requests need a token of %s", options.Kind.Title())
	}
	listing, err := NewListing(options)
	if err != nil {
		return nil, err
	}
	c := listing.client
	// The path of a repository elsewhere would name another one at this server.
	switch {
	case c.repo == nil && c.otherHost != "":
		return nil, invalid(c.kind, "the repository is at %s, and not at the server of the API", c.otherHost)
	case c.repo == nil:
		return nil, invalid(c.kind, "pull requests need the address of a repository")
	}
	api, err := newPullAPI(c, listing.Server())
	if err != nil {
		return nil, err
	}
	return &PullRequests{kind: c.kind, api: api}, nil
}

// Kind returns the kind of the provider.
func (p *PullRequests) Kind() Kind { return p.kind }

// Open opens a pull request. It is idempotent: an open one between the same
// branches is returned as it is, also when another process creates it meanwhile.
func (p *PullRequests) Open(ctx context.Context, wanted NewPullRequest) (PullRequestStatus, error) {
	if wanted.Head == "" || wanted.Base == "" || wanted.Head == wanted.Base {
		return PullRequestStatus{}, invalid(p.kind, "a pull request needs two branches")
	}
	// The list comes first: most calls are repetitions after a restart, and a
	// request that fails counts against the limits of some providers.
	known, found, err := p.find(ctx, wanted.Head, wanted.Base, false)
	if err != nil || found {
		return known, err
	}
	// A title is one line everywhere.
	wanted.Title = shorten(strings.Join(strings.Fields(wanted.Title), " "), maxPullTitle)
	wanted.Body = shorten(wanted.Body, maxPullBody)
	made, err := p.api.create(ctx, wanted)
	failure, failed := errors.AsType[*Error](err)
	if !failed {
		return made, err
	}
	// The providers refuse a second one in different ways, and a response can be
	// lost: the list decides.
	if failure.Kind == Conflict || failure.Kind == Invalid || failure.Kind == Unreachable {
		if known, found, listErr := p.find(ctx, wanted.Head, wanted.Base, false); listErr == nil && found {
			return known, nil
		}
	}
	return PullRequestStatus{}, err
}

// Find returns the open pull request between two branches of the repository, or
// else the newest that was merged or closed. Of Gitea, which cannot search by
// branch, it considers the newest pull requests only.
func (p *PullRequests) Find(ctx context.Context, head, base string) (PullRequestStatus, bool, error) {
	return p.find(ctx, head, base, true)
}

// find returns the first one in a list, preferring an open one.
func (p *PullRequests) find(ctx context.Context, head, base string, all bool) (found PullRequestStatus, ok bool, err error) {
	listed, err := p.api.list(ctx, head, base, all)
	if err != nil {
		return PullRequestStatus{}, false, err
	}
	for _, one := range listed {
		// Filters of providers match beginnings of names, and branches of forks
		// with the same name.
		if one.Head != head || one.Base != base || one.Fork {
			continue
		}
		if one.State == PullRequestOpen {
			return one, true, nil
		}
		if all && !ok {
			found, ok = one, true
		}
	}
	return found, ok, nil
}

// Get returns a pull request. One that does not exist is an [Error] of kind
// NotFound.
func (p *PullRequests) Get(ctx context.Context, number int64) (PullRequestStatus, error) {
	return p.api.get(ctx, number)
}

// commentKey has what a key may have: it is a part of Markdown.
var commentKey = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,200}$`)

// commentMarker is the line that makes a comment ours. A reference that nothing
// links to is shown by no provider; Bitbucket shows HTML comments.
func commentMarker(key string) string { return "[//]: # (slipway:" + key + ")" }

// Comment comments on a pull request. There is one comment for a key: it is
// changed if its text is another one, and never repeated.
func (p *PullRequests) Comment(ctx context.Context, number int64, key, text string) error {
	return p.comment(ctx, number, key, text, true)
}

// ChangeComment changes the comment of a key, if the pull request has it.
func (p *PullRequests) ChangeComment(ctx context.Context, number int64, key, text string) error {
	return p.comment(ctx, number, key, text, false)
}

// comment changes the comment of a key, or adds it if that is wanted.
func (p *PullRequests) comment(ctx context.Context, number int64, key, text string, add bool) error {
	if !commentKey.MatchString(key) {
		return invalid(p.kind, "%.50q is no key of a comment", key)
	}
	// No provider finds a comment by its content, so that all are read.
	known, err := p.api.comments(ctx, number)
	if err != nil {
		return err
	}
	marker := commentMarker(key)
	body := shorten(strings.TrimSpace(text), maxCommentBody) + "\n\n" + marker
	for i := range known {
		if !hasLine(known[i].text, marker) {
			continue
		}
		// A change sends a mail to subscribers at some providers.
		if sameText(known[i].text, body) {
			return nil
		}
		err := p.api.write(ctx, number, &known[i], body)
		// Anyone can write the marker: a comment of another user is left alone.
		if failure, failed := errors.AsType[*Error](err); failed && notVisible(failure) {
			continue
		}
		return err
	}
	if !add {
		return nil
	}
	return p.api.write(ctx, number, nil, body)
}

// hasLine reports whether a text has a line. A reply that quotes a comment does
// not have its marker as a line of its own.
func hasLine(text, line string) bool {
	for one := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(one) == line {
			return true
		}
	}
	return false
}

// sameText compares texts as providers keep them: with other ends of lines.
func sameText(x, y string) bool {
	plain := func(text string) string { return strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")) }
	return plain(x) == plain(y)
}

// shorten bounds a text in bytes, at the end of a character.
func shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// newPullAPI returns the calls of a provider for c.repo. server is that of the
// web pages.
func newPullAPI(c *client, server string) (pullAPI, error) {
	address := c.repo.withoutBase(server)
	switch c.kind {
	case GitHub, Gitea:
		owner, name, err := address.ownerAndName(c.kind)
		return &gitHubPulls{client: c, owner: owner, at: path("repos", owner, name)}, err
	case GitLab:
		group, name, err := address.groupAndName()
		return &gitLabPulls{client: c, at: path("projects", group+"/"+name, "merge_requests")}, err
	case Bitbucket:
		owner, name, err := address.ownerAndName(c.kind)
		return &bitbucketPulls{client: c, at: path("repositories", strings.ToLower(owner), strings.ToLower(name), "pullrequests")}, err
	case BitbucketServer:
		_, key, slug, err := address.projectAndSlug()
		return &bitbucketServerPulls{client: c, key: key, slug: slug, at: bitbucketREST + path("projects", key, "repos", slug, "pull-requests")}, err
	case AzureDevOps:
		owner, name, err := address.azureRepository()
		return &azurePullAPI{client: c, at: azurePath(owner, name)}, err
	}
	return nil, invalid(c.kind, "%s has no pull requests", c.kind.Title())
}
