package imageupdate

import (
	"context"
	"fmt"
	"strings"

	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/pullrequest"
	"slipway.dev/slipway/internal/gitprovider"
)

// proposal is a commit on a branch of its own, for a pull request.
type proposal struct {
	// base is the branch that it is for.
	base           *gitwrite.Repository
	branch, commit string
	message        string
	changes        []Change
}

// propose opens the pull request of a commit. The commit comes first, so that a run
// that is killed in between opens it in the next one. The name of the branch follows
// from the change: a pull request that was closed is the decision of a reviewer, and is
// not opened again.
func (r *run) propose(ctx context.Context, of proposal) result {
	base, err := of.base.BranchName(ctx)
	if err != nil {
		return result{err: err}
	}
	// The credential that has pushed the branch.
	access, _, err := r.access(ctx)
	if err != nil {
		return result{err: err}
	}
	pulls, err := pullrequest.New(ctx, pullrequest.Options{RepoURL: r.at.repoURL, Access: access, Kind: r.at.proposal.Provider})
	if err != nil {
		return result{err: fmt.Errorf("open a pull request: %w", err)}
	}
	known, found, err := pulls.Find(ctx, of.branch, base)
	if err != nil {
		return result{err: fmt.Errorf("read the pull requests: %w", err)}
	}
	if found {
		r.record.proposed = of.branch
		if known.State == gitprovider.PullRequestClosed {
			r.options.Log.Info("image update was declined", "namespace", r.app.Namespace, "application", r.app.Name, "pull_request", known.URL)
		}
		return result{}
	}
	// As upstream: the first line is the title.
	title, body, _ := strings.Cut(of.message, "\n")
	opened, err := pulls.Open(ctx, gitprovider.NewPullRequest{Head: of.branch, Base: base, Title: title, Body: strings.TrimSpace(body)})
	if err != nil {
		return result{err: fmt.Errorf("open a pull request: %w", err)}
	}
	r.record.proposed = of.branch
	return result{commit: of.commit, proposed: true, note: fmt.Sprintf("opened %s: %s", opened.URL, describe(of.changes))}
}
