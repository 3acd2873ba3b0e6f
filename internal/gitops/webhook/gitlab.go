package webhook

import "cmp"

// gitLabPush is the part of a push that matters here.
type gitLabPush struct {
	ObjectKind string `json:"object_kind"`
	EventName  string `json:"event_name"`
	Ref        string `json:"ref"`
	Before     string `json:"before"`
	After      string `json:"after"`
	Project    struct {
		PathWithNamespace string `json:"path_with_namespace"`
		WebURL            string `json:"web_url"`
		GitHTTPURL        string `json:"git_http_url"`
		GitSSHURL         string `json:"git_ssh_url"`
		HTTPURL           string `json:"http_url"`
		SSHURL            string `json:"ssh_url"`
		URL               string `json:"url"`
	} `json:"project"`
	Repository struct {
		GitHTTPURL string `json:"git_http_url"`
		GitSSHURL  string `json:"git_ssh_url"`
		Homepage   string `json:"homepage"`
		URL        string `json:"url"`
	} `json:"repository"`
}

// readGitLab reads a push of a branch or a tag, or a merge request. System hooks deliver many kinds
// of events under one name, so that the kind in the body decides.
func readGitLab(provider Provider, body []byte) ([]Push, error) {
	var sent gitLabPush
	if err := decode(body, &sent); err != nil {
		return nil, err
	}
	named := Push{
		Provider: provider, Repository: sent.Project.PathWithNamespace,
		RepositoryURLs: addresses(sent.Project.GitHTTPURL, sent.Project.GitSSHURL, sent.Project.HTTPURL, sent.Project.SSHURL, sent.Project.URL,
			sent.Project.WebURL, sent.Repository.GitHTTPURL, sent.Repository.GitSSHURL, sent.Repository.URL, sent.Repository.Homepage),
	}
	switch cmp.Or(sent.ObjectKind, sent.EventName) {
	case "merge_request":
		return newPullRequest(named)
	case "push", "tag_push":
	default:
		return nil, nil
	}
	named.Ref, named.Before, named.After = sent.Ref, sent.Before, sent.After
	push, err := newPush(named)
	if err != nil {
		return nil, err
	}
	return []Push{push}, nil
}
