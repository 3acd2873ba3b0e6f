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
	// mostTried bounds the addresses of a name that are tried.
	mostTried = 4
	// mostAnswer bounds what is read of an answer.
	mostAnswer = 1 << 20
)

// portOf is the port of an address.
func portOf(address *url.URL) string {
	if address.Scheme == "http" {
		return cmp.Or(address.Port(), "80")
	}
	return cmp.Or(address.Port(), "443")
}

// resolve is the addresses of a host, from DNS.
func (in *Inquiry) resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address.Unmap()}, nil
	}
	bounded, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	found, err := in.Resolver.LookupNetIP(bounded, "ip", host)
	for i := range found {
		found[i] = found[i].Unmap()
	}
	return found, err
}

// connect opens a connection to a host. While DNS has no record of it, before the
// install, it goes to the addresses of the controller, which serve the host all the
// same.
func (in *Inquiry) connect(ctx context.Context, host, port string) (net.Conn, error) {
	addresses, err := in.resolve(ctx, host)
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
	var failed error
	for _, address := range addresses[:min(len(addresses), mostTried)] {
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

// why is a failed connection in a few words, without the addresses and ports of
// this machine.
func why(err error) string {
	var dns *net.DNSError
	var slow net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "DNS has no record of " + dns.Name
	case errors.As(err, &dns):
		return "DNS does not answer for " + dns.Name
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &slow) && slow.Timeout():
		return "nothing answers in time"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "there is no way to its network"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return "the connection is closed at once"
	}
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err.Error()
	}
	return err.Error()
}

// visitor makes requests to the host of the runtime. P16 judges its certificate;
// here no request carries anything secret, so an answer counts whatever the
// certificate is.
func (in *Inquiry) visitor() *http.Client {
	return &http.Client{
		Timeout: 2 * dialTimeout,
		Transport: &http.Transport{
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
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// caller makes requests to servers elsewhere, whose certificates have to be good.
func (in *Inquiry) caller(roots *x509.CertPool) *http.Client {
	client := in.visitor()
	transport, _ := client.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	transport.Proxy = in.Proxy
	return client
}

// visit asks for a page and gives the answer without its body.
func visit(ctx context.Context, client *http.Client, address string, header http.Header) (*http.Response, error) {
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
	if response.StatusCode != http.StatusSwitchingProtocols {
		_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, mostAnswer)) // the status is what counts
	}
	return response, response.Body.Close()
}

// upgradeHeader asks for a WebSocket. The key is the example of RFC 6455: the
// answer to it is not looked at.
func upgradeHeader() http.Header {
	return http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {"websocket"},
		"Sec-Websocket-Version": {"13"}, "Sec-Websocket-Key": {"dGhlIHNhbXBsZSBub25jZQ=="},
	}
}

// opensslLine shows a certificate.
func opensslLine(host, port string) string {
	return fmt.Sprintf("openssl s_client -connect %s -servername %s </dev/null 2>/dev/null | openssl x509 -noout -subject -issuer -dates -ext subjectAltName",
		net.JoinHostPort(host, port), host)
}
