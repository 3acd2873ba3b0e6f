package remote

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"

	"slipway.dev/slipway/internal/gitops/source/address"
)

// reach is how far an address can be reached from: the higher, the fewer can.
type reach int

const (
	fromEverywhere reach = iota
	fromNetwork          // private addresses of an organisation or a cluster
	fromMachine          // loopback, and link-local with the metadata services of clouds
)

var (
	// nat64 leads to the IPv4 address in its last bytes (RFC 6052).
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// carrierNAT is private like 10.0.0.0/8 (RFC 6598).
	carrierNAT = netip.MustParsePrefix("100.64.0.0/10")
)

// reachOf classifies an address.
func reachOf(ip netip.Addr) reach {
	ip = ip.Unmap()
	if nat64.Contains(ip) {
		bytes := ip.As16()
		ip = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	switch {
	case ip.IsLoopback(), ip.IsLinkLocalUnicast(), ip.IsUnspecified(), ip.IsMulticast():
		return fromMachine
	case ip.IsPrivate(), carrierNAT.Contains(ip):
		return fromNetwork
	}
	return fromEverywhere
}

// guard keeps a server from having requests sent to where it could send none
// itself: by a redirect, by an index that names archives elsewhere, or by the
// token service of a registry. A public server may lead to public addresses
// only, and one of a private network not to this machine. Names are judged by
// what they resolve to when they are dialled.
type guard struct {
	home address.Address

	mu sync.Mutex
	// proxies are those that were configured, by host and port. They are
	// dialled wherever they are.
	proxies map[string]bool
}

// proxy notes the proxy of a request. What is behind a proxy is its decision.
func (g *guard) proxy(choose func(*http.Request) (*url.URL, error)) func(*http.Request) (*url.URL, error) {
	return func(r *http.Request) (*url.URL, error) {
		chosen, err := choose(r)
		if err == nil && chosen != nil {
			g.mu.Lock()
			defer g.mu.Unlock()
			port := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[chosen.Scheme]
			g.proxies[net.JoinHostPort(chosen.Hostname(), cmp.Or(chosen.Port(), port))] = true
		}
		return chosen, err
	}
}

// dial connects. The server itself and proxies are dialled without a check.
func (g *guard) dial(ctx context.Context, network, to string) (net.Conn, error) {
	d := dialer()
	g.mu.Lock()
	proxy := g.proxies[to]
	g.mu.Unlock()
	if to == g.home.DialAddress() || proxy {
		return d.DialContext(ctx, network, to)
	}
	allowed := g.reach(ctx)
	d.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(resolved)
		if err != nil || reachOf(at.Addr()) > allowed {
			return failf(Denied, "it leads to %s, an internal address that a server at its own address may not lead to: use that address as the source", to)
		}
		return nil
	}
	return d.DialContext(ctx, network, to)
}

// reach is that of the server. Of several addresses the most public counts: a
// server must not raise its reach by a second one.
func (g *guard) reach(ctx context.Context) reach {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", g.home.Host)
	if err != nil || len(found) == 0 {
		return fromEverywhere
	}
	lowest := fromMachine
	for _, ip := range found {
		lowest = min(lowest, reachOf(ip))
	}
	return lowest
}
