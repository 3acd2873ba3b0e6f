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
	push, err := newPush(Push{
		Provider: provider, Repository: sent.Repository.FullName,
		RepositoryURLs: addresses(sent.Repository.CloneURL, sent.Repository.SSHURL, sent.Repository.GitURL, sent.Repository.HTMLURL),
		Ref:            sent.Ref, Before: sent.Before, After: sent.After,
	})
	if err != nil {
		return nil, err
	}
	return []Push{push}, nil
}
