package webhook

import (
	"slices"
	"strings"

	"slipway.dev/slipway/internal/gitops/source/address"
)

// Push is a change of a branch, a tag or a pull request of a repository.
type Push struct {
	Provider Provider
	// PullRequest: a pull or merge request was changed. Ref and the commits are
	// empty then.
	PullRequest bool
	// Repository is the name that the host has for it, such as team/project.
	Repository string
	// RepositoryURLs are all addresses that the host names. Some versions of
	// Bitbucket Data Center name none.
	RepositoryURLs []string
	// Ref is the branch or tag, such as refs/heads/main.
	Ref string
	// Before and After are commits. Before is empty for a ref that is new, and
	// After for one that was deleted.
	Before string
	After  string
	// Image is the image that was pushed, as registry/repository, in an event of a
	// registry, which has nothing else.
	Image string
}

// From reports whether the push was to the repository of an Application. Hosts
// ignore upper and lower case in paths, and an address may be written either
// way.
func (p Push) From(repoURL string) bool {
	wanted, err := address.ParseForeign(repoURL)
	if err != nil {
		return false
	}
	wanted = folded(wanted)
	for _, named := range p.RepositoryURLs {
		if own, err := address.ParseForeign(named); err == nil && folded(own).SameRepository(wanted) {
			return true
		}
	}
	if len(p.RepositoryURLs) > 0 || p.Repository == "" {
		return false
	}
	// Without an address, the end of the path decides: at worst a repository is
	// polled in vain.
	name := strings.ToLower(p.Repository)
	path := wanted.Canonical().Path
	return path == name || strings.HasSuffix(path, "/"+name)
}

// Below reports whether the push was to a repository of an owner at any depth,
// such as a group of GitLab. Without an address it may be.
func (p Push) Below(owner string) bool {
	wanted, err := address.ParseForeign(owner)
	if err != nil {
		return false
	}
	wanted = folded(wanted).Canonical()
	prefix := wanted.Path + "/"
	for _, named := range p.RepositoryURLs {
		own, err := address.ParseForeign(named)
		if err != nil || !strings.HasPrefix(folded(own).Canonical().Path, prefix) {
			continue
		}
		if own.Path = wanted.Path; own.SameRepository(wanted) {
			return true
		}
	}
	return len(p.RepositoryURLs) == 0
}

// folded is an address in lower case, for hosts that ignore case.
func folded(a address.Address) address.Address {
	a.Path = strings.ToLower(a.Path)
	return a
}

// maxName bounds a ref, a path and an address.
const maxName = 4096

// isName reports whether a text can be a path, a ref or an address.
func isName(text string) bool {
	return text != "" && len(text) <= maxName && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// addresses drops what is empty, cannot be an address, or is there already.
func addresses(named ...string) []string {
	var kept []string
	for _, text := range named {
		if at, err := address.ParseForeign(text); err == nil && at.Path != "" && !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	return kept
}
