package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/gitops/source/credential"
)

// The content types of smart HTTP.
const (
	refsType    = "application/x-git-upload-pack-advertisement"
	packType    = "application/x-git-upload-pack-result"
	requestType = "application/x-git-upload-pack-request"
)

// refsPath is where smart HTTP has the ref advertisement.
const refsPath = "/info/refs"

// uploadPack is the service that gives packs.
const uploadPack = "git-upload-pack"

// UserAgent identifies the client. Some servers use the Git protocol only for
// agents that start with "git/".
const UserAgent = "git/2.0 (slipway)"

// httpTransport implements smart HTTP (gitprotocol-http).
type httpTransport struct {
	client   *Client
	http     *http.Client
	identity Identity
}

// newHTTP prepares the client. Only the credential has an identity: addresses
// have neither user nor password.
func newHTTP(c *Client) (*httpTransport, error) {
	client, err := HTTPClient(c.access, c.address)
	if err != nil {
		return nil, err
	}
	return &httpTransport{client: c, http: client, identity: IdentityOf(c.access.Credential)}, nil
}

// HTTPClient is a client for one server and credential: authorities,
// certificate of the client, proxy, redirects. Close its idle connections after
// use. The caller makes one for each exchange, so that a changed credential or
// authority takes effect at once and connections are never shared between
// credentials. home is the server that the user named; others that it leads to
// are dialled as guard allows.
func HTTPClient(access Access, home address.Address) (*http.Client, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: access.Credential.Insecure}
	if len(access.Authorities) > 0 {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(access.Authorities) {
			return nil, failf(Invalid, "there is no certificate for %s in the ConfigMap argocd-tls-certs-cm: write PEM text", home.Host)
		}
	}
	if access.Credential.ClientCertificate != "" {
		pair, err := tls.X509KeyPair([]byte(access.Credential.ClientCertificate), []byte(access.Credential.ClientKey.Reveal()))
		if err != nil {
			return nil, failf(Invalid, "the certificate of the client and its key cannot be used: write PEM text of both, of one pair")
		}
		config.Certificates = []tls.Certificate{pair}
	}
	proxy, err := proxyFor(access.Credential)
	if err != nil {
		return nil, err
	}
	chosen := http.ProxyFromEnvironment
	// A proxy of the credential replaces that of the environment.
	if proxy != nil {
		chosen = proxy.forRequest
	}
	guarded := &guard{home: home, policy: access.Outbound}
	t := &http.Transport{
		Proxy: guarded.proxies.Choose(chosen), TLSClientConfig: config, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 15 * time.Second, IdleConnTimeout: 30 * time.Second,
		MaxIdleConnsPerHost: 2, MaxResponseHeaderBytes: 64 << 10,
		DialContext: guarded.dial,
	}
	return &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if access.Credential.ClientCertificate != "" && r.URL.Host != via[0].URL.Host {
			return failf(Denied, "it redirects to another host, which would get the certificate of the client")
		}
		return checkRedirect(r, via)
	}}, nil
}

// Identity authenticates HTTP requests.
type Identity struct {
	user, password, token string
}

// IdentityOf returns the identity of a credential. A token is sent as a bearer
// token unless the credential forces basic authentication. x-access-token is
// the user that hosts expect with a token in place of a password.
func IdentityOf(c credential.Credential) Identity {
	if !c.BearerToken.IsZero() && !c.ForceHTTPBasicAuth {
		return Identity{token: c.BearerToken.Reveal()}
	}
	user, password, ok := c.Basic()
	if !ok && !c.BearerToken.IsZero() {
		user, password = "x-access-token", c.BearerToken
	}
	return Identity{user: user, password: password.Reveal()}
}

// IsZero reports whether requests are anonymous.
func (i Identity) IsZero() bool { return i == Identity{} }

// Apply puts the identity on a request.
func (i Identity) Apply(r *http.Request) {
	switch {
	case i.token != "":
		r.Header.Set("Authorization", "Bearer "+i.token)
	case i.user != "":
		r.SetBasicAuth(i.user, i.password)
	}
}

