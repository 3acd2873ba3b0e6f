package identity

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forwardedMax bounds the evaluated hops of X-Forwarded-For.
const forwardedMax = 32

// clientAddress returns the address of the client. X-Forwarded-For is
// evaluated from its end, where the nearest proxy appended, and only while
// the current address is a trusted proxy. Entries that a client wrote itself
// are never used.
func clientAddress(remote string, header http.Header, trusted []netip.Prefix) string {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	address := at.Addr().Unmap().WithZone("")
	// Several header lines are equivalent to one comma-separated list (RFC
	// 9110, section 5.3).
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

// parseHop parses an address with or without a port.
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

// contains reports whether a network includes an address.
func contains(prefixes []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(prefix netip.Prefix) bool { return prefix.Contains(address) })
}

// network returns the unit by which an address is counted: a client with one
// IPv6 address controls the whole /64.
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
