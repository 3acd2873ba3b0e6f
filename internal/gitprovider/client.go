package gitprovider

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"slipway.dev/slipway/internal/backoff"
	"slipway.dev/slipway/internal/outbound"
	"slipway.dev/slipway/internal/secret"
)

// Limits of requests. maxResponse is far above a page of a hundred hooks or
// repositories.
const (
	maxResponse = 4 << 20 // one page of a hundred hooks or repositories is far below
	maxPages    = 50
	maxAttempts = 3
	firstDelay  = 300 * time.Millisecond
	maxRedirect = 3
)

// client sends requests to one API with one token.
type client struct {
	kind      Kind
	api       string // without trailing slash
	token     secret.Text
	username  string
	password  bool     // of the user, and no token: it is sent with Basic authentication
	repo      *Address // Options.Repository, if it is on this server
	otherHost string   // host of Options.Repository, if it is another server
	timeout   time.Duration
	now       func() time.Time
	http      *http.Client
	responses *Responses
}

// newClient validates the options.
func newClient(options Options) (*client, error) {
	api, err := apiOf(options)
	if err != nil {
		return nil, err
	}
	if err := checkOrigin(options.Kind, api, options.PlainHTTP); err != nil {
		return nil, err
	}
	// Tokens are often pasted with a trailing newline. Other whitespace would
	// break the header.
	token := strings.TrimSpace(options.Token.Reveal())
	if token == "" && !options.anonymous || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, invalid(options.Kind, "the token is empty or has characters that no token of %s has", options.Kind.Title())
	}
	// A colon separates user and password in Basic authentication.
	if strings.ContainsFunc(options.Username, func(r rune) bool { return r < ' ' || r == ':' || r == 0x7f }) {
		return nil, invalid(options.Kind, "the user name must not have a colon or a control character")
	}
	c := &client{kind: options.Kind, api: api, token: secret.New(token), username: strings.TrimSpace(options.Username), timeout: options.Timeout, now: options.Now, responses: options.Responses}
	if c.timeout <= 0 {
		c.timeout = 15 * time.Second
	}
	if c.now == nil {
		c.now = time.Now
	}
	if options.Repository != "" {
		address, err := ParseAddress(options.Repository)
		if err != nil {
			return nil, err
		}
		// A repository elsewhere is no error: only that part of the report is
		// unverified.
		if sameHost(c.kind, c.api, address) == nil {
			c.repo = &address
		} else {
			c.otherHost = address.Host
		}
	}
	if options.Transport != nil {
		c.http = &http.Client{Transport: options.Transport, CheckRedirect: checkRedirect}
		return c, nil
	}
	c.http, err = newHTTP(options.Kind, options.CAs, options.Proxy, options.Outbound)
	return c, err
}

// apiOf returns the URL of the API of a known kind.
func apiOf(options Options) (string, error) {
	if (options.Kind == Gitea || options.Kind == AzureDevOps) && options.anonymous {
		return options.APIURL, nil
	}
	if _, err := ParseKind(string(options.Kind)); err != nil {
		return "", err
	}
	if options.Kind == Bitbucket && options.APIURL != "" {
		// A proxy or gateway in front of Bitbucket Cloud keeps its paths.
		return strings.TrimRight(options.APIURL, "/"), nil
	}
	return DefaultAPI(options.Kind, options.APIURL)
}

// checkOrigin rejects URLs to which the token would be sent unencrypted.
func checkOrigin(kind Kind, api string, plain bool) error {
	u, err := url.Parse(api)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return invalid(kind, "the API URL of %s cannot be read: it is as https://git.example.com/api/v4", kind.Title())
	}
	switch u.Scheme {
	case "https":
		return nil
	case "http":
		// Loopback connections cannot be intercepted.
		ip := net.ParseIP(u.Hostname())
		if plain || u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback()) {
			return nil
		}
		return invalid(kind, "the API URL is http://, and the token would be readable on the way: use https://")
	}
	return invalid(kind, "the API URL must begin with https://")
}

