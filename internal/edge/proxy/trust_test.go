package proxy_test

import (
	"net/netip"
	"strings"
	"testing"

	"slipway.dev/slipway/internal/edge/edgetest"
	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/route"
)

func TestClientAddress(t *testing.T) {
	trust := proxy.NewTrust([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32")}, false)
	tests := []struct {
		name  string
		from  proxy.Accepted
		lines []string
		want  string
	}{
		{"nobody is trusted", proxy.Accepted{}, []string{"X-Forwarded-For: 192.0.2.1"}, "127.0.0.1"},
		{"nothing is said", proxy.Accepted{Trusted: true, Trust: trust}, nil, "127.0.0.1"},
		{"one", proxy.Accepted{Trusted: true, Trust: trust}, []string{"X-Forwarded-For: 192.0.2.1"}, "192.0.2.1"},
		{"the right-most", proxy.Accepted{Trusted: true}, []string{"X-Forwarded-For: 6.6.6.6, 192.0.2.1"}, "192.0.2.1"},
		{"not a trusted one", proxy.Accepted{Trusted: true, Trust: trust}, []string{"X-Forwarded-For: 6.6.6.6, 192.0.2.1, 10.0.0.1,10.0.0.2"}, "192.0.2.1"},
		{"several lines", proxy.Accepted{Trusted: true, Trust: trust}, []string{"X-Forwarded-For: 6.6.6.6", "X-Forwarded-For: 192.0.2.1, 10.0.0.1", "X-Forwarded-For: 10.0.0.2"}, "192.0.2.1"},
		{"all are trusted", proxy.Accepted{Trusted: true, Trust: trust}, []string{"X-Forwarded-For: 10.0.0.3, 10.0.0.1"}, "10.0.0.3"},
		{"garbage ends it", proxy.Accepted{Trusted: true, Trust: trust}, []string{"X-Forwarded-For: 6.6.6.6, unknown, 10.0.0.1"}, "10.0.0.1"},
		{"garbage at once", proxy.Accepted{Trusted: true, Trust: trust}, []string{"X-Forwarded-For: 6.6.6.6, <script>"}, "127.0.0.1"},
		{"empty elements", proxy.Accepted{Trusted: true, Trust: trust}, []string{"X-Forwarded-For: 192.0.2.1, , ,"}, "192.0.2.1"},
		{"with a port", proxy.Accepted{Trusted: true, Trust: trust}, []string{"X-Forwarded-For: 192.0.2.1:4711, [2001:db8::1]:80"}, "192.0.2.1"},
		{"an IPv4 address in IPv6", proxy.Accepted{Trusted: true, Trust: trust}, []string{"X-Forwarded-For: 192.0.2.1, ::ffff:10.0.0.1"}, "192.0.2.1"},
		{"everybody is trusted", proxy.Accepted{Trusted: true, Trust: proxy.NewTrust(nil, true)}, []string{"X-Forwarded-For: 192.0.2.1, 192.0.2.2"}, "192.0.2.1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			seen := make(chan proxy.Record, 1)
			observe := func(c *proxy.Config) { c.Observe = func(r *proxy.Record) { seen <- *r } }
			table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)})
			// Filters see the address that is in the record.
			table.Rules[0].Policies = []route.Policy{{IPFilter: &route.IPFilter{Allow: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(test.want), 32)}}}}
			e := startFrom(t, table, test.from, observe)
			response, _ := edgetest.Dial(t, e.Address).Get("/", test.lines...)
			record := <-seen
			if record.Client.String() != test.want || response.StatusCode != 200 {
				t.Errorf("got %s and status %d, want %s", record.Client, response.StatusCode, test.want)
			}
			if record.Peer.Addr().String() != "127.0.0.1" {
				t.Errorf("the peer is %s", record.Peer)
			}
		})
	}
}

// The scheme of the client's own connection is the one that a trusted proxy sends.
func TestForwardedProto(t *testing.T) {
	table := edgetest.Table([]netip.AddrPort{edgetest.Backend(t, edgetest.Echo)}, route.Policy{RedirectScheme: &route.RedirectScheme{Scheme: route.SchemeHTTPS}})
	secure := *table.Rules[0]
	secure.ID.Name, secure.Match.Scheme, secure.Priority = "secure", route.SchemeHTTPS, 1
	secure.Policies = []route.Policy{{ResponseHeaders: &route.ResponseHeaders{Set: []route.HeaderValue{{Name: "Strict-Transport-Security", Value: "max-age=31536000; includeSubDomains"}}}}}
	table.Rules = append(table.Rules, &secure)
	tests := []struct {
		name   string
		from   proxy.Accepted
		line   string
		secure bool
	}{
		{"not trusted", proxy.Accepted{}, "X-Forwarded-Proto: https", false},
		{"trusted", proxy.Accepted{Trusted: true}, "X-Forwarded-Proto: https", true},
		{"the nearest counts", proxy.Accepted{Trusted: true}, "X-Forwarded-Proto: https, http", false},
		{"plain behind a balancer with TLS", proxy.Accepted{Trusted: true, TLS: true}, "X-Forwarded-Proto: http", false},
		{"something else", proxy.Accepted{Trusted: true, TLS: true}, "X-Forwarded-Proto: gopher", true},
		{"nothing said", proxy.Accepted{TLS: true}, "X-A: b", true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := startFrom(t, table, test.from)
			response, body := edgetest.Dial(t, e.Address).Get("/", test.line)
			want := 307
			if test.secure {
				want = 200
			}
			if response.StatusCode != want {
				t.Errorf("got %d, want %d", response.StatusCode, want)
			}
			if test.secure && !strings.HasPrefix(response.Header.Get("Strict-Transport-Security"), "max-age") {
				t.Errorf("got %v %q", response.Header, body)
			}
		})
	}
}
