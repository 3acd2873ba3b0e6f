package preflight

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"slipway.dev/slipway/internal/gitprovider"
	"slipway.dev/slipway/internal/wire"
)

// gitRoots returns the CAs that a runtime verifies Git servers with: those that
// are configured for the server, or else the system's. Those of the platform
// and of the runtime's own host are no part of them.
func (in *CheckContext) gitRoots() (*x509.CertPool, error) {
	if len(in.Git.CAs) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(in.Git.CAs) {
		return nil, errors.New("the configuration of CAs for Git contains no certificate")
	}
	return pool, nil
}

// checkSharedRepository is P25: the URL of the Shared Configuration
// Repository is valid (R57), its provider is known (R58), and the server
// permits the token to push. It requests the ref advertisement of a push
// (gitprotocol-http); nothing is pushed, and an empty repository is accepted.
func checkSharedRepository(ctx context.Context, in *CheckContext, out *Report) {
	given := in.Git
	if given.Repository == "" {
		out.skip("no Shared Configuration Repository is given (--shared-repository)")
		return
	}
	// The parser is the one of platform and agent, so all of them agree.
	repository, err := wire.ParseSharedRepository(given.Repository)
	if err != nil {
		out.inspect("the URL of the Shared Configuration Repository")
		out.fail("Shared Configuration Repository", err.Error(), "write <repository>.git[/<path>][?ref=<branch>]")
		return
	}
	out.inspect("%s", repository)
	if _, _, known := gitprovider.Infer(repository.RepoURL); !known && in.GitProvider == nil {
		out.note(repository.String(), "its provider does not follow from the URL: give it with its API URL")
	}
	in.probePush(ctx, repository, out)
}

// probePush requests the ref advertisement of git-receive-pack, or of
// git-upload-pack without a token.
func (in *CheckContext) probePush(ctx context.Context, repository wire.SharedRepository, out *Report) {
	address, err := url.Parse(repository.RepoURL)
	if err != nil || address.Scheme != "https" && address.Scheme != "http" {
		in.probeSSH(ctx, repository, out)
		return
	}
	given := in.Git
	roots, err := in.gitRoots()
	if err != nil {
		out.fail("authorities for Git", err.Error(), "give a file with PEM certificates")
		return
	}
	// The token is sent as Git does, with Basic authentication.
	header := http.Header{}
	if !given.Token.IsZero() {
		if address.Scheme != "https" {
			out.fail(repository.String(), "the token would be sent unencrypted", "use https")
			return
		}
		request := http.Request{Header: header}
		request.SetBasicAuth(cmp.Or(given.Username, "git"), given.Token.Reveal())
	}
	// Without a token only public read access can be tested.
	service := "git-upload-pack"
	if len(header) > 0 {
		service = "git-receive-pack"
	}
	probe := *address
	probe.Path, probe.RawQuery = address.Path+"/info/refs", "service="+service
	out.inspect("%s of its server", service)
	client := in.verifyingClient(roots)
	defer client.CloseIdleConnections()
	response, err := get(ctx, client, probe.String(), header)
	if err != nil {
		out.fail(repository.String(), "its server is unreachable: "+describeError(err), "see P26 and P27")
		return
	}
	evaluateProbe(repository.String(), response, len(header) > 0, out)
}

// evaluateProbe interprets the response of the Git server.
func evaluateProbe(subject string, response *http.Response, withToken bool, out *Report) {
	switch {
	case response.StatusCode == http.StatusOK:
	// The configured URL must be the final one.
	case response.StatusCode >= 300 && response.StatusCode < 400:
		out.fail(subject, "it has moved: the server responds with "+response.Status, "write the URL that it has now")
	case !withToken && (response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden):
		out.inspect("it needs a token, and none was given")
	case response.StatusCode == http.StatusUnauthorized:
		out.fail(subject, "the server does not accept the token", "see P22")
	case response.StatusCode == http.StatusForbidden:
		out.fail(subject, "the token may not push to it", "give its user write access, see P23")
	// The runtime can create the repository, so this is only a warning.
	case response.StatusCode == http.StatusNotFound:
		out.warn(subject, "it does not exist, or the token may not see it", "create an empty one, or let the runtime create it with a token that may")
	default:
		out.fail(subject, fmt.Sprintf("the server responds with %s", response.Status), "open it in a browser, and see whether the URL is right")
	}
}

// probeSSH only connects: SSH keys belong to the agent.
func (in *CheckContext) probeSSH(ctx context.Context, repository wire.SharedRepository, out *Report) {
	parsed, err := gitprovider.ParseAddress(repository.RepoURL)
	if err != nil {
		out.fail(repository.String(), err.Error(), "write an https or ssh URL")
		return
	}
	// Bitbucket Server uses another port for SSH, which is part of the URL.
	port := cmp.Or(parsed.Port, "22")
	out.inspect("a TCP connection to %s:%s", parsed.Host, port)
	conn, err := in.connect(ctx, parsed.Host, port)
	if err != nil {
		out.fail(repository.String(), "its server accepts no connection: "+describeError(err), "see P27")
		return
	}
	_ = conn.Close() // only the connection matters
}
