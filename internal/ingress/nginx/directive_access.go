package nginx

import (
	"net/netip"

	"slipway.dev/slipway/internal/route"
)

// accessFilter returns the access rules as a filter, nil without any. A filter denies first,
// so addresses that an earlier rule allows are taken out of the ranges that are denied.
func accessFilter(rules []accessRule) *route.IPFilter {
	made := &route.IPFilter{}
	for _, rule := range rules {
		switch {
		case len(made.Deny) > maxAccessRanges:
			return made // too many
		case rule.all && !rule.deny:
			// What was not denied before is allowed, and nothing else counts.
			made.Allow = nil
			if len(made.Deny) == 0 {
				return nil
			}
			return made
		case rule.all && len(made.Allow) == 0:
			// Only those without an address are left.
			made.Deny = append(made.Deny, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"))
			return made
		case rule.all:
			return made
		case rule.deny:
			made.Deny = append(made.Deny, without(rule.addresses, made.Allow)...)
		default:
			made.Allow = append(made.Allow, rule.addresses)
		}
	}
	// Without a rule for all others they are allowed.
	made.Allow = nil
	if len(made.Deny) == 0 {
		return nil
	}
	return made
}

// maxAccessRanges bounds the ranges that one is split into.
const maxAccessRanges = 1024

// without returns a range without others, as ranges.
func without(whole netip.Prefix, others []netip.Prefix) []netip.Prefix {
	rest := []netip.Prefix{whole}
	for _, other := range others {
		var next []netip.Prefix
		for _, part := range rest {
			next = append(next, split(part, other)...)
		}
		if rest = next; len(rest) > maxAccessRanges {
			break // too many
		}
	}
	return rest
}

// split returns a range without another one: halves of it that do not contain the other.
func split(part, other netip.Prefix) []netip.Prefix {
	switch {
	case !part.Overlaps(other):
		return []netip.Prefix{part}
	case other.Bits() <= part.Bits():
		return nil
	}
	var rest []netip.Prefix
	for part.Bits() < other.Bits() {
		low := netip.PrefixFrom(part.Addr(), part.Bits()+1)
		high := netip.PrefixFrom(upperHalf(part), part.Bits()+1)
		if low.Overlaps(other) {
			part, rest = low, append(rest, high)
		} else {
			part, rest = high, append(rest, low)
		}
	}
	return rest
}

// upperHalf returns the first address of the second half of a range.
func upperHalf(part netip.Prefix) netip.Addr {
	bytes := part.Addr().AsSlice()
	bytes[part.Bits()/8] |= 0x80 >> (part.Bits() % 8)
	address, _ := netip.AddrFromSlice(bytes)
	return address
}
