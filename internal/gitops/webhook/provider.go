package webhook

import "net/http"

// Provider is a kind of Git host.
type Provider string

// The kinds of Git hosts.
const (
	GitHub           Provider = "GitHub"
	GitHubEnterprise Provider = "GitHub Enterprise"
	GitLab           Provider = "GitLab"
	BitbucketCloud   Provider = "Bitbucket Cloud"
	BitbucketServer  Provider = "Bitbucket Data Center"
	Gitea            Provider = "Gitea"
)

// Providers lists the kinds of Git hosts.
func Providers() []Provider {
	return []Provider{GitHub, GitHubEnterprise, GitLab, BitbucketCloud, BitbucketServer, Gitea}
}

// detect returns the host that a request claims to come from, and its event, by
// the headers. Gitea sends the headers of GitHub too, so that it is checked
// first.
func detect(header http.Header) (provider Provider, event string, ok bool) {
	switch {
	case header.Get("X-Gitea-Event") != "":
		return Gitea, header.Get("X-Gitea-Event"), true
	case header.Get("X-Forgejo-Event") != "":
		return Gitea, header.Get("X-Forgejo-Event"), true
	case header.Get("X-GitHub-Event") != "":
		if header.Get("X-GitHub-Enterprise-Host") != "" {
			return GitHubEnterprise, header.Get("X-GitHub-Event"), true
		}
		return GitHub, header.Get("X-GitHub-Event"), true
	case header.Get("X-Gitlab-Event") != "":
		return GitLab, header.Get("X-Gitlab-Event"), true
	case header.Get("X-Event-Key") != "":
		// Only the cloud names the webhook.
		if header.Get("X-Hook-UUID") != "" {
			return BitbucketCloud, header.Get("X-Event-Key"), true
		}
		return BitbucketServer, header.Get("X-Event-Key"), true
	}
	return "", "", false
}
