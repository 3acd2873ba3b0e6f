package outbound

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// Transports are for requests that are sent now and then to addresses that users name: one verifies certificates, and one
// does not.
type Transports struct{ secure, insecure *http.Transport }

// NewTransports returns transports without connections. The timeout is that of a connection and of its TLS handshake.
func NewTransports(policy *Policy, timeout time.Duration) *Transports {
	transport := func(insecure bool) *http.Transport {
		t := &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			TLSClientConfig:     &tls.Config{InsecureSkipVerify: insecure}, //nolint:gosec // the user requests it
			TLSHandshakeTimeout: timeout, IdleConnTimeout: 30 * time.Second, MaxIdleConnsPerHost: 2, MaxIdleConns: 32,
			MaxResponseHeaderBytes: 64 << 10,
		}
		policy.Apply(t, net.Dialer{Timeout: timeout})
		return t
	}
	return &Transports{secure: transport(false), insecure: transport(true)}
}

// For returns the transport with or without verification.
func (t *Transports) For(insecure bool) *http.Transport {
	if insecure {
		return t.insecure
	}
	return t.secure
}

// Close closes idle connections.
func (t *Transports) Close() {
	t.secure.CloseIdleConnections()
	t.insecure.CloseIdleConnections()
}
