package privatenet

import (
	"net/netip"
	"slices"
	"testing"
)

func TestNameServers(t *testing.T) {
	conf := "# nameserver 192.0.2.1\nsearch example.com\nnameserver 192.0.2.53\n nameserver\t2001:db8::53 \nnameserver\nnameserver x\noptions ndots:1"
	want := []netip.Addr{netip.MustParseAddr("192.0.2.53"), netip.MustParseAddr("2001:db8::53")}
	if got := nameServers(conf); !slices.Equal(got, want) {
		t.Errorf("name servers are %v, want %v", got, want)
	}
}
