package sharedrepo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"slipway.dev/slipway/internal/gitops/source/remote"
)

const refsPath = "/info/refs"

// pushHTTP asks whether it may push, which also tells where the repository moved
// to, and then pushes.
func (r *Repository) pushHTTP(ctx context.Context, message []byte) ([]byte, error) {
	transport, err := remote.Transport(r.options.Access, r.address.Host)
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	w := &webPush{
		client:   &http.Client{Transport: transport, CheckRedirect: remote.CheckRedirect},
		identity: remote.IdentityOf(r.options.Access.Credential), host: r.webHost(),
	}
	start := url.URL{Scheme: r.address.Scheme, Host: w.host, Path: strings.TrimRight(r.address.Path, "/") + refsPath, RawQuery: "service=" + receivePack}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, start.String(), nil)
	if err != nil {
		return nil, errors.New("the address cannot be asked")
	}
	answered, _, err := w.do(request, "advertisement", maxAdvertised)
	if err != nil {
		return nil, err
	}
	path, found := strings.CutSuffix(answered.Path, refsPath)
	if !found || answered.Host != w.host {
		// Reading follows a server to another host without credentials. Writing
		// needs them, and they are for this host.
		return nil, &remote.Failure{Reason: remote.Denied, Message: "it redirects to another place: write that address instead"}
	}
	target := url.URL{Scheme: answered.Scheme, Host: answered.Host, Path: path + "/" + receivePack}
	request, err = http.NewRequestWithContext(ctx, http.MethodPost, target.String(), bytes.NewReader(message))
	if err != nil {
		return nil, errors.New("the address cannot be asked")
	}
	request.Header.Set("Content-Type", "application/x-"+receivePack+"-request")
	_, answer, err := w.do(request, "result", maxReport)
	return answer, err
}

// webHost is the host as addresses have it.
func (r *Repository) webHost() string {
	if r.address.Port != "" {
		return net.JoinHostPort(r.address.Host, r.address.Port)
	}
	if strings.Contains(r.address.Host, ":") {
		return "[" + r.address.Host + "]"
	}
	return r.address.Host
}

// webPush is a push over HTTP.
type webPush struct {
	client   *http.Client
	identity remote.Identity
	host     string
}

// do asks and reads an answer of Git's, and gives the address that answered.
func (w *webPush) do(request *http.Request, kind string, limit int64) (*url.URL, []byte, error) {
	wanted := "application/x-" + receivePack + "-" + kind
	request.Header.Set("User-Agent", remote.UserAgent)
	request.Header.Set("Accept", wanted)
	if request.URL.Host == w.host {
		w.identity.Apply(request)
	}
	response, err := w.client.Do(request)
	if err != nil {
		// The error of the client has the address in it.
		var wrapped *url.Error
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if code := response.StatusCode; code == http.StatusUnauthorized || code == http.StatusForbidden {
		return nil, nil, &remote.Failure{
			Reason:  remote.Denied,
			Message: "the server does not let the runtime push (" + http.StatusText(code) + "): check that its Git token may write to this repository",
		}
	}
	if err := remote.CheckStatus(response, !w.identity.IsZero()); err != nil {
		return nil, nil, err
	}
	if response.Header.Get("Content-Type") != wanted {
		return nil, nil, &remote.Failure{Reason: remote.Unreachable, Message: "it does not answer as a Git server does"}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit))
	return response.Request.URL, body, err
}
