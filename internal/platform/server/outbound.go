package server

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"slipway.dev/slipway/internal/outbound"
)

// directTransport returns the transport to runtimes at their access URLs. Agents
// report their URL themselves, so the addresses are checked. Nil roots mean the
// system's CAs.
func directTransport(policy *outbound.Policy, roots *x509.CertPool) *http.Transport {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableCompression: true,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, TLSHandshakeTimeout: 10 * time.Second,
		ResponseHeaderTimeout: time.Minute, MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
	}
	policy.Apply(transport, net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second})
	return transport
}

// providerTransport returns the transport to the identity provider. An operator
// names the issuer, but its documents name further addresses, and it may redirect.
func providerTransport(policy *outbound.Policy, issuer string) http.RoundTripper {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if u, err := url.Parse(issuer); err == nil {
		policy = allowLocal(policy, u.Hostname())
	}
	policy.Apply(transport, net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second})
	return transport
}

// allowLocal allows this machine if the host, which an operator configured, is on
// it: a platform on loopback has its runtimes and its identity provider there too.
func allowLocal(policy *outbound.Policy, host string) *outbound.Policy {
	address, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && address.IsLoopback() {
		return policy.With(outbound.Loopback()...)
	}
	return policy
}
