package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/pflag"

	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/runtimev1/runtimev1connect"
)

// appKeyVariable has the key for the platform, so that it is in no list of
// processes.
const appKeyVariable = "SLIPWAY_API_KEY"

// remoteChoice is which runtime is asked through which platform.
type remoteChoice struct {
	platformURL string
	runtime     string
}

func (r *remoteChoice) add(flags *pflag.FlagSet) {
	flags.StringVar(&r.platformURL, "platform-url", "", "URL of the platform to ask through; the key is in "+appKeyVariable)
	flags.StringVar(&r.runtime, "runtime", "", "runtime of the platform that has the Application")
	for _, name := range []string{"platform-url", "runtime"} {
		_ = flags.MarkHidden(name) // it is there
	}
}

// chosen reports whether a platform is asked.
func (r *remoteChoice) chosen() bool { return r.platformURL != "" || r.runtime != "" }

// open makes what asks the runtime. It sends nothing yet.
func (r *remoteChoice) open(namespace string) (appBackend, error) {
	if err := wire.RuntimeName(r.runtime); err != nil {
		return nil, usageError{fmt.Errorf("--runtime: %w", err)}
	}
	address, err := platformAddress(r.platformURL)
	if err != nil {
		return nil, usageError{err}
	}
	key := secret.New(strings.TrimSpace(os.Getenv(appKeyVariable)))
	if key.IsZero() {
		return nil, usageError{fmt.Errorf("there is no key for the platform: put one into %s", appKeyVariable)}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	client := &http.Client{Transport: &keyTransport{key: key, host: address.Host, next: transport}}
	base := address.JoinPath(wire.RuntimesPath, r.runtime, wire.AppProxyPath).String()
	return newRemoteApps(client, base, namespace), nil
}

// platformAddress is the URL of a platform. A key is sent over TLS, or within this
// machine.
func platformAddress(text string) (*url.URL, error) {
	address, err := url.Parse(text)
	if err != nil || address.Host == "" || address.User != nil || address.RawQuery != "" || address.Fragment != "" {
		return nil, errors.New("--platform-url is no URL of a platform: write one such as https://platform.example.com")
	}
	ip := net.ParseIP(address.Hostname())
	switch {
	case address.Scheme == "https":
	case address.Scheme == "http" && (address.Hostname() == "localhost" || ip != nil && ip.IsLoopback()):
	default:
		return nil, fmt.Errorf("--platform-url %s would send the key for everybody to read: use https", address.Redacted())
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
	http      *http.Client
	base      string
	namespace string
}

// newRemoteApps asks the runtime at a base URL, which ends with its /app-proxy.
// The client shows who asks.
func newRemoteApps(client *http.Client, base, namespace string) *remoteApps {
	base = strings.TrimSuffix(base, "/")
	return &remoteApps{
		client: runtimev1connect.NewApplicationServiceClient(client, base, connect.WithReadMaxBytes(maxRemoteAnswer)),
		http:   client, base: base, namespace: namespace,
	}
}

func (r *remoteApps) home() string { return r.namespace }

func (r *remoteApps) close() { r.http.CloseIdleConnections() }

// explain says what to do about an error of the platform or of the runtime.
func (r *remoteApps) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var told *connect.Error
	if !errors.As(err, &told) {
		return err
	}
	message := printable(told.Message())
	switch {
	case told.Code() == connect.CodeUnauthenticated:
		return fmt.Errorf("the platform does not know you: check the key in %s (%s)", appKeyVariable, message)
	case told.Code() == connect.CodePermissionDenied:
		return fmt.Errorf("you may not do this: %s", message)
	case told.Code() == connect.CodeUnavailable && !connect.IsWireError(err):
		return fmt.Errorf("the platform at %s does not answer: %s", r.base, message)
	}
	return errors.New(message)
}
