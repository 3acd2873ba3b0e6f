package join

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slipway.dev/slipway/internal/kube"
	"slipway.dev/slipway/internal/wire"
	"slipway.dev/slipway/internal/wire/platformv1"
)

// State provides the content of heartbeats.
type State interface {
	// Heartbeat returns the current state. The fields that Options has are set
	// afterwards, and so is unchanged.
	Heartbeat(context.Context) (*platformv1.HeartbeatRequest, error)
}

// Options configures a membership.
type Options struct {
	Cluster *kube.Cluster
	// Namespace is the control namespace: the Secret is in it.
	Namespace string
	// Runtime is the name of the runtime.
	Runtime string
	// PlatformURL is the address of the platform.
	PlatformURL string
	// AccountID is the account that the API key must belong to; empty accepts
	// any.
	AccountID string
	// Key is the API key. It is needed for the registration only.
	Key KeySource

	// ClusterName is the display name of the cluster.
	ClusterName          string
	Version              string
	ChartVersion         string
	AccessMode           platformv1.AccessMode
	AccessURL            string
	IngressClass         string
	ConfigurationRuntime bool
	ComponentNames       []string

	// State may be nil: then a heartbeat has the fields above only.
	State State
	// CleanSharedRepository removes the runtime's files from the Shared
	// Configuration Repository, if an uninstall requests it. It may be nil.
	CleanSharedRepository func(context.Context) error
	// Internal selects the runtime's own Applications, whose finalizers an
	// uninstall removes. The default is slipway.dev/internal=true.
	Internal string
	// Owner becomes the owner of the Secret, so that it is deleted with the
	// agent. It may be nil.
	Owner *metav1.OwnerReference

	// CAs are further certificate authorities beside the system's, in PEM.
	CAs []byte
	// Proxy selects the proxy for requests to the platform; nil uses the
	// environment.
	Proxy func(*http.Request) (*url.URL, error)
	// AllowPlainHTTP permits an http:// address that is not on this machine.
	AllowPlainHTTP bool

	Log *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
	// Reporter is the source of Events.
	Reporter kube.Reporter

	// timing is set by tests.
	timing timing
}

// timing has the intervals and timeouts of a membership.
type timing struct {
	heartbeat    time.Duration // until the platform sets another
	request      time.Duration // bounds each request
	firstBackoff time.Duration // after a failure, twice as long each time
	maxBackoff   time.Duration
	keyInterval  time.Duration // how often a key that was rejected is read again
	maxTokenLife time.Duration // of an access token, even if the platform grants more
}

// complete sets the defaults.
func (t *timing) complete() {
	for _, each := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&t.heartbeat, 15 * time.Second}, {&t.request, 20 * time.Second}, {&t.firstBackoff, time.Second},
		{&t.maxBackoff, 20 * time.Second}, {&t.keyInterval, 15 * time.Second}, {&t.maxTokenLife, 24 * time.Hour},
	} {
		if *each.value <= 0 {
			*each.value = each.standard
		}
	}
}

// SecretName is the Secret with the credential. It is ours: the user's API key
// is in another one.
const SecretName = "slipway-token"

const defaultInternal = "slipway.dev/internal=true"

// complete sets defaults and returns all problems at once.
func (o *Options) complete() error {
	var problems []error
	if err := wire.RuntimeName(o.Runtime); err != nil {
		problems = append(problems, err)
	}
	if o.Cluster == nil || o.Namespace == "" || o.Log == nil || o.Key == nil {
		problems = append(problems, errors.New("a membership needs a cluster, a namespace, an API key and a log"))
	}
	if err := checkPlatformURL(o.PlatformURL, o.AllowPlainHTTP); err != nil {
		problems = append(problems, err)
	}
	if named, ok := o.Key.(keySecret); ok && named.name == SecretName {
		problems = append(problems, fmt.Errorf("the Secret %s is for the credential that the runtime gets: keep the API key in another", SecretName))
	}
	o.Internal = cmp.Or(o.Internal, defaultInternal)
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	o.timing.complete()
	return errors.Join(problems...)
}

// checkPlatformURL checks the address. It does not quote it, as it may contain
// a password.
func checkPlatformURL(text string, plain bool) error {
	address, err := url.Parse(text)
	switch {
	case err != nil, address.Host == "", address.Scheme != "https" && address.Scheme != "http":
		return errors.New("the address of the platform cannot be read: write one such as https://slipway.example.com")
	case address.User != nil, address.RawQuery != "", address.Fragment != "":
		return errors.New("the address of the platform has a user, a query or a fragment: leave them out")
	case address.Scheme == "http" && !plain && !loopback(address.Hostname()):
		return fmt.Errorf("the address of the platform, http://%s, is not encrypted and would show the runtime's tokens: use https", address.Host)
	}
	return nil
}

// loopback reports whether a host is this machine, where plain HTTP cannot be
// intercepted.
func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || (err == nil && address.IsLoopback())
}

// httpClient returns the client for the platform. It follows no redirects,
// because a token is for one server.
func (o *Options) httpClient() (*http.Client, error) {
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if len(o.CAs) > 0 && !roots.AppendCertsFromPEM(o.CAs) {
		return nil, errors.New("the certificate authorities for the platform have no certificate in them: give them in PEM")
	}
	proxy := o.Proxy
	if proxy == nil {
		proxy = http.ProxyFromEnvironment
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: proxy, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
			TLSClientConfig:     &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: o.timing.request,
			IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 4, MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}
