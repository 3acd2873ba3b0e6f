package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"slipway.dev/slipway/api/declare"
	"slipway.dev/slipway/api/refusal"
)

// setRules checks fields of an ApplicationSet that depend on each other.
func (d *decoder) setRules(spec *ApplicationSetSpec) {
	for i := range spec.Generators {
		d.generatorRules(spec.Generators[i].At(fmt.Sprintf("spec.generators[%d]", i)))
	}
	if spec.Strategy == nil || spec.Strategy.RollingSync == nil {
		return
	}
	for i, step := range spec.Strategy.RollingSync.Steps {
		if step.MaxUpdate == nil {
			continue
		}
		if count, err := intstr.GetScaledValueFromIntOrPercent(step.MaxUpdate, 100, false); err != nil || count < 0 {
			d.Invalid(fmt.Sprintf("spec.strategy.rollingSync.steps[%d].maxUpdate", i), "it is %s: write a number, or a percentage such as 10%%", declare.Quoted(step.MaxUpdate.String()))
		}
	}
}

// generatorRules requires one kind of generator, with what the kind needs. An
// element whose kind was refused already is not refused twice.
func (d *decoder) generatorRules(g *Generator) {
	kinds := present(g.List != nil, g.Clusters != nil, g.Git != nil, g.Matrix != nil, g.Merge != nil,
		g.SCMProvider != nil, g.PullRequest != nil, g.Plugin != nil, g.ClusterDecisionResource != nil)
	if kinds > 1 || kinds == 0 && !d.refusedBelow(g.Place) {
		d.Invalid(g.Place, "it has %d generators, and must have exactly one: make an element of each", kinds)
	}
	if g.Git != nil {
		if count := present(len(g.Git.Directories) > 0, len(g.Git.Files) > 0); count != 1 {
			d.Invalid(g.Place+".git", "it has %d of directories and files, and must have one", count)
		}
	}
	if g.SCMProvider != nil {
		d.scmProviderRules(g.SCMProvider, g.Place+".scmProvider")
	}
	if g.PullRequest != nil {
		d.pullRequestRules(g.PullRequest, g.Place+".pullRequest")
	}
	if at := g.ClusterDecisionResource; at != nil {
		if count := present(at.Name != "", at.LabelSelector != nil); count != 1 {
			d.Invalid(g.Place+".clusterDecisionResource", "it has %d of name and labelSelector, and must have one", count)
		}
	}
	if count := len(g.Matrix); g.Matrix != nil && count != 2 {
		d.Invalid(g.Place+".matrix.generators", "it has %d generators, and must have 2: nest them for more", count)
	}
	for _, inner := range append(g.Matrix, g.Merge...) {
		if field, given := inner.template(); given != nil {
			d.Warn(inner.Place+"."+field, "it has no effect in another generator: write it into the outer one")
		}
		d.generatorRules(inner)
	}
	if count := len(g.Merge); g.Merge != nil && count < 2 {
		d.Invalid(g.Place+".merge.generators", "it has %d generators, and must have two or more", count)
	}
	if g.Merge != nil && len(g.MergeKeys) == 0 {
		d.Invalid(g.Place+".merge.mergeKeys", "it is empty: name the parameters that are the same")
	}
}

// pullRequestRules requires one Git host, whose certificate is verified.
func (d *decoder) pullRequestRules(p *PullRequestGenerator, place string) {
	hosts := present(p.GitHub != nil, p.GitLab != nil, p.Gitea != nil, p.BitbucketServer != nil, p.Bitbucket != nil, p.AzureDevOps != nil)
	if hosts > 1 || hosts == 0 && !d.refusedBelow(place) {
		d.Invalid(place, "it has %d Git hosts, and must have one of github, gitlab, gitea, bitbucketServer, bitbucket and azuredevops", hosts)
	}
	d.insecureRule(place+".gitlab", p.GitLab != nil && p.GitLab.Insecure, "use caRef")
	d.insecureRule(place+".bitbucketServer", p.BitbucketServer != nil && p.BitbucketServer.Insecure, "use caRef")
	d.insecureRule(place+".gitea", p.Gitea != nil && p.Gitea.Insecure, "give the server a certificate that the agent trusts")
}

// scmProviderRules requires one Git host, whose certificate is verified.
func (d *decoder) scmProviderRules(p *SCMProviderGenerator, place string) {
	hosts := present(p.GitHub != nil, p.GitLab != nil, p.Gitea != nil, p.BitbucketServer != nil, p.Bitbucket != nil, p.AzureDevOps != nil)
	if hosts > 1 || hosts == 0 && !d.refusedBelow(place) {
		d.Invalid(place, "it has %d Git hosts, and must have one of github, gitlab, gitea, bitbucketServer, bitbucket and azureDevOps", hosts)
	}
	d.insecureRule(place+".gitlab", p.GitLab != nil && p.GitLab.Insecure, "use caRef")
	d.insecureRule(place+".bitbucketServer", p.BitbucketServer != nil && p.BitbucketServer.Insecure, "use caRef")
	d.insecureRule(place+".gitea", p.Gitea != nil && p.Gitea.Insecure, "give the server a certificate that the agent trusts")
}

// insecureRule refuses a Git host whose certificate is not verified.
func (d *decoder) insecureRule(place string, given bool, instead string) {
	if given {
		d.Refuse(place+".insecure", refusal.Unsupported, "it is not supported: the token would be sent to any server: %s", instead)
	}
}

// refusedBelow reports whether a field below a place was refused.
func (d *decoder) refusedBelow(place string) bool {
	return slices.ContainsFunc(d.Refused, func(r refusal.Refusal) bool { return isBelow(r.Field, place) })
}

// isBelow reports whether a field is in another one. spec.sources is not in
// spec.source.
func isBelow(field, place string) bool { return strings.HasPrefix(field, place+".") }

// refusedAt reports whether a field was refused.
func (d *decoder) refusedAt(place string) bool {
	return slices.ContainsFunc(d.Refused, func(r refusal.Refusal) bool { return r.Field == place })
}

// present counts the set conditions.
func present(given ...bool) int {
	count := 0
	for _, there := range given {
		if there {
			count++
		}
	}
	return count
}
