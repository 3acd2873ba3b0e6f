package webhook

// gitHubPush is the part of a push that matters here. Gitea has the same form.
type gitHubPush struct {
	Ref     string   `json:"ref"`
	Before  string   `json:"before"`
	After   string   `json:"after"`
	Forced  bool     `json:"forced"`
	Created bool     `json:"created"`
	Deleted bool     `json:"deleted"`
	Commits []commit `json:"commits"`
	// TotalCommits is how many commits there are, where Gitea lists some.
	TotalCommits *int `json:"total_commits"`
	Repository   struct {
		FullName string `json:"full_name"`
		CloneURL string `json:"clone_url"`
		SSHURL   string `json:"ssh_url"`
		GitURL   string `json:"git_url"`
		HTMLURL  string `json:"html_url"`
	} `json:"repository"`
}

// The limits of GitHub's payloads: with more commits or files the lists are
// cut, and paths count as incomplete.
const (
	// GitHub lists so many commits of a push, and so many paths of a commit.
	gitHubCommits = 2048
	gitHubPaths   = 3000
)

// readGitHub reads a push of GitHub or Gitea, whose payloads have the same
// form.
func readGitHub(provider Provider, body []byte) ([]Push, error) {
	var sent gitHubPush
	if err := decode(body, &sent); err != nil {
		return nil, err
	}
	// What a forced push took away is in no commit of it.
	complete := !sent.Forced && !sent.Created && !sent.Deleted && len(sent.Commits) < gitHubCommits
	for i := range sent.Commits {
		c := &sent.Commits[i]
		complete = complete && len(c.Added) < gitHubPaths && len(c.Removed) < gitHubPaths && len(c.Modified) < gitHubPaths
	}
	if provider == Gitea {
		complete = complete && sent.TotalCommits != nil && *sent.TotalCommits == len(sent.Commits)
	}
	paths, known := pathsOf(sent.Commits, complete)
	push, err := newPush(Push{
		Provider: provider, Repository: sent.Repository.FullName,
		RepositoryURLs: addresses(sent.Repository.CloneURL, sent.Repository.SSHURL, sent.Repository.GitURL, sent.Repository.HTMLURL),
		Ref:            sent.Ref, Before: sent.Before, After: sent.After, ChangedPaths: paths, PathsKnown: known,
	})
	if err != nil {
		return nil, err
	}
	return []Push{push}, nil
}