// checkRedirect is the redirect policy of an http.Client. As Git does, it
// follows redirects of the request for refs but not of fetches. It never
// follows one to plain HTTP, and removes the Authorization header on the way to
// another host.
func checkRedirect(r *http.Request, via []*http.Request) error {
	first := via[0]
	switch {
	case len(via) > 5:
		return failf(Unreachable, "it redirects too often")
	case first.Method != http.MethodGet:
		return failf(Unreachable, "it redirects a fetch")
	case r.URL.Scheme != "https" && r.URL.Scheme != first.URL.Scheme:
		return failf(Denied, "it redirects from https to a connection that others can read")
	case r.URL.Host != first.URL.Host:
		r.Header.Del("Authorization")
	}
	return nil
}

// close closes idle connections. Running requests end with their contexts.
func (h *httpTransport) close() { h.http.CloseIdleConnections() }

// refs requests the ref advertisement. The address after redirects is kept for
// the fetch. A redirect has to keep the end of the path, as Git requires too;
// otherwise it leads to another kind of page.
func (h *httpTransport) refs(ctx context.Context) (*Advertisement, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.client.address.String()+refsPath+"?service="+uploadPack, nil)
	if err != nil {
		return nil, failf(Invalid, "the address cannot be requested")
	}
	response, err := h.do(r, refsType)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	a, err := readAdvertisement(response.Body, h.client.maxRefs)
	if err != nil {
		return nil, err
	}
	final := *response.Request.URL
	final.RawQuery, final.User = "", nil
	path, found := strings.CutSuffix(final.Path, refsPath)
	if !found {
		return nil, failf(Unreachable, "it redirects to an address that is not a repository")
	}
	final.Path, final.RawPath = path, ""
	a.base = final.String()
	return a, nil
}

// fetch posts the request and streams the response. The whole negotiation is
// one round trip: haves are sent with "done". The pack is read inside of take,
// before the response is closed.
func (h *httpTransport) fetch(ctx context.Context, a *Advertisement, want Want, take func(io.Reader) error) error {
	message, err := want.request(a)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.base+"/"+uploadPack, bytes.NewReader(message))
	if err != nil {
		return failf(Invalid, "the address cannot be requested")
	}
	r.Header.Set("Content-Type", requestType)
	response, err := h.do(r, packType)
	if err != nil {
		return ConnectionFailure(ctx, err)
	}
	defer func() { _ = response.Body.Close() }()
	pack, err := want.readPack(response.Body, a)
	if err != nil {
		return ConnectionFailure(ctx, err)
	}
	return take(pack)
}

// do sends a request and checks that the response is Git's.
func (h *httpTransport) do(r *http.Request, contentType string) (*http.Response, error) {
	r.Header.Set("User-Agent", UserAgent)
	r.Header.Set("Accept", contentType)
	// After a redirect it is another host.
	if r.URL.Host == h.client.address.HostPort() {
		h.identity.Apply(r)
	}
	response, err := h.http.Do(r)
	if err != nil {
		// The error of the client has the address in it.
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return nil, err
	}
	if err := CheckStatus(response, !h.identity.IsZero()); err != nil {
		_ = response.Body.Close()
		return nil, err
	}
	// Git clients require the exact content type; a login page has another one.
	if got := response.Header.Get("Content-Type"); got != contentType {
		_ = response.Body.Close()
		return nil, failf(Unreachable, "its response is not that of a Git server: the content is %q", plainText(got))
	}
	return response, nil
}

// CheckStatus converts the status of a response that is not 200 OK into a
// *Failure. The advice depends on whether the request was authenticated.
func CheckStatus(response *http.Response, identified bool) error {
	advice := "add a Secret with the label argocd.argoproj.io/secret-type and a password or a token"
	if identified {
		advice = "check the user, the password or the token, and what they may read"
	}
	switch code := response.StatusCode; {
	case code == http.StatusOK:
		return nil
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return failf(Denied, "the server responds %s: %s", http.StatusText(code), advice)
	case code == http.StatusNotFound, code == http.StatusGone:
		return failf(Missing, "the server does not have it, or does not show it: check the address, and %s", advice)
	default:
		return failf(Unreachable, "the server responds %d %s", code, http.StatusText(code))
	}
}
