package proxy

import (
	"net/netip"
	"slices"
	"strings"

	"slipway.dev/slipway/internal/edge/normalize"
)

// Trust is the set of proxies whose X-Forwarded headers are believed. All
// connections of an entry point share one. A nil Trust believes none.
type Trust struct {
	all      bool
	networks []netip.Prefix
}

// NewTrust trusts the networks, or all addresses.
func NewTrust(networks []netip.Prefix, all bool) *Trust {
	t := &Trust{all: all, networks: slices.Clone(networks)}
	for i, network := range t.networks {
		// Addresses are compared as IPv4 where they are.
		if network.Addr().Is4In6() && network.Bits() >= 96 {
			t.networks[i] = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
		}
	}
	return t
}

// Trusts reports whether a proxy at the address is believed. Zones are ignored:
// networks have none.
func (t *Trust) Trusts(addr netip.Addr) bool {
	if t == nil {
		return false
	}
	if t.all {
		return true
	}
	addr = addr.Unmap().WithZone("")
	for _, network := range t.networks {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}

// clientAddress returns the address that sent the request: the connection's
// other end, or, where that is a trusted proxy, the right-most address of
// X-Forwarded-For that is not a trusted proxy itself. Entries further left can
// be forged by any client, so they are never read. An entry that is no address
// ends the search at the proxy that passed it on.
func (x *exchange) clientAddress() netip.Addr {
	c := x.conn
	client := c.from.Client.Addr().Unmap()
	if !c.from.Trusted {
		return client
	}
	for line := c.head.Len() - 1; line >= 0; line-- {
		if c.head.ID(line) != normalize.FieldXForwardedFor {
			continue
		}
		list, more := normalize.View(c.head.Value(line)), true
		for more {
			var entry string
			entry, list, more = cutLast(list)
			if entry == "" {
				continue
			}
			addr, ok := parseForwarded(entry)
			if !ok {
				return client
			}
			if client = addr; !c.from.Trust.Trusts(client) {
				return client
			}
		}
	}
	return client
}

// cutLast cuts the last element off a list.
func cutLast(list string) (last, rest string, more bool) {
	i := strings.LastIndexByte(list, ',')
	if i < 0 {
		return strings.TrimSpace(list), "", false
	}
	return strings.TrimSpace(list[i+1:]), list[:i], true
}

// parseForwarded reads an address, with or without a port.
func parseForwarded(entry string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]"))
	if err != nil {
		withPort, err := netip.ParseAddrPort(entry)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = withPort.Addr()
	}
	return addr.Unmap().WithZone(""), true
}

// secure reports whether the client's own connection is encrypted: by the
// X-Forwarded-Proto of the nearest trusted proxy, or else by our connection.
func (x *exchange) secure() bool {
	c := x.conn
	if !c.from.Trusted {
		return c.from.TLS
	}
	for line := c.head.Len() - 1; line >= 0; line-- {
		if c.head.ID(line) != normalize.FieldXForwardedProto {
			continue
		}
		switch proto, _, _ := cutLast(normalize.View(c.head.Value(line))); strings.ToLower(proto) {
		case "https", "wss":
			return true
		case "http", "ws":
			return false
		}
	}
	return c.from.TLS
}
