package gitprovider

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// giteaClouds are public services of Gitea and Forgejo.
func giteaClouds() []string { return []string{"gitea.com", "codeberg.org"} }

// azureHosts are those of Azure DevOps Services.
func azureHosts() []string { return []string{"dev.azure.com", "ssh.dev.azure.com"} }

// Detect returns provider and API URL of a repository, for [PullRequests]. In
// addition to the providers of [Infer] and [Probe] it knows Azure DevOps, and
// Gitea and Forgejo. Where the host's name is not enough, it sends up to four GET
// requests without a token through the transport. Plain HTTP is used if it is the
// repository's own: the transport belongs to a caller that fetches it so.
func Detect(ctx context.Context, repoURL string, transport http.RoundTripper) (Kind, string, error) {
	if kind, api, ok := Infer(repoURL); ok {
		return kind, api, nil
	}
	address, err := ParseAddress(repoURL)
	if err != nil {
		return "", "", err
	}
	if slices.Contains(azureHosts(), address.Host) {
		return AzureDevOps, azureAPI, nil
	}
	server := address.server()
	// Gitea below a path of its host has that in front of owner and name.
	gitea := server
	if above := len(address.Segments) - 2; above > 0 && !address.SSH {
		gitea += "/" + strings.Join(address.Segments[:above], "/")
	}
	label, _, _ := strings.Cut(address.Host, ".")
	if slices.Contains(giteaClouds(), address.Host) || strings.Contains(label, "gitea") || strings.Contains(label, "forgejo") {
		return Gitea, gitea + "/api/v1", nil
	}
	// A redirect to a login page is a response of an unknown server, and is not
	// followed.
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, fingerprint := range append(fingerprints(), giteaFingerprint()) {
		at := server
		if fingerprint.kind == Gitea {
			at = gitea
		}
		// One request at a time: the first match ends the search.
		found, err := fingerprint.matches(ctx, client, at)
		switch {
		case err != nil:
			return "", "", networkError("", address.Host, err)
		case found && fingerprint.kind == Gitea:
			return Gitea, gitea + "/api/v1", nil
		case found:
			api, err := DefaultAPI(fingerprint.kind, server)
			return fingerprint.kind, api, err
		}
	}
	return "", "", &Error{Kind: NotFound, Message: address.Host + " has none of the APIs of GitHub, GitLab, Bitbucket Server and Gitea, so that there are no pull requests"}
}

// giteaFingerprint is that of Gitea and Forgejo, also of one that shows nothing to
// guests.
func giteaFingerprint() fingerprint {
	return fingerprint{Gitea, "/api/v1/version", func(status int, _ http.Header, body map[string]any) bool {
		version, _ := body["version"].(string)
		message, _ := body["message"].(string)
		return status == http.StatusOK && version != "" || status == http.StatusForbidden && strings.Contains(message, "signed in")
	}}
}
