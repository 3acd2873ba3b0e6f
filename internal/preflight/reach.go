package preflight

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"syscall"
)

const (
	// maxDialed bounds the dialed addresses of a name.
	maxDialed = 4
	// maxResponse bounds the part of a response that is read.
	maxResponse = 1 << 20
)

// portOf returns the port of a URL.
func portOf(address *url.URL) string {
	if address.Scheme == "http" {
		return cmp.Or(address.Port(), "80")
	}
	return cmp.Or(address.Port(), "443")
}

// resolve returns the addresses of a host.
func (in *CheckContext) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	// IP addresses need no resolution.
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address.Unmap()}, nil
	}
	// A resolver that does not respond must not consume the whole timeout of
	// the check.
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	found, err := in.Resolver.LookupNetIP(bounded, "ip", host)
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found, err
}

// connect opens a connection to a host. If DNS has no record yet, before the
// installation, it uses the addresses of the controller, which serves the
// host already.
func (in *CheckContext) connect(ctx context.Context, host, port string) (net.Conn, error) {
	addresses, err := in.resolve(ctx, host)
	// Only the runtime's own host is served by the controller.
	if own := in.address(); err != nil && own != nil && own.Hostname() == host {
		for _, public := range in.publicAddresses(ctx) {
			more, unresolved := in.resolve(ctx, public)
			if unresolved == nil {
				addresses = append(addresses, more...)
			}
		}
	}
	if len(addresses) == 0 {
		return nil, cmp.Or(err, errors.New("the host has no address"))
	}
	// The last error is reported; the addresses of one name usually fail for
	// the same reason.
	var failed error
	for _, address := range addresses[:min(len(addresses), maxDialed)] {
		bounded, cancel := context.WithTimeout(ctx, dialTimeout)
		conn, err := in.Dial(bounded, "tcp", net.JoinHostPort(address.String(), port))
		cancel()
		if err == nil {
			return conn, nil
		}
		failed = err
	}
	return nil, failed
}

// describeError describes a failed connection, without addresses and ports of
// this machine.
func describeError(err error) string {
	var dns *net.DNSError
	var slow net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "DNS has no record of " + dns.Name
	case errors.As(err, &dns):
		return "DNS does not respond for " + dns.Name
	// System errors are checked before timeouts: they are more specific.
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return "no response in time"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "its network is unreachable"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the connection is closed immediately"
	}
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err.Error()
	}
	return err.Error()
}

// probeClient returns an HTTP client for the runtime's host. P16 checks the
// certificate; requests of this client carry no secrets, so responses count
// regardless of it.
func (in *CheckContext) probeClient() *http.Client {
	return &http.Client{
		Timeout: 2 * dialTimeout,
		Transport: &http.Transport{
			// Dialing goes through connect, which also works before DNS has a
			// record.
			DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
				host, port, err := net.SplitHostPort(address)
				if err != nil {
					return nil, err
				}
				return in.connect(ctx, host, port)
			},
			TLSClientConfig:        &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, // #nosec G402: see above
			TLSHandshakeTimeout:    dialTimeout,
			ResponseHeaderTimeout:  dialTimeout,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		// A redirect is a response of the probed server; following it would
		// test another one.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// verifyingClient returns an HTTP client for other servers, which verifies
// certificates and uses the proxy.
func (in *CheckContext) verifyingClient(roots *x509.CertPool) *http.Client {
	// Same limits and dialer; only verification and proxy differ.
	client := in.probeClient()
	transport, _ := client.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	transport.Proxy = in.Proxy
	return client
}

// get sends a GET request and returns the response without its body.
func get(ctx context.Context, client *http.Client, address string, header http.Header) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	for key, values := range header {
		request.Header[key] = values
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	// The body of a 101 response is the connection itself and never ends.
	if response.StatusCode != http.StatusSwitchingProtocols {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, maxResponse)) // only the status matters
	}
	return response, response.Body.Close()
}

// upgradeHeader requests a WebSocket. The key is the example of RFC 6455,
// because the response to it is not verified.
func upgradeHeader() http.Header {
	return http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
	}
}

// opensslLine returns the command that shows a certificate.
func opensslLine(host, port string) string {
	return fmt.Sprintf("openssl s_client -connect %s -servername %s </dev/null 2>/dev/null | openssl x509 -noout -subject -issuer -dates -ext subjectAltName",
		net.JoinHostPort(host, port), host)
}
