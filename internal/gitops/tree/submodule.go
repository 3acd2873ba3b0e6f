package tree

import "slipway.dev/slipway/api/refusal"

// InSubmodule is the error of a path that leads to a submodule, or into it: the
// files are in another repository. For those that do not read that it is a
// *[refusal.Refusal]: without the files a render would be incomplete, and prune.
type InSubmodule struct {
	// Path is that of the submodule, and Commit the one that it is at.
	Path   string `json:"path"`
	Commit string `json:"commit"`
	// Rest is the path in the submodule.
	Rest string `json:"rest"`
}

// Error has the commit, because the result of a query is compared by its text.
func (e *InSubmodule) Error() string { return e.Unwrap().Error() }

// Unwrap is the refusal.
func (e *InSubmodule) Unwrap() error {
	return refusal.New(e.Path, refusal.Unsupported, "it is a submodule, at the commit %s, which is not fetched: "+
		"put its files into the repository, or make it a source of its own", e.Commit)
}