// newHTTP returns an HTTP client with the system's and the given CAs.
func newHTTP(kind Kind, authorities []byte, proxy func(*http.Request) (*url.URL, error), policy *outbound.Policy) (*http.Client, error) {
	// Configured CAs extend the system's, they do not replace them.
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if len(authorities) > 0 && !pool.AppendCertsFromPEM(authorities) {
		return nil, invalid(kind, "the certificate authorities hold no certificate: give them as PEM, beginning with -----BEGIN CERTIFICATE-----")
	}
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	// Few idle connections: a check sends a handful of requests.
	transport := &http.Transport{
		Proxy:                  proxy,
		TLSClientConfig:        &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    2,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2:      true,
	}
	policy.Apply(transport, net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second})
	return &http.Client{Transport: transport, CheckRedirect: checkRedirect}, nil
}

// errCrossOrigin reports a redirect that would send the token to another
// origin.
var errCrossOrigin = errors.New("redirect to another server")

// checkRedirect follows redirects of renamed repositories, which stay on the
// API's origin, and no others.
func checkRedirect(request *http.Request, via []*http.Request) error {
	first := via[0]
	if request.URL.Scheme != first.URL.Scheme || request.URL.Host != first.URL.Host {
		return errCrossOrigin
	}
	// After 301 and 302 net/http continues a write as GET, which would seem
	// to succeed.
	if request.Method != first.Method {
		return errors.New("redirect of a write request; use the repository's current URL")
	}
	if len(via) > maxRedirect {
		return errors.New("too many redirects")
	}
	return nil
}

// address parses a repository URL and rejects one on another server.
func (c *client) address(repoURL string) (Address, error) {
	address, err := ParseAddress(repoURL)
	if err != nil {
		return Address{}, err
	}
	return address, sameHost(c.kind, c.api, address)
}

// newReport starts a report.
func (c *client) newReport(kind TokenKind) TokenReport {
	report := TokenReport{Kind: kind}
	if c.otherHost != "" {
		report.addUnverified("the rights on the repository at %s: it is not at the server of this token", c.otherHost)
	}
	return report
}

// call is one API request.
type call struct {
	method string
	path   string // below the API, escaped
	query  url.Values
	url    string // instead of path and query: the next page, of the same origin
	body   any    // sent as JSON
	into   any    // filled from JSON when the status is 2xx
	base   string // instead of the API's URL, at the same origin
}

// apiResponse is a response without its body.
type apiResponse struct {
	status int
	header http.Header
}

// path joins escaped segments.
func path(segments ...string) string {
	var b strings.Builder
	for _, segment := range segments {
		b.WriteByte('/')
		b.WriteString(url.PathEscape(segment))
	}
	return b.String()
}

// do sends a call. It retries after a 5xx or a network error, unless the call
// is a POST, which is not idempotent. A status other than 2xx is an *Error,
// returned with the response.
func (c *client) do(ctx context.Context, call call) (apiResponse, error) {
	for try := 1; ; try++ {
		got, err := c.send(ctx, call)
		failure, failed := errors.AsType[*Error](err)
		// Rate limits are not retried here: the caller decides how long it
		// can wait.
		again := failed && failure.Kind == Unreachable && call.method != http.MethodPost && ctx.Err() == nil
		if !again || try == maxAttempts {
			return got, err
		}
		// Jitter spreads the retries of several runtimes.
		policy := backoff.Policy{First: firstDelay, Longest: time.Minute, Factor: 3, JitterDown: 0.5, JitterUp: 0.5}
		if backoff.Sleep(ctx, policy.Delay(try)) != nil {
			return got, err
		}
	}
}

// send sends a call once and decodes the response.
func (c *client) send(ctx context.Context, call call) (apiResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := c.request(ctx, call)
	if err != nil {
		return apiResponse{}, err
	}
	known, conditional := c.responses.condition(request)
	response, err := c.http.Do(request)
	if err != nil {
		return apiResponse{}, c.networkFailure(request.URL.Host, err)
	}
	defer response.Body.Close()
	if conditional && response.StatusCode == http.StatusNotModified {
		return apiResponse{status: http.StatusOK, header: known.header}, json.Unmarshal(known.body, call.into)
	}
	// One byte more than the limit distinguishes a complete response from a
	// truncated one.
	body, err := io.ReadAll(io.LimitReader(response.Body, maxResponse+1))
	if err != nil {
		return apiResponse{}, c.networkFailure(request.URL.Host, err)
	}
	got := apiResponse{status: response.StatusCode, header: response.Header}
	if len(body) > maxResponse {
		return got, invalid(c.kind, "%s returned more than %d bytes", request.URL.Host, maxResponse)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return got, c.responseError(call, response, body)
	}
	// Some calls only need the status.
	if call.into == nil || response.StatusCode == http.StatusNoContent {
		return got, nil
	}
	if err := json.Unmarshal(body, call.into); err != nil {
		return got, invalid(c.kind, "%s did not return a response of the %s API: check the API URL %s", request.URL.Host, c.kind.Title(), c.api)
	}
	c.responses.keep(request, response.Header, body)
	return got, nil
}

