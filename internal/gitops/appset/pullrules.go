package appset

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
)

// The annotations of an ApplicationSet with the generator pullRequest.
const (
	// forksAnnotation is which pull requests of forks become Applications: none,
	// all, or label:NAME.
	forksAnnotation = "slipway.dev/preview-forks"
	// limitAnnotation is the most pull requests of one repository.
	limitAnnotation = "slipway.dev/preview-limit"
)

// The numbers of previews.
const (
	defaultPulls = 50
	maxPulls     = 1000
)

// pullRules limit which pull requests become Applications. Anyone can open a pull
// request from a fork of a public repository, and its branch would be deployed:
// so forks need a decision of a maintainer.
type pullRules struct {
	allForks  bool
	forkLabel string
	limit     int
}

// pullRulesOf reads the annotations of a set.
func pullRulesOf(set *v1alpha1.ApplicationSet) (pullRules, error) {
	rules := pullRules{limit: defaultPulls}
	switch given := strings.TrimSpace(set.Annotations[forksAnnotation]); {
	case given == "" || given == "none":
	case given == "all":
		rules.allForks = true
	case strings.HasPrefix(given, "label:") && len(given) > len("label:"):
		rules.forkLabel = strings.TrimPrefix(given, "label:")
	default:
		return rules, fmt.Errorf("metadata.annotations[%s]: %.50q is neither none, all nor label:NAME", forksAnnotation, given)
	}
	if given := set.Annotations[limitAnnotation]; given != "" {
		limit, err := strconv.Atoi(given)
		if err != nil || limit < 1 || limit > maxPulls {
			return rules, fmt.Errorf("metadata.annotations[%s]: %.50q is no number from 1 to %d", limitAnnotation, given, maxPulls)
		}
		rules.limit = limit
	}
	return rules, nil
}

// allowsFork reports whether a pull request of a fork becomes an Application.
func (r pullRules) allowsFork(one generate.PullRequest) bool {
	return r.allForks || r.forkLabel != "" && slices.Contains(one.Labels, r.forkLabel)
}

// ruledFacts applies the rules of a set to its pull requests.
type ruledFacts struct {
	Facts
	rules pullRules
	// forks and beyond count what was left out.
	forks, beyond int
}

// PullRequests leaves out those of forks that no rule allows, and those beyond the
// limit. The oldest stay: a new one does not end a preview that is in use. The
// filters of the generator come before the limit.
func (f *ruledFacts) PullRequests(ctx context.Context, g *v1alpha1.PullRequestGenerator) ([]generate.PullRequest, error) {
	fits, err := generate.PullRequestFilters(g.Filters)
	if err != nil {
		return nil, err
	}
	all, err := f.Facts.PullRequests(ctx, g)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(one generate.PullRequest) bool {
		if !fits(one) {
			return true
		}
		refused := one.Fork && !f.rules.allowsFork(one)
		if refused {
			f.forks++
		}
		return refused
	})
	slices.SortFunc(all, func(x, y generate.PullRequest) int { return cmp.Compare(x.Number, y.Number) })
	f.beyond += max(len(all)-f.rules.limit, 0)
	return all[:min(len(all), f.rules.limit)], nil
}

// note describes what was left out, for the status of the set; empty for nothing.
func (f *ruledFacts) note() string {
	var parts []string
	if f.forks > 0 {
		parts = append(parts, fmt.Sprintf("%d pull requests of forks are left out: see the annotation %s", f.forks, forksAnnotation))
	}
	if f.beyond > 0 {
		parts = append(parts, fmt.Sprintf("%d pull requests are beyond the limit of %d: see the annotation %s", f.beyond, f.rules.limit, limitAnnotation))
	}
	return strings.Join(parts, "; ")
}

// pullGenerators returns the generators of pull requests of a set, and whether each
// generator of the set has one.
func pullGenerators(set *v1alpha1.ApplicationSet) (found []*v1alpha1.PullRequestGenerator, every bool) {
	every = len(set.Spec.Generators) > 0
	for i := range set.Spec.Generators {
		before := len(found)
		set.Spec.Generators[i].At("").Walk(func(g *v1alpha1.Generator) {
			if g.PullRequest != nil {
				found = append(found, g.PullRequest)
			}
		})
		every = every && len(found) > before
	}
	return found, every
}
