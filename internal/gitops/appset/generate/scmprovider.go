package generate

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
)

// Repository is a repository of a Git host, at one of its branches.
type Repository struct {
	Organization string
	Name         string
	ID           string
	URL          string
	Branch       string
	SHA          string
	Labels       []string
}

// repositorySets returns one set for each repository and branch that the filters
// match, with the names of Argo CD's parameters.
func (r *runner) repositorySets(given *v1alpha1.SCMProviderGenerator, outer map[string]any) ([]map[string]any, error) {
	generator, err := inOuterFields(r, given, outer)
	if err != nil {
		return nil, err
	}
	fits, err := r.branchFilters(generator.Filters)
	if err != nil {
		return nil, err
	}
	found, err := r.facts.Repositories(r.ctx, generator)
	if err != nil {
		return nil, err
	}
	var sets []map[string]any
	for _, one := range found {
		if keep, err := fits(one); err != nil || !keep {
			if err != nil {
				return nil, err
			}
			continue
		}
		params := map[string]any{
			"organization": one.Organization, "repository": one.Name, "repository_id": one.ID, "url": one.URL,
			"branch": one.Branch, "branchNormalized": normalized(one.Branch), "sha": one.SHA, "short_sha": short(one.SHA, 8), "short_sha_7": short(one.SHA, 7),
			"labels": strings.Join(one.Labels, ","),
		}
		if err := r.withValues(params, given.Values, outer); err != nil {
			return nil, err
		}
		sets = append(sets, params)
	}
	return sets, nil
}

// isOfBranch reports whether a filter needs the branch of a repository. Such
// filters and the others are two stages: one of each must match, as in Argo CD.
func isOfBranch(f v1alpha1.SCMProviderFilter) bool {
	return f.BranchMatch != nil || f.PathsExist != nil || f.PathsDoNotExist != nil
}

// RepositoryFilter compiles the first stage of filters, which needs no branch.
func RepositoryFilter(filters []v1alpha1.SCMProviderFilter) (func(name string, labels []string) bool, error) {
	var matches []func(string, []string) bool
	for i, filter := range filters {
		named, labelled, err := namesOf(filter)
		if err != nil {
			return nil, at("filters", i, err)
		}
		if !isOfBranch(filter) && (filter.RepositoryMatch != nil || filter.LabelMatch != nil) {
			matches = append(matches, func(name string, labels []string) bool { return named(name) && labelled(labels) })
		}
	}
	return func(name string, labels []string) bool {
		return len(matches) == 0 || slices.ContainsFunc(matches, func(fits func(string, []string) bool) bool { return fits(name, labels) })
	}, nil
}

// namesOf compiles the conditions on the name and the labels.
func namesOf(filter v1alpha1.SCMProviderFilter) (func(string) bool, func([]string) bool, error) {
	name, err := expression(filter.RepositoryMatch)
	if err != nil {
		return nil, nil, fmt.Errorf("repositoryMatch: %w", err)
	}
	label, err := expression(filter.LabelMatch)
	if err != nil {
		return nil, nil, fmt.Errorf("labelMatch: %w", err)
	}
	return name, func(labels []string) bool { return filter.LabelMatch == nil || slices.ContainsFunc(labels, label) }, nil
}

// branchFilters compiles the second stage. Paths are looked up in the files of
// the repository, which the project has to allow.
func (r *runner) branchFilters(filters []v1alpha1.SCMProviderFilter) (func(Repository) (bool, error), error) {
	var matches []func(Repository) (bool, error)
	for i, filter := range filters {
		if !isOfBranch(filter) {
			continue
		}
		named, labelled, err := namesOf(filter)
		if err != nil {
			return nil, at("filters", i, err)
		}
		branch, err := expression(filter.BranchMatch)
		if err != nil {
			return nil, at("filters", i, fmt.Errorf("branchMatch: %w", err))
		}
		matches = append(matches, func(one Repository) (bool, error) {
			if !named(one.Name) || !labelled(one.Labels) || !branch(one.Branch) {
				return false, nil
			}
			return r.hasPaths(one, filter.PathsExist, filter.PathsDoNotExist)
		})
	}
	return func(one Repository) (bool, error) {
		for _, fits := range matches {
			if keep, err := fits(one); keep || err != nil {
				return keep, err
			}
		}
		return len(matches) == 0, nil
	}, nil
}

// hasPaths reports whether the files of a repository have some paths and not
// others.
func (r *runner) hasPaths(of Repository, present, absent []string) (bool, error) {
	if len(present)+len(absent) == 0 {
		return true, nil
	}
	files, err := r.tree(of.URL, of.Branch)
	if err != nil {
		return false, err
	}
	for i, name := range slices.Concat(present, absent) {
		_, err := files.Entry(strings.Trim(name, "/"))
		switch {
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return false, err
		case (err == nil) != (i < len(present)):
			return false, nil
		}
	}
	return true, nil
}
