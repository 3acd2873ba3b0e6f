package appset

import (
	"slices"
	"strings"

	"slipway.dev/slipway/api/argo/v1alpha1"
	"slipway.dev/slipway/internal/gitops/webhook"
	"slipway.dev/slipway/internal/gitprovider"
)

// inputs is what the generators of a set read. An empty address can be any: it
// depends on parameters, and is only known in a generation.
type inputs struct {
	// repositories are those whose files are read, pulls those whose pull requests
	// are listed, and owners those whose repositories are.
	repositories, pulls, owners []string
	clusters                    bool
}

// add adds what a generator reads.
func (i *inputs) add(g *v1alpha1.Generator) {
	i.clusters = i.clusters || g.Clusters != nil || g.ClusterDecisionResource != nil
	switch {
	case g.Git != nil:
		i.repositories = append(i.repositories, withoutParameters(g.Git.RepoURL))
	case g.PullRequest != nil:
		i.pulls = append(i.pulls, hostOf(g.PullRequest).address())
	case g.SCMProvider != nil:
		at, _ := repositoriesOf(g.SCMProvider)
		i.owners = append(i.owners, at.address())
	}
}

// concerns reports whether a push or a change of a pull request can change what
// is generated.
func (i *inputs) concerns(push webhook.Push) bool {
	isAny := func(fits func(string) bool) func(string) bool {
		return func(used string) bool { return used == "" || fits(used) }
	}
	if push.PullRequest {
		return slices.ContainsFunc(i.pulls, isAny(push.From))
	}
	return slices.ContainsFunc(i.repositories, isAny(push.From)) || slices.ContainsFunc(i.owners, isAny(push.Below))
}

// address is the address of a repository, or of the owner of repositories.
func (h *hostRepository) address() string {
	if h == nil {
		return ""
	}
	listing, err := gitprovider.NewListing(h.options)
	// GitLab has numbers for projects and groups too.
	if err != nil || strings.Trim(h.path, "0123456789") == "" {
		return ""
	}
	return withoutParameters(listing.Server() + "/" + h.path)
}

// withoutParameters is an address without parameters, or none.
func withoutParameters(address string) string {
	if strings.Contains(address, "{{") {
		return ""
	}
	return address
}
