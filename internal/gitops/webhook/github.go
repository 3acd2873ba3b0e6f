package webhook

// gitHubPush is the part of a push that matters here. Gitea has the same form.
type gitHubPush struct {
	Ref        string `json:"ref"`
	Before     string `json:"before"`
	After      string `json:"after"`
	Repository struct {
		FullName string `json:"full_name"`
		CloneURL string `json:"clone_url"`
		SSHURL   string `json:"ssh_url"`
		GitURL   string `json:"git_url"`
		HTMLURL  string `json:"html_url"`
	} `json:"repository"`
}

// readGitHub reads a push of GitHub or Gitea, whose payloads have the same
// form.
func readGitHub(provider Provider, body []byte) ([]Push, error) {
	var sent gitHubPush
	if err := decode(body, &sent); err != nil {
		return nil, err
	}
	push, err := newPush(sent.push(provider))
	if err != nil {
		return nil, err
	}
	return []Push{push}, nil
}

// readGitHubPullRequest reads a change of a pull request, which names the
// repository that it is for as a push does.
func readGitHubPullRequest(provider Provider, body []byte) ([]Push, error) {
	var sent gitHubPush
	if err := decode(body, &sent); err != nil {
		return nil, err
	}
	push := sent.push(provider)
	push.Ref, push.Before, push.After = "", "", ""
	return newPullRequest(push)
}

// push converts the request.
func (p *gitHubPush) push(provider Provider) Push {
	return Push{
		Provider: provider, Repository: p.Repository.FullName,
		RepositoryURLs: addresses(p.Repository.CloneURL, p.Repository.SSHURL, p.Repository.GitURL, p.Repository.HTMLURL),
		Ref:            p.Ref, Before: p.Before, After: p.After,
	}
}
