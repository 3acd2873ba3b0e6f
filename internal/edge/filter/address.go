package filter

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sort"

	"slipway.dev/slipway/internal/route"
)

// addressRange is a range of addresses of one family; both ends are in it.
type addressRange struct{ first, last netip.Addr }

// addressSet is a list of ranges, sorted and disjoint, so that a lookup is a binary
// search.
type addressSet []addressRange

// newAddressSet merges prefixes into ranges. IPv4 in IPv6 is compared as IPv4.
func newAddressSet(field string, prefixes []netip.Prefix) (addressSet, error) {
	var all addressSet
	for i, prefix := range prefixes {
		if !prefix.IsValid() {
			return nil, invalid(fmt.Sprintf("%s[%d]", field, i), "not a range of addresses; write 10.0.0.0/8, or 10.0.0.1/32 for one")
		}
		if addr := prefix.Addr(); addr.Is4In6() {
			// Clients are compared by their IPv4 address.
			if prefix.Bits() < 96 {
				return nil, invalid(fmt.Sprintf("%s[%d]", field, i), "%s mixes IPv4 and IPv6; write a range for each", prefix)
			}
			prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
		}
		all = append(all, addressRange{prefix.Masked().Addr(), lastAddress(prefix)})
	}
	slices.SortFunc(all, func(a, b addressRange) int { return a.first.Compare(b.first) })
	// Of two prefixes, one is in the other or they are apart.
	set := all[:0]
	for _, r := range all {
		switch n := len(set); {
		case n == 0 || set[n-1].last.Less(r.first):
			set = append(set, r)
		case set[n-1].last.Less(r.last):
			set[n-1].last = r.last
		}
	}
	return slices.Clip(set), nil
}

// lastAddress is the highest address in a prefix.
func lastAddress(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Addr().AsSlice()
	for i := range bytes {
		switch keep := prefix.Bits() - 8*i; {
		case keep <= 0:
			bytes[i] = 0xff
		case keep < 8:
			bytes[i] |= 0xff >> keep
		}
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last
}

// contains finds the last range that starts at or before the address.
func (s addressSet) contains(addr netip.Addr) bool {
	i := sort.Search(len(s), func(i int) bool { return addr.Less(s[i].first) })
	return i > 0 && !s[i-1].last.Less(addr)
}

// ipFilter admits clients by address. deny wins over allow.
type ipFilter struct {
	allow, deny addressSet
	limited     bool // there is an allow list
	client      *clientSource
	refused     *LocalResponse
}

func newIPFilter(a *route.IPFilter) (*ipFilter, error) {
	allow, err := newAddressSet("allow", a.Allow)
	if err != nil {
		return nil, err
	}
	deny, err := newAddressSet("deny", a.Deny)
	if err != nil {
		return nil, err
	}
	client, err := newClientSource(a.Client)
	if err != nil {
		return nil, err
	}
	status := cmp.Or(a.Status, 403)
	return &ipFilter{
		allow: allow, deny: deny, limited: len(a.Allow) > 0, client: client,
		refused: &LocalResponse{Status: status, Reason: "AddressRefused"},
	}, nil
}

// Request implements [Filter]. A client without an address is refused; the edge
// has none, and the filter fails closed.
func (f *ipFilter) Request(x *Exchange) *LocalResponse {
	addr := f.client.of(x).Unmap().WithZone("")
	if !addr.IsValid() || f.deny.contains(addr) || f.limited && !f.allow.contains(addr) {
		return f.refused
	}
	return nil
}
