package gitprovider

// TokenHelp describes how to create a token (R69, R70).
type TokenHelp struct {
	// Page is the URL where tokens are created; empty for a server with Git
	// alone.
	Page string
	// Needs are the required scopes or permissions, as the page names them.
	Needs []string
	// FineGrained are the permissions of GitHub's fine-grained tokens; empty
	// for other providers.
	FineGrained []string
	// Username describes the user name to configure; empty if none is needed.
	Username string
	// SSHKeys is the URL where public SSH keys are added.
	SSHKeys string
}

// HelpFor returns the help for a purpose. For an invalid API URL it returns
// the cloud's pages.
func HelpFor(kind Kind, apiURL string, purpose Purpose) TokenHelp {
	// Help is shown before anything is configured, so an invalid URL must not
	// be an error.
	if api, err := DefaultAPI(kind, apiURL); err == nil {
		apiURL = api
	} else {
		apiURL, _ = DefaultAPI(kind, "")
	}
	// Links lead to the configured server, also a self-hosted one.
	web := webServer(kind, apiURL)
	if kind == PlainGit {
		return TokenHelp{Needs: []string{"permission to push to the repository, as the password of Git over HTTP"}, Username: "the user of Git over HTTP, if the server has one"}
	}
	runtime := purpose == RuntimeToken
	switch kind {
	case GitHub:
		help := TokenHelp{Page: web + "/settings/tokens", Needs: oauthScopes(kind, purpose), SSHKeys: web + "/settings/keys"}
		// The list is the one that Check verifies, so help and check cannot
		// disagree.
		for _, need := range gitHubNeeds("main") {
			if runtime || !need.runtime {
				help.FineGrained = append(help.FineGrained, need.name)
			}
		}
		help.FineGrained = append(help.FineGrained, "Metadata: Read-only")
		return help
	case GitLab:
		return TokenHelp{Page: web + "/-/user_settings/personal_access_tokens", Needs: oauthScopes(kind, purpose), SSHKeys: web + "/-/user_settings/ssh_keys"}
	case Bitbucket:
		help := TokenHelp{
			Page: "https://id.atlassian.com/manage-profile/security/api-tokens", SSHKeys: web + "/account/settings/ssh-keys/",
			Username: "the email of the Atlassian account; nothing for an access token of a repository, project or workspace",
		}
		for _, need := range bitbucketNeeds() {
			if runtime || !need.runtime {
				help.Needs = append(help.Needs, need.token[0])
			}
		}
		return help
	}
	return TokenHelp{Page: web + "/account", Needs: []string{map[bool]string{true: "Repository admin", false: "Repository write"}[runtime]}, SSHKeys: web + "/plugins/servlet/ssh/account/keys"}
}
