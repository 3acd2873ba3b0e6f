package promotion

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"slipway.dev/slipway/api/refusal"
	slipway "slipway.dev/slipway/api/v1alpha1"
	"slipway.dev/slipway/internal/gitops/gitwrite"
	"slipway.dev/slipway/internal/gitops/pullrequest"
	"slipway.dev/slipway/internal/gitprovider"
)

// reviewInterval is how often the state of a pull request is read, unless the interval
// of the controller is longer.
const reviewInterval = 20 * time.Second

// headBranch is the branch of a pull request. It follows from the Promotion, so that
// another process finds it again.
func (r *run) headBranch(step *slipway.PromotionStep) string {
	return "promotion/" + r.promotion.Name + "/" + step.Environment
}

// review opens the pull requests of a step and waits until they are merged. The commit
// on the branch comes first and is recorded, so that a process that is killed in between
// opens the pull request in its next run: a provider has at most one open pull request
// between two branches, and the client returns that one.
//
// After the merge the step is verified as any other: how the provider merges, and which
// commit that makes, does not matter, because the files decide.
func (r *run) review(ctx context.Context, index int) error {
	for i := range r.promotion.Status.Steps[index].Writes {
		step := &r.promotion.Status.Steps[index]
		to := &step.Writes[i]
		if to.Commit == "" {
			continue // there was nothing to change
		}
		// The provider is read in each run, because few of them are set up to send events of
		// merges. A pull request that another process opened is found by its branch.
		found, err := r.pullRequest(ctx, step, to)
		if err != nil {
			return err
		}
		if to.PullRequest != found.URL {
			to.PullRequest, step.Message = found.URL, "waiting for "+found.URL
			r.summarize()
			if err := r.save(ctx); err != nil {
				return err
			}
			r.announce(ctx, false, "PromotionProposed", fmt.Sprintf("%s for %s", found.URL, step.Environment))
			step = &r.promotion.Status.Steps[index]
		}
		// A closed one is the decision of a reviewer, and is not opened again.
		switch found.State {
		case gitprovider.PullRequestMerged:
		case gitprovider.PullRequestClosed:
			return refusal.New("pullRequest", refusal.Conflict, "%s was closed without being merged", found.URL)
		default:
			step.Message = "waiting for " + found.URL
			r.wakeIn(max(r.options.Interval, min(reviewInterval, 4*r.options.Interval)))
			return nil
		}
	}
	step := &r.promotion.Status.Steps[index]
	step.Phase, step.Message = slipway.StepVerifying, waitingForApplications
	r.summarize()
	return r.save(ctx)
}

// pullRequest returns the pull request of a branch, which is opened if there is none.
func (r *run) pullRequest(ctx context.Context, step *slipway.PromotionStep, to *slipway.PromotionWrite) (gitprovider.PullRequestStatus, error) {
	none := gitprovider.PullRequestStatus{}
	of, err := r.groupOf(ctx, step, to)
	if err != nil {
		return none, err
	}
	access, err := r.access(ctx, of)
	if err != nil {
		return none, err
	}
	pulls, err := pullrequest.New(ctx, pullrequest.Options{RepoURL: of.targets[0].source.RepoURL, Access: access})
	if errors.Is(err, pullrequest.ErrNoToken) {
		return none, refusal.New("policy.action", refusal.Unsupported, "%v", err)
	}
	if err != nil {
		return none, fmt.Errorf("open a pull request: %w", err)
	}
	target, err := r.open(ctx, of, "")
	if err != nil {
		return none, err
	}
	base, err := target.BranchName(ctx)
	if err != nil {
		return none, err
	}
	found, exists, err := pulls.Find(ctx, to.Branch, base)
	if err != nil || exists {
		return found, err
	}
	title, body, _ := strings.Cut(r.message(step, nil), "\n")
	return pulls.Open(ctx, gitprovider.NewPullRequest{Head: to.Branch, Base: base, Title: title, Body: strings.TrimSpace(body)})
}

// isUnchanged reports whether a branch has all values already: then there is nothing to
// propose. A commit without a change would open an empty pull request, which reviewers
// cannot merge at some providers.
func (r *run) isUnchanged(ctx context.Context, of *group, from reader) (bool, error) {
	repository, err := r.open(ctx, of, "")
	if err != nil {
		return false, err
	}
	isUnchanged := true
	_, err = repository.View(ctx, func(content gitwrite.Files) error {
		for _, one := range of.targets {
			changed, err := one.copyInto(content, from)
			if err != nil {
				return err
			}
			isUnchanged = isUnchanged && len(changed) == 0
		}
		return nil
	})
	return isUnchanged, err
}
