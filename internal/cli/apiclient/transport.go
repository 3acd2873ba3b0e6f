package apiclient

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"slipway.dev/slipway/internal/cli/files"
	"slipway.dev/slipway/internal/secret"
)

// KeyVariable is the environment variable with the API key. There is no flag
// for it: arguments are visible in the list of processes.
const KeyVariable = "SLIPWAY_API_KEY"

// ParseURL parses the URL of a platform. Plain HTTP is refused except for
// loopback: the key would travel unencrypted.
func ParseURL(text string) (*url.URL, error) {
	address, err := url.Parse(text)
	if err != nil || address.Host == "" || address.User != nil || address.RawQuery != "" || address.Fragment != "" {
		return nil, errors.New("this is no URL of a platform: write one such as https://platform.example.com")
	}
	ip := net.ParseIP(address.Hostname())
	switch {
	case address.Scheme == "https":
	case address.Scheme == "http" && (address.Hostname() == "localhost" || ip != nil && ip.IsLoopback()):
	default:
		return nil, fmt.Errorf("%s would send the key for everybody to read: use https", address.Redacted())
	}
	return address, nil
}

// keyTransport adds the key to requests for the platform's host, and to no
// others, as a second guard besides noRedirect.
type keyTransport struct {
	key  secret.Text
	host string
	next http.RoundTripper
}

// RoundTrip sends a request with the key. It clones the request: a RoundTripper
// must not change the caller's.
func (t *keyTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host != t.host {
		return t.next.RoundTrip(request)
	}
	keyed := request.Clone(request.Context())
	keyed.Header.Set("Authorization", "Bearer "+t.key.Reveal())
	return t.next.RoundTrip(keyed)
}

// CloseIdleConnections closes idle connections of the transport below.
// http.Client finds the method by its name; without it Close would do nothing.
func (t *keyTransport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// maxResponseBytes bounds one message from a platform or a runtime. A diff or a
// tree of a large Application is the largest.
const maxResponseBytes = 64 << 20

// noRedirect returns redirects as they are: the API has none, and following one
// could carry a request elsewhere.
func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// rootsOf returns the CA certificates of a file, or nil without one.
func rootsOf(caFile string) (*x509.CertPool, error) {
	if caFile == "" {
		return nil, nil
	}
	authorities, err := files.ReadAuthorities(caFile)
	if err != nil {
		return nil, fmt.Errorf("the authorities of the platform: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authorities)
	return pool, nil
}

// newTransport returns a transport that verifies certificates with roots, or
// with the system's if roots is nil. It keeps the proxy settings of the
// environment: platforms are often behind a company's proxy.
func newTransport(roots *x509.CertPool) *http.Transport {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: DialTimeout, KeepAlive: DialTimeout}).DialContext
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return transport
}
