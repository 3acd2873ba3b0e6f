package generate

import (
	"fmt"
	"regexp"
	"strconv"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/expand"
)

// PullRequest is an open pull or merge request of a Git host.
type PullRequest struct {
	Number       int64
	Title        string
	Branch       string
	TargetBranch string
	HeadSHA      string
	Labels       []string
	Author       string
	// Fork is set if the branch is not of the repository itself.
	Fork bool
}

// pullRequestSets returns one set for each pull request that a filter matches,
// with the names of Argo CD's parameters.
func (r *runner) pullRequestSets(given *v1alpha1.PullRequestGenerator, outer map[string]any) ([]map[string]any, error) {
	generator, err := inOuterFields(r, given, outer)
	if err != nil {
		return nil, err
	}
	fits, err := PullRequestFilters(generator.Filters)
	if err != nil {
		return nil, err
	}
	found, err := r.facts.PullRequests(r.ctx, generator)
	if err != nil {
		return nil, err
	}
	var sets []map[string]any
	for _, one := range found {
		if !fits(one) {
			continue
		}
		params := map[string]any{
			"number": strconv.FormatInt(one.Number, 10), "title": one.Title, "author": one.Author,
			"branch": one.Branch, "branch_slug": expand.Slug(one.Branch), "target_branch": one.TargetBranch, "target_branch_slug": expand.Slug(one.TargetBranch),
			"head_sha": one.HeadSHA, "head_short_sha": short(one.HeadSHA, 8), "head_short_sha_7": short(one.HeadSHA, 7),
		}
		if r.goForm {
			params["labels"] = one.Labels
		}
		// The texts of values are expanded here, with both parameters.
		if err := r.withValues(params, given.Values, outer); err != nil {
			return nil, err
		}
		sets = append(sets, params)
	}
	return sets, nil
}

// short returns the beginning of a commit.
func short(sha string, length int) string { return sha[:min(len(sha), length)] }

// PullRequestFilters compiles filters: one of them must match, with all of its
// expressions. Without filters everything matches.
func PullRequestFilters(filters []v1alpha1.PullRequestFilter) (func(PullRequest) bool, error) {
	var matches []func(PullRequest) bool
	for i, filter := range filters {
		branch, err := expression(filter.BranchMatch)
		if err != nil {
			return nil, at("filters", i, fmt.Errorf("branchMatch: %w", err))
		}
		target, err := expression(filter.TargetBranchMatch)
		if err != nil {
			return nil, at("filters", i, fmt.Errorf("targetBranchMatch: %w", err))
		}
		title, err := expression(filter.TitleMatch)
		if err != nil {
			return nil, at("filters", i, fmt.Errorf("titleMatch: %w", err))
		}
		matches = append(matches, func(p PullRequest) bool {
			return branch(p.Branch) && target(p.TargetBranch) && title(p.Title)
		})
	}
	return func(p PullRequest) bool {
		for _, fits := range matches {
			if fits(p) {
				return true
			}
		}
		return len(matches) == 0
	}, nil
}

// expression compiles a regular expression; a missing one matches everything.
func expression(text *string) (func(string) bool, error) {
	if text == nil {
		return func(string) bool { return true }, nil
	}
	if len(*text) > 1024 {
		return nil, fmt.Errorf("the regular expression has %d characters, and may have 1024", len(*text))
	}
	compiled, err := regexp.Compile(*text)
	if err != nil {
		return nil, fmt.Errorf("%.100q is no regular expression: %w", *text, err)
	}
	return compiled.MatchString, nil
}
