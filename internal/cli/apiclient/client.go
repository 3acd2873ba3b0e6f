// Package apiclient is the command line's client of a platform: which platform
// and runtime a command is for (Choice), the contexts that logins leave on this
// machine (Contexts), the API clients with their TLS and key (Client), and
// errors that name the next step for the user (Client.Explain).
//
// A key is sent to the host of its platform and to no other, over TLS or within
// this machine. No error of this package contains a key.
package apiclient

import (
	"crypto/x509"
	"net/http"
	"net/url"
	"strings"
	"time"

	"connectrpc.com/connect"

	"slipway.dev/slipway/internal/preflight"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1/platformv1connect"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

const (
	// RequestTimeout bounds one request to a platform or, through it, to a
	// runtime.
	RequestTimeout = 30 * time.Second
	// DialTimeout bounds connecting, so that a wrong address fails soon.
	DialTimeout = 10 * time.Second
	// maxPages bounds a list: a platform that always returns another page is
	// broken.
	maxPages = 10000
	// PageSize is the number of entries requested per page. The platform may
	// return fewer.
	PageSize = 200
)

// Client calls the API of one platform as one user. It is safe for concurrent
// use. Close ends its idle connections.
type Client struct {
	Context
	// Address is the parsed URL of the context.
	Address *url.URL
	// HTTP carries the key in its transport. All API clients share it, and with
	// it the connections.
	HTTP *http.Client
	// roots verifies the platform's certificate; nil means the roots of the
	// system.
	roots *x509.CertPool
	// namedRuntime is the runtime of the --runtime flag, empty without it.
	namedRuntime string
}

// New returns a client for a context. It sends nothing yet. The key is left out
// if the context has none, as during a login. Redirects are not followed.
func New(chosen Context) (*Client, error) {
	address, err := ParseURL(chosen.URL)
	if err != nil {
		return nil, err
	}
	roots, err := rootsOf(chosen.CAFile)
	if err != nil {
		return nil, err
	}
	transport := newTransport(roots)
	var next http.RoundTripper = transport
	if !chosen.Key.IsZero() {
		next = &keyTransport{key: chosen.Key, host: address.Host, next: transport}
	}
	return &Client{Context: chosen, Address: address, roots: roots, HTTP: &http.Client{Transport: next, CheckRedirect: noRedirect}}, nil
}

// ForPreflight returns the platform as the preflight checks need it.
func (c *Client) ForPreflight() *preflight.Platform {
	return &preflight.Platform{URL: c.BaseURL(), Auth: c.Auth(), Runtimes: c.Runtimes(), Roots: c.roots}
}

// Close closes idle connections.
func (c *Client) Close() { c.HTTP.CloseIdleConnections() }

// BaseURL returns the URL of the platform without a slash at the end.
func (c *Client) BaseURL() string { return strings.TrimSuffix(c.Address.String(), "/") }

// RuntimeBase returns the URL below which the platform forwards requests to a
// runtime.
func (c *Client) RuntimeBase(runtime string) string {
	return strings.TrimSuffix(c.Address.JoinPath(wire.RuntimesPath, runtime, wire.AppProxyPath).String(), "/")
}

// ReadLimit bounds the size of one response message.
func ReadLimit() connect.ClientOption { return connect.WithReadMaxBytes(maxResponseBytes) }

// Auth returns the client for sessions and the current user.
func (c *Client) Auth() platformv1connect.AuthServiceClient {
	return platformv1connect.NewAuthServiceClient(c.HTTP, c.BaseURL(), ReadLimit())
}

// Accounts returns the client for the account and its users.
func (c *Client) Accounts() platformv1connect.AccountServiceClient {
	return platformv1connect.NewAccountServiceClient(c.HTTP, c.BaseURL(), ReadLimit())
}

// Keys returns the client for API keys.
func (c *Client) Keys() platformv1connect.KeyServiceClient {
	return platformv1connect.NewKeyServiceClient(c.HTTP, c.BaseURL(), ReadLimit())
}

// audit returns the client for the audit log.
func (c *Client) audit() platformv1connect.AuditServiceClient {
	return platformv1connect.NewAuditServiceClient(c.HTTP, c.BaseURL(), ReadLimit())
}

// History returns the client for past deployments.
func (c *Client) History() platformv1connect.HistoryServiceClient {
	return platformv1connect.NewHistoryServiceClient(c.HTTP, c.BaseURL(), ReadLimit())
}

// Runtimes returns the client for the runtimes that the platform has
// registered.
func (c *Client) Runtimes() platformv1connect.RuntimeServiceClient {
	return platformv1connect.NewRuntimeServiceClient(c.HTTP, c.BaseURL(), ReadLimit())
}

// Git returns the client for the Git settings of the account.
func (c *Client) Git() platformv1connect.GitServiceClient {
	return platformv1connect.NewGitServiceClient(c.HTTP, c.BaseURL(), ReadLimit())
}

// applications returns the client for Applications as runtimes reported them.
func (c *Client) applications() platformv1connect.ApplicationServiceClient {
	return platformv1connect.NewApplicationServiceClient(c.HTTP, c.BaseURL(), ReadLimit())
}

// RuntimeAPI returns the client for a runtime itself, through the platform.
func (c *Client) RuntimeAPI(runtime string) runtimev1connect.RuntimeServiceClient {
	return runtimev1connect.NewRuntimeServiceClient(c.HTTP, c.RuntimeBase(runtime), ReadLimit())
}

// GitSources returns the client for the Git Sources of a runtime, through the
// platform.
func (c *Client) GitSources(runtime string) runtimev1connect.GitSourceServiceClient {
	return runtimev1connect.NewGitSourceServiceClient(c.HTTP, c.RuntimeBase(runtime), ReadLimit())
}

// Clusters returns the client for the clusters that a runtime deploys to,
// through the platform.
func (c *Client) Clusters(runtime string) runtimev1connect.ClusterServiceClient {
	return runtimev1connect.NewClusterServiceClient(c.HTTP, c.RuntimeBase(runtime), ReadLimit())
}

// Integrations returns the client for the Git integrations of a runtime,
// through the platform. Tokens in requests reach the runtime only.
func (c *Client) Integrations(runtime string) runtimev1connect.IntegrationServiceClient {
	return runtimev1connect.NewIntegrationServiceClient(c.HTTP, c.RuntimeBase(runtime), ReadLimit())
}
