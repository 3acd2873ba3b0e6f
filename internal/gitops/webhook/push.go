package webhook

import (
	"path"
	"slices"
	"strings"
)

// Push is a change of a branch or tag of a repository.
type Push struct {
	Provider Provider
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
	// ChangedPaths are the files that commits of the push touch. They are all of
	// them only with PathsKnown.
	ChangedPaths []string
	PathsKnown   bool
}

// From reports whether the push was to the repository of an Application. Hosts
// ignore upper and lower case in paths, and an address may be written either
// way.
func (p Push) From(repoURL string) bool {
	wanted, ok := parseAddress(repoURL)
	if !ok {
		return false
	}
	wanted = wanted.folded()
	for _, named := range p.RepositoryURLs {
		if address, ok := parseAddress(named); ok && address.folded().same(wanted) {
			return true
		}
	}
	if len(p.RepositoryURLs) > 0 || p.Repository == "" {
		return false
	}
	// Without an address, the end of the path decides: at worst a repository is
	// polled in vain.
	name := strings.ToLower(p.Repository)
	return wanted.path == name || strings.HasSuffix(wanted.path, "/"+name)
}

// Touches reports whether a push may change what is below a folder. It is true
// if the paths are not complete.
func Touches(push Push, folder string) bool {
	if !push.PathsKnown {
		return true
	}
	folder = strings.Trim(path.Clean("/"+folder), "/")
	for _, changed := range push.ChangedPaths {
		changed = strings.Trim(path.Clean("/"+changed), "/")
		// A change above the folder is that of a submodule or a symbolic link.
		if folder == "" || changed == folder || strings.HasPrefix(changed, folder+"/") || strings.HasPrefix(folder, changed+"/") {
			return true
		}
	}
	return false
}

// Bounds of what is kept of a push.
const (
	// maxPaths bounds the paths of a Push. With more of them the paths count as
	// incomplete.
	maxPaths = 20000
	// maxName bounds a ref, a path and an address.
	maxName = 4096
)

// commit is one commit of the hosts that send paths.
type commit struct {
	Added    []string `json:"added"`
	Removed  []string `json:"removed"`
	Modified []string `json:"modified"`
}

// pathsOf collects the paths of commits. They are complete if every commit of
// the push is listed with its paths. A commit without any is one whose paths
// were left out, or an empty one: both cost a poll.
func pathsOf(commits []commit, complete bool) ([]string, bool) {
	if !complete || len(commits) == 0 {
		return nil, false
	}
	// A path that several commits touch is kept once.
	seen := map[string]bool{}
	for i := range commits {
		lists := slices.Concat(commits[i].Added, commits[i].Removed, commits[i].Modified)
		if len(lists) == 0 {
			return nil, false
		}
		for _, name := range lists {
			if !isName(name) {
				return nil, false
			}
			seen[name] = true
		}
		if len(seen) > maxPaths {
			return nil, false
		}
	}
	paths := make([]string, 0, len(seen))
	for name := range seen {
		paths = append(paths, name)
	}
	slices.Sort(paths)
	return paths, true
}

// isName reports whether a text can be a path, a ref or an address.
func isName(text string) bool {
	return text != "" && len(text) <= maxName && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// addresses drops what is empty, cannot be an address, or is there already.
func addresses(named ...string) []string {
	var kept []string
	for _, text := range named {
		if _, ok := parseAddress(text); ok && !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	return kept
}
