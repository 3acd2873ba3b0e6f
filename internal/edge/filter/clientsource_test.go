package filter_test

import (
	"net/netip"
	"testing"

	"slipway.dev/slipway/internal/edge/filter"
	"slipway.dev/slipway/internal/route"
)

// TestClientSource: an allow list compares the address that the source selects, and
// refuses requests of which it selects none.
func TestClientSource(t *testing.T) {
	networks := func(texts ...string) []netip.Prefix {
		var all []netip.Prefix
		for _, text := range texts {
			all = append(all, netip.MustParsePrefix(text))
		}
		return all
	}
	depth := func(n int) *route.ClientSource { return &route.ClientSource{Depth: n} }
	excluded := func(texts ...string) *route.ClientSource { return &route.ClientSource{Excluded: networks(texts...)} }
	for _, test := range []struct {
		name      string
		source    *route.ClientSource
		untrusted bool
		forwarded []string
		admitted  bool
	}{
		{"the entry point's", nil, false, []string{"192.0.2.1"}, false},
		{"the last", depth(1), false, []string{"10.0.0.1, 192.0.2.1"}, true},
		{"the one before", depth(2), false, []string{"192.0.2.1, 10.0.0.1"}, true},
		{"not the last", depth(2), false, []string{"10.0.0.1, 192.0.2.1"}, false},
		{"two lines", depth(2), false, []string{"192.0.2.1", "10.0.0.1"}, true},
		{"too short", depth(3), false, []string{"192.0.2.1, 192.0.2.1"}, false},
		{"none", depth(1), false, nil, false},
		{"no address", depth(1), false, []string{"192.0.2.1, unknown"}, false},
		{"untrusted", depth(1), true, []string{"192.0.2.1"}, false},
		{"behind excluded", excluded("10.0.0.0/8"), false, []string{"192.0.2.1, 10.0.0.1,, 10.0.0.2"}, true},
		{"the first that is not", excluded("10.0.0.0/8"), false, []string{"192.0.2.1, 198.51.100.1, 10.0.0.2"}, false},
		{"all excluded", excluded("10.0.0.0/8", "192.0.2.0/24"), false, []string{"192.0.2.1, 10.0.0.2"}, false},
		{"IPv4 as IPv6", excluded("10.0.0.0/8"), false, []string{"::ffff:192.0.2.1, ::ffff:10.0.0.2"}, true},
		{"no address behind excluded", excluded("10.0.0.0/8"), false, []string{"192.0.2.1, unknown, 10.0.0.2"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			chain := compile(t, filter.NewCounters(start), route.Policy{IPFilter: &route.IPFilter{Allow: networks("192.0.2.1/32"), Client: test.source}})
			var lines []string
			for _, value := range test.forwarded {
				lines = append(lines, "X-Forwarded-For: "+value)
			}
			r := begin(t, chain, get("/", lines...), from("198.51.100.9"), func(x *filter.Exchange) { x.Trusted = !test.untrusted })
			if admitted := r.status() == 0; admitted != test.admitted {
				t.Errorf("admitted is %t", admitted)
			}
		})
	}
}

// TestClientSourceOfLimits: a limit counts the client that the source selects, and the
// entry point's where it selects none.
func TestClientSourceOfLimits(t *testing.T) {
	counters := filter.NewCounters(start)
	limit := route.Policy{ID: id("rate"), RateLimit: &route.RateLimit{Requests: 1, Period: route.Duration(3600e9), Burst: 1, Client: &route.ClientSource{Depth: 1}}}
	chain := compile(t, counters, limit)
	send := func(client, forwarded string) int {
		r := begin(t, chain, get("/", "X-Forwarded-For: "+forwarded), from(client), func(x *filter.Exchange) { x.Trusted = true })
		r.finish(200)
		return r.status()
	}
	for i, step := range []struct {
		client, forwarded string
		want              int
	}{
		{"198.51.100.1", "192.0.2.1", 0}, {"198.51.100.2", "192.0.2.1", 429}, {"198.51.100.2", "192.0.2.2", 0},
		{"198.51.100.3", "unknown", 0}, {"198.51.100.3", "unknown", 429}, {"198.51.100.4", "unknown", 0},
	} {
		if got := send(step.client, step.forwarded); got != step.want {
			t.Errorf("step %d: %d, want %d", i, got, step.want)
		}
	}
}
