package floodtracker_test

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"slipway.dev/slipway/internal/edge/floodtracker"
)

// start is the time that tests count from; the Tracker has no clock of its own.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// client returns one of many clients.
func client(n int) netip.Prefix {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], 198<<24+18<<16+uint32(n))
	return netip.PrefixFrom(netip.AddrFrom4(ip), 32)
}

// TestBans: the first floods of a client cost it its good reputation, the next ones
// ban it for longer and longer, and then it is forgotten.
func TestBans(t *testing.T) {
	var bans []time.Duration
	tracker := floodtracker.New(floodtracker.Config{MaxBan: 5 * time.Second, OnBan: func(banned netip.Prefix, length time.Duration) {
		if banned != client(1) {
			t.Errorf("%v was banned", banned)
		}
		bans = append(bans, length)
	}})
	at := start
	is := func(want floodtracker.Reputation) {
		t.Helper()
		if got := tracker.Reputation(client(1), at); got != want {
			t.Errorf("after %v the reputation is %d, want %d", at.Sub(start), got, want)
		}
		if got := tracker.Reputation(client(2), at); got != floodtracker.Good {
			t.Errorf("the reputation of another client is %d", got)
		}
	}
	is(floodtracker.Good)
	for range 2 {
		tracker.RecordFlood(client(1), at)
		is(floodtracker.Limited)
	}
	for _, length := range []time.Duration{1, 2, 4, 5, 5} {
		tracker.RecordFlood(client(1), at)
		// A connection from before the ban changes nothing.
		tracker.RecordFlood(client(1), at)
		is(floodtracker.Banned)
		at = at.Add(length*time.Second - 1)
		is(floodtracker.Banned)
		at = at.Add(1)
		is(floodtracker.Limited)
	}
	if len(bans) != 5 || bans[0] != time.Second || bans[4] != 5*time.Second {
		t.Errorf("the bans were %v", bans)
	}
	at = at.Add(time.Minute - 1)
	is(floodtracker.Limited)
	at = at.Add(1)
	is(floodtracker.Good)
	tracker.RecordFlood(client(1), at)
	is(floodtracker.Limited)
}

// TestNoBan: a tracker without bans reduces limits only, and so does any tracker
// for addresses that stand for many clients.
func TestNoBan(t *testing.T) {
	for _, c := range []struct {
		address string
		longest time.Duration
	}{
		{"198.51.100.1", 0}, {"10.1.2.3", time.Minute}, {"192.168.1.1", time.Minute}, {"100.100.1.1", time.Minute},
		{"fd00::1", time.Minute}, {"fe80::1", time.Minute}, {"::ffff:172.16.0.1", time.Minute},
	} {
		tracker := floodtracker.New(floodtracker.Config{MaxBan: c.longest, OnBan: func(netip.Prefix, time.Duration) { t.Errorf("%s was banned", c.address) }})
		flooding := floodtracker.ClientOf(netip.MustParseAddr(c.address))
		for range 10 {
			tracker.RecordFlood(flooding, start)
		}
		if got := tracker.Reputation(flooding, start); got != floodtracker.Limited {
			t.Errorf("the reputation of %s is %d", c.address, got)
		}
	}
}

// TestDistributedFlood: many clients that flood once each make all unknown ones
// suspects, and one client that floods often does not.
func TestDistributedFlood(t *testing.T) {
	tracker := floodtracker.New(floodtracker.Config{MaxBan: time.Minute})
	for range 100 {
		tracker.RecordFlood(client(1), start)
	}
	if got := tracker.Reputation(client(999), start); got != floodtracker.Good {
		t.Errorf("after the floods of one client the reputation of another is %d", got)
	}
	slow := floodtracker.New(floodtracker.Config{MaxBan: time.Minute})
	for n := range 100 {
		at := start.Add(time.Duration(n) * time.Second)
		slow.RecordFlood(client(n), at)
		if got := slow.Reputation(client(999), at); got != floodtracker.Good {
			t.Fatalf("after %d floods in as many seconds the reputation of another client is %d", n+1, got)
		}
	}
	for n := range 100 {
		tracker.RecordFlood(client(2+n), start.Add(time.Duration(n)*10*time.Millisecond))
	}
	if got := tracker.Reputation(client(999), start.Add(time.Second)); got != floodtracker.Suspect {
		t.Errorf("during a distributed flood the reputation is %d", got)
	}
	if got := tracker.Reputation(client(999), start.Add(40*time.Second)); got != floodtracker.Good {
		t.Errorf("long after a distributed flood the reputation is %d", got)
	}
}

// TestBound: however many clients flood, a bounded number is tracked, the latest
// among them, and all of them expire.
func TestBound(t *testing.T) {
	tracker := floodtracker.New(floodtracker.Config{MaxBan: time.Minute})
	for n := range 50_000 {
		at := start.Add(time.Duration(n) * time.Millisecond / 10)
		tracker.RecordFlood(client(n), at)
		if got := tracker.Reputation(client(n), at); got != floodtracker.Limited {
			t.Fatalf("client %d has the reputation %d right after its flood", n, got)
		}
	}
	if n := tracker.Len(); n != 10_000 {
		t.Errorf("%d clients are tracked", n)
	}
	tracker.Reputation(client(1), start.Add(time.Hour))
	if n := tracker.Len(); n != 0 {
		t.Errorf("%d clients never expire", n)
	}
}

// TestClientOf: one client is one address, or one network of IPv6.
func TestClientOf(t *testing.T) {
	for _, c := range []struct{ address, want string }{
		{"192.0.2.7", "192.0.2.7/32"}, {"::ffff:192.0.2.7", "192.0.2.7/32"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"}, {"fe80::1%eth0", "fe80::/64"},
	} {
		got := floodtracker.ClientOf(netip.MustParseAddr(c.address))
		if got != netip.MustParsePrefix(c.want) {
			t.Errorf("%s is %v, want %s", c.address, got, c.want)
		}
	}
	invalid := floodtracker.ClientOf(netip.Addr{})
	if invalid.IsValid() {
		t.Errorf("an invalid address is %v", invalid)
	}
	tracker := floodtracker.New(floodtracker.Config{})
	if tracker.RecordFlood(invalid, start); tracker.Len() != 0 {
		t.Error("an invalid client is tracked")
	}
}
