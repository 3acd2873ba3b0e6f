package remote

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/proxy"

	"slipway.dev/slipway/internal/gitops/source/credential"
	"slipway.dev/slipway/internal/outbound"
)

// dialer bounds the time to connect, which contexts of long fetches do not.
func dialer() *net.Dialer { return &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second} }

// proxySettings is a proxy and the hosts that are reached without it.
type proxySettings struct {
	url     *url.URL
	noProxy string
}

// proxyFor is the proxy of a credential, or nil.
func proxyFor(c credential.Credential) (*proxySettings, error) {
	if c.Proxy.IsZero() {
		return nil, nil
	}
	parsed, err := url.Parse(c.Proxy.Reveal())
	if err != nil || parsed.Host == "" {
		return nil, failf(Invalid, "the proxy has no proper address: write one such as http://proxy.example.com:3128")
	}
	switch parsed.Scheme {
	case "http", "https", "socks5", "socks5h":
		return &proxySettings{url: parsed, noProxy: c.NoProxy}, nil
	}
	return nil, failf(Invalid, "the proxy is of an unknown kind: write http://, https:// or socks5://")
}

// forRequest selects the proxy of a request, for http.Transport. Without the
// proxy of a credential that of the environment applies, see Transport.
func (p *proxySettings) forRequest(r *http.Request) (*url.URL, error) {
	if p.bypasses(r.URL.Host) {
		return nil, nil
	}
	return p.url, nil
}

// bypasses reports whether a host is reached without the proxy: the list has
// hosts, domains that begin with a dot or not, addresses and their ranges, and
// a star for all.
func (p *proxySettings) bypasses(hostPort string) bool {
	host, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.Trim(hostPort, "[]")
	}
	host = strings.ToLower(host)
	address, addressErr := netip.ParseAddr(host)
	for entry := range strings.FieldsFuncSeq(strings.ToLower(p.noProxy), func(r rune) bool { return r == ',' || r == ' ' }) {
		if name, entryPort, err := net.SplitHostPort(entry); err == nil {
			if entryPort != port {
				continue
			}
			entry = name
		}
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			// Host names are not resolved for ranges of addresses: the proxy
			// would see another address.
			if addressErr == nil && prefix.Contains(address) {
				return true
			}
			continue
		}
		entry = strings.TrimPrefix(strings.TrimPrefix(entry, "*"), ".")
		if entry == "" || host == entry || strings.HasSuffix(host, "."+entry) {
			return true
		}
	}
	return false
}

// dial connects for SSH, through the proxy if there is one. The policy decides
// about addresses without a proxy.
func (p *proxySettings) dial(ctx context.Context, policy *outbound.Policy, address string) (net.Conn, error) {
	if p == nil || p.bypasses(address) {
		return policy.Dialer(*dialer()).DialContext(ctx, "tcp", address)
	}
	// A SOCKS proxy resolves the name itself.
	if strings.HasPrefix(p.url.Scheme, "socks5") {
		through, err := proxy.FromURL(p.url, dialer())
		if err != nil {
			return nil, failf(Invalid, "the proxy cannot be used")
		}
		if withContext, ok := through.(proxy.ContextDialer); ok {
			return withContext.DialContext(ctx, "tcp", address)
		}
		return through.Dial("tcp", address)
	}
	if p.url.Scheme != "http" {
		return nil, failf(Invalid, "SSH goes through proxies of http:// and socks5:// only")
	}
	return p.connect(ctx, address)
}

// connect opens a tunnel through an HTTP proxy with CONNECT (RFC 9110, 9.3.6).
// The context closes the connection, as a proxy that does not respond would
// block the read. The tunnel is not encrypted by itself: SSH is.
func (p *proxySettings) connect(ctx context.Context, address string) (net.Conn, error) {
	host := p.url.Host
	if p.url.Port() == "" {
		host = net.JoinHostPort(p.url.Hostname(), "80")
	}
	connection, err := dialer().DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = connection.Close() })
	defer stop()
	header := http.Header{}
	if user := p.url.User; user != nil {
		password, _ := user.Password()
		header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: address}, Host: address, Header: header}
	if err := request.Write(connection); err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	// After its response the proxy forwards the bytes of the SSH server. A
	// buffered reader would take some of them, so that it reads one byte at a
	// time.
	response, err := http.ReadResponse(bufio.NewReaderSize(oneByte{connection}, 16), request)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(failf(Denied, "the proxy responds %d %s", response.StatusCode, http.StatusText(response.StatusCode)), connection.Close())
	}
	return connection, nil
}

// oneByte reads no more than one byte at a time.
type oneByte struct{ net.Conn }

// Read reads a byte.
func (o oneByte) Read(p []byte) (int, error) { return o.Conn.Read(p[:min(1, len(p))]) }
