package remote

import (
	"context"
	"net"
	"net/netip"
	"syscall"

	"slipway.dev/slipway/internal/gitops/source/address"
	"slipway.dev/slipway/internal/outbound"
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
// what they resolve to when they are dialled. The policy limits where the server
// itself may be.
type guard struct {
	home   address.Address
	policy *outbound.Policy

	// proxies are dialled wherever they are. What is behind a proxy is its
	// decision.
	proxies outbound.Proxies
}

// dial connects. Proxies are dialled without a check.
func (g *guard) dial(ctx context.Context, network, to string) (net.Conn, error) {
	d := dialer()
	if g.proxies.Has(to) {
		return d.DialContext(ctx, network, to)
	}
	if to == g.home.DialAddress() {
		return g.policy.Dialer(*d).DialContext(ctx, network, to)
	}
	allowed := g.reach(ctx)
	d.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(resolved)
		if err != nil || reachOf(at.Addr()) > allowed {
			refused := failf(Denied, "it leads to %s, an internal address that a server at its own address may not lead to: use that address as the source", to)
			refused.Forbidden = true
			return refused
		}
		return g.policy.Check(resolved)
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
