package identity

import (
	"net/http"
	"net/netip"
	"strings"
)

// forwardedMax is how many hops of X-Forwarded-For are looked at.
const forwardedMax = 32

// clientAddress is where a request comes from. X-Forwarded-For is read from its
// end, where the nearest proxy wrote, and only as long as the address so far is a
// proxy that is trusted: whatever a client wrote there itself is never believed.
func clientAddress(remote string, header http.Header, trusted []netip.Prefix) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	address := at.Addr().Unmap().WithZone("")
	hops := strings.Split(strings.Join(header.Values("X-Forwarded-For"), ","), ",")
	for n := 0; n < forwardedMax && len(hops) > 0 && contains(trusted, address); n++ {
		last := strings.TrimSpace(hops[len(hops)-1])
		hops = hops[:len(hops)-1]
		hop, ok := parseHop(last)
		if !ok {
			break
		}
		address = hop
	}
	return address.String()
}

// parseHop reads an address, with a port or without.
func parseHop(text string) (netip.Addr, bool) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone(""), true
	}
	address, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.Addr{}, false
	}
	return address.Unmap().WithZone(""), true
}

func contains(prefixes []netip.Prefix, address netip.Addr) bool {
	for _, prefix := range prefixes {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// network is what an address counts as: who has one IPv6 address has all of its
// /64.
func network(address string) string {
	parsed, err := netip.ParseAddr(address)
	if err != nil || parsed.Is4() {
		return address
	}
	prefix, err := parsed.Prefix(64)
	if err != nil {
		return address
	}
	return prefix.String()
}
