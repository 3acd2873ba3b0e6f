package node

import (
	"net/netip"
	"testing"
)

func TestAddressPool(t *testing.T) {
	for _, tt := range []struct {
		name, prefix string
		want         []string // all that can be handed out, in order
	}{
		{"small", "10.244.0.0/29", []string{"10.244.0.2", "10.244.0.3", "10.244.0.4", "10.244.0.5", "10.244.0.6"}},
		{"not masked", "10.244.0.6/29", []string{"10.244.0.2", "10.244.0.3", "10.244.0.4", "10.244.0.5", "10.244.0.6"}},
		{"smallest", "10.0.0.0/30", []string{"10.0.0.2"}},
		{"too small", "10.0.0.0/31", nil},
		{"one", "10.0.0.7/32", nil},
		{"end of the space", "255.255.255.248/29", []string{"255.255.255.250", "255.255.255.251", "255.255.255.252", "255.255.255.253", "255.255.255.254"}},
		{"IPv6", "fd00::/126", []string{"fd00::2", "fd00::3"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pool := newAddressPool(netip.MustParsePrefix(tt.prefix))
			for _, want := range tt.want {
				if got, err := pool.next(); err != nil || got.String() != want {
					t.Fatalf("next is %v, %v; want %s", got, err, want)
				}
			}
			if got, err := pool.next(); err == nil {
				t.Errorf("a full network gave %s", got)
			}
		})
	}
}

func TestAddressPoolClaim(t *testing.T) {
	pool := newAddressPool(netip.MustParsePrefix("10.244.0.0/29"))
	for addr, want := range map[string]bool{
		"10.244.0.0": false, // the network
		"10.244.0.1": false, // the node
		"10.244.0.7": false, // broadcast
		"10.244.0.8": false, // outside
		"10.244.0.3": true,
		"::1":        false,
	} {
		if got := pool.claim(netip.MustParseAddr(addr)); got != want {
			t.Errorf("claim(%s) = %v, want %v", addr, got, want)
		}
	}
	taken := netip.MustParseAddr("10.244.0.3")
	if pool.claim(taken) {
		t.Error("an address was claimed twice")
	}
	first, _ := pool.next()
	second, _ := pool.next()
	if first.String() != "10.244.0.2" || second.String() != "10.244.0.4" {
		t.Errorf("next gave %s and %s around the claimed address", first, second)
	}
	pool.release(taken)
	if got, _ := pool.next(); got != taken {
		t.Errorf("next is %s, want the released %s", got, taken)
	}
}
