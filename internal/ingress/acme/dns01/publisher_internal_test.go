package dns01

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"slipway.dev/slipway/internal/must"
)

// TestLocate: the name of the record is at the end of the CNAME records, however they
// are spelled. That of a wildcard is not one of the challenge.
func TestLocate(t *testing.T) {
	server := startNameserver(t, "example.org.",
		"_acme-challenge.far.example.org. CNAME Far.Auth.example.org.", "far.auth.example.org. CNAME end.example.org.",
		"_acme-challenge.wild.example.org. CNAME lb.example.net.", "*.wild.example.org. CNAME lb.example.net.",
		"_acme-challenge.own.example.org. CNAME end.example.org.", "*.own.example.org. CNAME lb.example.net.",
		"_acme-challenge.loop.example.org. CNAME b.example.org.", "b.example.org. CNAME _acme-challenge.loop.example.org.")
	publisher := NewPublisher(Options{Resolvers: []string{"127.0.0.1:1", server.address}})
	for domain, want := range map[string]string{
		"example.org": "_acme-challenge.example.org.", "far.example.org": "end.example.org.", "own.example.org": "end.example.org.",
		"wild.example.org": "_acme-challenge.wild.example.org.",
	} {
		if got := must.Get(publisher.Locate(t.Context(), domain))(t); got != (Record{Domain: domain, Name: want}) {
			t.Errorf("%s: %+v", domain, got)
		}
	}
	_, err := publisher.Locate(t.Context(), "loop.example.org")
	wantError(t, err, "more than 8 CNAME records", "_acme-challenge.loop.example.org.")
	server.code = dns.RcodeServerFailure
	_, err = publisher.Locate(t.Context(), "example.org")
	wantError(t, err, "127.0.0.1:1", server.address+": the server responds SERVFAIL")
}

// TestAuthoritative: the servers of the closest zone are found, also where responses
// leave out its SOA record.
func TestAuthoritative(t *testing.T) {
	records := []string{
		"example.org. NS ns1.example.net.", "example.org. NS ns2.example.net.",
		"ns1.example.net. A 192.0.2.1", "ns1.example.net. AAAA 2001:db8::1", "ns2.example.net. A 192.0.2.2",
	}
	want := []nameServer{
		{"ns1.example.net.", []string{"192.0.2.1:53", "[2001:db8::1]:53"}},
		{"ns2.example.net.", []string{"192.0.2.2:53"}},
	}
	for _, quiet := range []bool{false, true} {
		server := startNameserver(t, "example.org.", append(records, "example.org. SOA ns. root. 1 1 1 1 1")...)
		server.quiet = quiet
		got := must.Get(authoritative(t.Context(), []string{server.address}, "_acme-challenge.a.b.example.org."))(t)
		if !slices.EqualFunc(got, want, func(a, b nameServer) bool { return a.name == b.name && slices.Equal(a.addresses, b.addresses) }) {
			t.Errorf("got %v", got)
		}
	}
	for word, records := range map[string][]string{
		"the zone example.org. has no NS records":         nil,
		"the name server ns1.example.net. has no address": {"example.org. NS ns1.example.net."},
	} {
		server := startNameserver(t, "example.org.", records...)
		_, err := authoritative(t.Context(), []string{server.address}, "_acme-challenge.example.org.")
		wantError(t, err, word)
	}
	server := startNameserver(t, "example.org.")
	server.quiet = true
	_, err := authoritative(t.Context(), []string{server.address}, "_acme-challenge.example.org.")
	wantError(t, err, "no zone is found for _acme-challenge.example.org.")
}

// awaiting returns a publisher that checks its resolvers at once, and the record.
func awaiting(servers ...*nameserver) (*Publisher, Record) {
	publisher := NewPublisher(Options{Check: CheckResolvers, Timeout: time.Minute})
	for _, server := range servers {
		publisher.Resolvers = append(publisher.Resolvers, server.address)
	}
	publisher.interval = time.Millisecond
	return publisher, Record{Domain: "example.org", Name: "_acme-challenge.example.org.", Value: "v"}
}

// TestAwait: all servers need the record, among others of its name and in parts, and
// also one that responds by TCP only.
func TestAwait(t *testing.T) {
	first := startNameserver(t, "example.org.", `_acme-challenge.example.org. TXT "v"`)
	second := startNameserver(t, "example.org.", `_acme-challenge.example.org. TXT "w"`, `_acme-challenge.example.org. TXT "v"`)
	first.short, second.late = true, 3
	publisher, record := awaiting(first, second)
	must.Do(t, publisher.Await(t.Context(), record))
	if got := strings.Count(strings.Join(second.queries, "\n"), "TXT"); got != 4 {
		t.Errorf("%d queries", got)
	}
}

// TestAwaitTimeout: the error names the server without the record, and the end of the
// order is not one of the check.
func TestAwaitTimeout(t *testing.T) {
	server := startNameserver(t, "example.org.", `_acme-challenge.example.org. TXT "other"`)
	publisher, record := awaiting(server)
	ended, cancel := context.WithCancel(t.Context())
	server.seen = func(count int) {
		if count == 3 { // the others are over
			cancel()
		}
	}
	if err := publisher.poll(ended, record); err == nil || err.Error() != server.address+" does not have it yet" {
		t.Errorf("got %v", err)
	}
	if err := publisher.Await(ended, record); err != context.Canceled {
		t.Errorf("got %v", err)
	}
	publisher.Timeout = time.Millisecond
	wantError(t, publisher.Await(t.Context(), record), "_acme-challenge.example.org.", "after 1ms", "propagation.timeout")
}

// TestAwaitNothing: without a check no server is queried.
func TestAwaitNothing(t *testing.T) {
	server := startNameserver(t, "example.org.")
	publisher, record := awaiting(server)
	publisher.Check, publisher.Delay = CheckNone, time.Millisecond
	must.Do(t, publisher.Await(t.Context(), record))
	if len(server.queries) > 0 {
		t.Errorf("queries: %q", server.queries)
	}
}
