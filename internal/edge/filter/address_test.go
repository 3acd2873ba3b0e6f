package filter_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/route"
)

// TestAddressLists compares the filter with netip, prefix by prefix, for random
// lists and addresses near their ends.
func TestAddressLists(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		var allow, deny []netip.Prefix
		for range 1 + random.IntN(20) {
			allow = append(allow, randomPrefix(random))
		}
		for range random.IntN(5) {
			deny = append(deny, randomPrefix(random))
		}
		chain := compile(t, filter.NewCounters(start), route.Policy{IPFilter: &route.IPFilter{Allow: allow, Deny: deny}})
		for _, addr := range nearby(append(allow, deny...)) {
			want := 0
			if anyContains(deny, addr) || !anyContains(allow, addr) {
				want = 403
			}
			r := begin(t, chain, get("/"), func(x *filter.Exchange) { x.Client = addr })
			if r.status() != want {
				t.Fatalf("%v gets %d, want %d; allow %v, deny %v", addr, r.status(), want, allow, deny)
			}
		}
	}
}

func randomPrefix(random *rand.Rand) netip.Prefix {
	if random.IntN(2) == 0 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(random.IntN(2)), byte(random.IntN(4)), byte(random.IntN(256)), byte(random.IntN(256))}), random.IntN(33))
	}
	var sixteen [16]byte
	sixteen[0], sixteen[7], sixteen[15] = 0x20, byte(random.IntN(4)), byte(random.IntN(256))
	return netip.PrefixFrom(netip.AddrFrom16(sixteen), random.IntN(129))
}

// nearby gives the addresses of prefixes and those beside their starts.
func nearby(prefixes []netip.Prefix) (addrs []netip.Addr) {
	for _, prefix := range prefixes {
		first := prefix.Masked().Addr()
		addrs = append(addrs, prefix.Addr(), first)
		if before := first.Prev(); before.IsValid() {
			addrs = append(addrs, before)
		}
		if after := first.Next(); after.IsValid() {
			addrs = append(addrs, after)
		}
	}
	return addrs
}

func anyContains(prefixes []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(prefix netip.Prefix) bool { return prefix.Contains(addr) })
}

func TestNoAddressStaysOut(t *testing.T) {
	for _, policy := range []route.IPFilter{
		{Deny: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		{Allow: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}},
	} {
		chain := compile(t, filter.NewCounters(start), route.Policy{IPFilter: &policy})
		if got := begin(t, chain, get("/"), func(x *filter.Exchange) { x.Client = netip.Addr{} }).status(); got != 403 {
			t.Errorf("a client without an address gets %d", got)
		}
	}
}
