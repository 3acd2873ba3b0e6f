// Package outbound decides which addresses may be connected to when a user names
// the address: a repository, an API of a Git provider, the access URL of a runtime.
//
// It refuses what only the process's own machine can reach, or only machines of its
// cloud: loopback, the local link, and the services with a machine's credentials. So
// a tenant cannot use the process to read them (server-side request forgery). The
// check is made with the resolved address when a connection is opened, so redirects
// and names that change their address are checked as well. Private networks are
// allowed, because that is where Git servers of companies are. What is behind a proxy
// is the proxy's decision.
//
// See decision 0037 in docs/decisions: one policy for addresses that users name.
package outbound

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// Policy has the networks that operators allow beyond the default. A nil policy
// allows every address, for programs that run with the rights of their user.
type Policy struct{ allow []netip.Prefix }

// New returns a policy.
func New(allow ...netip.Prefix) *Policy { return &Policy{allow} }

// With returns a policy that allows more networks.
func (p *Policy) With(more ...netip.Prefix) *Policy {
	if p == nil {
		return nil
	}
	return New(slices.Concat(p.allow, more)...)
}

// Dialer returns a dialer whose connections are checked.
func (p *Policy) Dialer(dialer net.Dialer) *net.Dialer {
	if p != nil {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return p.Check(address) }
	}
	return &dialer
}

// RefusedError reports an address that is not connected to.
type RefusedError struct {
	Address netip.Addr
	kind    string
}

// Error names the kind of address and the option.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s is %s, which is not connected to: use another address, or let an operator add it to outbound.allow", e.Address, e.kind)
}

// Check decides about a resolved address with a port, for dialers with checks of
// their own. A refusal is a *[RefusedError].
func (p *Policy) Check(hostPort string) error {
	if p == nil {
		return nil
	}
	parsed, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return fmt.Errorf("connect to %q: not an address", hostPort)
	}
	// A zone selects an interface, and is not part of a network.
	address := parsed.Addr().WithZone("").Unmap()
	if slices.ContainsFunc(p.allow, func(network netip.Prefix) bool { return network.Contains(address) }) {
		return nil
	}
	if kind := refused(address); kind != "" {
		return &RefusedError{address, kind}
	}
	return nil
}

// Loopback returns the networks of the own machine.
func Loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

var (
	// thisNetwork is the own machine for Linux (RFC 6890).
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	// nat64 has an IPv4 address in its last bytes (RFC 6052).
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
	// metadata are services of clouds with a machine's credentials that are not on
	// the local link: AWS over IPv6, Alibaba, Azure.
	metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("168.63.129.16")}
)

// refused returns what kind of address it is, if it is refused by default.
func refused(address netip.Addr) string {
	if nat64.Contains(address) {
		bytes := address.As16()
		address = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	switch {
	case address.IsLoopback() || address.IsUnspecified() || thisNetwork.Contains(address):
		return "an address of this machine"
	case address.IsLinkLocalUnicast() || address.IsMulticast():
		return "an address of the local link"
	case slices.Contains(metadata, address):
		return "a metadata service of a cloud"
	}
	return ""
}
