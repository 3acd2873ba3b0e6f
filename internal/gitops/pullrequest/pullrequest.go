// Package pullrequest makes clients of pull requests for repositories of
// Applications: the provider follows from the address of the repository, and the
// credential is the one that the repository is fetched with.
//
// It refuses credentials that no API accepts, such as SSH keys.
package pullrequest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/gitops/source/remote"
	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/secret"
)

// ErrNoToken is the error of a credential that opens the repository, but no API.
var ErrNoToken = errors.New("pull requests need a token: give the repository an https:// address with a user name and a token, or a GitHub App")

// Options are a repository and how it is opened.
type Options struct {
	RepoURL string
	// Access is that of [source.Sources.Access], which has the token of a GitHub App.
	Access remote.Access
	// Kind is that of the provider; empty to detect it.
	Kind gitprovider.Kind
}

// New returns the pull requests of a repository. With an empty Kind it may send
// requests without the credential to the host of the repository.
func New(ctx context.Context, options Options) (*gitprovider.PullRequests, error) {
	home, err := address.ParseGit(options.RepoURL)
	if err != nil {
		return nil, err
	}
	// Without a token nothing is sent, not even to detect the provider.
	token, user, err := login(options.Access.Credential)
	if err != nil {
		return nil, err
	}
	kind, api, err := provider(ctx, options, home)
	if err != nil {
		return nil, err
	}
	made := gitprovider.Options{
		Kind: kind, APIURL: api, Token: token, Repository: options.RepoURL,
		// The project allows the address of the repository, and the same credential is sent there.
		PlainHTTP: home.Scheme == address.HTTP,
	}
	if isPassword(kind, user, token) {
		made.Username = user
	}
	// The address of the API without a transport decides where it goes.
	checked, err := gitprovider.NewListing(made)
	if err != nil {
		return nil, err
	}
	client, err := httpClient(options.Access, home, checked.Origin())
	if err != nil {
		return nil, err
	}
	made.Transport = client.Transport
	return gitprovider.NewPullRequests(made)
}

// login returns the token of a credential, and the user that it is sent with.
func login(given credential.Credential) (token secret.Text, user string, err error) {
	switch {
	case !given.BearerToken.IsZero():
		return given.BearerToken, "", nil
	case given.Password.IsZero():
		return secret.Text{}, "", ErrNoToken
	}
	return given.Password, given.Username, nil
}

// isPassword reports whether the token is sent with the name of its user. The APIs
// of GitHub and GitLab take tokens alone, whatever user Git sends with them. HTTP
// access tokens of Bitbucket Server have a prefix; anything else is a password.
func isPassword(kind gitprovider.Kind, user string, token secret.Text) bool {
	// Gitea takes a token as the password of any user, so that both forms work.
	switch kind {
	case gitprovider.GitHub, gitprovider.GitLab, gitprovider.AzureDevOps:
		return false
	case gitprovider.Bitbucket, gitprovider.BitbucketServer:
		return user != "" && user != "x-token-auth" && !strings.HasPrefix(token.Reveal(), "BBDC-")
	}
	return user != ""
}

// provider returns the provider of a repository and the URL of its API.
func provider(ctx context.Context, options Options, home address.Address) (gitprovider.Kind, string, error) {
	// The token of an App has come in the place of a password.
	if given := options.Access.Credential; !given.App.IsZero() && given.Username == "" {
		return gitprovider.GitHub, given.App.API, nil
	}
	if kind, api, ok := gitprovider.Infer(options.RepoURL); ok && kind == cmp.Or(options.Kind, kind) {
		return kind, api, nil
	}
	switch options.Kind {
	case "":
		client, err := httpClient(options.Access, home, server(home))
		if err != nil {
			return "", "", err
		}
		defer client.CloseIdleConnections()
		return gitprovider.Detect(ctx, options.RepoURL, client.Transport)
	case gitprovider.AzureDevOps:
		return options.Kind, "", nil
	case gitprovider.Gitea:
		return options.Kind, server(home), nil
	}
	api, err := gitprovider.DefaultAPI(options.Kind, server(home))
	return options.Kind, api, err
}

// server returns the web server of a repository. That of SSH is assumed at the
// same host.
func server(home address.Address) string {
	if home.Scheme == address.SSH {
		return "https://" + home.Host
	}
	return home.Scheme + "://" + home.HostPort()
}

// httpClient returns a client for an API with the proxy, the authorities and the
// outbound policy of the repository. The API of a public service is at another
// host, which gets neither the authorities nor the client's certificate.
func httpClient(access remote.Access, home address.Address, api string) (*http.Client, error) {
	at, err := address.Parse(api)
	if err != nil {
		return nil, fmt.Errorf("the address of the API: %w", err)
	}
	if at.Host != home.Host {
		access.Authorities, access.Credential.ClientCertificate = nil, ""
	}
	return remote.HTTPClient(access, at)
}
