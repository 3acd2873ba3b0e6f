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

// gitRoots are the authorities for Git servers.
func (in *Inquiry) gitRoots() (*x509.CertPool, error) {
	if len(in.Git.CAs) == 0 {
		return in.Roots, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if in.Roots != nil {
		pool = in.Roots.Clone()
	}
	if !pool.AppendCertsFromPEM(in.Git.CAs) {
		return nil, errors.New("the file of authorities for Git has no certificate")
	}
	return pool, nil
}

// checkSharedRepository is P25: the URL of the Shared Configuration Repository by
// its grammar (R57), its provider (R58), and whether the server lets the token push
// to it. The server is asked for what it would show before a push; nothing is
// pushed, and an empty repository is fine.
func checkSharedRepository(ctx context.Context, in *Inquiry, out *Report) {
	given := in.Git
	if given.Repository == "" {
		out.skip("no Shared Configuration Repository is given (--shared-repository)")
		return
	}
	repository, err := wire.ParseSharedRepository(given.Repository)
	if err != nil {
		out.look("the URL of the Shared Configuration Repository")
		out.fail("Shared Configuration Repository", err.Error(), "write <repository>.git[/<path>][?ref=<branch>]")
		return
	}
	out.look("%s", repository)
	if _, _, known := gitprovider.Infer(repository.RepoURL); !known && in.GitProvider == nil {
		out.note(repository.String(), "its provider does not follow from the URL: give it with its API URL")
	}
	in.probePush(ctx, repository, out)
}

func (in *Inquiry) probePush(ctx context.Context, repository wire.SharedRepository, out *Report) {
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
	header := http.Header{}
	if !given.Token.IsZero() {
		if address.Scheme != "https" {
			out.fail(repository.String(), "the token would be readable on the way", "use https")
			return
		}
		request := http.Request{Header: header}
		request.SetBasicAuth(cmp.Or(given.Username, "git"), given.Token.Reveal())
	}
	service := "git-upload-pack"
	if len(header) > 0 {
		service = "git-receive-pack"
	}
	probe := *address
	probe.Path, probe.RawQuery = address.Path+"/info/refs", "service="+service
	out.look("%s of its server", service)
	client := in.caller(roots)
	defer client.CloseIdleConnections()
	answer, err := visit(ctx, client, probe.String(), header)
	if err != nil {
		out.fail(repository.String(), "its server cannot be asked: "+why(err), "see P26 and P27")
		return
	}
	judgeProbe(repository.String(), answer, len(header) > 0, out)
}

func judgeProbe(subject string, answer *http.Response, withToken bool, out *Report) {
	switch {
	case answer.StatusCode == http.StatusOK:
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		out.fail(subject, "it has moved: the server answers "+answer.Status, "write the URL that it has now")
	case !withToken && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		out.look("it needs a token, and none was given")
	case answer.StatusCode == http.StatusUnauthorized:
		out.fail(subject, "the server does not accept the token", "see P22")
	case answer.StatusCode == http.StatusForbidden:
		out.fail(subject, "the token may not push to it", "give its user write access, see P23")
	case answer.StatusCode == http.StatusNotFound:
		out.warn(subject, "it does not exist, or the token may not see it", "make it, empty, or let the runtime make it with a token that may")
	default:
		out.fail(subject, fmt.Sprintf("the server answers %s", answer.Status), "open it in a browser, and see whether the URL is right")
	}
}

// probeSSH connects and no more: keys are the agent's.
func (in *Inquiry) probeSSH(ctx context.Context, repository wire.SharedRepository, out *Report) {
	parsed, err := gitprovider.ParseAddress(repository.RepoURL)
	if err != nil {
		out.fail(repository.String(), err.Error(), "write an https or ssh URL")
		return
	}
	port := cmp.Or(parsed.Port, "22")
	out.look("a TCP connection to %s:%s", parsed.Host, port)
	conn, err := in.connect(ctx, parsed.Host, port)
	if err != nil {
		out.fail(repository.String(), "its server takes no connection: "+why(err), "see P27")
		return
	}
	_ = conn.Close() // it was good
}
