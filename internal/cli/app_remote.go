package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// appKeyVariable has the key for the platform, so that it is in no list of
// processes.
const appKeyVariable = "SLIPWAY_API_KEY"

// platformAddress is the URL of a platform. A key is sent over TLS, or within this
// machine.
func platformAddress(text string) (*url.URL, error) {
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

// keyTransport adds the key to requests for the platform, and to no others.
type keyTransport struct {
	key  secret.Text
	host string
	next http.RoundTripper
}

// RoundTrip sends a request with the key.
func (t *keyTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host != t.host {
		return t.next.RoundTrip(request)
	}
	keyed := request.Clone(request.Context())
	keyed.Header.Set("Authorization", "Bearer "+t.key.Reveal())
	return t.next.RoundTrip(keyed)
}

// CloseIdleConnections ends connections that nobody uses.
func (t *keyTransport) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// maxRemoteAnswer bounds an answer of a runtime.
const maxRemoteAnswer = 64 << 20

// remoteApps are the Applications of a runtime that the platform reaches.
type remoteApps struct {
	client    runtimev1connect.ApplicationServiceClient
	platform  *platformClient
	namespace string
}

// newRemoteApps asks a runtime through a platform.
func newRemoteApps(platform *platformClient, runtime, namespace string) *remoteApps {
	return &remoteApps{
		client:   runtimev1connect.NewApplicationServiceClient(platform.http, platform.runtimeBase(runtime), readLimit()),
		platform: platform, namespace: namespace,
	}
}

func (r *remoteApps) home() string { return r.namespace }

func (r *remoteApps) close() { r.platform.close() }

// explain says what to do about an error of the platform or of the runtime.
func (r *remoteApps) explain(ctx context.Context, err error) error {
	return r.platform.explain(ctx, err)
}
