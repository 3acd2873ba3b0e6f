package generate_test

import (
	"fmt"
	"strings"
	"testing"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/appset/generate"
	"slipway.dev/slipway/internal/gitops/tree"
	"slipway.dev/slipway/internal/must"
)

// TestRepositoryFilter: filters with a condition on the branch are a second
// stage, and do not decide about a repository before its branches are known.
func TestRepositoryFilter(t *testing.T) {
	text := func(text string) *string { return &text }
	named, labelled := v1alpha1.SCMProviderFilter{RepositoryMatch: text("^s")}, v1alpha1.SCMProviderFilter{LabelMatch: text("^d")}
	both := v1alpha1.SCMProviderFilter{RepositoryMatch: text("^s"), LabelMatch: text("^d")}
	ofBranch := v1alpha1.SCMProviderFilter{RepositoryMatch: text("^s"), BranchMatch: text("main")}
	for what, one := range map[string]struct {
		filters []v1alpha1.SCMProviderFilter
		want    string // shop with a label, shop without, bank with, bank without
	}{
		"none":               {nil, "true true true true"},
		"name":               {[]v1alpha1.SCMProviderFilter{named}, "true true false false"},
		"label":              {[]v1alpha1.SCMProviderFilter{labelled}, "true false true false"},
		"name and label":     {[]v1alpha1.SCMProviderFilter{both}, "true false false false"},
		"name or label":      {[]v1alpha1.SCMProviderFilter{named, labelled}, "true true true false"},
		"branch":             {[]v1alpha1.SCMProviderFilter{ofBranch}, "true true true true"},
		"a path":             {[]v1alpha1.SCMProviderFilter{{RepositoryMatch: text("^s"), PathsExist: []string{"a"}}}, "true true true true"},
		"no path":            {[]v1alpha1.SCMProviderFilter{{RepositoryMatch: text("^s"), PathsDoNotExist: []string{"a"}}}, "true true true true"},
		"branch and a name":  {[]v1alpha1.SCMProviderFilter{ofBranch, named}, "true true false false"},
		"empty and a name":   {[]v1alpha1.SCMProviderFilter{{}, named}, "true true false false"},
		"empty and a branch": {[]v1alpha1.SCMProviderFilter{{}, ofBranch}, "true true true true"},
	} {
		fits := must.Get(generate.RepositoryFilter(one.filters))(t)
		got := fmt.Sprint(fits("shop", []string{"a", "deploy"}), fits("shop", nil), fits("bank", []string{"deploy"}), fits("bank", []string{"a"}))
		if got != one.want {
			t.Errorf("%s: %s, want %s", what, got, one.want)
		}
	}
	if _, err := generate.RepositoryFilter([]v1alpha1.SCMProviderFilter{{RepositoryMatch: text("(")}}); err == nil {
		t.Error("an expression that cannot be read is accepted")
	}
}

// TestLongest: patterns and expressions may have 1024 characters.
func TestLongest(t *testing.T) {
	const rest = "\n  template:\n    metadata: {name: a}\n    spec: {project: default, source: {repoURL: https://git/a, path: x}, destination: {namespace: x}}\n"
	for length, fits := range map[int]bool{1024: true, 1025: false} {
		for _, generator := range []string{
			"{git: {repoURL: https://git/a, revision: HEAD, directories: [{path: %s}]}}",
			"{pullRequest: {github: {owner: a, repo: b}, filters: [{branchMatch: %s}]}}",
		} {
			set := decodeSet(t, "spec:\n  generators: ["+fmt.Sprintf(generator, strings.Repeat("a", length))+"]"+rest)
			_, err := generate.Applications(t.Context(), set, &world{trees: map[string]tree.Store{"a": tree.NewMemory(nil)}})
			if (err == nil) != fits {
				t.Errorf("%s with %d characters: %v", generator, length, err)
			}
		}
	}
}