// request builds the HTTP request of a call. The next page of a list must be
// on the API's origin, because the request carries the token.
func (c *client) request(ctx context.Context, call call) (*http.Request, error) {
	// The next page of a list is a complete URL; other calls are relative to
	// the API.
	target := call.url
	if target == "" {
		base := cmp.Or(call.base, c.api)
		target = base + call.path
		if len(call.query) > 0 {
			target += "?" + call.query.Encode()
		}
	} else if !sameOrigin(target, c.api) {
		return nil, invalid(c.kind, "%s returned a next page on another server", c.kind.Title())
	}
	var body io.Reader
	if call.body != nil {
		encoded, err := json.Marshal(call.body)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, call.method, target, body)
	if err != nil {
		return nil, invalid(c.kind, "the API URL of %s cannot be read", c.kind.Title())
	}
	if call.body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	request.Header.Set("User-Agent", "slipway")
	request.Header.Set("Accept", "application/json")
	// GitHub recommends pinning the API version.
	if c.kind == GitHub {
		request.Header.Set("Accept", "application/vnd.github+json")
		request.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	}
	switch {
	case c.token.Reveal() == "":
	case c.basic():
		request.SetBasicAuth(c.username, c.token.Reveal())
	case c.kind == Gitea:
		request.Header.Set("Authorization", "token "+c.token.Reveal())
	default:
		request.Header.Set("Authorization", "Bearer "+c.token.Reveal())
	}
	return request, nil
}

// basic reports whether the token is sent with Basic authentication. Of the
// APIs only Bitbucket Cloud's has such tokens; x-token-auth is the user name
// that Git uses with its access tokens.
func (c *client) basic() bool {
	return c.password || c.kind == PlainGit || c.kind == Bitbucket && c.username != "" && c.username != "x-token-auth"
}

// sameOrigin reports whether two URLs have the same scheme and host.
func sameOrigin(a, b string) bool {
	one, err := url.Parse(a)
	if err != nil {
		return false
	}
	two, err := url.Parse(b)
	return err == nil && one.Scheme == two.Scheme && one.Host == two.Host && one.User == nil
}

// networkFailure converts a network error, without the token.
func (c *client) networkFailure(host string, err error) *Error {
	failure := networkError(c.kind, host, err)
	failure.Message = c.scrub(failure.Message)
	return failure
}

// networkError converts a network error to an [Error] with advice.
func networkError(kind Kind, host string, err error) *Error {
	failure := &Error{Kind: Unreachable, Provider: kind, cause: err}
	// The URL in the wrapper may contain a query; only the cause is kept.
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		failure.cause = wrapped.Err
	}
	_, authority := errors.AsType[x509.UnknownAuthorityError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	_, certificate := errors.AsType[x509.CertificateInvalidError](err)
	switch {
	case errors.Is(err, errCrossOrigin):
		failure.Kind, failure.cause = Invalid, nil
		failure.Message = fmt.Sprintf("%s redirects to another server, where the token is not sent: check the API URL", host)
	case authority:
		failure.Kind = Certificate
		failure.Message = fmt.Sprintf("the certificate of %s is signed by an authority that is not trusted: add the authority's certificate", host)
	case name, certificate:
		failure.Kind = Certificate
		failure.Message = fmt.Sprintf("the certificate of %s is not valid: %v", host, failure.cause)
	case errors.Is(err, context.DeadlineExceeded):
		failure.Message = fmt.Sprintf("%s did not respond in time", host)
	default:
		failure.Message = fmt.Sprintf("%s is unreachable: %v", host, failure.cause)
	}
	return failure
}

// scrub removes the token from text, in both forms in which it is sent: a
// proxy's error page may contain the request.
func (c *client) scrub(text string) string {
	token := c.token.Reveal()
	if token == "" {
		return text
	}
	text = strings.ReplaceAll(text, token, secret.Redacted)
	return strings.ReplaceAll(text, base64.StdEncoding.EncodeToString([]byte(c.username+":"+token)), secret.Redacted)
}
